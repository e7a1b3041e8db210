#include "net/anthropic/message_events.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <utility>

#include "net/jobs/job_execution.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::steady_time;
using namespace std::chrono_literals;

const test::letter_tokenizer letters;
const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";

struct options {
  bool stream = true;
  bool omit = false;
  std::vector<std::string> stop{};
  bool parallel = true;
};

struct fixture {
  explicit fixture(const options& o = {}) : job({}, engine::token_stream(letters, {}), make(o)) {
    job.started(1, {});
  }
  std::unique_ptr<job_output> make(const options& o) {
    identity.id = "msg_1";
    identity.model = "m";
    identity.prompt_tokens = 9;
    identity.omit_reasoning = o.omit;
    identity.calls = engine::call_format::hermes;
    reader_options reader;
    reader.format = {engine::call_format::hermes, true};
    reader.stop = o.stop;
    reader.parallel = o.parallel;
    auto writer = o.stream ? make_event_writer(identity) : make_block_collector(identity, message);
    return make_message_output(std::move(writer), letters, reader);
  }
  void run(std::string_view text, engine::finish_reason reason = engine::finish_reason::stop) {
    for (const char c : text) job.token(static_cast<unsigned char>(c));
    engine::end_event event;
    event.reason = reason;
    event.stats.tokens_in = 9;
    event.stats.tokens_cached = 4;
    event.stats.tokens_out = static_cast<std::uint32_t>(text.size());
    job.ended(event, steady_time{1h});
  }
  /// The events so far; each must have the name that its data has.
  std::vector<json::object> events() {
    std::vector<json::object> list;
    const std::string text = job.take_output(steady_time{1h});
    for (std::size_t at = 0; at < text.size();) {
      const auto line = text.find("\ndata: ", at);
      const auto end = text.find("\n\n", at);
      BOOST_TEST_REQUIRE(text.substr(at, 7) == "event: ");
      list.push_back(json::parse(text.substr(line + 7, end - line - 7)).as_object());
      BOOST_TEST(std::string_view(list.back().at("type").as_string()) == text.substr(at + 7, line - at - 7));
      at = end + 2;
    }
    return list;
  }

  message_identity identity;
  whole_message message;
  job_execution job;
};

/// The events' types, with the index of a block and the type of a delta; equal neighbours count once.
std::string order(const std::vector<json::object>& events) {
  std::string out, last;
  for (const auto& event : events) {
    std::string one(event.at("type").as_string());
    if (one == "content_block_delta") one = std::string(event.at("delta").at("type").as_string());
    if (one == "content_block_start") one = std::string(event.at("content_block").at("type").as_string());
    if (one == "content_block_stop") one = "stop";
    if (event.contains("index")) one += std::to_string(event.at("index").as_int64());
    if (one != last) out += (out.empty() ? "" : " ") + one;
    last = one;
  }
  return out;
}

BOOST_AUTO_TEST_SUITE(message_events)

BOOST_AUTO_TEST_CASE(a_stream_of_thoughts_text_and_calls) {
  fixture f;
  f.run("<think>hm</think>See:" + call + call);
  const auto events = f.events();
  BOOST_TEST(
      order(events) ==
      "message_start ping thinking0 thinking_delta0 signature_delta0 stop0 text1 text_delta1 stop1 "
      "tool_use2 input_json_delta2 stop2 tool_use3 input_json_delta3 stop3 message_delta message_stop");
  BOOST_TEST(json::serialize(events.front()) ==
             R"({"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant",)"
             R"("model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,)"
             R"("cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,)"
             R"("output_tokens_details":{"thinking_tokens":0}}}})");
  BOOST_TEST(json::serialize(events[events.size() - 2]) ==
             R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},)"
             R"("usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,)"
             R"("output_tokens":139,"output_tokens_details":{"thinking_tokens":11}}})");
  std::string arguments, text, thoughts;
  for (const auto& event : events) {
    if (event.at("type") != "content_block_delta") continue;
    const auto& delta = event.at("delta").as_object();
    if (event.at("index") == 2) arguments += delta.at("partial_json").as_string();
    if (event.at("index") == 1) text += delta.at("text").as_string();
    if (delta.contains("thinking")) thoughts += delta.at("thinking").as_string();
  }
  BOOST_TEST(arguments == "{\"a\": 1}");
  BOOST_TEST(text == "See:");
  BOOST_TEST(thoughts == "hm");
}

BOOST_AUTO_TEST_CASE(the_whole_message_says_what_the_stream_says) {
  fixture f({.stream = false});
  f.run("<think>hm</think>See:" + call);
  const auto message = json::parse(render_message(f.identity, f.message)).as_object();
  auto content = message.at("content").as_array();
  BOOST_TEST(std::string_view(content.at(2).at("id").as_string()).starts_with("toolu_"));
  content.at(2).as_object()["id"] = "toolu_1";
  BOOST_TEST(json::serialize(content) ==
             R"([{"type":"thinking","thinking":"hm","signature":"unsigned"},{"type":"text","text":"See:"},)"
             R"({"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}])");
  BOOST_TEST(message.at("stop_reason") == "tool_use");
  BOOST_TEST(message.at("stop_sequence").is_null());
  BOOST_TEST(message.at("usage").at("cache_read_input_tokens") == 4);
}

BOOST_AUTO_TEST_CASE(every_reason_to_stop) {
  const auto reason = [](const options& o, std::string_view text, engine::finish_reason how) {
    fixture f(o);
    f.run(text, how);
    const auto events = f.events();
    return json::serialize(events[events.size() - 2].at("delta"));
  };
  using engine::finish_reason;
  BOOST_TEST(reason({}, "a", finish_reason::stop) == R"({"stop_reason":"end_turn","stop_sequence":null})");
  BOOST_TEST(reason({}, "a", finish_reason::length) ==
             R"({"stop_reason":"max_tokens","stop_sequence":null})");
  BOOST_TEST(reason({.stop = {"x", "cd"}}, "abcde", finish_reason::length) ==
             R"({"stop_reason":"stop_sequence","stop_sequence":"cd"})");
  // Cut off within a call: the call is not to be made.
  BOOST_TEST(reason({}, call.substr(0, 50), finish_reason::length) ==
             R"({"stop_reason":"max_tokens","stop_sequence":null})");
  BOOST_TEST(reason({.parallel = false}, call + call, finish_reason::length) ==
             R"({"stop_reason":"tool_use","stop_sequence":null})");
}

BOOST_AUTO_TEST_CASE(a_call_that_is_cut_off_looks_like_none_that_is_whole) {
  // Up to within the arguments, up to before them, up to within the mark.
  const std::pair<std::size_t, const char*> cuts[] = {
      {call.find("1}}"), R"({"INVALID_JSON":"{\"a\": "})"}, {call.find("{\"a\""), nullptr}, {6, nullptr}};
  for (const auto& [size, input] : cuts) {
    fixture whole({.stream = false}), stream;
    whole.run("So " + call.substr(0, size), engine::finish_reason::length);
    stream.run("So " + call.substr(0, size), engine::finish_reason::length);
    const auto message = json::parse(render_message(whole.identity, whole.message)).as_object();
    BOOST_TEST(message.at("stop_reason") == "max_tokens");
    const auto& content = message.at("content").as_array();
    BOOST_TEST_REQUIRE(content.size() == (input == nullptr ? 1U : 2U));
    BOOST_TEST(content[0].at("text").as_string().starts_with("So"));
    BOOST_TEST(content[0].at("text").as_string().find('<') == std::string_view::npos);
    if (input != nullptr) BOOST_TEST(json::serialize(content[1].at("input")) == input);
    std::string arguments;
    for (const auto& event : stream.events()) {
      const auto* delta = event.if_contains("delta");
      const auto* part = delta != nullptr ? delta->as_object().if_contains("partial_json") : nullptr;
      if (part != nullptr) arguments += part->as_string();
    }
    BOOST_TEST(arguments == (input == nullptr ? "" : "{\"a\": "));
  }
}

BOOST_AUTO_TEST_CASE(omitted_thoughts_leave_an_empty_block) {
  fixture f({.omit = true});
  f.run("<think>hm</think>a");
  BOOST_TEST(order(f.events()) ==
             "message_start ping thinking0 signature_delta0 stop0 text1 text_delta1 stop1 message_delta "
             "message_stop");
}

BOOST_AUTO_TEST_CASE(an_output_of_nothing_has_no_block) {
  fixture f;
  f.run("");
  BOOST_TEST(order(f.events()) == "message_start ping message_delta message_stop");
}

BOOST_AUTO_TEST_CASE(a_stream_that_fails_ends_with_an_error) {
  fixture f;
  f.job.token('a');
  engine::error_event event;
  event.failure = engine::error(engine::errc::draining, "because");
  f.job.ended(event, steady_time{1h});
  const auto events = f.events();
  BOOST_TEST(json::serialize(events.back()) ==
             R"({"type":"error","error":{"type":"overloaded_error","message":"because"}})");
}

BOOST_AUTO_TEST_CASE(silence_is_broken_by_pings) {
  fixture f;
  f.events();
  f.job.tick(steady_time{2h});
  BOOST_TEST(order(f.events()) == "ping");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
