#include "net/traces/spans.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

namespace orcd::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t wall_ms = 1'700'000'000'000;

engine::steady_time at(int ms) {
  return engine::steady_time(seconds(1'000) + milliseconds(ms));
}

std::uint64_t wall_at(int ms) {
  return static_cast<std::uint64_t>(wall_ms + ms) * 1'000'000U;
}

request_trace answered() {
  request_trace out;
  out.trace_id = std::string(32, 'a');
  out.parent_id = std::string(16, 'b');
  out.nonce = "nonce";
  out.request_id = "r-1";
  out.method = "POST";
  out.route = "/v1/chat/completions";
  out.operation = "chat";
  out.received_wall = std::chrono::system_clock::time_point(milliseconds(wall_ms));
  out.received_at = at(0);
  out.ended_at = at(100);
  out.status = 200;
  out.generates = true;
  job_trace job;
  job.job_id = "job-0";
  job.queued_at = at(5);
  job.slot_at = at(20);
  job.first_token_at = at(40);
  job.ended_at = at(90);
  job.tokens_in = 7;
  job.tokens_out = 11;
  job.tokens_cached = 3;
  job.finish = "length";
  out.jobs.push_back(job);
  return out;
}

/// The attribute as text; empty: there is none.
std::string attribute(const trace_span& span, std::string_view key) {
  for (const auto& one : span.attributes) {
    if (one.key != key) continue;
    if (const auto* const text = std::get_if<std::string>(&one.value)) return *text;
    if (const auto* const value = std::get_if<std::int64_t>(&one.value)) return std::to_string(*value);
    std::string all;
    for (const auto& text : std::get<std::vector<std::string>>(one.value)) all += text + ";";
    return all;
  }
  return {};
}

BOOST_AUTO_TEST_SUITE(spans)

BOOST_AUTO_TEST_CASE(a_request_and_its_phases) {
  const auto request = answered();
  const auto all = spans_of(request, "m");
  BOOST_TEST_REQUIRE(all.size() == 4U);
  BOOST_TEST(all.size() == request.spans());
  BOOST_TEST(all[0].name == "POST /v1/chat/completions");
  BOOST_TEST(all[0].is_server);
  BOOST_TEST(all[0].parent_id == std::string(16, 'b'));
  BOOST_TEST(all[0].start_ns == wall_at(0));
  BOOST_TEST(all[0].end_ns == wall_at(100));
  const std::vector<std::tuple<std::string, int, int>> phases = {
      {"queue", 5, 20}, {"prefill", 20, 40}, {"decode", 40, 90}};
  std::set<std::string> ids = {all[0].span_id};
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const auto& [name, begin, end] = phases[i];
    const trace_span& span = all[i + 1];
    BOOST_TEST(span.name == name);
    BOOST_TEST(span.start_ns == wall_at(begin));
    BOOST_TEST(span.end_ns == wall_at(end));
    BOOST_TEST(span.parent_id == all[0].span_id);
    BOOST_TEST(span.trace_id == request.trace_id);
    BOOST_TEST(attribute(span, "orcd.job.id") == "job-0");
    BOOST_TEST(!span.is_server);
    ids.insert(span.span_id);
  }
  BOOST_TEST(ids.size() == 4U);
  for (const auto& id : ids) BOOST_TEST(id.size() == 16U);
}

BOOST_AUTO_TEST_CASE(attributes) {
  const auto server = spans_of(answered(), "m")[0];
  BOOST_TEST(attribute(server, "http.request.method") == "POST");
  BOOST_TEST(attribute(server, "http.route") == "/v1/chat/completions");
  BOOST_TEST(attribute(server, "http.response.status_code") == "200");
  BOOST_TEST(attribute(server, "gen_ai.operation.name") == "chat");
  BOOST_TEST(attribute(server, "gen_ai.request.model") == "m");
  BOOST_TEST(attribute(server, "gen_ai.usage.input_tokens") == "7");
  BOOST_TEST(attribute(server, "gen_ai.usage.output_tokens") == "11");
  BOOST_TEST(attribute(server, "gen_ai.usage.cache_read.input_tokens") == "3");
  BOOST_TEST(attribute(server, "gen_ai.response.finish_reasons") == "length;");
  BOOST_TEST(attribute(server, "orcd.request.id") == "r-1");
  BOOST_TEST(attribute(server, "error.type") == "");
  BOOST_TEST(!server.failed);
}

BOOST_AUTO_TEST_CASE(an_engine_that_goes_on_has_the_same_ids) {
  auto other = answered();
  other.ended_at = at(500);
  BOOST_TEST(spans_of(answered(), "m")[0].span_id == spans_of(other, "m")[0].span_id);
  other.nonce = "another";
  BOOST_TEST(spans_of(answered(), "m")[0].span_id != spans_of(other, "m")[0].span_id);
}

BOOST_AUTO_TEST_CASE(choices_add_up) {
  auto request = answered();
  request.jobs.push_back(request.jobs.front());
  request.jobs.back().job_id = "job-1";
  const auto all = spans_of(request, "m");
  BOOST_TEST(all.size() == 7U);
  BOOST_TEST(attribute(all[0], "gen_ai.request.choice.count") == "2");
  BOOST_TEST(attribute(all[0], "gen_ai.usage.output_tokens") == "22");
  BOOST_TEST(attribute(all[0], "gen_ai.response.finish_reasons") == "length;length;");
  BOOST_TEST(attribute(all[6], "orcd.job.id") == "job-1");
}

BOOST_AUTO_TEST_CASE(refusals_and_failures) {
  auto request = answered();
  request.jobs.clear();
  request.status = 429;
  request.error = engine::errc::queue_full;
  auto all = spans_of(request, "m");
  BOOST_TEST_REQUIRE(all.size() == 1U);
  BOOST_TEST(attribute(all[0], "error.type") == "QUEUE_FULL");
  BOOST_TEST(attribute(all[0], "gen_ai.usage.input_tokens") == "");
  BOOST_TEST(!all[0].failed, "a client's fault is no failure of a server's span");
  request.status = 503;
  request.error = engine::errc::draining;
  BOOST_TEST(spans_of(request, "m")[0].failed);

  // A stream that had begun.
  request = answered();
  request.error = request.jobs[0].error = engine::errc::inference_timeout;
  request.jobs[0].finish = {};
  all = spans_of(request, "m");
  BOOST_TEST(all[0].failed);
  BOOST_TEST(attribute(all[0], "http.response.status_code") == "200");
  BOOST_TEST(attribute(all[3], "error.type") == "INFERENCE_TIMEOUT");
  request.error = request.jobs[0].error = engine::errc::cancelled;
  BOOST_TEST(!spans_of(request, "m")[0].failed);
}

BOOST_AUTO_TEST_CASE(a_job_without_a_slot_or_a_token) {
  auto request = answered();
  request.jobs[0].first_token_at.reset();
  auto all = spans_of(request, "m");
  BOOST_TEST_REQUIRE(all.size() == 3U);
  BOOST_TEST(all[2].name == "prefill");
  BOOST_TEST(all[2].end_ns == wall_at(90));
  request.jobs[0].slot_at.reset();
  BOOST_TEST(request.spans() == 2U);
  all = spans_of(request, "m");
  BOOST_TEST_REQUIRE(all.size() == 2U);
  BOOST_TEST(all[1].end_ns == wall_at(90));
}

BOOST_AUTO_TEST_CASE(times_never_go_back) {
  auto request = answered();
  request.ended_at = at(-5);
  request.jobs[0].first_token_at = at(10);  // another engine's, before this one's slot
  request.jobs[0].queued_at = at(30);
  for (const auto& span : spans_of(request, "m")) {
    BOOST_TEST(span.end_ns >= span.start_ns, span.name);
    BOOST_TEST(span.start_ns >= wall_at(0));
  }
}

BOOST_AUTO_TEST_CASE(a_strange_request_names_nothing) {
  auto request = answered();
  request.method = {};
  request.route = {};
  request.operation = {};
  request.jobs.clear();
  const auto server = spans_of(request, "m")[0];
  BOOST_TEST(server.name == "HTTP");
  BOOST_TEST(attribute(server, "http.request.method") == "_OTHER");
  BOOST_TEST(attribute(server, "gen_ai.request.model") == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
