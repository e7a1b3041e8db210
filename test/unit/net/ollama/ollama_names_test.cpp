#include <boost/test/unit_test.hpp>
#include <string_view>

#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/ollama/model_facts.hpp"
#include "net/ollama/model_tags.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;

BOOST_AUTO_TEST_SUITE(ollama_names)

BOOST_AUTO_TEST_CASE(names_have_a_tag) {
  BOOST_TEST(with_tag("m") == "m:latest");
  BOOST_TEST(with_tag("org/m:8b") == "org/m:8b");
  BOOST_TEST(with_tag("host:80/m") == "host:80/m:latest");
  engine::worker_identity served;
  served.model_name = "m";
  served.model_aliases = {"n:latest"};
  served.any_model_name = true;
  const auto adapters = std::make_shared<adapter_list>();
  adapters->resize(2);
  adapters->front().name = "a";
  adapters->back().name = "b:latest";
  const auto meant = [&](std::string_view asked) { return without_tag(served, adapters, asked); };
  BOOST_TEST(meant("m:latest") == "m");
  BOOST_TEST(meant("n:latest") == "n:latest");
  BOOST_TEST(meant("a:latest") == "a");
  BOOST_TEST(meant("b:latest") == "b:latest");
  BOOST_TEST(meant("c:8b") == "c:8b");
}

BOOST_AUTO_TEST_CASE(numbers_of_parameters) {
  BOOST_TEST(parameter_size(999) == "999");
  BOOST_TEST(parameter_size(134'515'008) == "134.52M");
  BOOST_TEST(parameter_size(8'030'261'248) == "8.0B");
  BOOST_TEST(parameter_size(1'000'000'000'000) == "1.0T");
}

BOOST_AUTO_TEST_CASE(the_model_to_show) {
  BOOST_TEST(parse_show(R"({"model":"m","verbose":true})").value() == "m");
  BOOST_TEST(parse_show(R"({"name":"m"})").value() == "m");
  BOOST_TEST(parse_show("{}").error().param == "model");
  BOOST_TEST(parse_show(R"({"model":1})").error().param == "model");
  BOOST_TEST(parse_show(R"({"model":"m","x":1})").error().param == "x");
}

BOOST_AUTO_TEST_CASE(refusals_are_told_in_the_words_of_the_api) {
  const auto told = [](const error& why, std::string_view target) {
    http_request request;
    request.method = "POST";
    request.words = words_of(target);
    const std::string text = render_reply(make_error_reply(why), request, true);
    return text.substr(text.find("\r\n\r\n") + 4);
  };
  BOOST_TEST(told(error(errc::queue_full, "so"), "/api/chat") == R"({"error":"so"})");
  BOOST_TEST(told(error(errc::invalid_request, "#/type: no", "format"), "/api/chat") ==
             R"({"error":"format: #/type: no"})");
  BOOST_TEST(told(error(errc::invalid_request, "'format' no", "format"), "/api/chat") ==
             R"({"error":"'format' no"})");
  BOOST_TEST(told(error(errc::not_found, "so", "model"), "//api/generate/?x") ==
             R"({"error":"model not found: so"})");
  BOOST_TEST(told(error(errc::not_found, "so"), "/api/pull") == R"({"error":"so"})");
  BOOST_TEST((words_of("/apis") == api_words::worker && words_of("/v1/api/chat") == api_words::openai));
}

BOOST_AUTO_TEST_CASE(a_stream_is_lines) {
  http_request request;
  request.words = api_words::ollama;
  BOOST_TEST(render_stream_head(request, true).find("\r\nContent-Type: application/x-ndjson\r\n") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_worker_may_be_without_the_api) {
  for (const char* path : {"/api/version", "/api/tags", "/api/ps"}) {
    BOOST_TEST(std::holds_alternative<endpoint>(find_route("GET", path)), path);
    BOOST_TEST(std::get<reply>(find_route("GET", path, {true, false})).status == 404U, path);
  }
  for (const char* path : {"/api/chat", "/api/generate/", "/api/embed", "/api/embeddings", "/api/show"}) {
    const auto route = find_route("POST", path);
    BOOST_TEST_REQUIRE(std::holds_alternative<endpoint>(route), path);
    BOOST_TEST(is_ollama(std::get<endpoint>(route)));
    BOOST_TEST(needs_key(std::get<endpoint>(route)));
    const auto refused = std::get<reply>(find_route("POST", path, {true, false}));
    BOOST_TEST(refused.status == 404U, path);
    BOOST_TEST(refused.body.find("/api") == std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
