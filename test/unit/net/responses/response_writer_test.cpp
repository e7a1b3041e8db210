// Whole answers: the events of streams, and the objects of answers that are none.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "net/responses/response_answer.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::output_delta;
using kind = output_delta::kind;

const test::letter_tokenizer letters;

struct answered {
  explicit answered(bool stream = true, bool logprobs = false, bool timings = false) {
    auto notes = std::make_shared<response_notes>();
    notes->names["f"] = {"f", "", false};
    notes->names["n__g"] = {"g", "n", false};
    notes->names["patch"] = {"patch", "", true};
    notes->seals_reasoning = true;
    notes->logprobs = logprobs;
    notes->timings = timings;
    response_identity identity;
    identity.prompt_tokens = 3;
    identity.id = "resp_1";
    identity.created = 5;
    identity.model = "m";
    identity.echo = R"("store":false)";
    identity.notes = std::move(notes);
    identity.stream = stream;
    identity.now = [] { return std::int64_t{7}; };
    answer = std::make_shared<response_answer>(std::move(identity), letters);
    writer = make_response_writer(answer);
  }
  void part(kind what, std::string text, std::string name = {}) {
    writer->part(out, {what, std::move(text), std::move(name), 0}, progress);
  }
  void end(engine::finish_reason reason = engine::finish_reason::stop) {
    message_end end;
    end.reason = reason;
    end.stats.tokens_in = 3;
    end.stats.tokens_out = 4;
    end.stats.tokens_cached = 2;
    end.reasoning_tokens = 1;
    writer->ended(out, end, progress);
  }
  /// The events so far, each checked for its frame and its number.
  std::vector<json::object> events() const {
    std::vector<json::object> all;
    std::string_view rest = out;
    while (!rest.empty()) {
      const auto stop = rest.find("\n\n");
      const std::string_view frame = rest.substr(0, stop);
      rest = rest.substr(stop + 2);
      const auto line = frame.find('\n');
      BOOST_TEST_REQUIRE(frame.substr(line + 1, 6) == "data: ");
      const auto data = frame.substr(line + 7);
      all.push_back(json::parse({data.data(), data.size()}).as_object());
      BOOST_TEST(frame.substr(0, line) == "event: " + std::string(all.back().at("type").as_string()));
      BOOST_TEST(all.back().at("sequence_number") == json::value(all.size() - 1));
    }
    return all;
  }
  std::string types() const {
    std::string names;
    for (const auto& event : events()) names += std::string(event.at("type").as_string()) + " ";
    return names;
  }
  json::object body() const { return json::parse(answer->body()).as_object(); }

  std::shared_ptr<response_answer> answer;
  std::unique_ptr<message_writer> writer;
  message_progress progress;
  std::string out;
};

BOOST_AUTO_TEST_SUITE(response_writers)

BOOST_AUTO_TEST_CASE(timings_are_in_the_response_and_beside_its_text) {
  for (const bool wanted : {false, true}) {
    answered a(true, false, wanted);
    a.writer->started(a.out);
    a.progress.tokens = 1;
    a.part(kind::content, "a");
    a.end();
    const auto events = a.events();
    for (const auto& event : events) {
      if (event.at("type") != json::value("response.output_text.delta")) continue;
      BOOST_TEST(event.contains("timings") == wanted);
    }
    const auto& last = events.back().at("response").as_object();
    BOOST_TEST(last.contains("timings") == wanted);
    BOOST_TEST(a.body().contains("timings") == wanted);
    BOOST_TEST(!events.front().at("response").as_object().contains("timings"));
    if (wanted) BOOST_TEST(last.at("timings").at("predicted_n") == 4);
  }
}

BOOST_AUTO_TEST_CASE(the_events_of_a_text) {
  answered a;
  a.writer->started(a.out);
  a.part(kind::content, "Hel");
  a.part(kind::content, "lo\n");
  a.end();
  BOOST_TEST(a.types() ==
             "response.created response.in_progress response.output_item.added response.content_part.added "
             "response.output_text.delta response.output_text.delta response.output_text.done "
             "response.content_part.done response.output_item.done response.completed ");
  const auto events = a.events();
  BOOST_TEST(json::serialize(events[2].at("item").at("content")) == "[]");
  BOOST_TEST(events[2].at("item").at("status") == json::value("in_progress"));
  BOOST_TEST(events[4].at("item_id") == events[2].at("item").at("id"));
  BOOST_TEST(events[5].at("delta") == json::value("lo\n"));
  BOOST_TEST(events[6].at("text") == json::value("Hello\n"));
  BOOST_TEST(events[8].at("item").at("status") == json::value("completed"));
  const auto& last = events[9].at("response").as_object();
  BOOST_TEST(last.at("status") == json::value("completed"));
  BOOST_TEST(last.at("completed_at") == json::value(7));
  BOOST_TEST(json::serialize(last.at("output").at(0)) == json::serialize(events[8].at("item")));
  BOOST_TEST(json::serialize(last.at("usage")) ==
             R"({"input_tokens":3,"input_tokens_details":{"cached_tokens":2,"cache_write_tokens":0},)"
             R"("output_tokens":4,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":7})");
  BOOST_TEST(last.at("store") == json::value(false));
  BOOST_TEST(events[0].at("response").at("status") == json::value("in_progress"));
  BOOST_TEST(events[0].at("response").at("usage").is_null());
}

BOOST_AUTO_TEST_CASE(reasoning_then_calls) {
  answered a;
  a.writer->started(a.out);
  a.part(kind::reasoning, "why");
  a.part(kind::call, "", "n__g");
  a.part(kind::arguments, "{\"x\"");
  a.part(kind::arguments, ":1}");
  a.part(kind::call, "", "f");
  a.part(kind::arguments, "{}");
  a.end();
  BOOST_TEST(a.types() ==
             "response.created response.in_progress response.output_item.added response.content_part.added "
             "response.reasoning_text.delta response.reasoning_text.done response.content_part.done "
             "response.output_item.done response.output_item.added response.function_call_arguments.delta "
             "response.function_call_arguments.delta response.function_call_arguments.done "
             "response.output_item.done response.output_item.added response.function_call_arguments.delta "
             "response.function_call_arguments.done response.output_item.done response.completed ");
  const auto output = a.body().at("output").as_array();
  BOOST_TEST_REQUIRE(output.size() == 3U);
  BOOST_TEST(json::serialize(output[0].at("content")) == R"([{"type":"reasoning_text","text":"why"}])");
  BOOST_TEST(json::serialize(output[0].at("summary")) == "[]");
  BOOST_TEST(output[0].at("encrypted_content").as_string() == "orcd1.d2h5");
  BOOST_TEST(output[1].at("name") == json::value("g"));
  BOOST_TEST(output[1].at("namespace") == json::value("n"));
  BOOST_TEST(output[1].at("arguments") == json::value("{\"x\":1}"));
  BOOST_TEST(output[2].at("call_id").as_string().starts_with("call_"));
  BOOST_TEST(output[2].as_object().if_contains("namespace") == nullptr);
  BOOST_TEST(a.events()[15].at("name") == json::value("f"));
}

BOOST_AUTO_TEST_CASE(a_custom_call_gives_its_text) {
  answered a;
  a.writer->started(a.out);
  a.part(kind::call, "", "patch");
  a.part(kind::arguments, R"({"input":"*** )");
  a.part(kind::arguments, R"(\"x\""})");
  a.end();
  BOOST_TEST(a.types() ==
             "response.created response.in_progress response.output_item.added "
             "response.custom_tool_call_input.delta response.custom_tool_call_input.done "
             "response.output_item.done response.completed ");
  BOOST_TEST(a.events()[4].at("input") == json::value("*** \"x\""));
  const auto item = a.body().at("output").at(0).as_object();
  BOOST_TEST(item.at("type") == json::value("custom_tool_call"));
  BOOST_TEST(item.at("input") == json::value("*** \"x\""));
}

BOOST_AUTO_TEST_CASE(text_between_calls_is_a_message_of_its_own) {
  answered a(false);
  a.writer->started(a.out);
  a.part(kind::content, "a");
  a.part(kind::call, "", "f");
  a.part(kind::arguments, "{}");
  a.part(kind::content, "b");
  a.end();
  BOOST_TEST(a.out.empty());
  const auto output = a.body().at("output").as_array();
  BOOST_TEST_REQUIRE(output.size() == 3U);
  BOOST_TEST(output[0].at("content").at(0).at("text") == json::value("a"));
  BOOST_TEST(output[2].at("content").at(0).at("text") == json::value("b"));
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_cut_off_is_incomplete) {
  answered a;
  a.writer->started(a.out);
  a.part(kind::content, "a");
  a.part(kind::call, "", "f");
  a.end(engine::finish_reason::length);
  const auto events = a.events();
  BOOST_TEST(events.back().at("type") == json::value("response.incomplete"));
  const auto& last = events.back().at("response").as_object();
  BOOST_TEST(json::serialize(last.at("incomplete_details")) == R"({"reason":"max_output_tokens"})");
  BOOST_TEST(last.at("completed_at").is_null());
  BOOST_TEST(last.at("output").at(0).at("status") == json::value("completed"));
  BOOST_TEST(last.at("output").at(1).at("status") == json::value("incomplete"));
  BOOST_TEST(last.at("usage").at("output_tokens") == json::value(4));
}

BOOST_AUTO_TEST_CASE(a_custom_call_that_is_cut_off_gives_what_came_of_its_text) {
  for (const std::string cut : {R"({"input":"ab)", R"({"input":"ab\)", R"({"input":"ab\u00)"}) {
    answered a;
    a.writer->started(a.out);
    a.part(kind::call, "", "patch");
    a.part(kind::arguments, cut);
    a.end(engine::finish_reason::length);
    const auto item = a.body().at("output").at(0).as_object();
    BOOST_TEST(item.at("input") == json::value("ab"));
    BOOST_TEST(item.at("status") == json::value("incomplete"));
  }
}

BOOST_AUTO_TEST_CASE(a_model_that_says_nothing) {
  answered a;
  a.writer->started(a.out);
  a.end();
  BOOST_TEST(a.types() ==
             "response.created response.in_progress response.output_item.added response.content_part.added "
             "response.output_text.done response.content_part.done response.output_item.done "
             "response.completed ");
}

BOOST_AUTO_TEST_CASE(a_stream_that_fails) {
  answered a;
  a.writer->started(a.out);
  a.part(kind::content, "a");
  a.writer->failed(a.out, {engine::errc::inference_timeout, "too late"});
  const auto last = a.events().back();
  BOOST_TEST(last.at("type") == json::value("response.failed"));
  BOOST_TEST(last.at("response").at("status") == json::value("failed"));
  BOOST_TEST(json::serialize(last.at("response").at("error")) ==
             R"({"code":"server_error","message":"INFERENCE_TIMEOUT: too late"})");
  BOOST_TEST(last.at("response").at("output").at(0).at("status") == json::value("incomplete"));
}

BOOST_AUTO_TEST_CASE(a_stream_that_fails_before_it_begins) {
  answered a;
  a.writer->failed(a.out, {engine::errc::cancelled, "the job was cancelled"});
  BOOST_TEST(json::serialize(a.events().at(0)) ==
             R"({"type":"error","sequence_number":0,"code":"CANCELLED","message":"the job was cancelled",)"
             R"("param":null})");
  answered whole(false);
  whole.writer->failed(whole.out, {engine::errc::cancelled, "x"});
  whole.writer->keep_alive(whole.out);
  BOOST_TEST(whole.out.empty());
}

logprob_entry entry(char token, std::size_t alternatives) {
  logprob_entry out;
  for (std::size_t i = 0; i <= alternatives; ++i) out.logprobs.push_back({token, -0.5F});
  return out;
}

BOOST_AUTO_TEST_CASE(log_probabilities_are_those_of_the_text) {
  answered a(true, true);
  a.writer->started(a.out);
  a.progress.logprobs = {entry('r', 1)};
  a.part(kind::reasoning, "r");
  a.progress.logprobs = {entry('a', 1)};
  a.part(kind::content, "a");
  a.progress.logprobs = {entry('b', 1)};
  a.part(kind::content, "b");
  a.end();
  const auto events = a.events();
  const std::string of_a = R"({"token":"a","logprob":-0.5,"bytes":[97],)"
                           R"("top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]}]})";
  BOOST_TEST(json::serialize(events[10].at("logprobs")) == "[" + json::serialize(json::parse(of_a)) + "]");
  BOOST_TEST(events[10].at("type") == json::value("response.output_text.delta"));
  const auto body = a.body();
  const auto& part = body.at("output").at(1).at("content").at(0);
  BOOST_TEST(part.at("logprobs").as_array().size() == 2U);
}

BOOST_AUTO_TEST_CASE(of_very_many_a_stream_repeats_none_and_an_answer_has_all) {
  for (const bool stream : {true, false}) {
    answered a(stream, true);
    a.writer->started(a.out);
    for (int i = 0; i < 100; ++i) {
      a.progress.logprobs = {entry('a', 20)};
      a.part(kind::content, "a");
    }
    a.end();
    const auto body = a.body();
    const auto& part = body.at("output").at(0).at("content").at(0);
    BOOST_TEST(part.at("logprobs").as_array().size() == (stream ? 0U : 100U));
    if (stream) BOOST_TEST(a.events()[100].at("logprobs").as_array().size() == 1U);
  }
}

kept_items told_output;  // NOLINT: what a function without a context was told

BOOST_AUTO_TEST_CASE(whoever_keeps_the_response_is_told_before_its_last_event) {
  for (const std::size_t alternatives : {1U, 20U}) {
    answered a(false, true);
    response_identity identity = a.answer->identity();
    identity.over = [](const response_answer& answer) { told_output = answer.output(); };
    a.answer = std::make_shared<response_answer>(std::move(identity), letters);
    a.writer = make_response_writer(a.answer);
    a.writer->started(a.out);
    for (int i = 0; i < 100; ++i) {
      a.progress.logprobs = {entry('a', alternatives)};
      a.part(kind::content, "a");
    }
    a.part(kind::call, "", "f");
    told_output.clear();
    a.end();
    BOOST_TEST_REQUIRE(told_output.size() == 2U);
    const auto output = a.body().at("output").as_array();
    BOOST_TEST(told_output[1].json == json::serialize(output[1]));
    BOOST_TEST(told_output[0].id == output[0].at("id").as_string());
    // Very many log probabilities are no part of what is kept.
    const auto kept = json::parse(told_output[0].json).at("content").at(0).at("logprobs").as_array();
    BOOST_TEST(kept.size() == (alternatives == 1 ? 100U : 0U));
    const auto frame = a.answer->body_frame();
    if (alternatives == 1) {
      BOOST_TEST(frame.before + told_output[0].json + "," + told_output[1].json + frame.after ==
                 a.answer->body());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
