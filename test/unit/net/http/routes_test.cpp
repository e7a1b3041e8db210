#include "net/http/routes.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

const endpoint* reached(const std::variant<endpoint, reply>& route) {
  return std::get_if<endpoint>(&route);
}

bool reaches(std::string_view method, std::string_view target, endpoint wanted) {
  const auto route = find_route(method, target);
  return reached(route) != nullptr && *reached(route) == wanted;
}

BOOST_AUTO_TEST_SUITE(routes)

BOOST_AUTO_TEST_CASE(each_path_has_its_methods) {
  for (const char* path : {"/health", "/live", "/ready", "/metrics"}) {
    BOOST_TEST(reached(find_route("GET", path)) != nullptr);
    BOOST_TEST(reached(find_route("HEAD", path)) != nullptr);
    BOOST_TEST(reached(find_route("POST", path)) == nullptr);
  }
  for (const char* path : {"/execute", "/cancel", "/shutdown"}) {
    BOOST_TEST(reached(find_route("POST", path)) != nullptr);
    BOOST_TEST(reached(find_route("GET", path)) == nullptr);
    BOOST_TEST(reached(find_route("HEAD", path)) == nullptr);
  }
  BOOST_TEST(reaches("POST", "http://host:1/cancel?x=/health", endpoint::cancel));
}

BOOST_AUTO_TEST_CASE(other_paths_are_not_found) {
  for (const char* path : {"/Health", "/%00", "/health%00", "", "health", "/../health", "/v1", "/v1/",
                           "/v1/health/", "/v2/models", "/v1/v1/v1/models", "/v1models", "/v1/models%2Fm"}) {
    const auto route = find_route("GET", path);
    BOOST_TEST_REQUIRE(reached(route) == nullptr, path);
    BOOST_TEST(std::get<reply>(route).status == 404U);
  }
}

// Base URLs with a slash too much, without /v1, or with a /v1 to which the client adds its own.
BOOST_AUTO_TEST_CASE(paths_as_clients_put_them_together) {
  for (const char* path :
       {"/v1/chat/completions", "/v1/chat/completions/", "//v1//chat/completions//", "/chat/completions",
        "/chat/completions/", "/v1/v1/chat/completions", "http://host//chat/completions?api-version=1"}) {
    BOOST_TEST(reaches("POST", path, endpoint::chat_completions), path);
    BOOST_TEST(std::get<reply>(find_route("GET", path)).allow == "POST, OPTIONS", path);
  }
  BOOST_TEST(reaches("POST", "/completions", endpoint::completions));
  BOOST_TEST(reaches("POST", "/embeddings", endpoint::embeddings));
  BOOST_TEST(reaches("POST", "/rerank", endpoint::rerank));
  BOOST_TEST(reaches("GET", "/models", endpoint::models));
  BOOST_TEST(reaches("GET", "/v1/models/", endpoint::models));
  BOOST_TEST(reaches("GET", "/models/m", endpoint::model));
  BOOST_TEST(reaches("POST", "/tokenize/", endpoint::tokenize));
  BOOST_TEST(reaches("GET", "/health/", endpoint::health));
  BOOST_TEST(reaches("GET", "//", endpoint::page));
}

BOOST_AUTO_TEST_CASE(paths_of_other_servers) {
  for (const char* path : {"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"}) {
    BOOST_TEST(reaches("POST", path, endpoint::chat_input_tokens), path);
  }
  BOOST_TEST(reaches("POST", "/v1/responses/input_tokens", endpoint::response_input_tokens));
  BOOST_TEST(reaches("POST", "/embedding", endpoint::llama_embedding));
  BOOST_TEST(reaches("POST", "/embed", endpoint::tei_embed));
  BOOST_TEST(reaches("POST", "/pooling", endpoint::pooling));
  for (const char* path : {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank"}) {
    BOOST_TEST(reaches("POST", path, endpoint::rerank), path);
  }
  for (const char* path : {"/score", "/v1/score"}) BOOST_TEST(reaches("POST", path, endpoint::score), path);
  BOOST_TEST(reaches("GET", "/version", endpoint::version));
  BOOST_TEST(reaches("GET", "/load", endpoint::load));
  for (const char* path : {"/ping", "/v1/health"}) BOOST_TEST(reaches("GET", path, endpoint::health), path);
  BOOST_TEST(reaches("POST", "/ping", endpoint::health));
  BOOST_TEST(pattern_of(endpoint::health) == "/health");
  BOOST_TEST((words_of("/health") == api_words::worker));
}

// What a proxy in front forbids by its path has no second path.
BOOST_AUTO_TEST_CASE(control_has_one_spelling) {
  for (const char* path : {"/shutdown/", "//shutdown", "/v1/shutdown", "/cancel/", "//cancel"}) {
    BOOST_TEST(std::get<reply>(find_route("POST", path)).status == 404U, path);
  }
  for (const char* path : {"/metrics/", "//metrics"}) {
    BOOST_TEST(std::get<reply>(find_route("GET", path)).status == 404U, path);
  }
}

BOOST_AUTO_TEST_CASE(each_api_has_its_words) {
  for (const char* path :
       {"/v1/chat/completions", "/completions?x", "/models/m", "/v1/nothing", "//v1/embeddings/"}) {
    BOOST_TEST((words_of(path) == api_words::openai), path);
  }
  for (const char* path :
       {"/v1/messages", "/messages/count_tokens", "/v1/v1/messages/", "/v1/messages/batches"}) {
    BOOST_TEST((words_of(path) == api_words::anthropic), path);
  }
  for (const char* path : {"/execute", "/cancel", "/health", "/tokenize", "/", "", "/nothing"}) {
    BOOST_TEST((words_of(path) == api_words::worker), path);
  }
}

BOOST_AUTO_TEST_CASE(responses_that_are_kept) {
  for (const char* path :
       {"/v1/responses/resp_1", "/responses/resp_1/", "/v1/v1/responses/resp_1?include=x"}) {
    BOOST_TEST(reaches("GET", path, endpoint::stored_response), path);
    BOOST_TEST(reaches("HEAD", path, endpoint::stored_response), path);
    BOOST_TEST(reaches("DELETE", path, endpoint::stored_response), path);
    BOOST_TEST(std::get<reply>(find_route("POST", path)).allow == "GET, HEAD, DELETE, OPTIONS", path);
    BOOST_TEST(name_of(path) == "resp_1");
    BOOST_TEST((words_of(path) == api_words::openai));
  }
  constexpr const char* items = "/v1/responses/resp_1/input_items?limit=2";
  BOOST_TEST(reaches("GET", items, endpoint::stored_input));
  BOOST_TEST(std::get<reply>(find_route("DELETE", items)).allow == "GET, HEAD, OPTIONS");
  BOOST_TEST(name_of(items) == "resp_1");
  BOOST_TEST(reaches("POST", "/v1/responses/", endpoint::responses));
  BOOST_TEST(std::get<reply>(find_route("DELETE", "/v1/responses")).status == 405U);
  for (const char* path : {"/v1/responses/a/b", "/v1/responses/a/cancel", "/v1/responses/a/b/input_items"}) {
    BOOST_TEST(std::get<reply>(find_route("GET", path)).status == 404U, path);
  }
  BOOST_TEST(std::get<reply>(find_route("DELETE", "/v1/models/m")).status == 405U);
}

BOOST_AUTO_TEST_CASE(values_of_a_query) {
  constexpr std::string_view target = "/x?a=1&b&c=%20x&a=2&d%5B%5D=e&=f";
  BOOST_TEST(*query_value(target, "a") == "1");
  BOOST_TEST(query_value(target, "b")->empty());
  BOOST_TEST(*query_value(target, "c") == " x");
  BOOST_TEST(*query_value(target, "d[]") == "e");
  BOOST_TEST(!query_value(target, "e").has_value());
  BOOST_TEST(!query_value("/x", "a").has_value());
  BOOST_TEST(!query_value("/x?", "a").has_value());
}

BOOST_AUTO_TEST_CASE(names_at_the_end_are_decoded) {
  BOOST_TEST(name_of("/v1/models/m?x") == "m");
  BOOST_TEST(name_of("/models/org/m/") == "org/m");
  BOOST_TEST(name_of("/v1/v1/models/a%20b%2Fc%25") == "a b/c%");
  for (const char* text : {"100%", "%zz", "%4", "%%41", "a%+1"}) {
    BOOST_TEST(name_of(std::string("/v1/models/") + text) == text);
  }
  BOOST_TEST(name_of("/v1/models").empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
