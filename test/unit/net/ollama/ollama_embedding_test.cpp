#include "net/ollama/ollama_embedding.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "net/pooled/prepare_pooled.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"
#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

const test::letter_tokenizer embed_letters;

struct embedder : test::request_fixture {
  embedder() { lengths.context_tokens = 4; }
  pooled_limits pooled() const { return {lengths, served, 300, 2, false}; }
  embedding_request embed(const std::string& body) const {
    return test::accepted(parse_ollama_embed(body, pooled()), body);
  }
  std::string refused(const std::string& body) const {
    return test::refusal(parse_ollama_embed(body, pooled()), body).param;
  }
};

BOOST_FIXTURE_TEST_SUITE(ollama_embeddings, embedder)

BOOST_AUTO_TEST_CASE(texts_and_what_is_left) {
  const auto request = embed(R"({"model":"served:latest","input":["a","b"],"truncate":false,"dimensions":2,
      "keep_alive":"5m","options":{"num_ctx":5}})");
  BOOST_TEST((request.inputs.size() == 2U && !request.cut.tokens.has_value() && request.dimensions == 2U));
  BOOST_TEST((embed(R"({"input":"a"})").cut.tokens == -1));
  const std::string older = R"({"prompt":"a"})";
  const auto one = test::accepted(parse_ollama_embeddings(older, pooled()), older);
  BOOST_TEST(std::get<std::string>(one.inputs.front()) == "a");
}

BOOST_AUTO_TEST_CASE(refusals_name_the_field) {
  BOOST_TEST(refused(R"({"input":[1,2]})") == "input");
  BOOST_TEST(refused(R"({"input":{}})") == "input");
  BOOST_TEST(refused(R"({"input":["a",""]})") == "input");
  BOOST_TEST(refused(R"({"input":"a","options":1})") == "options");
  BOOST_TEST(refused(R"({"input":"a","encoding_format":"base64"})") == "encoding_format");
  BOOST_TEST(refused(R"({"input":"a","model":"other"})") == "model");
  BOOST_TEST(refused(R"({"input":"a","other":null})") == "other");
  BOOST_TEST(refused(R"({})") == "input");
  const std::string list = R"({"prompt":["a"]})";
  BOOST_TEST(test::refusal(parse_ollama_embeddings(list, pooled()), list).param == "prompt");
}

BOOST_AUTO_TEST_CASE(no_text_asks_for_the_model_alone) {
  for (const char* body : {R"({"model":"served"})", R"({"input":""})", R"({"input":[]})"}) {
    BOOST_TEST(embeds_nothing(body, pooled(), "input"), body);
  }
  for (const char* body : {R"({"input":"a"})", R"({"model":"other"})", R"({"inputs":""})", "{"}) {
    BOOST_TEST(!embeds_nothing(body, pooled(), "input"), body);
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_cut_off_unless_it_must_not_be) {
  http_request request;
  request.nonce = "n";
  const pooled_context context{pooled(), embed_letters, nullptr, engine::pooling_kind::mean};
  request.body = std::string(R"({"input":"abcdefg"})");
  const auto cut = prepare_embedding(request, context, {}, parse_ollama_embed);
  BOOST_TEST_REQUIRE(cut.has_value());
  BOOST_TEST((cut->work.job.inputs.front().tokens == std::vector<engine::token_id>{'a', 'b', 'c', 'd'}));
  request.body = std::string(R"({"input":"abcdefg","truncate":false})");
  const auto whole = prepare_embedding(request, context, {}, parse_ollama_embed);
  BOOST_TEST((whole.error().code == engine::errc::context_length_exceeded));
}

BOOST_AUTO_TEST_CASE(answers) {
  pooled_outcome outcome;
  outcome.values = {std::make_shared<const std::vector<float>>(std::vector<float>{3, 4})};
  outcome.tokens_in = 5;
  outcome.stats = {.queue_ms = 1, .prefill_ms = 2};
  BOOST_TEST(write_ollama_embed({"m"}, outcome) ==
             R"({"model":"m","embeddings":[[0.6,0.8]],"total_duration":3000000,"load_duration":0,)"
             R"("prompt_eval_count":5})");
  BOOST_TEST(write_ollama_embeddings({"m"}, outcome) == R"({"embedding":[3,4]})");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
