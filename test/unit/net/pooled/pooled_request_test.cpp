// What /v1/embeddings and /v1/rerank accept, and the name of what they refuse.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "engine/pair_format.hpp"
#include "net/jobs/model_task.hpp"
#include "net/pooled/pooled_answer.hpp"
#include "net/pooled/prepare_pooled.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/net/openai/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::errc;

const test::letter_tokenizer letters;

struct fixture {
  fixture() {
    lengths.context_tokens = 64;
    lengths.prompt_chars_max = 100;
    served.model_name = "m";
  }
  [[nodiscard]] pooled_limits limits() const {
    pooled_limits out{lengths, served};
    out.vocab = 257;
    out.dimensions = 8;
    out.shorter_dimensions = shorter;
    return out;
  }
  engine::error embedding_refusal(const std::string& body) const {
    const auto made = parse_embedding(body, limits());
    BOOST_TEST_REQUIRE(made.has_error(), body);
    BOOST_TEST(!made.error().message.empty());
    return made.error();
  }
  engine::error rerank_refusal(const std::string& body) const {
    const auto made = parse_rerank(body, limits());
    BOOST_TEST_REQUIRE(made.has_error(), body);
    return made.error();
  }
  request_limits lengths;
  engine::worker_identity served;
  bool shorter = false;
};

std::vector<std::size_t> sizes_of(const embedding_request& asked) {
  std::vector<std::size_t> out;
  for (const auto& input : asked.inputs) {
    out.push_back(std::visit([](const auto& value) { return value.size(); }, input));
  }
  return out;
}

BOOST_FIXTURE_TEST_SUITE(pooled_requests, fixture)

BOOST_AUTO_TEST_CASE(inputs_come_in_four_forms) {
  using sizes = std::vector<std::size_t>;
  const auto read = [&](const char* input) {
    return sizes_of(parse_embedding(std::string("{\"input\":") + input + "}", limits()).value());
  };
  BOOST_TEST(read("\"abc\"") == sizes{3});
  BOOST_TEST(read("[\"abc\",\"d\"]") == (sizes{3, 1}));
  BOOST_TEST(read("[1,2]") == sizes{2});
  BOOST_TEST(read("[[1,2],[3],\"x\"]") == (sizes{2, 1, 1}));
}

BOOST_AUTO_TEST_CASE(every_wrong_input_is_refused_by_name) {
  const std::string many = "[\"x\"" + [] {
    std::string more;
    for (std::size_t i = 0; i < pooled_inputs_max; ++i) more += ",\"x\"";
    return more;
  }() + "]";
  for (const std::string& input :
       {std::string("\"\""), std::string("[]"), std::string("[[]]"), std::string("[\"\"]"),
        std::string("null"), std::string("7"), std::string("{}"), std::string("[1.5]"), std::string("[-1]"),
        std::string("[257]"), std::string("[1,\"x\"]"), std::string("[\"x\",1]"), std::string("[[[1]]]"),
        std::string("[true]"), many, "\"" + std::string(101, 'x') + "\""}) {
    const auto why = embedding_refusal("{\"input\":" + input + "}");
    BOOST_TEST(why.param == "input", input.substr(0, 40));
    BOOST_TEST((why.code == errc::invalid_request));
  }
  BOOST_TEST(embedding_refusal("{}").param == "input");
  BOOST_TEST((embedding_refusal(R"({"input":"a","model":"other"})").code == errc::not_found));
  BOOST_TEST(embedding_refusal(R"({"input":"a","encoding_format":"int8"})").param == "encoding_format");
  BOOST_TEST(embedding_refusal(R"({"input":"a","truncate":true})").param == "truncate");
  BOOST_TEST(embedding_refusal(R"({"input":"a","timeout_ms":0})").param == "timeout_ms");
  BOOST_TEST(embedding_refusal(R"({"input":"a","user":5})").param == "user");
}

BOOST_AUTO_TEST_CASE(dimensions_are_honoured_or_refused) {
  const auto ask = [](const std::string& n) { return R"({"input":"a","dimensions":)" + n + "}"; };
  BOOST_TEST(*parse_embedding(ask("8"), limits()).value().dimensions == 8U);
  BOOST_TEST(embedding_refusal(ask("4")).message.find("--matryoshka") != std::string::npos);
  BOOST_TEST(embedding_refusal(ask("9")).param == "dimensions");
  shorter = true;
  BOOST_TEST(*parse_embedding(ask("4"), limits()).value().dimensions == 4U);
  BOOST_TEST(embedding_refusal(ask("0")).param == "dimensions");
}

BOOST_AUTO_TEST_CASE(a_rerank_has_a_query_and_documents) {
  const auto asked =
      parse_rerank(R"({"query":"q","documents":["a",{"text":"b"}],"top_n":9,"return_documents":true})",
                   limits())
          .value();
  BOOST_TEST(asked.documents == (std::vector<std::string>{"a", "b"}));
  BOOST_TEST(asked.top_n == 2U);
  BOOST_TEST(asked.return_documents);
  for (const auto& [body, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"documents":["a"]})", "query"},
           {R"({"query":"","documents":["a"]})", "query"},
           {R"({"query":["q"],"documents":["a"]})", "query"},
           {R"({"query":"q"})", "documents"},
           {R"({"query":"q","documents":[]})", "documents"},
           {R"({"query":"q","documents":"a"})", "documents"},
           {R"({"query":"q","documents":[""]})", "documents"},
           {R"({"query":"q","documents":[{"title":"a"}]})", "documents"},
           {R"({"query":"q","documents":[{"text":"a","id":1}]})", "documents"},
           {R"({"query":"q","documents":[5]})", "documents"},
           {R"({"query":"q","documents":["a"],"top_n":0})", "top_n"},
           {R"({"query":"q","documents":["a"],"top_n":1.5})", "top_n"},
           {R"({"query":"q","documents":["a"],"raw_scores":1})", "raw_scores"},
           {R"({"query":"q","documents":["a"],"max_chunks_per_doc":1})", "max_chunks_per_doc"}}) {
    BOOST_TEST(rerank_refusal(body).param == param, body);
  }
}

BOOST_AUTO_TEST_CASE(lengths_and_totals_are_bounded) {
  pooled_context context{limits(), letters, nullptr, engine::pooling_kind::none};
  http_request request;
  request.body = R"({"input":["abc",[1,2],")" + std::string(65, 'x') + R"("]})";
  const auto too_long = prepare_embedding(request, context, {});
  BOOST_TEST_REQUIRE(too_long.has_error());
  BOOST_TEST((too_long.error().code == errc::context_length_exceeded));
  BOOST_TEST(too_long.error().message.find("input[2] has 65 tokens") != std::string::npos);
  lengths.tokens_in_max = 2;
  request.body = R"({"input":"abc"})";
  BOOST_TEST(prepare_embedding(request, context, {}).has_error());
  lengths.tokens_in_max = 0;
  context.limits.dimensions = pooled_values_max / 2;
  const auto too_much = prepare_embedding(request, context, {});
  BOOST_TEST_REQUIRE(too_much.has_error());
  BOOST_TEST(too_much.error().param == "input");
}

BOOST_AUTO_TEST_CASE(a_query_repeated_too_often_is_refused_before_it_is_tokenized) {
  const engine::pair_format pairs = [] {
    orcd::test::tiny_model_options o;
    o.family = "bert";
    const auto image = orcd::test::make_tiny_model(o);
    const auto file = engine::gguf_file::parse(image, "tiny.gguf").value();
    return engine::pair_format::make(file, engine::load_model(file).value().spec).value();
  }();
  lengths.prompt_chars_max = 1U << 20U;
  const pooled_context context{limits(), letters, &pairs, engine::pooling_kind::rank};
  http_request request;
  std::string body = R"({"query":")" + std::string(300'000, 'q') + R"(","documents":["a")";
  for (int i = 0; i < 20; ++i) body += ",\"b\"";
  body += "]}";
  request.body = body;
  const auto refused = prepare_rerank(request, context, {});
  BOOST_TEST_REQUIRE(refused.has_error());
  BOOST_TEST(refused.error().param == "documents");
  BOOST_TEST((refused.error().code == errc::invalid_request));
}

BOOST_AUTO_TEST_CASE(a_model_does_what_it_is_served_for_and_says_so) {
  engine::worker_identity identity;
  identity.model_name = "m";
  BOOST_TEST(!check_model_task(identity, model_task::generate).has_error());
  BOOST_TEST(check_model_task(identity, model_task::embed).error().message.find("--pooling") !=
             std::string::npos);
  identity.pooling = engine::pooling_kind::mean;
  BOOST_TEST(!check_model_task(identity, model_task::embed).has_error());
  BOOST_TEST(check_model_task(identity, model_task::generate).error().message.find("/v1/embeddings") !=
             std::string::npos);
  identity.pooling = engine::pooling_kind::rank;
  BOOST_TEST(!check_model_task(identity, model_task::rank).has_error());
  BOOST_TEST(check_model_task(identity, model_task::embed).error().message.find("/v1/rerank") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

engine::pooled_values values(std::vector<float> v) {
  return std::make_shared<std::vector<float>>(std::move(v));
}

BOOST_AUTO_TEST_SUITE(pooled_answers)

BOOST_AUTO_TEST_CASE(embeddings_have_length_one_after_they_are_cut) {
  const pooled_outcome outcome{{values({3, 4, 12}), values({0, 0, 0})}, 7};
  BOOST_TEST(write_embeddings({.model = "m", .dimensions = 2}, outcome) ==
             R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.6,0.8]},)"
             R"({"object":"embedding","index":1,"embedding":[0,0]}],"model":"m",)"
             R"("usage":{"prompt_tokens":7,"total_tokens":7}})");
}

BOOST_AUTO_TEST_CASE(base64_is_little_endian_f32) {
  const auto text = write_embeddings({.model = "m", .base64 = true}, {{values({1, 0})}, 1});
  BOOST_TEST(text.find(R"("embedding":"AACAPwAAAAA=")") != std::string::npos, text);
  const auto tokens = write_embeddings({.model = "m", .token_width = 2}, {{values({1, 2, 3, 4})}, 1});
  BOOST_TEST(tokens.find(R"("embedding":[[1,2],[3,4]])") != std::string::npos, tokens);
}

BOOST_AUTO_TEST_CASE(the_best_document_comes_first_and_equals_keep_their_order) {
  ranking_options options{"m", 0, {"q", {"a", "b", "c"}, 2, true, true, {}}};
  const pooled_outcome outcome{{values({1}), values({2.5F}), values({2.5F})}, 9};
  BOOST_TEST(write_ranking(options, outcome) ==
             R"({"object":"list","model":"m","results":[{"index":1,"relevance_score":2.5,)"
             R"("document":{"text":"b"}},{"index":2,"relevance_score":2.5,"document":{"text":"c"}}],)"
             R"("usage":{"prompt_tokens":9,"total_tokens":9}})");
  options.asked.raw_scores = options.asked.return_documents = false;
  options.asked.top_n = 1;
  options.relevant_class = 1;
  const auto two = write_ranking(options, {{values({3, 3}), values({1, 0})}, 1});
  BOOST_TEST(two.find(R"("results":[{"index":0,"relevance_score":0.5}])") != std::string::npos, two);
}

BOOST_AUTO_TEST_CASE(scores_are_probabilities) {
  for (const float x : {-79.0F, -30.0F, -1.0F, 0.0F, 0.5F, 7.0F, 30.0F, 200.0F}) {
    BOOST_TEST(logistic(x) == 1.0 / (1.0 + std::exp(-static_cast<double>(x))),
               boost::test_tools::tolerance(1e-6));
  }
  BOOST_TEST(logistic(20.0F) < logistic(21.0F));
  BOOST_TEST(logistic(-1e30F) >= 0.0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
