// 200 seeded jobs over real sockets, each cancelled, abandoned, reset, timed out or left alone at a random
// moment. Whatever happens: at most one terminal event, always last, and in the end nothing is left.
// A failing seed is printed; ORCD_INTERLEAVING_SEED=n runs that one alone.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "test/http/http_client.hpp"
#include "test/http/http_fixture.hpp"
#include "test/support/pause.hpp"

namespace orcd::test {
namespace {

using namespace std::chrono_literals;

enum class disturbance { none, cancel, cancel_twice, close, reset, half_close, time_limit, cancel_and_close };
constexpr unsigned disturbances = 8;

struct plan {
  unsigned seed = 0;
  disturbance what = disturbance::none;
  unsigned max_tokens = 1;
  unsigned prompt = 1;
  std::chrono::microseconds delay{0};
  bool stop_string = false;
};

plan make_plan(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  plan p;
  p.seed = seed;
  p.what = static_cast<disturbance>(below(disturbances));
  p.max_tokens = 1 + below(60);
  p.prompt = 1 + below(80);
  p.delay = std::chrono::microseconds(below(4) == 0 ? 0 : below(20'000));
  p.stop_string = below(4) == 0;
  return p;
}

std::string request_of(const plan& p, const std::string& job_id) {
  std::string body = R"({"job_id":")" + job_id + R"(","seed":1,"prompt":")" + std::string(p.prompt, 'p') +
                     R"(","max_tokens":)" + std::to_string(p.max_tokens);
  if (p.stop_string) body += R"(,"stop":["A","z"])";
  if (p.what == disturbance::time_limit)
    body += R"(,"timeout_ms":)" + std::to_string(1 + p.delay.count() / 1'000);
  return make_post("/execute", body + "}");
}

/// Empty when the stream is well formed; `whole` when the client stayed to its end.
std::string check_stream(const std::string& response, bool whole) {
  const auto events = events_of(response);
  std::size_t terminals = 0;
  long last_index = -1;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& event = events[i];
    if (terminals > 0) return "an event after the terminal one: " + event.name;
    if (event.name == "end" || event.name == "error") {
      ++terminals;
    } else if (event.name == "started") {
      if (i != 0) return "started is not first";
    } else if (event.name == "token") {
      if (i == 0) return "a token before started";
      const long index = std::stol(event.id);
      if (index < last_index) return "token indexes run backwards";
      last_index = index;
    } else {
      return "unexpected event " + event.name;
    }
  }
  if (whole && terminals != 1) return "there are " + std::to_string(terminals) + " terminal events";
  return {};
}

std::string run(http_fixture& worker, const plan& p) {
  const std::string job_id = "job-" + std::to_string(p.seed);
  const std::string cancel = make_post("/cancel", R"({"job_id":")" + job_id + "\"}");
  http_client client(worker.port());
  client.send(request_of(p, job_id));
  pause(p.delay, "it is disturbed in any of its phases");
  const bool cancels = p.what == disturbance::cancel || p.what == disturbance::cancel_twice ||
                       p.what == disturbance::cancel_and_close;
  if (cancels && status_of(worker.ask(cancel)) != 202) return "a cancel was not accepted";
  if (p.what == disturbance::cancel_twice && status_of(worker.ask(cancel)) != 202)
    return "a second cancel was refused";
  const bool leaves = p.what == disturbance::close || p.what == disturbance::cancel_and_close;
  if (leaves) client.close();
  if (p.what == disturbance::reset) client.reset();
  if (p.what == disturbance::half_close) client.half_close();
  if (leaves || p.what == disturbance::reset) return {};
  std::string response;
  if (!client.read_until("0\r\n\r\n", response)) return "the stream did not end: " + response;
  return check_stream(response, true);
}

BOOST_AUTO_TEST_SUITE(http_interleavings)

BOOST_AUTO_TEST_CASE(two_hundred_disturbed_jobs) {
  http_options options;
  options.slots = 3;
  options.max_queue = 100;
  options.step_delay = 200us;
  http_fixture worker(options);
  const char* only = std::getenv("ORCD_INTERLEAVING_SEED");
  const unsigned first = only != nullptr ? static_cast<unsigned>(std::atoi(only)) : 0;
  const unsigned last = only != nullptr ? first + 1 : 200;

  std::mutex mutex;
  std::vector<std::string> failures;
  std::set<unsigned> kinds;
  std::atomic<unsigned> next{first};
  const auto client = [&] {
    for (unsigned seed = next++; seed < last; seed = next++) {
      const plan p = make_plan(seed);
      const auto failure = run(worker, p);
      const std::lock_guard lock(mutex);
      kinds.insert(static_cast<unsigned>(p.what));
      if (!failure.empty()) failures.push_back("seed " + std::to_string(seed) + ": " + failure);
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) clients.emplace_back(client);
  for (auto& thread : clients) thread.join();
  for (const auto& failure : failures) BOOST_TEST(failure.empty(), failure);
  BOOST_TEST((only != nullptr || kinds.size() == disturbances));

  worker.wait_idle();
  double ended = 0;
  for (const char* how : {"completed", "cancelled", "disconnected", "timeout", "error", "refused"}) {
    const double count = worker.metric("worker_requests_total{outcome=\"" + std::string(how) + "\"}");
    BOOST_TEST_MESSAGE(how << ": " << count);
    ended += count;
  }
  // A client that left before its request was read counts as nothing.
  BOOST_TEST(ended <= last - first);
  BOOST_TEST(worker.metric("worker_requests_total{outcome=\"error\"}") == 0);
  for (const char* how : {"completed", "cancelled", "disconnected", "timeout"}) {
    const double count = worker.metric("worker_requests_total{outcome=\"" + std::string(how) + "\"}");
    BOOST_TEST((only != nullptr || count > 0),
               "no job ended as " << how << ": the delays need another range");
  }
  BOOST_TEST(worker.metric("worker_requests_waiting") == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
