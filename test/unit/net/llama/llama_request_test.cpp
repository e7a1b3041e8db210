#include "net/llama/llama_request.hpp"

#include <boost/test/unit_test.hpp>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using ids = std::vector<engine::token_id>;

struct fixture : test::request_fixture {
  completion_limits limits() const {
    auto out = request_fixture::limits();
    out.infill = infill;
    return out;
  }
  engine::result<completion_request> parse(const std::string& fields) const {
    return parse_llama_completion("{" + fields + "}", limits());
  }
  completion_request taken(const std::string& more) const {
    return test::accepted(parse(R"("prompt":"hi")" + more), more);
  }
  std::string refused(const std::string& more) const {
    return test::refusal(parse(R"("prompt":"hi")" + more), more).param;
  }
  engine::infill_tokens infill{};
};

BOOST_FIXTURE_TEST_SUITE(llama_body, fixture)

BOOST_AUTO_TEST_CASE(names_of_llama_server_mean_what_they_mean_there) {
  const auto r =
      taken(R"(,"n_predict":7,"repeat_penalty":1.5,"n_probs":3,"top_k":40,"seed":9,"return_tokens":true,
    "temperature":0.5,"stream":true,"stop":["x"],"repeat_last_n":-1,"logit_bias":[[5,1.5],[7,false]],
    "cache_prompt":false)");
  BOOST_TEST((r.max_tokens == 7U && r.seed == 9U && r.logprobs && r.top_logprobs == 3U && r.token_ids));
  BOOST_TEST(
      (r.sampling.repetition_penalty == 1.5F && r.sampling.top_k == 40U && r.sampling.temperature == 0.5F));
  BOOST_TEST(r.sampling.repeat_last_n == 100U);
  BOOST_TEST((r.stream && r.tells_prompt && !r.cache.enabled));
  BOOST_TEST_REQUIRE(r.sampling.biases.size() == 1U);
  BOOST_TEST((r.sampling.biases[0].token == 5 && r.banned_tokens == ids{7}));
}

BOOST_AUTO_TEST_CASE(names_of_other_servers_mean_the_same_here) {
  for (const char* more :
       {R"(,"max_tokens":7)", R"(,"max_completion_tokens":7.0,"n_predict":7)", R"(,"max_new_tokens":7)"}) {
    BOOST_TEST(taken(more).max_tokens.value() == 7U, more);
  }
  BOOST_TEST(taken(R"(,"max_tokens":0)").max_tokens.value() == 0U);
  BOOST_TEST(taken(R"(,"max_tokens":7)").max_tokens_field == "max_tokens");
  BOOST_TEST(taken(R"(,"temperature":3.5)").sampling.temperature == 3.5F);
  const auto r = taken(R"(,"logit_bias":[["he",false]],"bad_words":["a"],"samplers":["top_k"],"x":null)");
  BOOST_TEST((r.text_biases.size() == 1U && r.bad_words.size() == 1U));
}

BOOST_AUTO_TEST_CASE(a_grammar_or_a_schema_is_enforced_as_by_v1) {
  const auto grammar = taken(R"(,"grammar":"root ::= \"a\"")").constraints;
  BOOST_TEST((grammar.kind == constraint_kind::text && grammar.text_kind == guided_kind::grammar));
  BOOST_TEST(grammar.field == "grammar");
  BOOST_TEST((taken(R"(,"json_schema":{"type":"object"})").constraints.kind == constraint_kind::json));
  for (const char* none : {R"(,"grammar":"")", R"(,"grammar":null,"json_schema":null)"}) {
    BOOST_TEST((taken(none).constraints.kind == constraint_kind::none));
  }
  BOOST_TEST(refused(R"(,"grammar":5)") == "grammar");
  BOOST_TEST(refused(R"(,"grammar":"root ::= \"a\"","json_schema":{})") == "json_schema");
}

BOOST_AUTO_TEST_CASE(what_the_answer_shows) {
  const auto r = taken(R"(,"timings_per_token":true,"return_progress":true)");
  BOOST_TEST((r.shows.timings && r.shows.progress));
  const auto fields = [this](const std::string& list) {
    const auto parsed = taken(",\"response_fields\":" + list);
    return dynamic_cast<const llama_notes&>(*parsed.notes).response_fields;
  };
  const std::vector<std::string> two{"content", "timings/prompt_n"};
  BOOST_TEST((fields(R"(["content","timings/prompt_n","content"])") == two));
  BOOST_TEST((fields("[]").empty() && fields("null").empty()));
  std::string many = "[\"x\"";
  for (int i = 0; i < 64; ++i) many += ",\"" + std::to_string(i) + "\"";
  for (const std::string& bad : {std::string("5"), std::string("[5]"), std::string("\"content\""),
                                 "[\"" + std::string(257, 'x') + "\"]", many + "]"}) {
    BOOST_TEST(refused(",\"response_fields\":" + bad) == "response_fields");
  }
}

BOOST_AUTO_TEST_CASE(probabilities_after_sampling_where_they_are_known) {
  const auto kind = [this](const std::string& more) {
    const auto parsed = taken(",\"n_probs\":2" + more);
    return dynamic_cast<const llama_notes&>(*parsed.notes).probabilities;
  };
  BOOST_TEST((kind("") == probability_kind::logprob));
  BOOST_TEST((kind(R"(,"post_sampling_probs":false,"top_p":0.5)") == probability_kind::logprob));
  BOOST_TEST((kind(R"(,"post_sampling_probs":true)") == probability_kind::sampled));
  taken(R"(,"post_sampling_probs":true,"temperature":0.5)");  // nothing is listed
  BOOST_TEST((kind(R"(,"post_sampling_probs":true,"temperature":0,"top_k":5)") == probability_kind::greedy));
  BOOST_TEST(!taken(R"(,"n_probs":2,"post_sampling_probs":true)").sampling.tells_drawn);
  for (const char* more :
       {R"(,"top_p":0.5)", R"(,"temperature":0.5)", R"(,"logit_bias":[[5,1]])",
        R"(,"grammar":"root ::= \"a\"")", R"(,"typical_p":0.5)", R"(,"temperature":0,"dynatemp_range":1)"}) {
    const std::string all = std::string(R"(,"post_sampling_probs":true)") + more;
    BOOST_TEST((kind(all) == probability_kind::sampled));
    BOOST_TEST(taken(R"(,"n_probs":2)" + all).sampling.tells_drawn, more);
  }
}

BOOST_AUTO_TEST_CASE(values_that_mean_the_usual) {
  const auto r = taken(R"(,"n_predict":-1,"seed":-1,"top_k":-1,"n_probs":0,"id_slot":-1,"n_keep":0,
    "mirostat":0,"typical_p":1.0,"dry_multiplier":0.0,"xtc_probability":0,"top_n_sigma":-1.0,"lora":[],
    "dynatemp_range":0.0,
    "dry_sequence_breakers":["\n"],"post_sampling_probs":false,"t_max_predict_ms":500,"dry_base":1.75,
    "min_keep":null)");
  BOOST_TEST((!r.max_tokens && !r.seed && !r.logprobs && r.sampling.top_k == 0U));
  BOOST_TEST(taken(R"(,"n_predict":0)").max_tokens.value() == 0U);
}

BOOST_AUTO_TEST_CASE(what_completions_leave_is_left_here_too) {
  taken(R"(,"backend_sampling":true,"n_cache_reuse":256,"sse_ping_interval":5,"speculative.n_max":3)");
}

BOOST_AUTO_TEST_CASE(samplers_of_llama_server) {
  const auto r = taken(R"(,"dry_multiplier":0.8,"dry_base":2,"dry_allowed_length":3,"dry_penalty_last_n":-1,
    "dry_sequence_breakers":["\n","x"],"xtc_probability":0.5,"xtc_threshold":0.2,"typical_p":0.9,
    "top_n_sigma":1.5,"dynatemp_range":0.25,"dynatemp_exponent":2)");
  const auto& s = r.sampling;
  BOOST_TEST((s.dry_multiplier == 0.8F && s.dry_base == 2.0F && s.dry_allowed_length == 3U));
  BOOST_TEST(
      (s.dry_last_n == engine::whole_sequence && s.xtc_probability == 0.5F && s.xtc_threshold == 0.2F));
  BOOST_TEST((s.typical_p == 0.9F && s.top_n_sigma == 1.5F && s.dynatemp_range == 0.25F));
  BOOST_TEST((s.dynatemp_exponent == 2.0F && s.needs_logits() && has_own_breakers(r)));
  BOOST_TEST((*r.dry_breakers == std::vector<std::string>{"\n", "x"}));
  BOOST_TEST(!taken(R"(,"dry_base":0.5,"xtc_threshold":0.5)").sampling.needs_logits());
  BOOST_TEST(taken(R"(,"dry_base":0.5)").sampling.dry_base == 1.75F);  // as llama-server has it
}

BOOST_AUTO_TEST_CASE(what_is_not_there_is_refused_by_name) {
  for (const auto& [more, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(,"mirostat":2)", "mirostat"},
           {R"(,"typical_p":1.1)", "typical_p"},
           {R"(,"xtc_probability":-0.1)", "xtc_probability"},
           {R"(,"dynatemp_range":1e7)", "dynatemp_range"},
           {R"(,"dry_sequence_breakers":"x")", "dry_sequence_breakers"},
           {R"(,"dry_multiplier":"x")", "dry_multiplier"},
           {R"(,"lora":[{"id":0}])", "lora[0].scale"},
           {R"(,"timings_per_token":1)", "timings_per_token"},
           {R"(,"samplers":["top_k"],"top_p":0.5)", "samplers"},
           {R"(,"n_predict":-3)", "n_predict"},
           {R"(,"n_predict":1e10)", "n_predict"},
           {R"(,"n_predict":5,"max_tokens":6)", "max_tokens"},
           {R"(,"bad_words":"x")", "bad_words"},
           {R"(,"n_probs":21)", "n_probs"},
           {R"(,"repeat_penalty":"a")", "repeat_penalty"},
           {R"(,"id_slot":"a")", "id_slot"},
           {R"(,"logit_bias":[[5]])", "logit_bias"},
           {R"(,"logit_bias":[[5,1],[5,2]])", "logit_bias"},
           {R"(,"logit_bias":[[300,1]])", "logit_bias"},
           {R"(,"messages":[])", "messages"},
           {R"(,"temperature":1e7)", "temperature"},
           {R"(,"temperature":-1)", "temperature"}}) {
    BOOST_TEST(refused(more) == param);
  }
}

BOOST_AUTO_TEST_CASE(prompts_in_all_their_forms) {
  const auto prompts = [this](const std::string& prompt) {
    auto parsed = parse("\"prompt\":" + prompt);
    BOOST_TEST_REQUIRE(parsed.has_value(), prompt);
    return std::move(parsed->prompts);
  };
  using list = std::vector<text_prompt>;
  const prompt_text first{"a"};
  const prompt_text later{"b", true, false};
  BOOST_TEST((prompts("\"a\"") == list{{first}}));
  BOOST_TEST((prompts("[1,2]") == list{{ids{1, 2}}}));
  BOOST_TEST((prompts("[\"a\",1,2,\"b\"]") == list{{first, ids{1, 2}, later}}));
  BOOST_TEST((prompts("[1,\"b\"]") == list{{ids{1}, later}}));
  BOOST_TEST((prompts("[\"a\",[1,2],[3,\"b\"]]") == list{{first}, {ids{1, 2}}, {ids{3}, later}}));
  for (const char* bad : {"\"\"", "[]", "5", "[300]", "[-1]", "[[],\"a\"]", "[[[1]]]", "[1.5]", "[1,[2]]"}) {
    const auto parsed = parse(std::string("\"prompt\":") + bad);
    BOOST_TEST_REQUIRE(!parsed.has_value(), bad);
    BOOST_TEST(parsed.error().param == "prompt");
  }
  BOOST_TEST(parse("").error().param == "prompt");
  BOOST_TEST((prompts(R"({"prompt_string":"a"})") == list{{first}}));
  BOOST_TEST(
      (prompts(R"([{"prompt_string":"a","multimodal_data":[]},[1,2]])") == list{{first}, {ids{1, 2}}}));
  BOOST_TEST(parse(R"("prompt":{})").error().param == "prompt.prompt_string");
}

BOOST_AUTO_TEST_CASE(gaps_are_filled_where_the_vocabulary_knows_them) {
  const auto ask = [this](const std::string& fields) { return parse_infill("{" + fields + "}", limits()); };
  const std::string gap = R"("input_prefix":"ab","input_suffix":"cd","prompt":"x")";
  BOOST_TEST(ask(gap).error().param == "input_prefix");
  infill = {290, 291, 292, -1, -1};
  const auto plain = [](std::string text) { return prompt_text{std::move(text), false, false}; };
  const prompt_text bos{"", false, true};
  const text_prompt expected{bos, ids{290}, plain("abx"), ids{291}, plain("cd"), ids{292}};
  BOOST_TEST((ask(gap)->prompts == std::vector<text_prompt>{expected}));
  BOOST_TEST(ask(R"("n_predict":4)")->max_tokens.value() == 4U);
  const auto with_files = ask(gap + R"(,"input_extra":[{"filename":"f.c","text":"int x;"}])");
  BOOST_TEST((std::get<prompt_text>(with_files->prompts[0].at(1)).text == "\n\n--- snippet ---\n\n"));
  infill = {290, 291, 292, 293, 294};
  const auto named = ask(gap + R"(,"input_extra":[{"filename":"f.c","text":"int x;"}])")->prompts[0];
  BOOST_TEST((named.at(1) == prompt_part(ids{293}) && named.at(3) == prompt_part(ids{294})));
  BOOST_TEST((std::get<prompt_text>(named.at(4)).text == "f.c\n"));
  for (const char* bad : {R"("input_prefix":1)", R"("input_extra":{})", R"("input_extra":[1])",
                          R"("input_extra":[{"x":"y"}])", R"("input_extra":[{"text":1}])", R"("stuff":1)",
                          R"("input_extra":[{}])", R"("input_extra":[{"filename":"f.c"}])"}) {
    BOOST_TEST(!ask(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(a_suffix_of_openai_is_such_a_gap) {
  const auto ask = [this](const std::string& fields) {
    return parse_completion("{" + fields + "}", completion_kind::text, limits());
  };
  BOOST_TEST(ask(R"("prompt":"ab","suffix":"cd")").error().param == "suffix");
  infill = {290, 291, 292, -1, -1};
  const auto parsed = ask(R"("prompt":["ab","ef"],"suffix":"cd")");
  BOOST_TEST_REQUIRE(parsed.has_value());
  BOOST_TEST((parsed->prompts.size() == 2U && parsed->prompts[1].at(1) == prompt_part(ids{290})));
  BOOST_TEST(ask(R"("prompt":[1],"suffix":"cd")").error().param == "suffix");
  BOOST_TEST(ask(R"("prompt":"a","suffix":"cd","echo":true)").error().param == "suffix");
  BOOST_TEST(ask(R"("prompt":"a","suffix":"")")->prompts[0].size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
