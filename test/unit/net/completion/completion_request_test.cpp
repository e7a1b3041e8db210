#include "net/completion/completion_request.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

using engine::errc;

struct parser : test::request_fixture {
  completion_limits limits() const {
    auto out = request_fixture::limits();
    out.request_template = templates;
    out.strict_fields = strict;
    return out;
  }
  engine::result<completion_request> parse(completion_kind kind, const std::string& more) const {
    const std::string prompt = kind == completion_kind::chat
                                   ? R"({"messages":[{"role":"user","content":"hi"}])"
                                   : R"({"prompt":"hi")";
    return parse_completion(prompt + more + "}", kind, limits());
  }
  completion_request chat(const std::string& more) const {
    return test::accepted(parse(completion_kind::chat, more), more);
  }
  /// The field that a refused body is refused for.
  std::string refused(completion_kind kind, const std::string& more) const {
    return test::refusal(parse(kind, more), more).param;
  }
  std::string refused(const std::string& more) const { return refused(completion_kind::chat, more); }
  bool templates = false;
  bool strict = false;
};

BOOST_FIXTURE_TEST_SUITE(completion_body, parser)

BOOST_AUTO_TEST_CASE(only_what_is_required) {
  const auto r = chat("");
  BOOST_TEST(r.choices == 1U);
  BOOST_TEST(!r.stream);
  BOOST_TEST(!r.max_tokens.has_value());
  BOOST_TEST(!r.seed.has_value());
  BOOST_TEST(!r.logprobs);
  BOOST_TEST(r.sampling.temperature == 1.0F);
  BOOST_TEST(r.messages.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_prediction_is_a_text_or_a_list_of_texts) {
  BOOST_TEST(!chat("").prediction.has_value());
  BOOST_TEST(!chat(R"(,"prediction":null)").prediction.has_value());
  BOOST_TEST(chat(R"(,"prediction":{"type":"content","content":"a\nb"})").prediction.value() == "a\nb");
  BOOST_TEST(chat(R"(,"prediction":{"type":"content","content":""})").prediction.value() == "");
  BOOST_TEST(chat(R"(,"prediction":{"type":"content","content":[{"type":"text","text":"a"},{"text":"b"}]})")
                 .prediction.value() == "ab");
  const auto text = parse(completion_kind::text, R"(,"prediction":{"type":"content","content":"x"})");
  BOOST_TEST(test::accepted(text, "text").prediction.value() == "x");
  for (const char* wrong :
       {"true", "\"x\"", "{}", R"({"type":"content"})", R"({"type":"x","content":"a"})", R"({"content":"a"})",
        R"({"type":"content","content":7})", R"({"type":"content","content":["a"]})",
        R"({"type":"content","content":[{"type":"text"}]})"}) {
    BOOST_TEST(refused(",\"prediction\":" + std::string(wrong)) == "prediction", wrong);
  }
}

BOOST_AUTO_TEST_CASE(every_field_that_is_honoured) {
  const auto r = chat(R"(,"model":"served","max_completion_tokens":7,"temperature":0.5,"top_p":0.25,
    "min_p":0.125,"top_k":9,"repetition_penalty":1.5,"presence_penalty":-2,
    "frequency_penalty":2,"repeat_last_n":33,"logit_bias":{"3":-100,"299":1.5},"logprobs":true,
    "top_logprobs":20,"seed":5,"stop":["a","b","c","d"],"n":4,
    "stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"ignore_eos":true,
    "timeout_ms":1234,"reasoning_effort":"low","chat_template_kwargs":{"x":1})");
  BOOST_TEST(r.max_tokens.value() == 7U);
  BOOST_TEST(r.max_tokens_field == "max_completion_tokens");
  BOOST_TEST(r.sampling.temperature == 0.5F);
  BOOST_TEST(r.sampling.top_p == 0.25F);
  BOOST_TEST(r.sampling.min_p == 0.125F);
  BOOST_TEST(r.sampling.top_k == 9U);
  BOOST_TEST(r.sampling.repetition_penalty == 1.5F);
  BOOST_TEST(r.sampling.presence_penalty == -2.0F);
  BOOST_TEST(r.sampling.frequency_penalty == 2.0F);
  BOOST_TEST(r.sampling.repeat_last_n == 33U);
  BOOST_TEST_REQUIRE(r.sampling.biases.size() == 2U);
  BOOST_TEST(r.sampling.biases[1].token == 299);
  BOOST_TEST(r.sampling.biases[1].bias == 1.5F);
  BOOST_TEST(r.logprobs);
  BOOST_TEST(r.top_logprobs == 20U);
  BOOST_TEST(r.seed.value() == 5U);
  BOOST_TEST(r.stop.size() == 4U);
  BOOST_TEST(r.choices == 4U);
  BOOST_TEST((r.stream && r.include_usage && r.ignore_eos && !r.usage_in_chunks));
  BOOST_TEST((r.timeout == std::chrono::milliseconds(1234)));
  BOOST_TEST(r.template_variables.size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_the_prefix_cache_is_told) {
  BOOST_TEST(chat("").cache.enabled);
  const auto r = chat(R"(,"cache_prompt":false,"cache_salt":"s","imc_id":"i")");
  BOOST_TEST(!r.cache.enabled);
  BOOST_TEST(r.cache.salt == "s");
  BOOST_TEST(r.cache.session == "i");
}

BOOST_AUTO_TEST_CASE(null_counts_as_absent) {
  const auto r =
      chat(R"(,"model":null,"stop":null,"tools":null,"n":null,"logit_bias":null,"response_format":null,
    "stream_options":null,"max_tokens":null,"functions":null,"audio":null,"store":null,"seed":null)");
  BOOST_TEST(r.choices == 1U);
}

BOOST_AUTO_TEST_CASE(what_cannot_change_the_output_is_accepted) {
  chat(R"(,"stream_options":{"include_usage":true,"include_obfuscation":true},"modalities":["text"],
    "functions":[],"parallel_tool_calls":true,"tool_choice":"none","tools":[],
    "response_format":{"type":"text"})");
}

BOOST_AUTO_TEST_CASE(what_is_not_served_is_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(,"nonsense":1)", "nonsense"},
      {R"(,"prompt":"x")", "prompt"},
      {R"(,"echo":false)", "echo"},
      {R"(,"functions":[{"name":"f"}])", "functions"},
      {R"(,"audio":{})", "audio"},
      {R"(,"modalities":["text","audio"])", "modalities"},
      {R"(,"tools":[{"type":"function"}])", "tools[0].function"},
      {R"(,"tools":{})", "tools"},
      {R"(,"tool_choice":"required")", "tool_choice"},
      {R"(,"response_format":{"type":"xml"})", "response_format.type"},
      {R"(,"response_format":"json")", "response_format"},
      {R"(,"cache_salt":"")", "cache_salt"},
      {R"(,"imc_id":5)", "imc_id"},
      {R"(,"chat_template":"{{ x }}")", "chat_template"},
      {R"(,"chat_template_kwargs":{"messages":[]})", "chat_template_kwargs"},
      {R"(,"stream":true,"stream_options":{"other":1})", "stream_options.other"},
  };
  for (const auto& [more, param] : cases) BOOST_TEST(refused(more) == param, more);
  BOOST_TEST(refused(completion_kind::text, R"(,"messages":[])") == "messages");
  BOOST_TEST(refused(completion_kind::text, R"(,"suffix":"x")") == "suffix");
  BOOST_TEST(refused(completion_kind::text, R"(,"best_of":2)") == "best_of");
  const auto other = parse(completion_kind::chat, R"(,"model":"gpt")");
  BOOST_TEST((other.error().code == errc::not_found));
  BOOST_TEST(other.error().param == "model");
}

BOOST_AUTO_TEST_CASE(values_out_of_range_are_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(,"temperature":2.1)", "temperature"},
      {R"(,"temperature":"1")", "temperature"},
      {R"(,"temperature":1e999)", "temperature"},
      {R"(,"top_p":0)", "top_p"},
      {R"(,"min_p":-0.1)", "min_p"},
      {R"(,"n":0)", "n"},
      {R"(,"n":129)", "n"},
      {R"(,"n":1.5)", "n"},
      {R"(,"max_tokens":0)", "max_tokens"},
      {R"(,"max_tokens":-2)", "max_tokens"},
      {R"(,"max_tokens":-1.5)", "max_tokens"},
      {R"(,"max_tokens":1e400)", "max_tokens"},
      {R"(,"seed":1.5)", "seed"},
      {R"(,"logprobs":1)", "logprobs"},
      {R"(,"logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"(,"stop":[])"
       R"(,"stop":"x")",
       "stop"},
      {R"(,"stop":"")", "stop"},
      {R"(,"stop":["0","1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g"])", "stop"},
      {R"(,"stop":[1])", "stop"},
      {R"(,"logit_bias":{"300":1})", "logit_bias"},
      {R"(,"logit_bias":{"-1":1})", "logit_bias"},
      {R"(,"logit_bias":{"1":101})", "logit_bias"},
      {R"(,"logit_bias":{"1":"x"})", "logit_bias"},
      {R"(,"logit_bias":[1])", "logit_bias"},
      {R"(,"stream":"yes")", "stream"},
      {R"(,"timeout_ms":0)", "timeout_ms"},
  };
  for (const auto& [more, param] : cases) BOOST_TEST(refused(more) == param, more);
}

// Languages with one kind of number, and proxies in them, write 4.0 for 4.
BOOST_AUTO_TEST_CASE(a_number_without_a_fraction_is_an_integer) {
  BOOST_TEST(chat(R"(,"max_tokens":5.0)").max_tokens.value() == 5U);
  BOOST_TEST(chat(R"(,"max_tokens":1e1)").max_tokens.value() == 10U);
  BOOST_TEST(chat(R"(,"max_tokens":1e15)").max_tokens.value() == 2'147'483'647U);
  BOOST_TEST(!chat(R"(,"max_tokens":-1.0)").max_tokens.has_value());
  const auto r = chat(R"(,"n":2.0,"top_k":-1.0,"seed":7.0,"timeout_ms":10.0,"temperature":1.0,
    "logprobs":true,"top_logprobs":3.0,"stop_token_ids":[4.0],"logit_bias":[[5.0,1.0]])");
  BOOST_TEST((r.choices == 2U && r.sampling.top_k == 0U && r.seed == 7U && r.top_logprobs == 3U));
  BOOST_TEST((r.stop_tokens.at(0) == 4 && r.sampling.biases.at(0).token == 5));
  for (const char* wrong : {R"(,"seed":9007199254740994.0)", R"(,"seed":1e30)"}) {
    BOOST_TEST(refused(wrong) == "seed", wrong);
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_field_that_is_null_is_absent) {
  for (const auto kind : {completion_kind::chat, completion_kind::text}) {
    const char* more = R"(,"prompt_logprobs":null,"nonsense":null)";
    strict = false;
    test::accepted(parse(kind, more), more);
    strict = true;
    BOOST_TEST(refused(kind, more) == "nonsense");
  }
}

BOOST_AUTO_TEST_CASE(usage_of_each_chunk_is_none_without_usage) {
  const auto r =
      chat(R"(,"stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true})");
  BOOST_TEST(!r.include_usage);
}

BOOST_AUTO_TEST_CASE(contradictions_are_refused) {
  BOOST_TEST(refused(R"(,"max_tokens":5,"max_completion_tokens":6)") == "max_completion_tokens");
  BOOST_TEST(chat(R"(,"max_tokens":5,"max_completion_tokens":5)").max_tokens.value() == 5U);
  BOOST_TEST(refused(R"(,"top_logprobs":2)") == "top_logprobs");
  BOOST_TEST(refused(R"(,"logprobs":false,"top_logprobs":2)") == "top_logprobs");
  strict = true;
  BOOST_TEST(refused(R"(,"stream_options":{"include_usage":true})") == "stream_options");
  BOOST_TEST(refused(R"(,"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})") ==
             "chat_template_kwargs");
}

BOOST_AUTO_TEST_CASE(max_tokens_is_an_upper_bound) {
  BOOST_TEST(!chat(R"(,"max_tokens":-1)").max_tokens.has_value());
  BOOST_TEST(!chat(R"(,"max_completion_tokens":-1)").max_tokens.has_value());
  BOOST_TEST(chat(R"(,"max_tokens":-1,"max_completion_tokens":5)").max_tokens.value() == 5U);
  BOOST_TEST(chat(R"(,"max_tokens":1000000)").max_tokens.value() == 1'000'000U);
  for (const char* huge : {"2147483647", "2147483648", "9223372036854775807", "18446744073709551615"}) {
    BOOST_TEST(chat(R"(,"max_tokens":)" + std::string(huge)).max_tokens.value() == 2'147'483'647U, huge);
  }
}

BOOST_AUTO_TEST_CASE(biases_are_sorted_and_a_token_has_one) {
  const auto r = chat(R"(,"logit_bias":{"30":1,"4":-1,"007":2})");
  BOOST_TEST_REQUIRE(r.sampling.biases.size() == 3U);
  BOOST_TEST(r.sampling.biases[0].token == 4);
  BOOST_TEST(r.sampling.biases[1].token == 7);
  BOOST_TEST(r.sampling.biases[1].bias == 2.0F);
  BOOST_TEST(r.sampling.biases[2].token == 30);
  BOOST_TEST(refused(R"(,"logit_bias":{"7":1,"8":1,"07":2})") == "logit_bias");
  chat(R"(,"logit_bias":{})");
}

BOOST_AUTO_TEST_CASE(lists_that_are_much_too_long_are_refused_fast) {
  std::string stops = R"(,"stop":["a")";
  std::string biases_text = R"(,"logit_bias":{"0":1)";
  for (int i = 1; i < 100'000; ++i) {
    stops += ",\"a\"";
    biases_text += ",\"" + std::to_string(i) + "\":1";
  }
  const auto begun = std::chrono::steady_clock::now();
  BOOST_TEST(refused(stops + "]") == "stop");
  BOOST_TEST(refused(biases_text + "}") == "logit_bias");
  BOOST_TEST((std::chrono::steady_clock::now() - begun < std::chrono::seconds(5)));
}

BOOST_AUTO_TEST_CASE(a_template_of_the_request_where_it_is_allowed) {
  templates = true;
  BOOST_TEST(chat(R"(,"chat_template":"{{ messages }}")").chat_template.value() == "{{ messages }}");
}

BOOST_AUTO_TEST_CASE(prompts_of_the_text_endpoint) {
  const auto text = [this](const std::string& prompt) {
    return parse_completion("{\"prompt\":" + prompt + "}", completion_kind::text, limits());
  };
  using ids = std::vector<engine::token_id>;
  BOOST_TEST((text("\"abc\"")->prompts == std::vector<text_prompt>{{prompt_text{"abc"}}}));
  BOOST_TEST((text("[\"abc\"]")->prompts == std::vector<text_prompt>{{prompt_text{"abc"}}}));
  BOOST_TEST((text("[1,299]")->prompts == std::vector<text_prompt>{{ids{1, 299}}}));
  BOOST_TEST((text("[[1,299]]")->prompts == std::vector<text_prompt>{{ids{1, 299}}}));
  BOOST_TEST((text("[\"a\",[7],\"b\"]")->prompts ==
              std::vector<text_prompt>{{prompt_text{"a"}}, {ids{7}}, {prompt_text{"b"}}}));
  for (const char* prompt : {"\"\"", "[]", "[[]]", "[300]", "[-1]", "[1.5]", "[\"a\",1]", "[1,\"a\"]", "5",
                             "[[1],1]", "[\"a\",\"\"]", "[[1],[]]", "[[[1]]]"}) {
    const auto parsed = text(prompt);
    BOOST_TEST_REQUIRE(!parsed.has_value(), prompt);
    BOOST_TEST(parsed.error().param == "prompt");
  }
  std::string long_list = "[1";
  for (int i = 0; i < 100; ++i) long_list += ",1";
  BOOST_TEST((text(long_list + "]").error().code == errc::context_length_exceeded));
  BOOST_TEST(refused(completion_kind::text, R"(,"logprobs":21)") == "logprobs");
  const auto counted = parse(completion_kind::text, R"(,"logprobs":0)");
  BOOST_TEST((counted->logprobs && counted->top_logprobs == 0));
}

BOOST_AUTO_TEST_CASE(a_prompt_may_be_the_object_of_llama_server) {
  const auto text = [this](const std::string& prompt) {
    return parse_completion("{\"prompt\":" + prompt + "}", completion_kind::text, limits());
  };
  const std::vector<text_prompt> one{{prompt_text{"a"}}};
  BOOST_TEST((text(R"({"prompt_string":"a"})")->prompts == one));
  BOOST_TEST((text(R"([{"prompt_string":"a","multimodal_data":[]}])")->prompts == one));
  BOOST_TEST(text(R"([{"prompt_string":"a"},"b"])")->prompts.size() == 2U);
  for (const auto& [prompt, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{}", "prompt.prompt_string"},
           {R"({"prompt_string":""})", "prompt"},
           {R"({"prompt_string":[1]})", "prompt.prompt_string"},
           {R"({"prompt_string":"a","x":1})", "prompt.x"},
           {R"({"prompt_string":"a","multimodal_data":["AAAA"]})", "prompt.multimodal_data"}}) {
    BOOST_TEST(test::refusal(text(prompt), prompt).param == param, prompt);
  }
}

BOOST_AUTO_TEST_CASE(choices_are_bounded_over_all_prompts) {
  const auto text = [this](int prompts, int n) {
    std::string list = "\"a\"";
    for (int i = 1; i < prompts; ++i) list += ",\"a\"";
    const std::string body = "{\"prompt\":[" + list + "],\"n\":" + std::to_string(n) + "}";
    return parse_completion(body, completion_kind::text, limits());
  };
  for (const auto& [prompts, n] : {std::pair{1, 128}, {128, 1}, {2, 64}, {42, 3}}) {
    const auto parsed = text(prompts, n);
    BOOST_TEST_REQUIRE(parsed.has_value());
    BOOST_TEST((parsed->prompts.size() == static_cast<std::size_t>(prompts) &&
                parsed->choices == static_cast<std::uint32_t>(n)));
  }
  BOOST_TEST(text(129, 1).error().param == "prompt");
  BOOST_TEST(text(1, 129).error().param == "n");
  BOOST_TEST(text(2, 65).error().param == "n");
  BOOST_TEST(text(2, 65).error().message ==
             "'n' is 65 for each of 2 prompts; a request may have 128 choices together");
  BOOST_TEST(chat(R"(,"n":128)").choices == 128U);
}

BOOST_AUTO_TEST_CASE(nothing_to_generate_needs_an_echo) {
  const auto scored = parse(completion_kind::text, R"(,"max_tokens":0,"echo":true,"logprobs":1)");
  BOOST_TEST_REQUIRE(scored.has_value());
  BOOST_TEST((scored->max_tokens == 0U && scored->echo_prompt && scored->logprobs));
  BOOST_TEST(refused(completion_kind::text, R"(,"max_tokens":0)") == "max_tokens");
  BOOST_TEST(refused(completion_kind::text, R"(,"max_tokens":0,"echo":false)") == "max_tokens");
  BOOST_TEST(refused(completion_kind::text, R"(,"echo":1)") == "echo");
}

BOOST_AUTO_TEST_CASE(a_number_of_log_probabilities_is_told_where_it_belongs) {
  const auto parsed = parse(completion_kind::chat, R"(,"logprobs":5)");
  BOOST_TEST_REQUIRE(!parsed.has_value());
  BOOST_TEST(parsed.error().param == "logprobs");
  BOOST_TEST(parsed.error().message.find("'top_logprobs'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(missing_prompts) {
  BOOST_TEST(parse_completion("{}", completion_kind::chat, limits()).error().param == "messages");
  BOOST_TEST(parse_completion("{}", completion_kind::text, limits()).error().param == "prompt");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
