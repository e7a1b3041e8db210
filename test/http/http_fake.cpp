// Raw bytes against the real server over a fake accelerator: framing attacks, slow and rude clients,
// limits, drain and stop. Each probe ends in the right status or a close, and a stream that runs beside
// it is not disturbed.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "test/http/http_client.hpp"
#include "test/http/http_fixture.hpp"
#include "test/support/pause.hpp"
#include "test/support/wait_until.hpp"

namespace orcd::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

std::string execute_body(const std::string& job_id, int max_tokens, const std::string& more = {}) {
  return R"({"job_id":")" + job_id + R"(","prompt":"hello","seed":1,"max_tokens":)" +
         std::to_string(max_tokens) + more + "}";
}

std::string execute(const std::string& job_id, int max_tokens, const std::string& more = {},
                    const std::string& fields = {}) {
  return make_post("/execute", execute_body(job_id, max_tokens, more), fields);
}

/// The whole answer to an /execute request whose client stays to the end.
std::string stream(const http_fixture& worker, const std::string& request) {
  http_client client(worker.port());
  client.send(request);
  std::string all;
  client.read_until("0\r\n\r\n", all);
  return all;
}

std::string joined(const std::vector<sse_event>& events) {
  std::string out;
  for (const auto& event : events) out += event.name == "token" ? event.data + "\n" : std::string();
  return out;
}

const std::string cancel_body = R"({"job_id":"x"})";
const std::string get_health = "GET /health HTTP/1.1\r\nHost: w\r\n\r\n";

BOOST_AUTO_TEST_SUITE(http_over_a_fake_device)

BOOST_AUTO_TEST_CASE(probes_are_refused_beside_a_stream_that_goes_on) {
  http_options options;
  options.step_delay = 2ms;
  http_fixture worker(options);
  const auto alone = joined(events_of(stream(worker, execute("reference", 400))));
  http_client canary(worker.port());
  canary.send(execute("canary", 400));

  const std::string smuggled = make_post("/execute", execute_body("smuggled", 5));
  const auto post = [&](const std::string& fields, const std::string& body) {
    return "POST /cancel HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\n" + fields + "\r\n" + body +
           smuggled;
  };
  const std::pair<std::string, int> probes[] = {
      {post("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501},
      {post("Content-Length: 14\r\nContent-Length: 14\r\n", cancel_body), 400},
      {post("Content-Length: 18446744073709551630\r\n", cancel_body), 413},
      {post("Content-Length: 2000000\r\n", ""), 413},
      {post("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFFF\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "-1\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "e\r\n" + cancel_body + "XX0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "1;" + std::string(1 << 20, 'a') + "\r\n"), -1},
      {post("Transfer-Encoding: chunked\r\n", "0\r\n" + std::string(1 << 16, 'T') + ": x\r\n\r\n"), -1},
      {post("Transfer-Encoding: chunked\r\n", "0\r\nT: " + std::string(70'000, 'x') + "\r\n\r\n"), -1},
      {"POST /cancel HTTP/1.1\nHost: w\n\n" + smuggled, 400},
      {"GET /health HTTP/1.1\r\n\r\n", 400},
      {"GET /health\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {std::string("\x16\x03\x01\x02\x00\x01", 6), 400},
      {"GET /" + std::string(65'536, 'a') + " HTTP/1.1\r\nHost: w\r\n\r\n", 431},
      {"GET / HTTP/1.1\r\n" +
           [] {
             std::string f;
             for (int i = 0; i < 10'000; ++i) f += "A: b\r\n";
             return f;
           }(),
       431},
      {post("Expect: 200-maybe\r\nContent-Length: 14\r\n", cancel_body), 417}};
  for (const auto& [bytes, status] : probes) {
    http_client client(worker.port());
    client.send(bytes);
    // Less than the limit of 10 s for a head: refused for what it is, not for being slow.
    const auto answer = client.drain(8'000);
    const bool closed = client.closed_within(8'000);
    BOOST_TEST(closed, bytes.substr(0, 90));
    const int got = status_of(answer);
    BOOST_TEST((status < 0 ? got == 0 || got >= 400 : got == status), got << " for " << bytes.substr(0, 90));
    BOOST_TEST(answer.find("event:") == std::string::npos);
  }
  std::string all;
  BOOST_TEST(canary.read_until("0\r\n\r\n", all));
  BOOST_TEST(joined(events_of(all)) == alone);
}

BOOST_AUTO_TEST_CASE(bad_bodies_get_400_and_the_connection_lives) {
  http_fixture worker;
  http_client client(worker.port());
  const std::string bodies[] = {"",
                                "{",
                                "[]",
                                std::string(100'000, '['),
                                execute_body("a", 0),
                                execute_body("a", 1, R"(,"temperature":1e999)"),
                                execute_body("a", 1, R"(,"x":1)"),
                                execute_body("a", 1, R"(,"seed":1)"),
                                "{\"job_id\":\"a\",\"prompt\":\"\xFF\"}",
                                R"({"job_id":"a","prompt":"\ud800"})",
                                execute_body("a", 1, R"(,"stop":[[]])")};
  for (const auto& body : bodies) {
    client.send(make_post("/execute", body));
    std::string answer;
    BOOST_TEST(client.read_until("}}", answer), body.substr(0, 60));
    BOOST_TEST(status_of(answer) == 400);
    BOOST_TEST(answer.find("\"code\":\"INVALID_REQUEST\"") != std::string::npos);
  }
  client.send(get_health);
  std::string answer;
  BOOST_TEST(client.read_until("}", answer));
  BOOST_TEST(status_of(answer) == 200);
}

BOOST_AUTO_TEST_CASE(same_request_same_bytes_and_the_connection_is_kept) {
  http_fixture worker;
  http_client client(worker.port());
  std::string first, second;
  client.send(execute("a", 20, {}, "X-Request-Id: mine-1\r\n"));
  BOOST_TEST(client.read_until("0\r\n\r\n", first));
  client.send(execute("a", 20));
  BOOST_TEST(client.read_until("0\r\n\r\n", second));
  BOOST_TEST(first.find("X-Request-Id: mine-1\r\n") != std::string::npos);
  BOOST_TEST(joined(events_of(first)) == joined(events_of(second)));
  BOOST_TEST(events_of(first).front().name == "started");
  BOOST_TEST(events_of(first).back().name == "end");
}

BOOST_AUTO_TEST_CASE(full_duplicate_and_cancelled) {
  http_options options;
  options.slots = 1;
  options.max_queue = 1;
  options.step_delay = 5ms;
  http_fixture worker(options);
  http_client running(worker.port());
  http_client waiting(worker.port());
  std::string a, b;
  running.send(execute("a", 2'000));
  BOOST_TEST_REQUIRE(running.read_until("event: token", a));
  waiting.send(execute("b", 5));
  BOOST_TEST_REQUIRE(waiting.read_until("\r\n\r\n", b));
  const auto duplicate = stream(worker, execute("a", 5, {}, "Connection: close\r\n"));
  BOOST_TEST(status_of(duplicate) == 409);
  const auto full = stream(worker, execute("c", 5, {}, "Connection: close\r\n"));
  BOOST_TEST(status_of(full) == 429);
  BOOST_TEST(full.find("Retry-After: 1\r\n") != std::string::npos);

  const auto begin = steady_clock::now();
  for (int i = 0; i < 2; ++i)
    BOOST_TEST(status_of(worker.ask(make_post("/cancel", R"({"job_id":"a"})"))) == 202);
  BOOST_TEST(status_of(worker.ask(make_post("/cancel", R"({"job_id":"nobody"})"))) == 202);
  BOOST_TEST(running.read_until("0\r\n\r\n", a));
  BOOST_TEST((steady_clock::now() - begin < 5s));  // the job alone would take ten
  BOOST_TEST(events_of(a).back().data.find("CANCELLED") != std::string::npos);
  BOOST_TEST(running.closed_within());
  BOOST_TEST(waiting.read_until("0\r\n\r\n", b));
  BOOST_TEST(events_of(b).back().name == "end");
}

BOOST_AUTO_TEST_CASE(a_client_that_leaves_ends_its_job_even_behind_pipelined_bytes) {
  http_options options;
  options.slots = 1;
  options.step_delay = 5ms;
  http_fixture worker(options);
  for (const bool rude : {false, true}) {
    http_client client(worker.port());
    std::string seen;
    client.send(execute("a", 2'000) + get_health);
    BOOST_TEST_REQUIRE(client.read_until("event: token", seen));
    client.send(get_health);
    if (rude) {
      client.reset();
    } else {
      client.close();
    }
    worker.wait_idle();
  }
  BOOST_TEST(worker.metric("worker_disconnects_total{phase=\"decode\"}") == 2);
  // Too many bytes behind a stream count as a client that misbehaves.
  http_client flood(worker.port());
  std::string seen;
  flood.send(execute("b", 2'000));
  BOOST_TEST_REQUIRE(flood.read_until("event: token", seen));
  flood.send(std::string(64 * 1024, 'x'));
  worker.wait_idle();
}

BOOST_AUTO_TEST_CASE(pipelined_requests_behind_a_stream_are_served_after_it) {
  http_fixture worker;
  http_client client(worker.port());
  std::string requests = execute("a", 10);
  for (int i = 0; i < 50; ++i) requests += get_health;
  client.send(requests + "GET /live HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n");
  const auto all = client.drain();
  std::size_t statuses = 0;
  for (auto at = all.find("HTTP/1.1 200"); at != std::string::npos; at = all.find("HTTP/1.1 200", at + 1))
    ++statuses;
  BOOST_TEST(statuses == 52U);
}

BOOST_AUTO_TEST_CASE(a_reader_that_stops_reading_is_cut_off_and_holds_no_place_until_then) {
  http_options options;
  options.slots = 1;
  options.step_delay = 0us;
  options.context_tokens = 16'384;
  options.cheap_tokens = true;
  options.connections.write_timeout = 20s;  // longer than the job takes on a busy machine
  options.max_queue = 0;
  options.execute.tokens_out_max = 16'000;
  http_fixture worker(options);
  // More than the kernel's buffers of both sides hold.
  http_client lazy(worker.port(), 2'048);
  lazy.send(execute("lazy", 16'000));
  worker.wait_idle();
  const std::string cut_off = "worker_requests_total{outcome=\"disconnected\"}";
  BOOST_TEST(worker.metric(cut_off) == 0);
  const auto other = stream(worker, execute("other", 5));
  BOOST_TEST(events_of(other).back().name == "end");
  wait_until([&] { return worker.metric(cut_off) == 1; }, "who reads nothing is cut off");
}

BOOST_AUTO_TEST_CASE(silence_is_filled_while_queued_and_prefilling) {
  http_options options;
  options.slots = 1;
  options.step_delay = 20ms;
  options.connections.keep_alive_interval = 50ms;
  http_fixture worker(options);
  http_client running(worker.port());
  std::string a, b;
  running.send(execute("a", 2'000));
  BOOST_TEST_REQUIRE(running.read_until("event: token", a));
  http_client waiting(worker.port());
  waiting.send(execute("b", 2));
  while (comments_in(b) < 2) {
    const auto part = waiting.receive(patience_ms);
    BOOST_TEST_REQUIRE(!part.empty());
    b += part;
  }
  BOOST_TEST(status_of(worker.ask(make_post("/cancel", R"({"job_id":"a"})"))) == 202);
  BOOST_TEST_REQUIRE(waiting.read_until("0\r\n\r\n", b));
  BOOST_TEST(events_of(b).back().name == "end");
}

BOOST_AUTO_TEST_CASE(time_limits_end_jobs_with_inference_timeout) {
  http_options options;
  options.step_delay = 5ms;
  http_fixture worker(options);
  const auto limited = stream(worker, execute("a", 2'000, R"(,"timeout_ms":60)"));
  BOOST_TEST(events_of(limited).back().data.find("INFERENCE_TIMEOUT") != std::string::npos);
  const auto past = worker.ask(execute("b", 5, {}, "X-Deadline: 1000\r\nConnection: close\r\n"));
  BOOST_TEST(status_of(past) == 504);
  const auto soon = std::chrono::duration_cast<std::chrono::milliseconds>(
      (std::chrono::system_clock::now() + 1s).time_since_epoch());
  const auto header = "X-Deadline: " + std::to_string(soon.count()) + "\r\n";
  const auto cut = stream(worker, execute("c", 2'000, {}, header));
  BOOST_TEST(events_of(cut).back().data.find("INFERENCE_TIMEOUT") != std::string::npos);
  BOOST_TEST(worker.metric("worker_deadline_remaining_seconds_count") >= 1);
}

BOOST_AUTO_TEST_CASE(slow_heads_and_bodies_are_cut_off) {
  http_options options;
  options.connections.header_timeout = 1s;
  options.connections.body_timeout = 1s;
  options.connections.idle_timeout = 1s;
  http_fixture worker(options);
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"GET /health HTTP/1.1\r\nX: ", "the request head did not arrive within the limit of 1 s"},
      {"POST /cancel HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
       "the body did not arrive within the limit of 1 s"}};
  for (const auto& [begin, message] : cases) {
    http_client client(worker.port());
    client.send(begin);
    std::string answer;
    for (int i = 0; i < 60 && answer.empty() && !(begin.empty() && client.closed_within(100)); ++i) {
      if (!begin.empty()) client.send("a");
      answer += client.receive(100);
    }
    answer += client.drain();
    BOOST_TEST(status_of(answer) == (begin.empty() ? 0 : 408), begin);
    BOOST_TEST(answer.find(message) != std::string::npos, answer);
    BOOST_TEST(client.closed_within(), begin);
  }
  http_client kept(worker.port());
  std::string answer;
  kept.send(get_health);
  BOOST_TEST(kept.read_until("}", answer));
  BOOST_TEST(kept.closed_within());
  // An empty line behind a request is no beginning of another: the connection is idle all the same.
  http_client lined(worker.port());
  lined.send(get_health + std::string("\r\n"));
  answer.clear();
  BOOST_TEST(lined.read_until("}", answer));
  BOOST_TEST(lined.drain() == "");
}

// More ready connections than the event loop takes at a time: the timers of the rest expire before they are
// read.
BOOST_AUTO_TEST_CASE(what_came_while_the_io_thread_did_not_run_is_not_late) {
  constexpr std::size_t many = 400;
  http_options options;
  options.connections.header_timeout = 3s;
  options.connections.body_timeout = 3s;
  options.connections.idle_timeout = 3s;
  options.connections.connections_max = 2 * many;  // one address has no more than seven of eight
  http_fixture worker(options);
  const std::string body = R"({"job_id":"nobody"})" + std::string(10'000, ' ');  // more than one read
  const std::string head =
      "POST /cancel HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nConnection: close\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n";
  const int usual = status_of(worker.ask(head + body));
  BOOST_TEST(usual < 400);
  const std::size_t sent_before[] = {0, 10, head.size(), head.size() + 100};
  std::vector<std::unique_ptr<http_client>> clients;
  for (std::size_t i = 0; i < many; ++i) {
    clients.push_back(std::make_unique<http_client>(worker.port()));
    clients.back()->send((head + body).substr(0, sent_before[i % 4]));
  }
  wait_until([&] { return worker.metric("worker_connections") > many; }, "all are accepted");
  std::promise<void> stands;
  std::thread stop([&] {
    worker.on_io([&] {
      stands.set_value();
      pause(6'200ms, "over twice a limit, so that each client gets all of one again");
    });
  });
  stands.get_future().wait();
  for (std::size_t i = 0; i < many; ++i) clients[i]->send((head + body).substr(sent_before[i % 4]));
  stop.join();
  // So many long bodies at once may be refused for being many, but none for being late.
  std::map<std::string, std::size_t> wrong;
  std::size_t answered = 0;
  for (std::size_t i = 0; i < many; ++i) {
    const int status = status_of(clients[i]->drain());
    if (status == usual) ++answered;
    if (status != usual && status != 429)
      ++wrong[std::to_string(sent_before[i % 4]) + " bytes before: " + std::to_string(status)];
  }
  for (const auto& [what, count] : wrong) BOOST_ERROR(count << " x " << what);
  BOOST_TEST(answered >= many / 2);
}

BOOST_AUTO_TEST_CASE(expect_continue_and_methods) {
  http_fixture worker;
  http_client client(worker.port());
  std::string answer;
  client.send(
      "POST /cancel HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nExpect: "
      "100-continue\r\nContent-Length: 14\r\n\r\n");
  BOOST_TEST(client.read_until("HTTP/1.1 100 Continue\r\n\r\n", answer));
  client.send(cancel_body);
  BOOST_TEST(client.read_until("202 Accepted", answer));
  BOOST_TEST(status_of(worker.ask("DELETE /execute HTTP/1.1\r\nHost: w\r\n\r\n")) == 405);
  BOOST_TEST(status_of(worker.ask("GET /nothing HTTP/1.1\r\nHost: w\r\n\r\n")) == 404);
  BOOST_TEST(status_of(worker.ask("GET http://w/ready HTTP/1.1\r\nHost: w\r\n\r\n")) == 200);
  BOOST_TEST(worker.ask("HEAD /health HTTP/1.1\r\nHost: w\r\n\r\n").ends_with("\r\n\r\n"));
  BOOST_TEST(status_of(worker.ask("GET /health HTTP/1.0\r\n\r\n")) == 200);
}

BOOST_AUTO_TEST_CASE(connections_are_capped) {
  http_options options;
  options.connections.connections_max = 8;
  http_fixture worker(options);
  std::vector<std::unique_ptr<http_client>> open;
  for (int i = 0; i < 8; ++i) {
    std::string answer;
    open.push_back(std::make_unique<http_client>(worker.port()));
    open.back()->send(get_health);
    BOOST_TEST_REQUIRE(open.back()->read_until("}", answer));
    // A body is on its way on each of them.
    open.back()->send(
        "POST /cancel HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\n"
        "Content-Length: 9\r\n\r\n{");
  }
  const std::string get_models = "GET /v1/models HTTP/1.1\r\nHost: w\r\n\r\n";
  BOOST_TEST(status_of(worker.ask(get_models)) == 503);
  BOOST_TEST(status_of(worker.ask(get_health)) == 200);
  wait_until([&] { return status_of(worker.ask(get_models)) == 200; }, "bodies that do not go on make room");
}

BOOST_AUTO_TEST_CASE(drain_finishes_what_runs_and_refuses_the_rest) {
  http_options options;
  options.step_delay = 5ms;
  http_fixture worker(options);
  http_client idle(worker.port());
  http_client client(worker.port());
  std::string seen, answer;
  idle.send(get_health);
  BOOST_TEST(idle.read_until("}", answer));
  client.send(execute("a", 400));
  BOOST_TEST_REQUIRE(client.read_until("event: token", seen));
  BOOST_TEST(status_of(worker.ask(make_post("/shutdown", ""))) == 202);
  // What a proxy had sent on a connection of before is answered, and then it is closed.
  idle.send(execute("c", 5));
  BOOST_TEST(idle.read_until("DRAINING", answer));
  BOOST_TEST(answer.find("Connection: close\r\n") != std::string::npos);
  BOOST_TEST(idle.closed_within());
  const auto refused = worker.ask(execute("b", 5));
  BOOST_TEST(status_of(refused) == 503);
  BOOST_TEST(refused.find("Connection: close\r\n") != std::string::npos);
  BOOST_TEST(refused.find("Retry-After:") != std::string::npos);
  BOOST_TEST(status_of(worker.ask("GET /ready HTTP/1.1\r\nHost: w\r\n\r\n")) == 503);
  BOOST_TEST(status_of(worker.ask("GET /live HTTP/1.1\r\nHost: w\r\n\r\n")) == 200);
  BOOST_TEST(client.read_until("0\r\n\r\n", seen));
  BOOST_TEST(events_of(seen).back().name == "end");
  // The head of that stream promised that another request may follow.
  std::string last;
  client.send(execute("d", 5));
  BOOST_TEST(client.read_until("DRAINING", last));
  BOOST_TEST(client.closed_within());
}

BOOST_AUTO_TEST_CASE(a_stop_answers_what_has_arrived_and_closes_what_is_idle) {
  http_fixture worker;
  http_client kept(worker.port());
  http_client idle(worker.port());
  std::optional<http_client> connecting;
  std::string first, answer, last;
  for (http_client* const one : {&kept, &idle}) {
    one->send(get_health);
    BOOST_TEST_REQUIRE(one->read_until("}", first));
    first.clear();
  }
  std::promise<void> stopped;
  worker.on_io([&] {  // nobody reads meanwhile, and nobody accepts
    kept.send(execute("a", 5));
    connecting.emplace(worker.port());
    connecting->send(execute("b", 5));
    pause(50ms, "nothing tells when the kernel has passed on what was sent");
    worker.server().stop(std::chrono::milliseconds(patience_ms), [&] { stopped.set_value(); });
  });
  BOOST_TEST(kept.read_until("DRAINING", answer));
  BOOST_TEST(answer.find("Connection: close\r\n") != std::string::npos);
  BOOST_TEST(kept.closed_within());
  BOOST_TEST(connecting->read_until("DRAINING", last));
  BOOST_TEST(connecting->closed_within());
  BOOST_TEST(idle.drain().empty());
  // Long before its grace is over.
  const auto ended = stopped.get_future().wait_for(std::chrono::milliseconds(patience_ms / 2));
  BOOST_TEST((ended == std::future_status::ready));
}

BOOST_AUTO_TEST_CASE(stop_ends_streams_with_an_error_event) {
  http_options options;
  options.slots = 1;
  options.step_delay = 5ms;
  http_fixture worker(options);
  http_client running(worker.port());
  http_client waiting(worker.port());
  std::string a, b;
  running.send(execute("a", 2'000));
  BOOST_TEST_REQUIRE(running.read_until("event: token", a));
  waiting.send(execute("b", 2'000));
  BOOST_TEST_REQUIRE(waiting.read_until("\r\n\r\n", b));
  BOOST_TEST(worker.stop(5s));
  BOOST_TEST(running.read_until("0\r\n\r\n", a));
  BOOST_TEST(waiting.read_until("0\r\n\r\n", b));
  BOOST_TEST(events_of(a).back().data.find("DRAINING") != std::string::npos);
  BOOST_TEST(events_of(b).back().data.find("DRAINING") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(two_servers_cannot_share_a_port) {
  http_fixture worker;
  const auto second = worker.bind_again();
  BOOST_TEST_REQUIRE(!second.has_value());
  BOOST_TEST((second.error().code == engine::errc::worker_start_failed));
  BOOST_TEST(second.error().message.find(std::to_string(worker.port())) != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
