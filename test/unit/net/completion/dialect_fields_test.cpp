// Fields that OpenAI does not have: those that are left, those that are honoured, and those that ask for what
// is not served.
#include <boost/test/unit_test.hpp>

#include "net/completion/completion_fields.hpp"
#include "net/completion/completion_request.hpp"
#include "net/completion/left_fields.hpp"
#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

using ids = std::vector<engine::token_id>;

struct parser : test::request_fixture {
  engine::result<completion_request> parse(completion_kind kind, const std::string& more) const {
    const std::string prompt = kind == completion_kind::chat
                                   ? R"({"messages":[{"role":"user","content":"hi"}])"
                                   : R"({"prompt":"hi")";
    auto within = limits();
    within.strict_fields = strict;
    return parse_completion(prompt + more + "}", kind, within);
  }
  completion_request chat(const std::string& more) const { return taken(completion_kind::chat, more); }
  completion_request text(const std::string& more) const { return taken(completion_kind::text, more); }
  completion_request taken(completion_kind kind, const std::string& more) const {
    return test::accepted(parse(kind, more), more);
  }
  std::string refused(const std::string& more, completion_kind kind = completion_kind::chat) const {
    const auto why = test::refusal(parse(kind, more), more);
    BOOST_TEST((why.code == engine::errc::invalid_request));
    return why.param;
  }
  bool strict = false;
};

BOOST_FIXTURE_TEST_SUITE(fields_of_other_servers, parser)

BOOST_AUTO_TEST_CASE(left_fields_are_taken_whatever_they_hold_and_refused_if_strict) {
  for (const char* name :
       {"user", "metadata", "store", "service_tier", "verbosity", "prompt_cache_key", "safety_identifier",
        "keep_alive", "id_slot", "n_keep", "priority", "request_id", "provider", "litellm_metadata"}) {
    for (const char* value : {"true", "\"x\"", "{\"a\":[1]}", "7", "null"}) {
      const std::string field = std::string(",\"") + name + "\":" + value;
      strict = false;
      chat(field);
      text(field);
      strict = true;
      BOOST_TEST(refused(field) == name);
    }
  }
}

BOOST_AUTO_TEST_CASE(reasoning_is_limited_by_any_name) {
  for (const char* field :
       {R"(,"thinking_budget_tokens":7)", R"(,"thinking_token_budget":7)", R"(,"thinking_budget":7)",
        R"(,"reasoning_budget":7)", R"(,"reasoning_budget_tokens":7)", R"(,"reasoning":{"max_tokens":7})",
        R"(,"thinking":{"type":"enabled","budget_tokens":7})",
        R"(,"thinking_budget":7,"reasoning":{"max_tokens":7})"}) {
    BOOST_TEST(chat(field).reasoning_tokens_max.value() == 7U, field);
  }
  BOOST_TEST(!chat(R"(,"thinking_budget_tokens":-1)").reasoning_tokens_max.has_value());
  BOOST_TEST(chat(R"(,"thinking_budget":0)").reasoning_tokens_max.value() == 0U);
  BOOST_TEST(refused(R"(,"thinking_budget":7,"reasoning":{"max_tokens":8})") == "reasoning.max_tokens");
  BOOST_TEST(refused(R"(,"thinking_budget":1.5)") == "thinking_budget");
  BOOST_TEST(refused(R"(,"thinking_budget":"7")") == "thinking_budget");
  BOOST_TEST(refused(R"(,"thinking_budget":4294967296)") == "thinking_budget");
}

BOOST_AUTO_TEST_CASE(fields_that_ask_for_nothing_are_taken_and_others_refused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("mirostat":0)", R"("mirostat":2)"},
      {R"("min_keep":0)", R"("min_keep":1)"},
      {R"("adaptive_target":-1)", R"("adaptive_target":1)"},
      {R"("use_beam_search":false)", R"("use_beam_search":true)"},
      {R"("no_stop_trim":false)", R"("no_stop_trim":true)"},
      {R"("transforms":[])", R"("transforms":["middle-out"])"},
      {R"("parse_tool_calls":true)", R"("parse_tool_calls":false)"},
  };
  for (const auto& [idle, asking] : cases) {
    strict = false;
    chat(std::string(",") + idle);
    const std::string name = refused(std::string(",") + asking);
    BOOST_TEST(std::string(asking).find("\"" + name + "\"") == 0U);
    strict = true;
    BOOST_TEST(refused(std::string(",") + idle) == name);
  }
}

BOOST_AUTO_TEST_CASE(other_names_of_the_same) {
  BOOST_TEST(chat(R"(,"repeat_penalty":1.5)").sampling.repetition_penalty == 1.5F);
  BOOST_TEST(refused(R"(,"repeat_penalty":1.5,"repetition_penalty":1.2)") == "repetition_penalty");
  chat(R"(,"repeat_penalty":1.5,"repetition_penalty":1.5)");
  BOOST_TEST(chat(R"(,"n_predict":7)").max_tokens.value() == 7U);
  BOOST_TEST(text(R"(,"max_new_tokens":7)").max_tokens.value() == 7U);
  BOOST_TEST(text(R"(,"max_completion_tokens":7,"max_tokens":7,"n_predict":7)").max_tokens.value() == 7U);
  BOOST_TEST(refused(R"(,"n_predict":7,"max_tokens":8)") == "max_tokens");
  BOOST_TEST(!chat(R"(,"n_predict":-2)").max_tokens.has_value());
  BOOST_TEST(!chat(R"(,"n_predict":-1,"max_tokens":-1)").max_tokens.has_value());
  BOOST_TEST(chat(R"(,"top_k":-1)").sampling.top_k == 0U);
  BOOST_TEST(chat(R"(,"repeat_last_n":-1)").sampling.repeat_last_n == 100U);
  lengths.context_tokens = 100'000;  // more than penalties can look back
  BOOST_TEST(chat(R"(,"repeat_last_n":-1)").sampling.repeat_last_n == repeat_last_n_max);
  BOOST_TEST(!chat(R"(,"seed":-1)").seed.has_value());
  BOOST_TEST(chat(R"(,"seed":-2)").seed.has_value());
  BOOST_TEST(chat(R"(,"usage":{"include":true})").include_usage);
  BOOST_TEST(refused(R"(,"usage":{"exclude":true})") == "usage.exclude");
}

BOOST_AUTO_TEST_CASE(all_of_a_long_context_is_the_longest_window_of_penalties) {
  lengths.context_tokens = 131'072;
  BOOST_TEST(chat(R"(,"repeat_last_n":-1)").sampling.repeat_last_n == 4'096U);
  BOOST_TEST(text(R"(,"repeat_last_n":-1)").sampling.repeat_last_n == 4'096U);
}

BOOST_AUTO_TEST_CASE(rules_for_single_tokens) {
  const auto r = chat(R"(,"min_tokens":3,"stop_token_ids":[5,2,5],"allowed_token_ids":[7],
    "logit_bias":[[9,false],[4,1.5]])");
  BOOST_TEST(r.min_tokens == 3U);
  BOOST_TEST(r.stop_tokens == (ids{2, 5}), boost::test_tools::per_element());
  BOOST_TEST(r.allowed_tokens == ids{7}, boost::test_tools::per_element());
  BOOST_TEST(r.banned_tokens == ids{9}, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(r.sampling.biases.size() == 1U);
  BOOST_TEST(r.sampling.biases[0].token == 4);
  const std::pair<const char*, const char*> cases[] = {
      {R"(,"min_tokens":-1)", "min_tokens"},
      {R"(,"min_tokens":4,"max_tokens":3)", "min_tokens"},
      {R"(,"stop_token_ids":[300])", "stop_token_ids"},
      {R"(,"stop_token_ids":5)", "stop_token_ids"},
      {R"(,"allowed_token_ids":["x"])", "allowed_token_ids"},
      {R"(,"allowed_token_ids":[])", "allowed_token_ids"},
      {R"(,"logit_bias":[[1,1],[1,2]])", "logit_bias"},
      {R"(,"logit_bias":[[1]])", "logit_bias"},
      {R"(,"logit_bias":[["",1]])", "logit_bias"},
      {R"(,"logit_bias":[["x",101]])", "logit_bias"},
      {R"(,"logit_bias":[["x",true]])", "logit_bias"},
      {R"(,"logit_bias":{"x":null})", "logit_bias"},
      {R"(,"logit_bias":[[1,true]])", "logit_bias"},
      {R"(,"dry_multiplier":"0")", "dry_multiplier"},
      {R"(,"dry_multiplier":-1)", "dry_multiplier"},
      {R"(,"dry_base":-1)", "dry_base"},
      {R"(,"dry_allowed_length":-1)", "dry_allowed_length"},
      {R"(,"dry_penalty_last_n":-2)", "dry_penalty_last_n"},
      {R"(,"dry_sequence_breakers":[""])", "dry_sequence_breakers"},
      {R"(,"dry_sequence_breakers":[5])", "dry_sequence_breakers"},
      {R"(,"xtc_probability":1.5)", "xtc_probability"},
      {R"(,"xtc_threshold":-0.5)", "xtc_threshold"},
      {R"(,"typical_p":1.5)", "typical_p"},
      {R"(,"typ_p":0.5,"typical_p":0.6)", "typical_p"},
      {R"(,"top_n_sigma":"x")", "top_n_sigma"},
      {R"(,"dynatemp_range":2.5)", "dynatemp_range"},
      {R"(,"dynatemp_exponent":-1)", "dynatemp_exponent"},
  };
  for (const auto& [more, param] : cases) BOOST_TEST(refused(more) == param, more);
}

BOOST_AUTO_TEST_CASE(biases_of_texts) {
  const auto r = chat(R"(,"logit_bias":[["ab",false],["b",2.5],[4,1]])");
  BOOST_TEST_REQUIRE(r.text_biases.size() == 2U);
  BOOST_TEST((r.text_biases[0].text == "ab" && !r.text_biases[0].bias));
  BOOST_TEST((r.text_biases[1].text == "b" && r.text_biases[1].bias == 2.5F));
  BOOST_TEST(r.sampling.biases.size() == 1U);
  const auto object = text(R"(,"logit_bias":{"ab":-1,"7":2,"8":false})");
  BOOST_TEST((object.text_biases.size() == 1U && object.sampling.biases.size() == 1U));
  BOOST_TEST(object.banned_tokens == ids{8}, boost::test_tools::per_element());
  std::string many = R"(,"logit_bias":[["a",1])";
  for (int i = 0; i < 1'024; ++i) many += R"(,["a",1])";
  BOOST_TEST(refused(many + "]") == "logit_bias");
}

BOOST_AUTO_TEST_CASE(words_that_must_not_come) {
  BOOST_TEST(chat(R"(,"bad_words":["hi"," yo"])").bad_words == (std::vector<std::string>{"hi", " yo"}),
             boost::test_tools::per_element());
  BOOST_TEST(text(R"(,"bad_words":[])").bad_words.empty());
  for (const std::string& wrong : {std::string("\"hi\""), std::string("[5]"), std::string("[\"\"]"),
                                   std::string("[\" \"]"), "[\"" + std::string(257, 'x') + "\"]"}) {
    BOOST_TEST(refused(",\"bad_words\":" + wrong) == "bad_words", wrong);
  }
}

BOOST_AUTO_TEST_CASE(log_probabilities_of_the_prompt) {
  BOOST_TEST(!chat(R"(,"prompt_logprobs":null)").prompt_logprobs);
  BOOST_TEST(!text(R"(,"prompt_logprobs":false)").prompt_logprobs);
  BOOST_TEST((chat(R"(,"prompt_logprobs":0)").prompt_logprobs == 0U));
  BOOST_TEST((text(R"(,"prompt_logprobs":20.0)").prompt_logprobs == 20U));
  for (const char* wrong : {"-1", "-2", "21", "true", "1.5", "\"1\""}) {
    BOOST_TEST(refused(",\"prompt_logprobs\":" + std::string(wrong)) == "prompt_logprobs", wrong);
  }
  BOOST_TEST(refused(R"(,"prompt_logprobs":0,"stream":true)") == "prompt_logprobs");
}

BOOST_AUTO_TEST_CASE(an_order_of_samplers_that_changes_nothing) {
  for (const char* more :
       {R"(,"samplers":["top_k","top_p","min_p","temperature"])", R"(,"samplers":"edskypmxt")",
        R"(,"samplers":[])",
        R"(,"samplers":["dry","top_k","typ_p","top_p","min_p","xtc","temperature"],"top_p":0.5)",
        R"(,"samplers":["top_k","temperature"],"top_k":5,"temperature":0.5)"}) {
    BOOST_TEST(!chat(more).sampling.temperature_last, more);
    text(more);
  }
  // llama-server's order where it does: so the tokens are chosen.
  const char* last = R"(,"samplers":["top_p","temperature"],"top_p":0.5,"temperature":0.5)";
  BOOST_TEST((chat(last).sampling.temperature_last && text(last).sampling.needs_logits()));
  for (const char* more :
       {R"(,"samplers":["mirostat"])", R"(,"samplers":["infill"])", R"(,"samplers":5)", R"(,"samplers":[5])",
        R"(,"samplers":"kk")", R"(,"samplers":["top_k"],"top_p":0.5)",
        R"(,"samplers":["min_p","temperature","top_p"],"top_p":0.5,"min_p":0.1,"temperature":0.5)",
        R"(,"samplers":["top_p"],"top_p":0.5,"xtc_probability":0.5)",
        R"(,"samplers":["xtc","typ_p"],"typical_p":0.5,"xtc_probability":0.5)"}) {
    BOOST_TEST(refused(more) == "samplers", more);
  }
}

BOOST_AUTO_TEST_CASE(what_an_answer_shows) {
  const auto r = text(R"(,"return_token_ids":true,"return_tokens_as_token_ids":true,"timings_per_token":true,
    "return_progress":true,"skip_special_tokens":false,"include_stop_str_in_output":true)");
  const auto& s = r.shows;
  BOOST_TEST(
      (s.token_ids && s.tokens_as_ids && s.timings && s.progress && s.special_tokens && s.stop_string));
  const auto plain = chat(R"(,"skip_special_tokens":true)").shows;
  BOOST_TEST((!plain.special_tokens && plain.reasoning && !plain.raw_reasoning));
  BOOST_TEST(!chat(R"(,"include_reasoning":false)").shows.reasoning);
  BOOST_TEST(!chat(R"(,"reasoning_format":"hidden")").shows.reasoning);
  BOOST_TEST(!chat(R"(,"reasoning":{"exclude":true})").shows.reasoning);
  BOOST_TEST(chat(R"(,"reasoning_format":"none")").shows.raw_reasoning);
  BOOST_TEST(chat(R"(,"separate_reasoning":false)").shows.raw_reasoning);
  BOOST_TEST(refused(R"(,"reasoning_format":"deepseek-legacy")") == "reasoning_format");
  BOOST_TEST(refused(R"(,"return_token_ids":1)") == "return_token_ids");
}

BOOST_AUTO_TEST_CASE(which_other_apis_have_a_field) {
  BOOST_TEST((is_worker_field("min_p") && is_llama_field("min_p")));
  BOOST_TEST((is_worker_field("chat_template_kwargs") && !is_llama_field("chat_template_kwargs")));
  BOOST_TEST((!is_worker_field("stream") && is_llama_field("stream")));
  BOOST_TEST((!is_worker_field("messages") && !is_llama_field("messages")));
  BOOST_TEST((!is_worker_field("min_q") && !is_llama_field("min_q")));
}

BOOST_AUTO_TEST_CASE(what_the_template_is_told) {
  const auto variable = [&](const std::string& more, std::string_view name) {
    const auto variables = chat(more).template_variables;
    const auto* value = variables.if_contains(name);
    return value == nullptr ? boost::json::value() : *value;
  };
  using boost::json::value;
  BOOST_TEST((variable(R"(,"reasoning":{"effort":"low"})", "reasoning_effort") == value("low")));
  BOOST_TEST((variable(R"(,"reasoning":{"enabled":false})", "enable_thinking") == value(false)));
  BOOST_TEST((variable(R"(,"thinking":{"type":"enabled"})", "enable_thinking") == value(true)));
  BOOST_TEST((variable(R"(,"thinking":{"type":"adaptive"})", "enable_thinking").is_null()));
  chat(R"(,"reasoning_effort":"low","reasoning":{"effort":"low"})");
  BOOST_TEST(refused(R"(,"reasoning_effort":"low","reasoning":{"effort":"high"})") == "reasoning.effort");
  BOOST_TEST(refused(R"(,"documents":["x"])") == "documents");
}

BOOST_AUTO_TEST_CASE(a_last_message_that_is_a_prefix_is_continued) {
  const auto continues = [&](const std::string& last) {
    completion_limits limits{lengths, served};
    const auto parsed = parse_completion(R"({"messages":[{"role":"user","content":"u"},)" + last + "]}",
                                         completion_kind::chat, limits);
    BOOST_TEST_REQUIRE(parsed.has_value(), last);
    return parsed->shape.continues;
  };
  BOOST_TEST(continues(R"({"role":"assistant","content":"a","prefix":true})"));
  BOOST_TEST(!continues(R"({"role":"assistant","content":"a","prefix":false})"));
  BOOST_TEST(!continues(R"({"role":"assistant","content":"a"})"));
}

BOOST_AUTO_TEST_CASE(schemas_by_their_other_names) {
  for (const char* more :
       {R"(,"guided_json":{"type":"string"})", R"(,"guided_json":"{\"type\":\"string\"}")",
        R"(,"json_schema":{"type":"string"})", R"(,"structured_outputs":{"json":{"type":"string"}})"}) {
    for (const auto kind : {completion_kind::chat, completion_kind::text}) {
      const auto constraints = taken(kind, more).constraints;
      BOOST_TEST((constraints.kind == constraint_kind::json));
      BOOST_TEST((constraints.schema == boost::json::value(boost::json::object{{"type", "string"}})));
      BOOST_TEST(std::string(more).find(constraints.field.substr(0, 6)) != std::string::npos);
    }
  }
  BOOST_TEST(text(R"(,"structured_outputs":{"json_object":true})").constraints.schema.is_null());
  const std::pair<const char*, const char*> cases[] = {
      {R"(,"guided_json":"no")", "guided_json"},
      {R"(,"guided_json":5)", "guided_json"},
      {R"(,"guided_json":{},"json_schema":{"type":"string"})", "json_schema"},
      {R"(,"guided_json":{},"response_format":{"type":"json_object"})", "guided_json"},
      {R"(,"structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag"},
  };
  for (const auto& [more, param] : cases) BOOST_TEST(refused(more) == param, more);
  chat(R"(,"guided_json":{},"response_format":{"type":"text"})");
}

BOOST_AUTO_TEST_CASE(the_older_and_the_newer_name_of_one_where_they_agree) {
  for (const char* more :
       {R"(,"guided_grammar":"root ::= \"a\"","structured_outputs":{"grammar":"root ::= \"a\""})",
        R"(,"guided_json":{"type":"string"},"structured_outputs":{"json":{"type":"string"}})",
        R"(,"guided_json":{"type":"string"},
            "response_format":{"type":"json_schema","json_schema":{"schema":{"type":"string"}}})",
        R"(,"structured_outputs":{"json_object":true},"response_format":{"type":"json_object"})"}) {
    BOOST_TEST((chat(more).constraints.kind != constraint_kind::none));
    text(more);
  }
  BOOST_TEST(refused(R"(,"guided_regex":"a","structured_outputs":{"regex":"b"})") ==
             "structured_outputs.regex");
  BOOST_TEST(refused(R"(,"guided_json":{"type":"string"},
            "response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}})") ==
             "guided_json");
}

BOOST_AUTO_TEST_CASE(texts_that_are_described) {
  using kind = guided_kind;
  const std::pair<const char*, kind> cases[] = {
      {R"(,"guided_regex":"a|b")", kind::regex},
      {R"(,"regex":"a|b")", kind::regex},
      {R"(,"guided_choice":["a","b"])", kind::choice},
      {R"(,"guided_grammar":"root ::= \"a\"")", kind::grammar},
      {R"(,"grammar":"root ::= \"a\"")", kind::grammar},
      {R"(,"structured_outputs":{"choice":["a"]})", kind::choice},
  };
  for (const auto& [more, wanted] : cases) {
    const auto constraints = text(more).constraints;
    BOOST_TEST((constraints.kind == constraint_kind::text));
    BOOST_TEST((constraints.text_kind == wanted));
    BOOST_TEST(!constraints.texts.empty());
  }
  BOOST_TEST((chat(R"(,"grammar":"")").constraints.kind == constraint_kind::none));
  BOOST_TEST(refused(R"(,"guided_regex":5)") == "guided_regex");
  BOOST_TEST(refused(R"(,"guided_choice":[5])") == "guided_choice");
  BOOST_TEST(refused(R"(,"guided_regex":"a","grammar":"root ::= \"a\"")") == "grammar");
  BOOST_TEST(refused(R"(,"guided_regex":"a","tools":[{"type":"function","function":{"name":"f"}}])") ==
             "guided_regex");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
