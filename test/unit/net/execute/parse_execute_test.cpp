#include "net/execute/parse_execute.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "net/execute/parse_cancel.hpp"
#include "net/jobs/job_checks.hpp"

namespace orcd::net {
namespace {

using engine::errc;

request_limits limits() {
  request_limits l;
  l.context_tokens = 1'000;
  return l;
}

std::string body(const std::string& more) {
  return R"({"job_id":"j","prompt":"p")" + more + "}";
}

engine::error refusal(const std::string& text) {
  const auto parsed = parse_execute(text, limits());
  BOOST_TEST_REQUIRE(!parsed.has_value(), text << " was accepted");
  BOOST_TEST((parsed.error().code == errc::invalid_request));
  return parsed.error();
}

bool mentions(const engine::error& e, std::string_view what) {
  return e.message.find(what) != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(parse_execute_body)

BOOST_AUTO_TEST_CASE(the_example_of_the_seed) {
  const auto r = parse_execute(
      R"({"job_id":"job-xyz","prompt":"Write a haiku","max_tokens":100,"temperature":0.7,"seed":42})",
      limits());
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_TEST(r->job_id == "job-xyz");
  BOOST_TEST(r->prompt == "Write a haiku");
  BOOST_TEST(r->max_tokens.value() == 100U);
  BOOST_TEST(r->sampling.temperature == 0.7F);
  BOOST_TEST(r->seed.value() == 42U);
}

BOOST_AUTO_TEST_CASE(only_what_is_required) {
  const auto r = parse_execute(body(""), limits());
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_TEST(!r->max_tokens.has_value());
  BOOST_TEST(!r->seed.has_value());
  BOOST_TEST(r->sampling.temperature == 1.0F);
  BOOST_TEST(r->parse_special);
  BOOST_TEST(!r->ignore_eos);
  BOOST_TEST(r->cache.enabled);
  BOOST_TEST(r->cache.salt == "");
  BOOST_TEST(r->cache.session == "");
}

BOOST_AUTO_TEST_CASE(what_a_job_takes_from_the_prefix_cache) {
  const std::string longest(256, 's');
  const auto r = parse_execute(
      body(R"(,"cache_prompt":false,"cache_salt":"tenant","imc_id":")" + longest + "\""), limits());
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_TEST(!r->cache.enabled);
  BOOST_TEST(r->cache.salt == "tenant");
  BOOST_TEST(r->cache.session == longest);
  const auto refused = parse_execute(body(R"(,"imc_id":"s)" + longest + "\""), limits());
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().param == "imc_id");
  BOOST_TEST(refused.error().message == "'imc_id' must have 1 to 256 bytes, it has 257");
}

BOOST_AUTO_TEST_CASE(every_field_at_the_ends_of_its_range) {
  const auto low =
      parse_execute(body(R"(,"max_tokens":1,"temperature":0,"seed":0,"top_k":0,"top_p":0.01,"min_p":0,)"
                         R"("repetition_penalty":0.1,)"
                         R"("presence_penalty":-2,"frequency_penalty":-2.0,"repeat_last_n":0,"stop":[],)"
                         R"("parse_special":false,)"
                         R"("ignore_eos":true,"metrics":true,"timeout_ms":1)"),
                    limits());
  BOOST_TEST_REQUIRE(low.has_value());
  BOOST_TEST(low->ignore_eos);
  BOOST_TEST(low->metrics);
  BOOST_TEST(!low->parse_special);
  BOOST_TEST(low->timeout->count() == 1);
  BOOST_TEST(low->sampling.presence_penalty == -2.0F);
  const auto high = parse_execute(
      body(R"(,"max_tokens":2048,"temperature":2,"seed":18446744073709551615,"top_k":1000000,"top_p":1,)"
           R"("min_p":1,"repetition_penalty":2,"presence_penalty":2,"frequency_penalty":2,)"
           R"("repeat_last_n":4096,"stop":"x",)"
           R"("timeout_ms":300000)"),
      limits());
  BOOST_TEST_REQUIRE(high.has_value());
  BOOST_TEST(high->seed.value() == std::numeric_limits<std::uint64_t>::max());
  BOOST_TEST(high->sampling.repeat_last_n == 4096U);
  BOOST_TEST(high->stop.size() == 1U);
}

BOOST_AUTO_TEST_CASE(out_of_range_names_field_limit_and_value) {
  const auto e = refusal(body(R"(,"max_tokens":2049)"));
  BOOST_TEST(e.param == "max_tokens");
  BOOST_TEST(mentions(e, "2048"));
  BOOST_TEST(mentions(e, "2049"));
  const auto t = refusal(body(R"(,"temperature":2.5)"));
  BOOST_TEST(t.message == "'temperature' must be a number from 0 to 2, it is 2.5");
}

BOOST_AUTO_TEST_CASE(wrong_values_are_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {{"max_tokens", "0"},
                                                       {"max_tokens", "-1"},
                                                       {"max_tokens", "9223372036854775808"},
                                                       {"max_tokens", "1.5"},
                                                       {"max_tokens", "100.5"},
                                                       {"max_tokens", "\"5\""},
                                                       {"max_tokens", "true"},
                                                       {"max_tokens", "[5]"},
                                                       {"max_tokens", "{}"},
                                                       {"seed", "-1"},
                                                       {"seed", "18446744073709551616"},
                                                       {"seed", "1.5"},
                                                       {"seed", "\"a\""},
                                                       {"temperature", "-0.1"},
                                                       {"temperature", "1e999"},
                                                       {"temperature", "-1e999"},
                                                       {"temperature", "\"hot\""},
                                                       {"temperature", "[]"},
                                                       {"top_k", "-1"},
                                                       {"top_k", "1000001"},
                                                       {"top_p", "0"},
                                                       {"top_p", "1e-60"},
                                                       {"top_p", "1.01"},
                                                       {"min_p", "-0.5"},
                                                       {"min_p", "1.5"},
                                                       {"repetition_penalty", "0"},
                                                       {"repetition_penalty", "2.1"},
                                                       {"presence_penalty", "-2.1"},
                                                       {"frequency_penalty", "2.1"},
                                                       {"repeat_last_n", "4097"},
                                                       {"stop", "\"\""},
                                                       {"stop", "[\"\"]"},
                                                       {"stop", "[1]"},
                                                       {"stop", "[[\"a\"]]"},
                                                       {"stop", "{\"a\":1}"},
                                                       {"stop", "5"},
                                                       {"parse_special", "1"},
                                                       {"ignore_eos", "\"true\""},
                                                       {"metrics", "[]"},
                                                       {"timeout_ms", "0"},
                                                       {"timeout_ms", "300001"}};
  for (const auto& [field, value] : cases) {
    const auto e = refusal(body(std::string(",\"") + field + "\":" + value));
    BOOST_TEST(e.param == field, field << " " << value << ": " << e.message);
    BOOST_TEST(mentions(e, field));
  }
}

BOOST_AUTO_TEST_CASE(a_real_number_is_shown_as_one_where_an_integer_is_due) {
  BOOST_TEST(mentions(refusal(body(R"(,"seed":1e18)")), "it is 1e+18"));
  BOOST_TEST(mentions(refusal(body(R"(,"max_tokens":-2e0)")), "it is -2.0"));
}

BOOST_AUTO_TEST_CASE(missing_empty_and_mistyped_job_id_and_prompt) {
  BOOST_TEST(refusal(R"({"prompt":"p"})").param == "job_id");
  BOOST_TEST(refusal(R"({"job_id":"j"})").param == "prompt");
  BOOST_TEST(refusal("{}").param == "job_id");
  BOOST_TEST(refusal(R"({"job_id":"","prompt":"p"})").param == "job_id");
  BOOST_TEST(refusal(R"({"job_id":"j","prompt":""})").param == "prompt");
  BOOST_TEST(refusal(R"({"job_id":null,"prompt":"p"})").param == "job_id");
  BOOST_TEST(refusal(R"({"job_id":7,"prompt":"p"})").param == "job_id");
  BOOST_TEST(refusal(R"({"job_id":"j","prompt":["a"]})").param == "prompt");
  BOOST_TEST(refusal(R"({"job_id":"a\nb","prompt":"p"})").param == "job_id");
  BOOST_TEST(refusal(R"({"job_id":")" + std::string(257, 'a') + R"(","prompt":"p"})").param == "job_id");
  BOOST_TEST(
      parse_execute(R"({"job_id":")" + std::string(256, 'a') + R"(","prompt":"p"})", limits()).has_value());
}

BOOST_AUTO_TEST_CASE(null_means_absent_for_optional_fields) {
  const auto r =
      parse_execute(body(R"(,"seed":null,"stop":null,"temperature":null,"metrics":null)"), limits());
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_TEST(!r->seed.has_value());
}

BOOST_AUTO_TEST_CASE(unknown_and_repeated_fields) {
  const auto unknown = refusal(body(R"(,"logit_bias":{})"));
  BOOST_TEST(unknown.param == "logit_bias");
  BOOST_TEST(mentions(refusal(body(R"(,"seed":1,"seed":2)")), "twice"));
  BOOST_TEST(mentions(refusal(body(R"(,"seed":null,"seed":2)")), "twice"));
  BOOST_TEST(mentions(refusal(body(R"(,"job_id":"k")")), "twice"));
  // An escaped name is the same name.
  BOOST_TEST(mentions(refusal(body(R"(,"\u0073eed":1,"seed":2)")), "twice"));
}

BOOST_AUTO_TEST_CASE(a_long_unknown_name_is_cut_between_code_points) {
  const auto e = refusal(body(",\"" + std::string(63, 'a') + "\xC3\xA9tail\":1"));
  BOOST_TEST(e.param == std::string(63, 'a') + "...");
}

BOOST_AUTO_TEST_CASE(prompt_length_counts_code_points) {
  auto l = limits();
  l.prompt_chars_max = 3;
  BOOST_TEST(parse_execute(R"({"job_id":"j","prompt":"äöü"})", l).has_value());
  const auto longer = parse_execute(R"({"job_id":"j","prompt":"äöüx"})", l);
  BOOST_TEST_REQUIRE(!longer.has_value());
  BOOST_TEST(longer.error().message == "'prompt' may have 3 characters, it has 4");
}

BOOST_AUTO_TEST_CASE(not_json_or_not_an_object) {
  const std::string cases[] = {"",
                               " ",
                               "{",
                               "[",
                               "null",
                               "\"x\"",
                               "5",
                               "[]",
                               "[{}]",
                               "{}{}",
                               "{\"job_id\"}",
                               body("") + "x",
                               "{'job_id':1}",
                               "NaN",
                               body(",\"temperature\":NaN"),
                               body(",\"seed\":01"),
                               body(",\"seed\":+1"),
                               body(","),
                               "\xEF\xBB\xBF{}",
                               std::string(100'000, '['),
                               std::string(100'000, '{'),
                               R"({"job_id":)" + std::string(100'000, '[')};
  for (const auto& text : cases) refusal(text);
}

BOOST_AUTO_TEST_CASE(text_must_be_valid_unicode) {
  BOOST_TEST(parse_execute(R"({"job_id":"j","prompt":"\ud83d\ude00"})", limits())->prompt ==
             "\xF0\x9F\x98\x80");
  refusal(R"({"job_id":"j","prompt":"\ud83d"})");
  refusal(R"({"job_id":"j","prompt":"\ude00"})");
  refusal(R"({"job_id":"j","prompt":"\ude00\ud83d"})");
  refusal("{\"job_id\":\"j\",\"prompt\":\"\xFF\"}");
  refusal("{\"job_id\":\"j\",\"prompt\":\"\xC0\xAF\"}");
  refusal("{\"job_id\":\"j\",\"prompt\":\"\xED\xA0\x80\"}");
  refusal("{\"job_id\":\"j\",\"prompt\":\"\xF4\x90\x80\x80\"}");
  refusal("{\"job_id\":\"j\",\"prompt\":\"a\nb\"}");
  BOOST_TEST(parse_execute(R"({"job_id":"j","prompt":"\u0000"})", limits())->prompt.size() == 1U);
}

BOOST_AUTO_TEST_CASE(stop_strings_are_bounded) {
  std::string many = ",\"stop\":[\"a\"";
  for (int i = 0; i < 15; ++i) many += ",\"a\"";
  BOOST_TEST(parse_execute(body(many + "]"), limits())->stop.size() == 16U);
  BOOST_TEST(mentions(refusal(body(many + ",\"a\"]")), "16"));
  BOOST_TEST(mentions(refusal(body(",\"stop\":\"" + std::string(257, 's') + "\"")), "256"));
}

BOOST_AUTO_TEST_CASE(fit_names_the_counts) {
  auto l = limits();
  execute_request r;
  BOOST_TEST(fit_to_context(r.max_tokens, 1, l).value() == 1'000U);
  BOOST_TEST(fit_to_context(r.max_tokens, 1'000, l).value() == 1U);
  const auto longer = fit_to_context(r.max_tokens, 1'001, l);
  BOOST_TEST((longer.error().code == errc::context_length_exceeded));
  BOOST_TEST(mentions(longer.error(), "1001"));
  BOOST_TEST(mentions(longer.error(), "1000"));
  r.max_tokens = 11;
  BOOST_TEST(fit_to_context(r.max_tokens, 990, l).value() == 11U);
  const auto together = fit_to_context(r.max_tokens, 991, l);
  BOOST_TEST((together.error().code == errc::context_length_exceeded));
  BOOST_TEST(mentions(together.error(), "1001 positions"));
  l.tokens_in_max = 5;
  BOOST_TEST(mentions(fit_to_context(r.max_tokens, 6, l).error(), "limit is 5"));
  l.tokens_out_max = 7;
  r.max_tokens.reset();
  BOOST_TEST(fit_to_context(r.max_tokens, 5, l).value() == 7U);
  BOOST_TEST(!fit_to_context(r.max_tokens, 0, l).has_value());
}

BOOST_AUTO_TEST_CASE(an_upper_bound_is_what_fits) {
  auto l = limits();
  l.tokens_out_is_bound = true;
  const length_fields fields{"messages", "max_tokens", maximum_context_length};
  const auto fit = [&](std::optional<std::uint32_t> most, std::size_t prompt) {
    return fit_to_context(most, prompt, l, fields);
  };
  BOOST_TEST(fit(11U, 990).value() == 11U);
  BOOST_TEST(fit(12U, 990).value() == 11U);
  BOOST_TEST(fit(2'000'000'000U, 1'000).value() == 1U);
  BOOST_TEST(fit(0U, 1'000).value() == 0U);
  l.tokens_out_max = 7;
  BOOST_TEST(fit(11U, 990).value() == 7U);
  BOOST_TEST(fit({}, 990).value() == 7U);
  const auto longer = fit({}, 1'001);
  BOOST_TEST_REQUIRE(longer.has_error());
  BOOST_TEST((longer.error().code == errc::context_length_exceeded));
  BOOST_TEST(longer.error().param == "messages");
  BOOST_TEST(longer.error().message ==
             "This model's maximum context length is 1000 tokens. However, your messages resulted in 1001 "
             "tokens. Please reduce the length of the messages.");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(parse_cancel_body)

BOOST_AUTO_TEST_CASE(only_a_job_id) {
  BOOST_TEST(parse_cancel(R"({"job_id":"a b"})").value() == "a b");
  for (const char* bad :
       {"", "{}", "[]", R"({"job_id":""})", R"({"job_id":1})", R"({"job_id":null})", R"({"job_id":["a"]})",
        R"({"job_id":"a","x":1})", R"({"job_id":"a","job_id":"b"})", R"({"job_id":"a\u0007"})"}) {
    BOOST_TEST(!parse_cancel(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(shutdown_takes_nothing) {
  BOOST_TEST(parse_shutdown("").has_value());
  BOOST_TEST(parse_shutdown(" \r\n").has_value());
  BOOST_TEST(parse_shutdown("{}").has_value());
  BOOST_TEST(!parse_shutdown(R"({"job_id":"a"})").has_value());
  BOOST_TEST(!parse_shutdown("now").has_value());
}

BOOST_AUTO_TEST_CASE(adapters_are_read_as_everywhere) {
  const auto taken = parse_execute(body(R"(,"lora":[{"id":3,"scale":-0.5},{"id":0,"scale":0}])"), limits());
  BOOST_TEST_REQUIRE(taken.has_value());
  BOOST_TEST_REQUIRE(taken->lora.has_value());
  BOOST_TEST(taken->lora->size() == 2U);
  BOOST_TEST(taken->lora->front().id == 3U);
  BOOST_TEST(taken->lora->front().scale == -0.5F);
  BOOST_TEST(!parse_execute(body(R"(,"lora":null)"), limits())->lora.has_value());
  BOOST_TEST(parse_execute(body(R"(,"lora":[])"), limits())->lora->empty());
  for (const auto& [more, param] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"(,"lora":"a")", "lora"},
           {R"(,"lora":{})", "lora"},
           {R"(,"lora":[[0,1]])", "lora[0]"},
           {R"(,"lora":[{"id":0,"scale":"1"}])", "lora[0].scale"},
           {R"(,"lora":[],"lora":[])", "lora"}}) {
    const auto refused = parse_execute(body(more), limits());
    BOOST_TEST_REQUIRE(refused.has_error(), more);
    BOOST_TEST(refused.error().param == param, more);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
