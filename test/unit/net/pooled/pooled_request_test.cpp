// What /v1/embeddings and /v1/rerank accept, and the name of what they refuse.
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <tuple>

#include "engine/served/pair_format.hpp"
#include "net/jobs/model_task.hpp"
#include "net/pooled/pooled_answer.hpp"
#include "net/pooled/prepare_pooled.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

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
  BOOST_TEST(read(R"([{"prompt_string":"ab"},"x"])") == (sizes{2, 1}));
  BOOST_TEST(embedding_refusal(R"({"input":{}})").param == "input.prompt_string");
}

BOOST_AUTO_TEST_CASE(every_wrong_input_is_refused_by_name) {
  const std::string many = "[\"x\"" + [] {
    std::string more;
    for (std::size_t i = 0; i < pooled_inputs_max; ++i) more += ",\"x\"";
    return more;
  }() + "]";
  for (const std::string& input :
       {std::string("\"\""), std::string("[]"), std::string("[[]]"), std::string("[\"\"]"),
        std::string("null"), std::string("7"), std::string("[1.5]"), std::string("[-1]"),
        std::string("[257]"), std::string("[1,\"x\"]"), std::string("[\"x\",1]"), std::string("[[[1]]]"),
        std::string("[true]"), many, "\"" + std::string(101, 'x') + "\""}) {
    const auto why = embedding_refusal("{\"input\":" + input + "}");
    BOOST_TEST(why.param == "input", input.substr(0, 40));
    BOOST_TEST((why.code == errc::invalid_request));
  }
  BOOST_TEST(embedding_refusal("{}").param == "input");
  BOOST_TEST((embedding_refusal(R"({"input":"a","model":"other"})").code == errc::not_found));
  BOOST_TEST(embedding_refusal(R"({"input":"a","encoding_format":"int8"})").param == "encoding_format");
  BOOST_TEST(embedding_refusal(R"({"input":"a","input_type":"query"})").param == "input_type");
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
           {R"({"query":"q","documents":["a"],"texts":["a"]})", "texts"},
           {R"({"query":"q","documents":["a"],"max_tokens_per_doc":0})", "max_tokens_per_doc"},
           {R"({"query":"q","documents":["a"],"top_n":-1})", "top_n"},
           {R"({"query":"q","documents":["a"],"top_n":1.5})", "top_n"},
           {R"({"query":"q","documents":["a"],"raw_scores":1})", "raw_scores"},
           {R"({"query":"q","documents":["a"],"max_chunks_per_doc":1})", "max_chunks_per_doc"}}) {
    BOOST_TEST(rerank_refusal(body).param == param, body);
  }
}

BOOST_AUTO_TEST_CASE(what_becomes_of_long_inputs_in_the_words_of_each_server) {
  const auto cut = [&](const std::string& more) {
    return parse_embedding(R"({"input":"a")" + more + "}", limits()).value().cut;
  };
  BOOST_TEST(!cut("").tokens.has_value());
  BOOST_TEST(!cut(R"(,"truncate":false)").tokens.has_value());
  BOOST_TEST(!cut(R"(,"truncate":"NONE","truncation_side":"left")").tokens.has_value());
  BOOST_TEST(*cut(R"(,"truncate_prompt_tokens":8.0)").tokens == 8);
  BOOST_TEST(*cut(R"(,"truncate_prompt_tokens":-1)").tokens == -1);
  BOOST_TEST((*cut(R"(,"truncate":"END")").tokens == -1 && !cut(R"(,"truncate":"END")").keeps_last));
  BOOST_TEST(cut(R"(,"truncate":"START")").keeps_last);
  BOOST_TEST(cut(R"(,"truncation":true,"truncation_direction":"Left")").keeps_last);
  BOOST_TEST(*cut(R"(,"truncate":true,"truncate_prompt_tokens":3)").tokens == 3);
  for (const auto& [more, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
           {R"("truncate_prompt_tokens":3,"truncate":false)", "truncate_prompt_tokens"},
           {R"("truncate":"MIDDLE")", "truncate"},
           {R"("truncate":true,"truncation":false)", "truncation"},
           {R"("truncation_side":"up")", "truncation_side"},
           {R"("truncation_side":"left","truncation_direction":"Right")", "truncation_direction"}}) {
    BOOST_TEST(embedding_refusal(R"({"input":"a",)" + std::string(more) + "}").param == param, more);
  }
}

BOOST_AUTO_TEST_CASE(embeddings_in_the_words_of_each_server) {
  using form = embedding_form;
  const auto read = [&](const char* body, form in) {
    auto made = parse_embedding(body, limits(), in);
    BOOST_TEST_REQUIRE(made.has_value(), body);
    return std::move(*made);
  };
  BOOST_TEST(read(R"({"content":"abc","embd_normalize":-1})", form::llama).normalised == false);
  BOOST_TEST(read(R"({"input":["abc"],"embd_normalize":2})", form::llama).normalised);
  const auto tei =
      read(R"({"inputs":["a","b"],"normalize":false,"truncate":true,"prompt_name":null})", form::tei);
  BOOST_TEST((tei.inputs.size() == 2U && !tei.normalised && tei.cut.tokens == -1));
  BOOST_TEST(!read(R"({"input":"a","add_special_tokens":false})", form::openai).add_special);
  served.pooling = engine::pooling_kind::mean;
  BOOST_TEST(read(R"({"input":"a","task":"embed","encoding_format":"base64"})", form::pooling).base64);
  for (const auto& [body, in, param] : std::initializer_list<std::tuple<const char*, form, const char*>>{
           {R"({"content":"a","input":"b"})", form::llama, "input"},
           {R"({"content":"a","embd_normalize":0})", form::llama, "embd_normalize"},
           {R"({"content":"a","dimensions":8})", form::llama, "dimensions"},
           {"{}", form::llama, "content"},
           {R"({"input":"a"})", form::tei, "input"},
           {"{}", form::tei, "inputs"},
           {R"({"inputs":"a","prompt_name":"query"})", form::tei, "prompt_name"},
           {R"({"input":"a","task":"token_embed"})", form::pooling, "task"},
           {R"({"input":"a","task":"embed"})", form::openai, "task"},
           {R"({"input":"a","embd_normalize":2})", form::openai, "embd_normalize"}}) {
    const auto refused = parse_embedding(body, limits(), in);
    BOOST_TEST_REQUIRE(refused.has_error(), body);
    BOOST_TEST(refused.error().param == param, body);
  }
}

BOOST_AUTO_TEST_CASE(a_model_that_ranks_says_what_it_makes_of_single_inputs) {
  using form = embedding_form;
  served.pooling = engine::pooling_kind::rank;
  const auto read = [&](const char* body) { return parse_embedding(body, limits(), form::pooling); };
  BOOST_TEST(read(R"({"input":"a","task":"classify"})").value().activated);
  BOOST_TEST(!read(R"({"input":["a",[1,2]],"use_activation":false})").value().activated);
  BOOST_TEST(!read(R"({"input":"a","activation":false,"encoding_format":"base64"})").value().activated);
  for (const auto& [body, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"input":"a","task":"embed"})", "task"},
           {R"({"input":"a","task":"score"})", "task"},
           {R"({"input":"a","dimensions":8})", "dimensions"},
           {R"({"input":"a","normalize":true})", "normalize"},
           {R"({"input":"a","use_activation":1})", "use_activation"},
           {R"({"input":"a","text_2":"b"})", "text_2"}}) {
    const auto refused = read(body);
    BOOST_TEST_REQUIRE(refused.has_error(), body);
    BOOST_TEST(refused.error().param == param, body);
  }
  served.pooling = engine::pooling_kind::mean;
  BOOST_TEST(read(R"({"input":"a","use_activation":false})").error().param == "use_activation");
}

BOOST_AUTO_TEST_CASE(what_a_classifier_says_is_written_as_probabilities_or_as_it_is) {
  pooled_outcome outcome;
  for (const std::vector<float>& values : {std::vector<float>{-1.5F}, std::vector<float>{2.0F, 0.5F}}) {
    outcome.values.push_back(std::make_shared<const std::vector<float>>(values));
  }
  embedding_options options{"m"};
  options.form = embedding_form::pooling;
  options.normalised = false;
  const auto data = [&] {
    const auto told = boost::json::parse(write_embeddings(options, outcome));
    return std::pair{told.at_pointer("/data/0/data").as_array(), told.at_pointer("/data/1/data").as_array()};
  };
  const auto raw = data();
  BOOST_TEST((raw.first[0].to_number<double>() == -1.5 && raw.second[1].to_number<double>() == 0.5));
  options.activated = true;
  const auto [one, two] = data();
  BOOST_TEST(one[0].to_number<double>() == 1.0 / (1.0 + std::exp(1.5)), boost::test_tools::tolerance(1e-6));
  const double share = 1.0 / (1.0 + std::exp(-1.5));
  BOOST_TEST(two[0].to_number<double>() == share, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(two[1].to_number<double>() == 1.0 - share, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_chat_may_be_what_is_embedded) {
  const auto asked = parse_embedding(R"({"messages":[{"role":"user","content":"abc"}]})", limits()).value();
  BOOST_TEST_REQUIRE(asked.chat.has_value());
  BOOST_TEST(asked.chat->messages.size() == 1U);
  BOOST_TEST(embedding_refusal(R"({"input":"a","messages":[{"role":"user","content":"b"}]})").param ==
             "messages");
  BOOST_TEST(embedding_refusal(R"({"messages":[]})").param == "messages");
  BOOST_TEST(embedding_refusal(R"({"chat_template_kwargs":{}})").param == "input");
  BOOST_TEST(embedding_refusal(R"({"input":"a","temperature":1})").param == "temperature");
  const auto format =
      engine::chat_format::make("{% for m in messages %}{{ m.content }}{% endfor %}", {}).value();
  pooled_context context{limits(), letters, nullptr, engine::pooling_kind::mean, &format};
  http_request request;
  request.body = R"({"messages":[{"role":"user","content":"abc"},{"role":"user","content":"d"}]})";
  const auto prepared = prepare_embedding(request, context, {});
  BOOST_TEST_REQUIRE(prepared.has_value());
  BOOST_TEST(prepared->work.job.inputs.at(0).tokens == letters.encode("abcd", {}),
             boost::test_tools::per_element());
  context.chat = nullptr;
  BOOST_TEST(prepare_embedding(request, context, {}).error().param == "messages");
}

BOOST_AUTO_TEST_CASE(a_rerank_in_the_words_of_tei_and_a_score) {
  const auto tei =
      parse_rerank(R"({"query":"q","texts":["a"],"return_text":true,"truncate":true})", limits()).value();
  BOOST_TEST((tei.form == ranking_form::tei && tei.return_documents && tei.cut.tokens == -1));
  BOOST_TEST(parse_rerank(R"({"query":"q","documents":["a","b"],"top_n":0})", limits()).value().top_n == 2U);
  const auto one = parse_score(R"({"text_1":"q","text_2":["a","b"]})", limits()).value();
  BOOST_TEST((one.query_of(0) == "q" && one.query_of(1) == "q" && one.top_n == 2U));
  const auto each = parse_score(R"({"queries":["p","q"],"documents":["a","b"]})", limits()).value();
  BOOST_TEST((each.query_of(0) == "p" && each.query_of(1) == "q"));
  BOOST_TEST(parse_score(R"({"text_1":["q"],"text_2":"a"})", limits()).value().documents.size() == 1U);
  for (const auto& [body, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"text_2":"a"})", "text_1"},
           {R"({"text_1":"a"})", "text_2"},
           {R"({"text_1":["a","b"],"text_2":["c"]})", "text_1"},
           {R"({"text_1":"a","data_1":"b","text_2":"c"})", "data_1"},
           {R"({"text_1":5,"text_2":"c"})", "text_1"},
           {R"({"text_1":"a","text_2":"c","top_n":1})", "top_n"}}) {
    const auto refused = parse_score(body, limits());
    BOOST_TEST_REQUIRE(refused.has_error(), body);
    BOOST_TEST(refused.error().param == param, body);
  }
}

BOOST_AUTO_TEST_CASE(long_inputs_are_cut_where_the_request_says_so) {
  const pooled_context context{limits(), letters, nullptr, engine::pooling_kind::mean};
  const auto tokens = [&](const std::string& more) {
    http_request request;
    request.body = R"({"input":["abcdef",[1,2,3]])" + more + "}";
    const auto prepared = prepare_embedding(request, context, {});
    BOOST_TEST_REQUIRE(prepared.has_value(), more);
    std::vector<std::vector<engine::token_id>> out;
    for (const auto& input : prepared->work.job.inputs) out.push_back(input.tokens);
    return out;
  };
  using lists = std::vector<std::vector<engine::token_id>>;
  BOOST_TEST((tokens(R"(,"truncate_prompt_tokens":2)") == lists{{'a', 'b'}, {1, 2}}));
  BOOST_TEST(
      (tokens(R"(,"truncate_prompt_tokens":2,"truncation_side":"left")") == lists{{'e', 'f'}, {2, 3}}));
  BOOST_TEST(tokens(R"(,"truncate_prompt_tokens":-1)").at(0).size() == 6U);
  http_request request;
  request.body = R"({"input":")" + std::string(65, 'x') + R"(","truncate":true})";
  BOOST_TEST(prepare_embedding(request, context, {}).value().work.job.inputs.at(0).tokens.size() == 64U);
  request.body = R"({"input":")" + std::string(66, 'x') + R"(","truncate_prompt_tokens":65})";
  BOOST_TEST((prepare_embedding(request, context, {}).error().code == errc::context_length_exceeded));
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

// A model that embeds is asked for the embeddings of each text, the query once.
BOOST_AUTO_TEST_CASE(texts_are_compared_where_no_model_ranks) {
  const pooled_context context{limits(), letters, nullptr, engine::pooling_kind::mean};
  http_request request;
  request.body = std::string(R"({"query":"qq","documents":["abc","d"],"max_tokens_per_doc":2})");
  const auto ranked = prepare_rerank(request, context, {}).value();
  const auto& inputs = ranked.work.job.inputs;
  BOOST_TEST_REQUIRE(inputs.size() == 3U);
  BOOST_TEST(
      (inputs[0].tokens.size() == 2U && inputs[1].tokens.size() == 2U && inputs[2].tokens.size() == 1U));
  request.body = std::string(R"({"text_1":["a","b"],"text_2":["c","d"]})");
  BOOST_TEST(prepare_rerank(request, context, {}, true).value().work.job.inputs.size() == 4U);
  request.body = R"({"text_1":")" + std::string(70, 'a') + R"(","text_2":["c","d"]})";
  BOOST_TEST(prepare_rerank(request, context, {}, true).error().param == "text_1");
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

BOOST_AUTO_TEST_CASE(embeddings_are_compared_by_their_cosine) {
  ranking_options options{"m", 0, {"q", {"a", "b", "c"}, 3, false, false, {}}};
  options.compares = true;
  const pooled_outcome outcome{{values({3, 4}), values({0, 1}), values({6, 8}), values({0, 0})}, 9};
  BOOST_TEST(write_ranking(options, outcome) ==
             R"({"object":"list","model":"m","results":[{"index":1,"relevance_score":1},)"
             R"({"index":0,"relevance_score":0.8},{"index":2,"relevance_score":0}],)"
             R"("usage":{"prompt_tokens":9,"total_tokens":9}})");
  options.asked.form = ranking_form::score;
  options.asked.queries = {"q", "r"};
  options.asked.documents = {"a", "b"};
  const auto scores =
      write_ranking(options, {{values({1, 0}), values({0, 2}), values({0, 1}), values({0, -1})}, 1});
  BOOST_TEST(scores.find(R"("score":0},)") != std::string::npos, scores);
  BOOST_TEST(scores.find(R"("score":-1})") != std::string::npos, scores);
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

BOOST_AUTO_TEST_CASE(answers_in_the_words_of_each_server) {
  const pooled_outcome outcome{{values({3, 4}), values({0, 1})}, 7};
  embedding_options options{.model = "m", .form = embedding_form::llama};
  BOOST_TEST(write_embeddings(options, outcome) ==
             R"([{"index":0,"embedding":[[0.6,0.8]]},{"index":1,"embedding":[[0,1]]}])");
  options.normalised = false;
  options.form = embedding_form::tei;
  BOOST_TEST(write_embeddings(options, outcome) == "[[3,4],[0,1]]");
  options.form = embedding_form::pooling;
  options.origin = {"pool-1", 9};
  BOOST_TEST(
      write_embeddings(options, outcome) ==
      R"({"id":"pool-1","object":"list","created":9,"model":"m","data":[{"index":0,"object":"pooling",)"
      R"("data":[3,4]},{"index":1,"object":"pooling","data":[0,1]}],)"
      R"("usage":{"prompt_tokens":7,"total_tokens":7}})");
  options.form = embedding_form::llama;
  options.token_width = 1;
  BOOST_TEST(write_embeddings(options, {{values({3, 4})}, 2}) == R"([{"index":0,"embedding":[[3],[4]]}])");
  ranking_options ranking{"m", 0, {"q", {"a", "b"}, 2, true, true, {}}};
  ranking.asked.form = ranking_form::tei;
  const pooled_outcome scores{{values({1}), values({2.5F})}, 9};
  BOOST_TEST(write_ranking(ranking, scores) ==
             R"([{"index":1,"score":2.5,"text":"b"},{"index":0,"score":1,"text":"a"}])");
  ranking.asked.form = ranking_form::score;
  ranking.origin = {"score-1", 9};
  BOOST_TEST(write_ranking(ranking, scores) ==
             R"({"id":"score-1","object":"list","created":9,"model":"m","data":[{"index":0,"object":"score",)"
             R"("score":1},{"index":1,"object":"score","score":2.5}],)"
             R"("usage":{"prompt_tokens":9,"total_tokens":9}})");
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
