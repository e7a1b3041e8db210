#include "net/openai/completion_answer.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <utility>

#include "net/jobs/job_group.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::cancel_reason;
using engine::errc;
using engine::steady_time;
using engine::token_logprob;
using namespace std::chrono_literals;

const test::letter_tokenizer letters;
const steady_time begin{1h};
const std::chrono::system_clock::time_point wall{};

struct options {
  completion_kind kind = completion_kind::chat;
  bool stream = true;
  bool usage = false;
  bool running_usage = false;
  bool logprobs = false;
  std::uint32_t choices = 1;
  std::vector<std::string> stop{};
  reader_options reader{};
};

struct fixture {
  explicit fixture(const options& o) : group(make(o)) {}

  job_group make(const options& o) {
    completion_identity identity;
    identity.kind = o.kind;
    identity.id = "c1";
    identity.created = 5;
    identity.model = "m";
    identity.system_fingerprint = "fp";
    identity.stream = o.stream;
    identity.include_usage = o.usage;
    identity.usage_in_chunks = o.running_usage;
    identity.prompt_tokens = {3};
    identity.logprobs = o.logprobs;
    identity.choices = o.choices;
    answer = std::make_shared<completion_answer>(identity);
    std::vector<job_execution> executions;
    for (std::uint32_t i = 0; i < o.choices; ++i) {
      job_execution_config config;
      config.job_id = "c1-" + std::to_string(i);
      config.received_at = begin;
      executions.emplace_back(std::move(config), engine::token_stream(letters, o.stop),
                              make_choice_output(answer, i, letters, o.reader));
    }
    answer_plan plan;
    plan.streams = o.stream;
    plan.closing = [a = answer] { return a->closing(); };
    plan.body = [a = answer] { return a->body(); };
    return {"c1", std::move(executions), std::move(plan)};
  }
  void start() {
    for (auto& execution : group.executions()) execution.started(1, wall);
  }
  void tokens(std::string_view text, std::uint32_t choice = 0, float logprob = 0) {
    for (const char c : text) {
      const auto id = static_cast<engine::token_id>(static_cast<unsigned char>(c));
      const std::vector<token_logprob> list{{id, logprob}, {id, logprob}, {'z', -2.5F}};
      group.executions()[choice].token(
          id, logprob != 0 ? std::span<const token_logprob>(list) : std::span<const token_logprob>());
    }
  }
  void end(std::uint32_t tokens_out, std::uint32_t choice = 0,
           engine::finish_reason reason = engine::finish_reason::length) {
    engine::end_event e;
    e.reason = reason;
    e.stats.tokens_in = 3;
    e.stats.tokens_out = tokens_out;
    group.executions()[choice].ended(e, begin);
  }
  void fail(errc code, std::uint32_t choice = 0) {
    engine::error_event e;
    e.failure = engine::error(code, "because");
    group.executions()[choice].ended(e, begin);
  }
  std::string out() { return group.take_output(begin); }
  /// The frames so far, each parsed but for [DONE].
  std::vector<json::object> frames() {
    std::vector<json::object> list;
    std::string text = out();
    done = text.ends_with("data: [DONE]\n\n");
    for (std::size_t at = 0; (at = text.find("data: {", at)) != std::string::npos;) {
      const auto to = text.find("\n\n", at);
      list.push_back(json::parse(text.substr(at + 6, to - at - 6)).as_object());
      at = to;
    }
    return list;
  }

  std::shared_ptr<completion_answer> answer;
  job_group group;
  bool done = false;
};

const json::object& choice_of(const json::object& chunk) {
  return chunk.at("choices").as_array().at(0).as_object();
}

BOOST_AUTO_TEST_SUITE(completion_answers)

BOOST_AUTO_TEST_CASE(a_chat_stream_from_role_to_done) {
  fixture f({.usage = true});
  f.start();
  f.tokens("hi");
  f.end(2);
  const auto frames = f.frames();
  BOOST_TEST_REQUIRE(frames.size() == 5U);
  BOOST_TEST(f.done);
  BOOST_TEST(f.group.stream_over());
  BOOST_TEST(
      json::serialize(frames[0]) ==
      R"({"id":"c1","object":"chat.completion.chunk","created":5,"model":"m","system_fingerprint":"fp",)"
      R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
      R"("finish_reason":null}],"usage":null})");
  BOOST_TEST(json::serialize(choice_of(frames[1])) ==
             R"({"index":0,"delta":{"content":"h"},"logprobs":null,"finish_reason":null})");
  BOOST_TEST(json::serialize(choice_of(frames[3])) ==
             R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"length"})");
  BOOST_TEST(frames[4].at("choices").as_array().empty());
  BOOST_TEST(
      json::serialize(frames[4].at("usage")) ==
      R"({"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
      R"("prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}})");
}

BOOST_AUTO_TEST_CASE(usage_in_every_chunk_is_that_of_its_choice_so_far) {
  fixture f({.usage = true, .running_usage = true, .choices = 2});
  f.start();
  f.tokens("hi");
  f.tokens("x", 1);
  f.end(2, 0);
  f.end(1, 1);
  std::vector<std::int64_t> told;
  for (const auto& frame : f.frames()) {
    const auto& usage = frame.at("usage").as_object();
    BOOST_TEST(usage.at("prompt_tokens").as_int64() == 3);
    BOOST_TEST(usage.at("total_tokens").as_int64() == 3 + usage.at("completion_tokens").as_int64());
    told.push_back(usage.at("completion_tokens").as_int64());
  }
  // Role, two tokens and the end of choice 0; role, token and end of choice 1; both together.
  BOOST_TEST(told == (std::vector<std::int64_t>{0, 1, 2, 2, 0, 1, 1, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(without_usage_no_chunk_speaks_of_it) {
  fixture f({});
  f.start();
  f.tokens("hi");
  f.end(2);
  for (const auto& frame : f.frames()) BOOST_TEST(!frame.contains("usage"));
  BOOST_TEST(f.done);
}

BOOST_AUTO_TEST_CASE(the_whole_answer_says_what_the_stream_says) {
  fixture f({.stream = false, .choices = 2, .stop = {"!"}});
  f.start();
  f.tokens("one");
  f.tokens("two!x", 1);
  f.end(3);
  f.end(9, 1);
  BOOST_TEST(f.out().empty());
  BOOST_TEST(f.group.stream_over());
  const auto whole = f.group.final_reply();
  BOOST_TEST(whole.status == 200U);
  const auto object = json::parse(whole.body).as_object();
  BOOST_TEST(object.at("object") == "chat.completion");
  BOOST_TEST(json::serialize(object.at("choices")) ==
             R"([{"index":0,"message":{"role":"assistant","content":"one","refusal":null},"logprobs":null,)"
             R"("finish_reason":"length"},{"index":1,"message":{"role":"assistant","content":"two",)"
             R"("refusal":null},"logprobs":null,"finish_reason":"stop"}])");
  BOOST_TEST(object.at("usage").at("completion_tokens") == 7);  // the stop string's token counts
}

BOOST_AUTO_TEST_CASE(the_text_endpoint_has_its_own_form) {
  fixture whole({.kind = completion_kind::text, .stream = false});
  whole.start();
  whole.tokens("x");
  whole.end(1);
  whole.out();
  const auto object = json::parse(whole.group.final_reply().body).as_object();
  BOOST_TEST(object.at("object") == "text_completion");
  BOOST_TEST(json::serialize(object.at("choices")) ==
             R"([{"index":0,"text":"x","logprobs":null,"finish_reason":"length"}])");
  fixture stream({.kind = completion_kind::text});
  stream.start();
  stream.tokens("x");
  stream.end(1);
  const auto frames = stream.frames();
  BOOST_TEST_REQUIRE(frames.size() == 2U);
  BOOST_TEST(choice_of(frames[0]).at("text") == "x");
  BOOST_TEST(choice_of(frames[1]).at("finish_reason") == "length");
}

BOOST_AUTO_TEST_CASE(log_probabilities_of_a_chat) {
  fixture f({.stream = false, .logprobs = true});
  f.start();
  f.tokens("a\xC3\xA9", 0, -0.5F);
  f.end(3);
  f.out();
  const auto object = json::parse(f.group.final_reply().body).as_object();
  const auto& content = choice_of(object).at("logprobs").at("content").as_array();
  BOOST_TEST_REQUIRE(content.size() == 3U);
  BOOST_TEST(json::serialize(content[0]) ==
             R"({"token":"a","logprob":-5E-1,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-5E-1,)"
             R"("bytes":[97]},{"token":"z","logprob":-2.5E0,"bytes":[122]}]})");
  // Half a character is no text; its byte is there.
  BOOST_TEST(content[1].at("token") == "\xEF\xBF\xBD");
  BOOST_TEST(json::serialize(content[1].at("bytes")) == "[195]");
}

BOOST_AUTO_TEST_CASE(log_probabilities_travel_with_their_text) {
  fixture f({.logprobs = true});
  f.start();
  f.tokens("\xC3", 0, -0.5F);
  BOOST_TEST(f.frames().size() == 1U);  // the role
  f.tokens("\xA9", 0, -0.25F);
  const auto frames = f.frames();
  BOOST_TEST_REQUIRE(frames.size() == 1U);
  BOOST_TEST(choice_of(frames[0]).at("delta").at("content") == "\xC3\xA9");
  BOOST_TEST(choice_of(frames[0]).at("logprobs").at("content").as_array().size() == 2U);
}

BOOST_AUTO_TEST_CASE(tokens_of_a_stop_string_have_no_log_probabilities) {
  for (const bool stream : {false, true}) {
    fixture f({.stream = stream, .logprobs = true, .stop = {"cd"}});
    f.start();
    f.tokens("abcd", 0, -0.5F);
    f.end(4);
    std::size_t listed = 0;
    if (stream) {
      for (const auto& frame : f.frames()) {
        const auto* logprobs = choice_of(frame).at("logprobs").if_object();
        if (logprobs != nullptr) listed += logprobs->at("content").as_array().size();
      }
    } else {
      f.out();
      const auto object = json::parse(f.group.final_reply().body).as_object();
      listed = choice_of(object).at("logprobs").at("content").as_array().size();
    }
    BOOST_TEST(listed == 2U);
  }
}

BOOST_AUTO_TEST_CASE(log_probabilities_of_the_text_endpoint) {
  fixture f({.kind = completion_kind::text, .stream = false, .logprobs = true});
  f.start();
  f.tokens("\xC3\xA9y", 0, -0.5F);
  f.end(3);
  f.out();
  const auto object = json::parse(f.group.final_reply().body).as_object();
  BOOST_TEST(
      json::serialize(choice_of(object).at("logprobs")) ==
      R"({"tokens":["bytes:\\xc3","bytes:\\xa9","y"],"token_logprobs":[-5E-1,-5E-1,-5E-1],"top_logprobs":)"
      R"([{"bytes:\\xc3":-5E-1,"z":-2.5E0},{"bytes:\\xa9":-5E-1,"z":-2.5E0},{"y":-5E-1,"z":-2.5E0}],)"
      R"("text_offset":[0,1,1]})");
}

reader_options hermes(std::vector<std::string> stop = {}) {
  reader_options out;
  out.format = {engine::call_format::hermes, true};
  out.stop = std::move(stop);
  return out;
}
const std::string thinks_and_calls =
    "<think>hm</think>\n\nSee:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";

BOOST_AUTO_TEST_CASE(a_whole_answer_of_thoughts_text_and_a_call) {
  fixture f({.stream = false, .reader = hermes()});
  f.start();
  f.tokens(thinks_and_calls);
  f.end(60, 0, engine::finish_reason::stop);
  f.out();
  const auto object = json::parse(f.group.final_reply().body).as_object();
  const auto& choice = choice_of(object);
  const auto& message = choice.at("message").as_object();
  BOOST_TEST(message.at("content") == "See:");
  BOOST_TEST(message.at("reasoning_content") == "hm");
  BOOST_TEST(message.at("reasoning") == "hm");
  const auto& call = message.at("tool_calls").as_array().at(0).as_object();
  BOOST_TEST(std::string_view(call.at("id").as_string()).starts_with("call_"));
  BOOST_TEST(call.at("type") == "function");
  BOOST_TEST(call.at("function").at("name") == "f");
  BOOST_TEST(call.at("function").at("arguments") == "{\"a\": 1}");
  BOOST_TEST(choice.at("finish_reason") == "tool_calls");
  BOOST_TEST(object.at("usage").at("completion_tokens_details").at("reasoning_tokens") == 11);
}

BOOST_AUTO_TEST_CASE(a_stream_of_thoughts_text_and_a_call) {
  fixture f({.reader = hermes()});
  f.start();
  f.tokens(thinks_and_calls);
  f.end(60, 0, engine::finish_reason::stop);
  std::string content, reasoning, name, arguments, finish;
  std::size_t ids = 0;
  for (const auto& frame : f.frames()) {
    const auto& choice = choice_of(frame);
    if (choice.at("finish_reason").is_string()) finish = choice.at("finish_reason").as_string();
    const auto& delta = choice.at("delta").as_object();
    if (const auto* text = delta.if_contains("content")) content += text->as_string();
    if (delta.contains("reasoning_content")) reasoning += delta.at("reasoning").as_string();
    if (!delta.contains("tool_calls")) continue;
    const auto& call = delta.at("tool_calls").as_array().at(0).as_object();
    BOOST_TEST(call.at("index") == 0);
    ids += call.contains("id") && call.contains("type") ? 1U : 0U;
    const auto& function = call.at("function").as_object();
    if (const auto* text = function.if_contains("name")) name += text->as_string();
    arguments += function.at("arguments").as_string();
  }
  BOOST_TEST(content == "See:");
  BOOST_TEST(reasoning == "hm");
  BOOST_TEST(name == "f");
  BOOST_TEST(arguments == "{\"a\": 1}");
  BOOST_TEST(ids == 1U);
  BOOST_TEST(finish == "tool_calls");
  BOOST_TEST(f.done);
}

BOOST_AUTO_TEST_CASE(calls_alone_have_no_content_and_one_that_was_cut_stays_cut) {
  fixture f({.stream = false, .reader = hermes()});
  f.start();
  f.tokens("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": \"x");
  f.end(40);
  f.out();
  const auto object = json::parse(f.group.final_reply().body).as_object();
  const auto& message = choice_of(object).at("message").as_object();
  BOOST_TEST(message.at("content").is_null());
  BOOST_TEST(!message.contains("reasoning_content"));
  const auto& function = message.at("tool_calls").as_array().at(0).at("function");
  BOOST_TEST(function.at("arguments").as_string() == R"({"a": [1, {"b": "x)");
  BOOST_TEST(choice_of(object).at("finish_reason") == "length");
}

BOOST_AUTO_TEST_CASE(a_stop_string_in_the_content_ends_the_job) {
  for (const bool stream : {false, true}) {
    fixture f({.stream = stream, .logprobs = true, .reader = hermes({"cd"})});
    f.start();
    f.tokens("<think>cd</think>abcdef", 0, -0.5F);
    BOOST_TEST((f.group.executions()[0].take_cancel() == cancel_reason::stop_string));
    f.end(30);
    std::string finish;
    std::size_t listed = 0;
    const auto count = [&](const json::object& choice) {
      if (const auto* logprobs = choice.at("logprobs").if_object())
        listed += logprobs->at("content").as_array().size();
      if (choice.at("finish_reason").is_string()) finish = choice.at("finish_reason").as_string();
    };
    if (stream) {
      for (const auto& frame : f.frames()) count(choice_of(frame));
    } else {
      f.out();
      const auto object = json::parse(f.group.final_reply().body).as_object();
      BOOST_TEST(choice_of(object).at("message").at("content") == "ab");
      BOOST_TEST(object.at("usage").at("completion_tokens") == 21);
      count(choice_of(object));
    }
    BOOST_TEST(finish == "stop");
    BOOST_TEST(listed == 19U);
  }
}

BOOST_AUTO_TEST_CASE(choices_end_apart_and_close_together) {
  fixture f({.choices = 2});
  f.start();
  f.tokens("a");
  f.end(1);
  BOOST_TEST(!f.frames().empty());
  BOOST_TEST(!f.done);
  BOOST_TEST(!f.group.job_over());
  f.tokens("b", 1);
  f.end(1, 1);
  f.frames();
  BOOST_TEST(f.done);
  BOOST_TEST(f.group.job_over());
  BOOST_TEST(f.group.completed());
}

BOOST_AUTO_TEST_CASE(a_choice_that_fails_ends_the_others_and_the_stream) {
  fixture f({.choices = 2});
  f.start();
  f.tokens("a");
  f.tokens("b", 1);
  f.fail(errc::vram_oom);
  f.group.tick(begin);
  BOOST_TEST((f.group.executions()[1].take_cancel() == cancel_reason::sibling_failed));
  const std::string text = f.out();
  BOOST_TEST(text.find("[DONE]") == std::string::npos);
  const auto at = text.rfind("data: ");
  const auto last = json::parse(text.substr(at + 6)).as_object();
  BOOST_TEST(last.at("error").at("code") == "VRAM_OOM");
  BOOST_TEST(f.group.stream_over());
  BOOST_TEST(!f.group.job_over());
  f.tokens("more", 1);
  f.fail(errc::cancelled, 1);
  BOOST_TEST(f.out().empty());
  BOOST_TEST(f.group.job_over());
  BOOST_TEST(!f.group.completed());
}

BOOST_AUTO_TEST_CASE(a_whole_answer_that_fails_has_the_status_of_its_failure) {
  fixture f({.stream = false, .choices = 2});
  f.start();
  f.fail(errc::inference_timeout, 1);
  f.group.tick(begin);
  BOOST_TEST((f.group.executions()[0].take_cancel() == cancel_reason::sibling_failed));
  f.out();
  BOOST_TEST(!f.group.stream_over());  // the connection can be kept once the other has ended
  f.fail(errc::cancelled);
  f.out();
  BOOST_TEST(f.group.stream_over());
  BOOST_TEST(f.group.final_reply().status == 504U);
}

BOOST_AUTO_TEST_CASE(a_job_that_does_not_confirm_its_end_is_not_waited_for) {
  for (const bool stream : {false, true}) {
    fixture f({.stream = stream, .choices = 2});
    f.start();
    f.fail(errc::vram_oom);
    f.group.tick(begin);
    f.out();
    BOOST_TEST(!f.group.gave_up());
    f.group.tick(begin + 6s);
    f.out();
    BOOST_TEST(f.group.stream_over());
    BOOST_TEST(f.group.gave_up());
    f.fail(errc::cancelled, 1);
    BOOST_TEST(!f.group.gave_up());
    BOOST_TEST(f.group.job_over());
  }
}

BOOST_AUTO_TEST_CASE(a_cancel_reaches_every_choice_and_the_first_reason_is_told) {
  fixture f({.stream = false, .choices = 2});
  f.start();
  f.group.cancel(cancel_reason::client_cancel, begin);
  for (auto& execution : f.group.executions())
    BOOST_TEST((execution.take_cancel() == cancel_reason::client_cancel));
  f.fail(errc::cancelled, 1);
  f.fail(errc::cancelled, 0);
  f.group.tick(begin);
  f.out();
  BOOST_TEST(f.group.final_reply().status == 499U);
}

BOOST_AUTO_TEST_CASE(a_client_that_left_gets_nothing_more) {
  fixture f({});
  f.start();
  f.tokens("abc");
  f.group.client_gone(begin);
  BOOST_TEST(f.out().empty());
  f.tokens("def");
  f.fail(errc::cancelled);
  BOOST_TEST((f.group.executions()[0].result() == outcome::disconnected));
}

BOOST_AUTO_TEST_CASE(silence_is_kept_alive_in_a_stream_only) {
  fixture stream({});
  stream.group.tick(begin + 16s);
  BOOST_TEST(stream.out() == ": keep-alive\n\n");
  fixture whole({.stream = false});
  whole.group.tick(begin + 16s);
  BOOST_TEST(whole.out().empty());
}

BOOST_AUTO_TEST_CASE(jobs_that_fail_together_tell_of_one_failure) {
  fixture f({.choices = 3});
  f.start();
  f.tokens("ab", 1);
  for (const std::uint32_t choice : {2U, 0U, 1U}) f.fail(errc::cancelled, choice);
  const auto frames = f.frames();
  const auto errors =
      std::count_if(frames.begin(), frames.end(), [](const auto& f) { return f.contains("error"); });
  BOOST_TEST(errors == 1);
  BOOST_TEST(frames.back().contains("error"));
  BOOST_TEST(frames.size() == 3U + 2U + 1U);
  BOOST_TEST(!f.done);
  BOOST_TEST(f.group.stream_over());
  BOOST_TEST(f.out().empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
