// Who may ask and what is answered at once: API keys, origins, models, tokens.
#include <boost/test/unit_test.hpp>

#include "net/api_keys.hpp"
#include "net/cors.hpp"
#include "net/http_request.hpp"
#include "net/models.hpp"
#include "net/routes.hpp"
#include "net/token_endpoints.hpp"
#include "test/unit/net/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

const test::letter_tokenizer letters;

BOOST_AUTO_TEST_SUITE(access)

BOOST_AUTO_TEST_CASE(keys_are_accepted_as_bearer_tokens_only) {
  const auto keys = api_keys::parse("# ours\n\n  first-key  \r\nsecond\n").value();
  BOOST_TEST(!keys.empty());
  for (const char* good : {"Bearer first-key", "bearer second", "BEARER  second "})
    BOOST_TEST(keys.accepts(good), good);
  for (const char* bad : {"", "first-key", "Basic first-key", "Bearer", "Bearer ", "Bearer first-ke",
                          "Bearer first-keyy", "Bearer # ours", "Bearer first-key second"}) {
    BOOST_TEST(!keys.accepts(bad), bad);
  }
}

BOOST_AUTO_TEST_CASE(without_keys_everybody_may) {
  BOOST_TEST(api_keys().empty());
  BOOST_TEST(api_keys().accepts(""));
}

BOOST_AUTO_TEST_CASE(key_files_that_cannot_be_meant) {
  for (const std::string& text :
       {std::string(), std::string("\n# nothing\n"), std::string("two words"), std::string("k\xC3\xA9y"),
        std::string(513, 'k'), std::string("nul\0", 4)}) {
    const auto keys = api_keys::parse(text);
    BOOST_TEST_REQUIRE(!keys.has_value());
    BOOST_TEST(keys.error().message.find("words") == std::string::npos);
  }
  std::string many;
  for (int i = 0; i < 1'025; ++i) many += "key" + std::to_string(i) + "\n";
  BOOST_TEST(!api_keys::parse(many).has_value());
}

BOOST_AUTO_TEST_CASE(probes_need_no_key) {
  for (const auto open :
       {endpoint::health, endpoint::live, endpoint::ready, endpoint::metrics, endpoint::page}) {
    BOOST_TEST(!needs_key(open));
  }
  for (const auto closed :
       {endpoint::execute, endpoint::cancel, endpoint::shutdown, endpoint::chat_completions,
        endpoint::completions, endpoint::models, endpoint::model, endpoint::tokenize, endpoint::detokenize}) {
    BOOST_TEST(needs_key(closed));
  }
}

BOOST_AUTO_TEST_CASE(origins) {
  BOOST_TEST(allowed_origin({}, "https://a.example").empty());
  const auto list = parse_origins("https://a.example, http://localhost:3000").value();
  BOOST_TEST(allowed_origin(list, "http://localhost:3000") == "http://localhost:3000");
  BOOST_TEST(allowed_origin(list, "http://localhost:3001").empty());
  BOOST_TEST(allowed_origin(list, "").empty());
  BOOST_TEST(allowed_origin(parse_origins("*").value(), "null") == "*");
  for (const char* bad : {"", "a.example", "https://", "https://a.example/", "https://a.example,",
                          "*,https://b", "https://a b", "null", "https://a\r\nX: y"}) {
    BOOST_TEST(!parse_origins(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(answers_to_other_origins) {
  http_request request;
  request.method = "OPTIONS";
  request.allowed_origin = "https://a.example";
  const auto preflight = std::get<reply>(find_route("OPTIONS", "/v1/chat/completions"));
  const auto head = render_reply(preflight, request, true);
  BOOST_TEST(head.find("Access-Control-Allow-Origin: https://a.example\r\n") != std::string::npos);
  BOOST_TEST(head.find("Access-Control-Allow-Methods: POST, OPTIONS\r\n") != std::string::npos);
  BOOST_TEST(head.find("Access-Control-Allow-Headers: Authorization, *\r\n") != std::string::npos);
  request.allowed_origin.clear();
  BOOST_TEST(render_reply(preflight, request, true).find("Access-Control") == std::string::npos);
  request.allowed_origin = "*";
  BOOST_TEST(render_stream_head(request, true).find("Access-Control-Allow-Origin: *\r\n") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_missing_key_is_told_how_to_be_shown) {
  const auto refusal = make_error_reply({engine::errc::unauthorized, "no"});
  BOOST_TEST(refusal.status == 401U);
  BOOST_TEST(refusal.body.find("\"type\":\"authentication_error\"") != std::string::npos);
  BOOST_TEST(render_reply(refusal, {}, true).find("WWW-Authenticate: Bearer\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_one_model) {
  engine::worker_identity identity;
  identity.model_name = "m";
  identity.context_tokens = 7;
  const auto list = answer_models(identity, 5).body;
  BOOST_TEST(
      list ==
      R"({"object":"list","data":[{"id":"m","object":"model","created":5,"owned_by":"worker-orcd","meta":)"
      R"({"architecture":"","quant_kind":"","context_tokens":7,"slots":1,"embedding_length":0,)"
      R"("task":"completion","pooling":null,"digest":null}}]})");
  const auto route = find_route("GET", "/v1/models/m?x");
  BOOST_TEST((std::get<endpoint>(route) == endpoint::model));
  BOOST_TEST(model_of("/v1/models/m?x") == "m");
  BOOST_TEST(answer_model(identity, 5, "m").status == 200U);
  BOOST_TEST(answer_model(identity, 5, "n").status == 404U);
  BOOST_TEST(std::get<reply>(find_route("GET", "/v1/models/")).status == 404U);
}

BOOST_AUTO_TEST_CASE(text_to_tokens_and_back) {
  BOOST_TEST(answer_tokenize(R"({"content":"ab"})", letters, 2).body == R"({"tokens":[97,98],"count":2})");
  BOOST_TEST(answer_tokenize(R"({"content":"abc"})", letters, 2).status == 400U);
  BOOST_TEST(answer_tokenize(R"({"content":""})", letters, 100).body == R"({"tokens":[],"count":0})");
  BOOST_TEST(
      answer_tokenize(R"({"content":"a\u00e9","with_pieces":true})", letters, 100).body ==
      R"({"tokens":[{"id":97,"piece":"a"},{"id":195,"piece":[195]},{"id":169,"piece":[169]}],"count":3})");
  BOOST_TEST(answer_detokenize(R"({"tokens":[97,195,169]})", letters).body == "{\"content\":\"a\xC3\xA9\"}");
  BOOST_TEST(answer_detokenize(R"({"tokens":[195]})", letters).body == "{\"content\":\"\xEF\xBF\xBD\"}");
  for (const char* bad :
       {"{}", R"({"content":1})", R"({"content":"x","other":1})", R"({"content":"x","with_pieces":1})"}) {
    BOOST_TEST(answer_tokenize(bad, letters, 100).status == 400U, bad);
  }
  for (const char* bad : {"{}", R"({"tokens":"x"})", R"({"tokens":[257]})", R"({"tokens":[-1]})",
                          R"({"tokens":[[1]]})", R"({"tokens":[1],"x":1})"}) {
    BOOST_TEST(answer_detokenize(bad, letters).status == 400U, bad);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
