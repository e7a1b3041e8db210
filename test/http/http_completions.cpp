// Completions of several choices over real sockets and a fake device: left alone, abandoned, reset or out of
// time at a random moment. Whatever happens, an answer is whole or an error, a stream ends with [DONE] or
// with an error, and in the end nothing is left. A failing seed is printed.
#include <algorithm>
#include <atomic>
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <random>
#include <thread>

#include "test/http/http_client.hpp"
#include "test/http/http_fixture.hpp"
#include "test/support/pause.hpp"

namespace orcd::test {
namespace {

using namespace std::chrono_literals;

enum class disturbance { none, close, reset, half_close, time_limit };
constexpr unsigned disturbances = 5;
constexpr unsigned slots = 4;

struct plan {
  disturbance what = disturbance::none;
  unsigned choices = 1;
  unsigned max_tokens = 1;
  bool stream = false;
  bool logprobs = false;
  bool long_body = false;  ///< one that is read on another thread
  std::chrono::microseconds delay{0};
};

plan make_plan(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  plan p;
  p.what = static_cast<disturbance>(below(disturbances));
  p.choices = 1 + below(slots);
  p.max_tokens = 1 + below(60);
  p.stream = below(2) == 0;
  p.logprobs = below(2) == 0;
  p.long_body = below(2) == 0;
  p.delay = std::chrono::microseconds(below(4) == 0 ? 0 : below(20'000));
  return p;
}

std::string request_of(const plan& p) {
  std::string body = R"({"seed":1,"ignore_eos":true,"prompt":"hello","n":)" + std::to_string(p.choices) +
                     R"(,"max_tokens":)" + std::to_string(p.max_tokens);
  if (p.stream) body += R"(,"stream":true)";
  if (p.logprobs) body += R"(,"logprobs":3)";
  if (p.what == disturbance::time_limit)
    body += R"(,"timeout_ms":)" + std::to_string(1 + p.delay.count() / 1'000);
  if (p.long_body) body += std::string(8'192, ' ');
  return make_post("/v1/completions", body + "}", "Connection: close\r\n");
}

/// Empty when the answer is as it must be.
std::string check(const plan& p, const std::string& response) {
  const int status = status_of(response);
  if (p.stream && status == 200) {
    const auto events = events_of(response);
    if (events.empty()) return "a stream without an event";
    const auto& last = events.back().data;
    if (last == "[DONE]") return {};
    return last.starts_with("{\"error\":") && p.what == disturbance::time_limit ? "" : "it ends with " + last;
  }
  const auto body = response.substr(std::min(response.find("\r\n\r\n"), response.size() - 4) + 4);
  boost::system::error_code ec;
  const auto answer = boost::json::parse(body, ec);
  if (ec || !answer.is_object()) return "no JSON: " + response;
  if (status == 504) return p.what == disturbance::time_limit ? "" : "ran out of time it has";
  if (status != 200) return "status " + std::to_string(status);
  const auto& choices = answer.as_object().at("choices").as_array();
  if (choices.size() != p.choices) return "not every choice is there";
  for (const auto& choice : choices) {
    if (choice.at("finish_reason") != "length") return "a choice did not end by its length";
    if (choice.at("logprobs").is_null() == p.logprobs) return "log probabilities are wrong";
    if (p.logprobs && choice.at("logprobs").at("tokens").as_array().size() != p.max_tokens)
      return "not every token has a log probability";
  }
  return {};
}

std::string run(http_fixture& worker, unsigned seed) {
  const plan p = make_plan(seed);
  http_client client(worker.port());
  client.send(request_of(p));
  if (p.what == disturbance::none || p.what == disturbance::time_limit) return check(p, client.drain());
  pause(p.delay, "it is disturbed in any of its phases");
  if (p.what == disturbance::close) client.close();
  if (p.what == disturbance::reset) client.reset();
  if (p.what == disturbance::half_close) {
    client.half_close();
    client.drain();
  }
  return {};
}

BOOST_AUTO_TEST_SUITE(http_completions)

BOOST_AUTO_TEST_CASE(disturbed_completions_leave_nothing_behind) {
  http_options options;
  options.slots = slots;
  options.max_queue = 100;
  options.step_delay = 200us;
  http_fixture worker(options);
  constexpr unsigned count = 150;
  std::mutex mutex;
  std::vector<std::string> failures;
  std::atomic<unsigned> next{0};
  const auto client = [&] {
    for (unsigned seed = next++; seed < count; seed = next++) {
      const auto failure = run(worker, seed);
      const std::lock_guard lock(mutex);
      if (!failure.empty()) failures.push_back("seed " + std::to_string(seed) + ": " + failure);
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) clients.emplace_back(client);
  for (auto& thread : clients) thread.join();
  for (const auto& failure : failures) BOOST_TEST(failure.empty(), failure);
  worker.wait_idle();
  BOOST_TEST(worker.metric("worker_requests_total{outcome=\"error\"}") == 0);
  for (const char* how : {"completed", "disconnected", "timeout"}) {
    BOOST_TEST(worker.metric("worker_requests_total{outcome=\"" + std::string(how) + "\"}") > 0, how);
  }
}

BOOST_AUTO_TEST_CASE(a_choice_that_runs_out_of_memory_costs_the_whole_answer_and_no_other) {
  for (const bool stream : {false, true}) {
    http_options options;
    options.slots = 3;
    options.step_delay = 1ms;
    options.faults = {{.step = 12, .code = engine::errc::vram_oom}};
    http_fixture worker(options);
    http_client neighbour(worker.port());
    // Admitted first: of equally long parts of a step, that of the job that came last is given up.
    neighbour.send(make_post("/execute", R"({"job_id":"n","prompt":"hello","max_tokens":100,"seed":1})"));
    std::string other;
    BOOST_TEST_REQUIRE(neighbour.read_until("event: token", other));
    http_client client(worker.port());
    client.send(make_post("/v1/completions",
                          std::string(R"({"prompt":"x","n":2,"max_tokens":200,"ignore_eos":true,"stream":)") +
                              (stream ? "true}" : "false}"),
                          "Connection: close\r\n"));
    const auto response = client.drain();
    BOOST_TEST(status_of(response) == (stream ? 200 : 500));
    BOOST_TEST(response.find("VRAM_OOM") != std::string::npos, response);
    BOOST_TEST(response.find("[DONE]") == std::string::npos);
    BOOST_TEST(neighbour.read_until("0\r\n\r\n", other));
    BOOST_TEST(events_of(other).back().name == "end");
    worker.wait_idle();
    BOOST_TEST(worker.metric("worker_disconnects_total{phase=\"decode\"}") == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_whole_answer_keeps_its_connection) {
  http_fixture worker;
  http_client client(worker.port());
  for (int i = 0; i < 3; ++i) {
    client.send(make_post("/v1/completions", R"({"prompt":"x","max_tokens":2,"ignore_eos":true})"));
    std::string response;
    BOOST_TEST_REQUIRE(client.read_until("reasoning_tokens\":0}}}", response), response);
    BOOST_TEST(status_of(response) == 200);
  }
}

BOOST_AUTO_TEST_CASE(the_id_of_several_choices_is_no_job_of_another) {
  http_options options;
  options.slots = 3;
  options.step_delay = 1ms;
  http_fixture worker(options);
  http_client client(worker.port());
  client.send(make_post("/v1/completions",
                        R"({"prompt":"x","n":2,"max_tokens":2000,"ignore_eos":true,"stream":true})",
                        "Connection: close\r\n"));
  std::string stream;
  BOOST_TEST_REQUIRE(client.read_until("\"id\":\"cmpl-", stream));
  BOOST_TEST_REQUIRE(client.read_until("\n\n", stream));
  const auto from = stream.find("\"id\":\"") + 6;
  const std::string id = stream.substr(from, stream.find('"', from) - from);
  for (const auto* suffix : {"", "-0", "-1"}) {
    const auto taken = worker.ask(
        make_post("/execute", "{\"job_id\":\"" + id + suffix + R"(","prompt":"x","max_tokens":1,"seed":1})"));
    BOOST_TEST(status_of(taken) == 409, taken);
  }
  BOOST_TEST(status_of(worker.ask(make_post("/cancel", "{\"job_id\":\"" + id + "\"}"))) == 202);
  stream += client.drain();
  const auto events = events_of(stream);
  const auto errors = std::count_if(events.begin(), events.end(),
                                    [](const auto& event) { return event.data.starts_with("{\"error\":"); });
  BOOST_TEST(errors == 1);
  BOOST_TEST(events.back().data.starts_with("{\"error\":"));
  worker.wait_idle();
}

BOOST_AUTO_TEST_CASE(a_job_that_cannot_be_handed_over_keeps_no_place) {
  http_options options;
  options.slots = 2;
  options.max_queue = 0;
  options.submit_without_memory = 2;
  http_fixture worker(options);
  const auto request =
      make_post("/v1/completions", R"({"prompt":"x","n":2,"max_tokens":900,"ignore_eos":true})",
                "Connection: close\r\n");
  const auto ask = [&] {
    http_client client(worker.port());
    client.send(request);
    return client.drain();
  };
  BOOST_TEST(ask().empty());
  worker.wait_idle();
  BOOST_TEST(status_of(ask()) == 200);
  worker.wait_idle();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
