#include "net/ollama/ollama_answer.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <utility>
#include <vector>

#include "net/jobs/job_execution.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::steady_time;
using namespace std::chrono_literals;

const test::letter_tokenizer line_letters;
const std::string hermes_call = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 0.10}}</tool_call>";

struct line_options {
  bool stream = true;
  ollama_use use = ollama_use::chat;
  bool logprobs = false;
};

struct answer_of_lines {
  explicit answer_of_lines(const line_options& o = {})
      : job({}, engine::token_stream(line_letters, {}), make(o)) {
    job.started(1, {});
  }
  std::unique_ptr<job_output> make(const line_options& o) {
    identity = {o.use, "chat-1", "m", "2026-01-02T03:04:05.678Z", engine::call_format::hermes, o.logprobs};
    reader_options reader;
    reader.format = {engine::call_format::hermes, true};
    auto writer =
        o.stream ? make_line_writer(identity, line_letters) : make_ollama_collector(identity, message);
    return make_message_output(std::move(writer), line_letters, reader);
  }
  void run(std::string_view text, engine::finish_reason reason = engine::finish_reason::stop) {
    for (const char c : text) {
      const engine::token_id id = static_cast<unsigned char>(c);
      const std::vector<engine::token_logprob> told{{id, -0.5F}, {'z', -1.0F}};
      job.token(id, identity.logprobs ? std::span(told) : std::span<const engine::token_logprob>());
    }
    engine::end_event event;
    event.reason = reason;
    event.stats = {.tokens_in = 9, .tokens_out = 3, .queue_ms = 1, .prefill_ms = 2, .decode_ms = 4.5};
    job.ended(event, steady_time{1h});
  }
  std::vector<json::object> lines() {
    std::vector<json::object> list;
    const std::string text = job.take_output(steady_time{1h});
    for (std::size_t at = 0; at < text.size();) {
      const auto end = text.find('\n', at);
      BOOST_TEST_REQUIRE(end != std::string::npos);
      list.push_back(json::parse(text.substr(at, end - at)).as_object());
      at = end + 1;
    }
    return list;
  }
  json::object whole() {
    BOOST_TEST(job.take_output(steady_time{1h}) == "");
    return json::parse(render_ollama(identity, message, line_letters)).as_object();
  }

  ollama_identity identity;
  whole_message message;
  job_execution job;
};

/// What a stream's lines are together.
json::object joined_lines(const std::vector<json::object>& lines) {
  json::object out = lines.back();
  json::object message{{"role", "assistant"}, {"content", ""}};
  std::string content, thinking;
  json::array calls, logprobs;
  for (const auto& line : lines) {
    const auto& part = line.at("message").as_object();
    content += part.at("content").as_string();
    if (const auto* more = part.if_contains("thinking")) thinking += more->as_string();
    if (const auto* more = part.if_contains("tool_calls")) {
      for (const auto& one : more->as_array()) calls.push_back(one);
    }
    if (const auto* more = line.if_contains("logprobs")) {
      for (const auto& one : more->as_array()) logprobs.push_back(one);
    }
  }
  message["content"] = content;
  if (!thinking.empty()) message["thinking"] = thinking;
  if (!calls.empty()) message["tool_calls"] = calls;
  out["message"] = message;
  if (!logprobs.empty()) out["logprobs"] = logprobs;
  return out;
}

BOOST_AUTO_TEST_SUITE(ollama_answers)

BOOST_AUTO_TEST_CASE(a_line_for_each_part_and_a_last_one_with_the_figures) {
  answer_of_lines f;
  f.run("ab");
  const auto lines = f.lines();
  BOOST_TEST_REQUIRE(lines.size() == 3U);
  BOOST_TEST(json::serialize(lines[0]) == R"({"model":"m","created_at":"2026-01-02T03:04:05.678Z",)"
                                          R"("message":{"role":"assistant","content":"a"},"done":false})");
  BOOST_TEST(json::serialize(lines[2]) ==
             R"({"model":"m","created_at":"2026-01-02T03:04:05.678Z",)"
             R"("message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",)"
             R"("total_duration":7500000,"load_duration":0,"prompt_eval_count":9,)"
             R"("prompt_eval_duration":2000000,"eval_count":3,"eval_duration":4500000})");
}

BOOST_AUTO_TEST_CASE(a_stream_says_what_a_whole_answer_says) {
  for (const std::string& text :
       {std::string("<think>hm</think>See:") + hermes_call + hermes_call, std::string("abc"), hermes_call,
        hermes_call.substr(0, hermes_call.size() - 20)}) {
    for (const auto reason : {engine::finish_reason::stop, engine::finish_reason::length}) {
      for (const bool logprobs : {false, true}) {
        answer_of_lines streamed({true, ollama_use::chat, logprobs}),
            whole({false, ollama_use::chat, logprobs});
        streamed.run(text, reason);
        whole.run(text, reason);
        BOOST_TEST((joined_lines(streamed.lines()) == whole.whole()), text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(calls_have_their_arguments_as_an_object_and_verbatim) {
  answer_of_lines f({false});
  f.run("<think>hm</think>See:" + hermes_call + hermes_call);
  const std::string text = render_ollama(f.identity, f.message, line_letters);
  const auto message = f.whole().at("message").as_object();
  BOOST_TEST((message.at("thinking") == "hm" && message.at("content") == "See:"));
  const auto& calls = message.at("tool_calls").as_array();
  BOOST_TEST_REQUIRE(calls.size() == 2U);
  BOOST_TEST(calls[0].at("id").as_string().starts_with("call_"));
  BOOST_TEST((calls[0].at("id") != calls[1].at("id")));
  BOOST_TEST(json::serialize(calls[1].at("function")).starts_with(R"({"index":1,"name":"f")"));
  BOOST_TEST(text.find(R"("arguments":{"a": 0.10})") != std::string::npos, text);
}

// httpx splits lines as Python does, at U+2028 too; a model may write line ends between the parts of a call.
BOOST_AUTO_TEST_CASE(a_line_has_no_other_line_end_in_it) {
  answer_of_lines f;
  f.run("a\xE2\x80\xA8\xC2\x85\n<tool_call>{\"name\": \"f\", \"arguments\": {\n \"a\":\r\n 1}}</tool_call>");
  const std::string text = f.job.take_output(steady_time{1h});
  for (const char* end : {"\r", "\xC2\x85", "\xE2\x80\xA8"}) BOOST_TEST(text.find(end) == std::string::npos);
  BOOST_TEST(text.find(R"("content":"\u2028")") != std::string::npos, text);
  BOOST_TEST(text.find(R"("arguments":{  "a":   1})") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(log_probabilities_come_with_their_text) {
  answer_of_lines f({true, ollama_use::chat, true});
  f.run("a");
  BOOST_TEST(json::serialize(f.lines().front().at("logprobs")) ==
             R"([{"token":"a","logprob":-5E-1,"bytes":[97],"top_logprobs":)"
             R"([{"token":"z","logprob":-1,"bytes":[122]}]}])");
}

BOOST_AUTO_TEST_CASE(a_generated_text_stands_in_the_answer_itself) {
  answer_of_lines streamed({true, ollama_use::generate}), whole({false, ollama_use::generate});
  streamed.run("<think>t</think>x", engine::finish_reason::length);
  whole.run("<think>t</think>x", engine::finish_reason::length);
  const auto lines = streamed.lines();
  BOOST_TEST((lines.front().at("response") == "" && lines.front().at("thinking") == "t"));
  BOOST_TEST((lines[1].at("response") == "x" && !lines[1].contains("thinking")));
  const auto answer = whole.whole();
  BOOST_TEST((answer.at("response") == "x" && answer.at("thinking") == "t"));
  BOOST_TEST((answer.at("done_reason") == "length" && !answer.contains("message")));
}

BOOST_AUTO_TEST_CASE(a_failure_is_a_line_and_silence_is_space) {
  answer_of_lines f;
  engine::error why(engine::errc::internal, "so");
  auto writer = make_line_writer(f.identity, line_letters);
  std::string out;
  writer->keep_alive(out);
  writer->failed(out, why);
  BOOST_TEST(out == " {\"error\":\"so\"}\n");
}

BOOST_AUTO_TEST_CASE(a_model_is_loaded_already) {
  answer_of_lines f({false});
  BOOST_TEST(render_loaded(f.identity) == R"({"model":"m","created_at":"2026-01-02T03:04:05.678Z",)"
                                          R"("message":{"role":"assistant","content":""},)"
                                          R"("done":true,"done_reason":"load"})");
  f.identity.use = ollama_use::generate;
  BOOST_TEST(render_loaded(f.identity).find(R"("response":"","done":true)") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
