#include "net/jobs/job_execution.hpp"

#include <boost/test/unit_test.hpp>
#include <utility>

#include "net/execute/execute_output.hpp"
#include "net/execute/prepare.hpp"
#include "net/http/respond.hpp"
#include "net/http/sse.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::cancel_reason;
using engine::errc;
using engine::steady_time;
using namespace std::chrono_literals;

const test::letter_tokenizer letters;
const steady_time begin{1h};
const std::chrono::system_clock::time_point wall{std::chrono::milliseconds(1'759'521'600'000)};

/// A job that is answered as /execute answers.
job_execution execute_stream(job_execution_config config, std::vector<std::string> stops,
                             bool metrics = false) {
  auto output = make_execute_output(config, metrics);
  return {std::move(config), engine::token_stream(letters, std::move(stops)), std::move(output)};
}

struct fixture {
  explicit fixture(std::vector<std::string> stops = {}, std::optional<steady_time> deadline = {},
                   bool metrics = false)
      : execution(execute_stream(config(deadline), std::move(stops), metrics)) {}

  static job_execution_config config(std::optional<steady_time> deadline) {
    job_execution_config c;
    c.job_id = "j";
    c.model = "m";
    c.seed = 7;
    c.tokens_in = 3;
    c.received_at = begin;
    c.deadline = deadline;
    return c;
  }
  std::string out(steady_time now = begin) { return execution.take_output(now); }
  void tokens(std::string_view text) {
    for (const char c : text) execution.token(static_cast<unsigned char>(c));
  }

  job_execution execution;
};

terminal_event end_of(std::uint32_t tokens, engine::finish_reason reason = engine::finish_reason::length) {
  engine::end_event e;
  e.reason = reason;
  e.stats.tokens_in = 3;
  e.stats.tokens_out = tokens;
  e.stats.decode_ms = 10;
  return e;
}

terminal_event error_of(errc code) {
  engine::error_event e;
  e.failure = engine::error(code, "because");
  return e;
}

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

BOOST_AUTO_TEST_SUITE(job_executions)

BOOST_AUTO_TEST_CASE(from_started_to_end) {
  fixture f;
  f.execution.started(1.5, wall);
  f.tokens("hi");
  BOOST_TEST(!f.execution.stream_over());
  f.execution.ended(end_of(2), begin);
  BOOST_TEST(
      f.out() ==
      "event: started\ndata: {\"job_id\":\"j\",\"model\":\"m\",\"started_at\":\"2025-10-03T20:00:00.000Z\","
      "\"seed\":7,\"tokens_in\":3,\"queue_ms\":1.5}\n\n"
      "event: token\nid: 0\ndata: {\"t\":\"h\",\"i\":0}\n\n"
      "event: token\nid: 1\ndata: {\"t\":\"i\",\"i\":1}\n\n"
      "event: end\ndata: {\"finish_reason\":\"length\",\"tokens_in\":3,\"tokens_out\":2,\"tokens_cached\":0,"
      "\"queue_ms\":0,\"prefill_ms\":0,\"first_token_ms\":0,\"decode_time_ms\":10,\"decode_ms\":10,"
      "\"tokens_per_second\":100}\n\n");
  BOOST_TEST(f.execution.stream_over());
  BOOST_TEST(f.execution.job_over());
  BOOST_TEST((f.execution.result() == outcome::completed));
  BOOST_TEST(!f.execution.take_cancel().has_value());
  BOOST_TEST(!f.execution.closes_connection());
}

BOOST_AUTO_TEST_CASE(metrics_come_before_the_end_when_asked_for) {
  fixture f({}, {}, true);
  f.execution.started(0, wall);
  f.execution.ended(end_of(0), begin);
  const auto text = f.out();
  BOOST_TEST(count(text, "event: metrics\n") == 1U);
  BOOST_TEST(text.find("event: metrics\n") < text.find("event: end\n"));
}

// The requirements give decode_time_ms as an integer.
BOOST_AUTO_TEST_CASE(decode_time_is_rounded_and_its_fraction_has_a_field_of_its_own) {
  engine::job_stats stats;
  for (const auto& [exact, text] : {std::pair(94.64, "\"decode_time_ms\":95,\"decode_ms\":94.64,"),
                                    std::pair(0.4996, "\"decode_time_ms\":0,\"decode_ms\":0.5,")}) {
    stats.decode_ms = exact;
    std::string end;
    append_end(end, engine::finish_reason::stop, stats);
    std::string metrics;
    append_metrics(metrics, stats);
    BOOST_TEST(end.find(text) != std::string::npos, end);
    BOOST_TEST(metrics.find(text) != std::string::npos, metrics);
  }
}

BOOST_AUTO_TEST_CASE(a_code_point_is_never_split) {
  fixture f;
  f.tokens("\xC3");
  BOOST_TEST(f.out().empty());
  f.tokens("\xA9");
  BOOST_TEST(f.out() == "event: token\nid: 1\ndata: {\"t\":\"\xC3\xA9\",\"i\":1}\n\n");
  f.tokens("\xE2\x82");
  f.execution.ended(end_of(4), begin);
  BOOST_TEST(f.out().starts_with("event: token\nid: 3\ndata: {\"t\":\"\xEF\xBF\xBD\",\"i\":3}\n\n"));
}

BOOST_AUTO_TEST_CASE(text_that_the_end_sets_free_has_an_index_of_its_own) {
  fixture f({"\xC3\xA9X"});
  f.tokens("a\xC3");
  f.execution.ended(end_of(2, engine::finish_reason::stop), begin);
  const auto own = f.out();
  BOOST_TEST(own.find("id: 1\ndata: {\"t\":\"\xEF\xBF\xBD\",\"i\":1}") != std::string::npos);

  // Two bytes that are no UTF-8 together: the second token has an event and leaves a byte behind.
  fixture g;
  g.tokens("\xC3\xC3");
  g.execution.ended(end_of(2, engine::finish_reason::stop), begin);
  const auto text = g.out();
  BOOST_TEST(count(text, "id: 1\ndata: {\"t\":\"\xEF\xBF\xBD\",\"i\":1}") == 1U);
  BOOST_TEST(count(text, "id: 2\ndata: {\"t\":\"\xEF\xBF\xBD\",\"i\":2}") == 1U);
}

BOOST_AUTO_TEST_CASE(the_last_token_of_the_budget_takes_the_held_text_with_it) {
  auto config = fixture::config({});
  config.max_tokens = 2;
  job_execution execution = execute_stream(std::move(config), {"END"});
  execution.token('a');
  execution.token('E');
  BOOST_TEST(count(execution.take_output(begin), "id: 1\ndata: {\"t\":\"E\",\"i\":1}") == 1U);
  execution.ended(end_of(2), begin);
  BOOST_TEST(count(execution.take_output(begin), "event: token\n") == 0U);
}

BOOST_AUTO_TEST_CASE(a_stop_string_ends_the_job_normally) {
  fixture f({"END"});
  f.execution.started(0, wall);
  f.tokens("aENDxx");
  BOOST_TEST((f.execution.take_cancel() == cancel_reason::stop_string));
  BOOST_TEST(!f.execution.take_cancel().has_value());
  f.execution.ended(end_of(6), begin);
  const auto text = f.out();
  BOOST_TEST(count(text, "event: token\n") == 1U);
  BOOST_TEST(text.find("\"finish_reason\":\"stop\"") != std::string::npos);
  BOOST_TEST(text.find("\"tokens_out\":4") != std::string::npos);
  BOOST_TEST((f.execution.result() == outcome::completed));
}

BOOST_AUTO_TEST_CASE(a_cancel_gives_one_error_event) {
  fixture f;
  f.execution.started(0, wall);
  f.execution.cancel(cancel_reason::client_cancel, begin);
  f.execution.cancel(cancel_reason::client_cancel, begin + 1ms);
  BOOST_TEST((f.execution.take_cancel() == cancel_reason::client_cancel));
  f.execution.ended(error_of(errc::cancelled), begin + 40ms);
  BOOST_TEST(
      count(f.out(),
            "event: error\ndata: {\"code\":\"CANCELLED\",\"message\":\"because\",\"retriable\":false}\n\n") ==
      1U);
  BOOST_TEST(f.execution.closes_connection());
  BOOST_TEST((f.execution.result() == outcome::cancelled));
  BOOST_TEST(f.execution.cancel_time()->count() == 0.04, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_cancel_that_is_not_confirmed_ends_the_stream_after_5_s) {
  fixture f;
  f.execution.started(0, wall);
  static_cast<void>(f.out());
  f.execution.cancel(cancel_reason::client_cancel, begin);
  BOOST_TEST((f.execution.next_tick() == begin + 5s));
  f.execution.tick(begin + 4999ms);
  BOOST_TEST(!f.execution.stream_over());
  f.execution.tick(begin + 5s);
  BOOST_TEST(f.execution.stream_over());
  BOOST_TEST(!f.execution.job_over());
  BOOST_TEST(count(f.out(), "CANCELLED") == 1U);
  f.tokens("late");
  f.execution.ended(error_of(errc::cancelled), begin + 9s);
  BOOST_TEST(f.out().empty());
  BOOST_TEST(f.execution.job_over());
}

BOOST_AUTO_TEST_CASE(a_deadline_cancels_as_a_timeout) {
  fixture f({}, begin + 2s);
  BOOST_TEST((f.execution.next_tick() == begin + 2s));
  f.execution.tick(begin + 1999ms);
  BOOST_TEST(!f.execution.take_cancel().has_value());
  f.execution.tick(begin + 2s);
  BOOST_TEST((f.execution.take_cancel() == cancel_reason::timeout));
  f.execution.ended(error_of(errc::inference_timeout), begin + 2s);
  BOOST_TEST((f.execution.result() == outcome::timeout));
}

BOOST_AUTO_TEST_CASE(a_job_that_missed_x_deadline_is_not_worth_another_try) {
  for (const bool is_final : {true, false}) {
    auto config = fixture::config(begin + 2s);
    config.deadline_is_final = is_final;
    job_execution execution = execute_stream(std::move(config), {});
    execution.ended(error_of(errc::inference_timeout), begin + 2s);
    const auto expected = is_final ? "\"retriable\":false" : "\"retriable\":true";
    BOOST_TEST(execution.take_output(begin + 2s).find(expected) != std::string::npos);
  }
  auto config = fixture::config(begin + 2s);
  config.deadline_is_final = true;
  job_execution failed = execute_stream(std::move(config), {});
  failed.ended(error_of(errc::cuda_error), begin + 1s);
  BOOST_TEST(failed.take_output(begin + 1s).find("\"retriable\":true") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(silence_is_filled_every_15_s_even_before_started) {
  fixture f;
  f.execution.tick(begin + 14'999ms);
  BOOST_TEST(f.out().empty());
  f.execution.tick(begin + 15s);
  BOOST_TEST(f.out(begin + 15s) == ": keep-alive\n\n");
  BOOST_TEST((f.execution.next_tick() == begin + 30s));
  f.execution.tick(begin + 29s);
  BOOST_TEST(f.out(begin + 29s).empty());
}

BOOST_AUTO_TEST_CASE(a_client_that_left_gets_nothing_but_the_last_word) {
  fixture f;
  BOOST_TEST((f.execution.where() == phase::queued));
  f.execution.started(0, wall);
  BOOST_TEST((f.execution.where() == phase::prefill));
  f.tokens("a");
  BOOST_TEST((f.execution.where() == phase::decode));
  f.execution.client_gone(begin);
  BOOST_TEST((f.execution.take_cancel() == cancel_reason::disconnected));
  f.tokens("b");
  f.execution.tick(begin + 20s);
  BOOST_TEST(count(f.out(), "event: token") == 0U);
  f.execution.ended(error_of(errc::cancelled), begin + 21s);
  BOOST_TEST((f.execution.result() == outcome::disconnected));
}

BOOST_AUTO_TEST_CASE(an_end_that_was_faster_than_the_cancel_stands) {
  fixture f;
  f.execution.started(0, wall);
  f.execution.cancel(cancel_reason::client_cancel, begin);
  f.execution.ended(end_of(0), begin);
  BOOST_TEST((f.execution.result() == outcome::completed));
  BOOST_TEST(count(f.out(), "event: end\n") == 1U);
  f.execution.cancel(cancel_reason::client_cancel, begin);
  BOOST_TEST(!f.execution.take_cancel().has_value());
}

BOOST_AUTO_TEST_CASE(a_client_that_leaves_after_the_end_has_missed_nothing) {
  fixture f;
  f.execution.started(0, wall);
  f.execution.ended(end_of(0), begin);
  static_cast<void>(f.out());
  f.execution.client_gone(begin);
  BOOST_TEST((f.execution.result() == outcome::completed));
  BOOST_TEST(!f.execution.take_cancel().has_value());
}

BOOST_AUTO_TEST_CASE(a_failure_is_an_error_outcome) {
  fixture f;
  f.execution.ended(error_of(errc::vram_oom), begin);
  BOOST_TEST((f.execution.result() == outcome::error));
  BOOST_TEST(f.out().find("\"code\":\"VRAM_OOM\"") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(special_characters_stay_on_one_line) {
  std::string out;
  append_token(out, "\n\r\n\"\\\t", 0);
  BOOST_TEST(out == "event: token\nid: 0\ndata: {\"t\":\"\\n\\r\\n\\\"\\\\\\t\",\"i\":0}\n\n");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(prepare)

struct prepare_fixture {
  prepare_fixture() {
    limits.context_tokens = 100;
    limits.inference_timeout = 300s;
    request.body = R"({"job_id":"j","prompt":"abc","timeout_ms":60000})";
    request.received_at = begin;
  }
  engine::result<prepared_job> run() { return prepare_job(request, letters, limits, wall); }
  request_limits limits;
  http_request request;
};

BOOST_FIXTURE_TEST_CASE(a_job_is_complete, prepare_fixture) {
  const auto p = run();
  BOOST_TEST_REQUIRE(p.has_value());
  BOOST_TEST(p->job.prompt.size() == 3U);
  BOOST_TEST(p->job.max_tokens == 98U);
  BOOST_TEST((p->job.deadline == begin + 60s));
  BOOST_TEST(p->facts.prompt_digest.starts_with("sha256:"));
  BOOST_TEST(run()->job.seed == p->job.seed);
  request.nonce = "another request";
  BOOST_TEST(run()->job.seed != p->job.seed);
}

BOOST_FIXTURE_TEST_CASE(a_stream_goes_on_behind_an_event, prepare_fixture) {
  BOOST_TEST(!run()->last_event_id.has_value());
  request.body = R"({"job_id":"j","prompt":"abc","seed":1})";
  for (const auto& [text, id] : {std::pair("0", 0U), std::pair("17", 17U), std::pair("4294967295", ~0U)}) {
    request.last_event_id = text;
    BOOST_TEST((run()->last_event_id == id));
  }
  for (const auto* text : {"", " 1", "1 ", "-1", "+1", "1.0", "0x1", "4294967296", "one"}) {
    request.last_event_id = text;
    BOOST_TEST_REQUIRE(!run().has_value());
    BOOST_TEST((run().error().code == errc::invalid_request));
    BOOST_TEST(run().error().param == "Last-Event-ID");
  }
  // Without a seed it would be another output, unless nothing is drawn.
  request.last_event_id = "3";
  request.body = R"({"job_id":"j","prompt":"abc"})";
  BOOST_TEST_REQUIRE(!run().has_value());
  BOOST_TEST(run().error().param == "seed");
  request.body = R"({"job_id":"j","prompt":"abc","temperature":0})";
  BOOST_TEST((run()->last_event_id == 3U));
}

BOOST_FIXTURE_TEST_CASE(the_earliest_limit_counts, prepare_fixture) {
  request.deadline = "2025-10-03T20:00:10Z";
  BOOST_TEST((run()->job.deadline == begin + 10s));
  BOOST_TEST((run()->facts.deadline_left == 10'000ms));
  BOOST_TEST(run()->facts.deadline_is_final);
  request.deadline = "2025-10-03T20:01:01Z";
  BOOST_TEST(!run()->facts.deadline_is_final);
  request.deadline = "2025-10-03T20:00:10Z";
  limits.deadlines = deadline_mode::log;
  BOOST_TEST((run()->job.deadline == begin + 60s));
  BOOST_TEST(!run()->facts.deadline_is_final);
  request.body = R"({"job_id":"j","prompt":"abc"})";
  BOOST_TEST((run()->job.deadline == begin + 300s));
  limits.inference_timeout = 0s;
  BOOST_TEST(!run()->job.deadline.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_deadline_in_the_past_is_refused_only_when_enforced, prepare_fixture) {
  request.deadline = "2025-10-03T19:59:59.500Z";
  const auto p = run();
  BOOST_TEST_REQUIRE(!p.has_value());
  BOOST_TEST((p.error().code == errc::inference_timeout));
  BOOST_TEST(p.error().message == "X-Deadline passed 500 ms before the request arrived");
  BOOST_TEST(make_error_reply(p.error()).body.find("\"retriable\":false") != std::string::npos);
  limits.deadlines = deadline_mode::log;
  BOOST_TEST(run().has_value());
  request.deadline = "whenever";
  BOOST_TEST((run().error().code == errc::invalid_request));
}

BOOST_FIXTURE_TEST_CASE(a_prompt_beyond_the_context_is_never_cut, prepare_fixture) {
  request.body = R"({"job_id":"j","prompt":")" + std::string(101, 'a') + "\"}";
  BOOST_TEST((run().error().code == errc::context_length_exceeded));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
