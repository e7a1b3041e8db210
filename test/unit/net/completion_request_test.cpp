#include "net/completion_request.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

namespace orcd::net {
namespace {

using engine::errc;

struct parser {
  parser() { lengths.context_tokens = 100; }
  completion_limits limits() const {
    completion_limits out{lengths, "served"};
    out.vocab = 300;
    out.choices_max = 4;
    out.request_template = templates;
    return out;
  }
  engine::result<completion_request> parse(completion_kind kind, const std::string& more) const {
    const std::string prompt = kind == completion_kind::chat
                                   ? R"({"messages":[{"role":"user","content":"hi"}])"
                                   : R"({"prompt":"hi")";
    return parse_completion(prompt + more + "}", kind, limits());
  }
  completion_request chat(const std::string& more) const {
    auto parsed = parse(completion_kind::chat, more);
    BOOST_TEST_REQUIRE(parsed.has_value(), more << ": " << (parsed ? "" : parsed.error().message));
    return std::move(*parsed);
  }
  /// The field that a refused body is refused for.
  std::string refused(completion_kind kind, const std::string& more) const {
    const auto parsed = parse(kind, more);
    BOOST_TEST_REQUIRE(!parsed.has_value(), more << " was accepted");
    return parsed.error().param;
  }
  std::string refused(const std::string& more) const { return refused(completion_kind::chat, more); }

  execute_limits lengths;
  bool templates = false;
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
  chat(R"(,"user":"u","metadata":{"a":"b"},"store":false,"service_tier":"auto","modalities":["text"],
    "safety_identifier":"s","prompt_cache_key":"k","parallel_tool_calls":true,"tool_choice":"none","tools":[],
    "response_format":{"type":"text"})");
}

BOOST_AUTO_TEST_CASE(what_is_not_served_is_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(,"nonsense":1)", "nonsense"},
      {R"(,"prompt":"x")", "prompt"},
      {R"(,"echo":false)", "echo"},
      {R"(,"functions":[])", "functions"},
      {R"(,"audio":{})", "audio"},
      {R"(,"prediction":{})", "prediction"},
      {R"(,"store":true)", "store"},
      {R"(,"service_tier":"flex")", "service_tier"},
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
      {R"(,"stream":true,"stream_options":{"continuous_usage_stats":true})",
       "stream_options.continuous_usage_stats"},
      {R"(,"stream":true,"stream_options":{"include_obfuscation":true})",
       "stream_options.include_obfuscation"},
  };
  for (const auto& [more, param] : cases) BOOST_TEST(refused(more) == param, more);
  BOOST_TEST(refused(completion_kind::text, R"(,"messages":[])") == "messages");
  BOOST_TEST(refused(completion_kind::text, R"(,"echo":true)") == "echo");
  BOOST_TEST(refused(completion_kind::text, R"(,"suffix":"x")") == "suffix");
  BOOST_TEST(refused(completion_kind::text, R"(,"best_of":2)") == "best_of");
  BOOST_TEST(refused(completion_kind::text, R"(,"max_completion_tokens":2)") == "max_completion_tokens");
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
      {R"(,"n":5)", "n"},
      {R"(,"n":1.0)", "n"},
      {R"(,"max_tokens":0)", "max_tokens"},
      {R"(,"max_tokens":9223372036854775808)", "max_tokens"},
      {R"(,"max_tokens":-1)", "max_tokens"},
      {R"(,"seed":1.5)", "seed"},
      {R"(,"logprobs":1)", "logprobs"},
      {R"(,"logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"(,"stop":[])"
       R"(,"stop":"x")",
       "stop"},
      {R"(,"stop":"")", "stop"},
      {R"(,"stop":["a","b","c","d","e"])", "stop"},
      {R"(,"stop":[1])", "stop"},
      {R"(,"logit_bias":{"300":1})", "logit_bias"},
      {R"(,"logit_bias":{"-1":1})", "logit_bias"},
      {R"(,"logit_bias":{"1":101})", "logit_bias"},
      {R"(,"logit_bias":{"1":"x"})", "logit_bias"},
      {R"(,"logit_bias":[1])", "logit_bias"},
      {R"(,"stream":"yes")", "stream"},
      {R"(,"user":5)", "user"},
      {R"(,"timeout_ms":0)", "timeout_ms"},
  };
  for (const auto& [more, param] : cases) BOOST_TEST(refused(more) == param, more);
}

BOOST_AUTO_TEST_CASE(contradictions_are_refused) {
  BOOST_TEST(refused(R"(,"max_tokens":5,"max_completion_tokens":6)") == "max_completion_tokens");
  BOOST_TEST(chat(R"(,"max_tokens":5,"max_completion_tokens":5)").max_tokens.value() == 5U);
  BOOST_TEST(refused(R"(,"top_logprobs":2)") == "top_logprobs");
  BOOST_TEST(refused(R"(,"logprobs":false,"top_logprobs":2)") == "top_logprobs");
  BOOST_TEST(refused(R"(,"stream_options":{"include_usage":true})") == "stream_options");
  BOOST_TEST(refused(R"(,"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})") ==
             "chat_template_kwargs");
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
  BOOST_TEST(text("\"abc\"")->prompt.value() == "abc");
  BOOST_TEST(text("[\"abc\"]")->prompt.value() == "abc");
  BOOST_TEST(text("[1,299]")->prompt_tokens.size() == 2U);
  BOOST_TEST(text("[[1,299]]")->prompt_tokens.size() == 2U);
  for (const char* prompt : {"\"\"", "[]", "[[]]", "[300]", "[-1]", "[1.5]", "[\"a\",\"b\"]", "[1,\"a\"]",
                             "5", "{}", "[[1],[2]]", "[[[1]]]"}) {
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

BOOST_AUTO_TEST_CASE(missing_prompts) {
  BOOST_TEST(parse_completion("{}", completion_kind::chat, limits()).error().param == "messages");
  BOOST_TEST(parse_completion("{}", completion_kind::text, limits()).error().param == "prompt");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
