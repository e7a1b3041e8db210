// The GPU thread over a fake accelerator: delivery, interruption, shutdown, health, and a stress of
// several threads that the thread sanitizer watches.
#include "gpu/gpu_thread.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "engine/lora/adapter.hpp"
#include "test/support/fake_accelerator.hpp"
#include "test/support/wait_until.hpp"
#include "test/support/waiting_sink.hpp"

using namespace orcd::engine;
using namespace orcd::test;
using namespace std::chrono_literals;
using orcd::gpu::gpu_thread;
using waiting_ptr = std::shared_ptr<waiting_sink>;

namespace {

struct thread_bench {
  explicit thread_bench(fake_options options = {}, scheduler_config config = {}) : device(options) {
    config.slots = options.slots;
    thread = std::make_unique<gpu_thread>(device, std::move(config), state);
  }

  waiting_ptr submit(const std::string& id, std::vector<token_id> prompt, std::uint32_t max_tokens) {
    job_request request;
    request.job_id = id;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.received_at = std::chrono::steady_clock::now();
    auto sink = std::make_shared<waiting_sink>();
    thread->submit(std::move(request), sink);
    return sink;
  }

  // Everything posted before has run when this returns.
  void settle() {
    std::promise<void> done;
    thread->post([&] { done.set_value(); });
    got_from(done.get_future());
  }

  fake_accelerator device;
  worker_state state;
  std::unique_ptr<gpu_thread> thread;
};

void expect_error(const recording_sink& seen, errc code) {
  BOOST_TEST(seen.fault() == "");
  BOOST_REQUIRE(seen.error().has_value());
  BOOST_TEST(code_name(seen.error()->failure.code) == code_name(code));
}

// A step this long never ends by itself within a test's patience.
constexpr auto endless = 120s;

}  // namespace

BOOST_AUTO_TEST_SUITE(gpu_thread_stories)

BOOST_AUTO_TEST_CASE(a_job_is_served_and_the_state_is_published) {
  thread_bench b;
  const auto sink = b.submit("a", {1, 2, 3}, 5);
  const auto seen = sink->wait_end();
  BOOST_REQUIRE(seen.end().has_value());
  BOOST_TEST(seen.tokens() == b.device.expected({1, 2, 3}, 5), boost::test_tools::per_element());
  b.settle();
  BOOST_TEST(b.state.steps == 5U);
  BOOST_TEST(b.state.running == 0U);
  BOOST_TEST(!b.state.step_active);
  BOOST_TEST(b.state.last_step_ns > 0);
  BOOST_TEST((b.state.cause() == health_cause::none));
}

// A client that asks /health when it has its answer must not find its own job there.
BOOST_AUTO_TEST_CASE(the_state_is_published_before_a_job_is_told_of_its_end) {
  struct use_at_end final : event_sink {
    explicit use_at_end(const worker_state& s) : state(s) {}
    void offer(const job_event& event) noexcept override {
      if (std::holds_alternative<end_event>(event)) running.set_value(state.running);
    }
    const worker_state& state;
    std::promise<std::uint32_t> running;
  };
  thread_bench b;
  job_request request;
  request.job_id = "a";
  request.prompt = {1, 2, 3};
  request.max_tokens = 5;
  request.received_at = std::chrono::steady_clock::now();
  const auto sink = std::make_shared<use_at_end>(b.state);
  b.thread->submit(std::move(request), sink);
  BOOST_TEST(got_from(sink->running.get_future()) == 0U);
}

BOOST_AUTO_TEST_CASE(the_state_shows_a_step_in_progress) {
  fake_options options;
  options.step_delay = endless;
  thread_bench b(options);
  const auto sink = b.submit("a", {1}, 5);
  (void)sink->wait_start();
  wait_until([&] { return b.device.steps() > 0; });
  BOOST_TEST(b.state.step_active);
  BOOST_TEST(b.state.last_step_ns > 0);
}

BOOST_AUTO_TEST_CASE(the_thread_has_a_name_and_runs_posted_tasks) {
  thread_bench b;
  std::promise<std::string> name;
  b.thread->post([&] {
    std::array<char, 16> text{};
    pthread_getname_np(pthread_self(), text.data(), text.size());
    name.set_value(text.data());
  });
  BOOST_TEST(got_from(name.get_future()) == "gpu");
}

BOOST_AUTO_TEST_CASE(tasks_run_between_the_steps_of_a_long_job) {
  fake_options options;
  options.step_delay = 1ms;
  options.context_tokens = 1'000'000;
  thread_bench b(options);
  const auto sink = b.submit("a", {1}, 900'000);
  (void)sink->wait_start();
  b.settle();
  BOOST_TEST(!sink->now().ended());
}

BOOST_AUTO_TEST_CASE(adapters_come_and_go_while_a_stream_runs) {
  fake_options options;
  options.step_delay = 1ms;
  options.context_tokens = 1'000'000;
  options.pages = {256, 4000};
  options.adapters = 2;
  thread_bench b(options);
  const auto put = [&](std::uint32_t index, const std::string& digest) {
    auto adapter = std::make_shared<lora_adapter>();
    adapter->digest = digest;
    std::promise<bool> done;
    b.thread->put_adapter(index, adapter, [&](const result<void>& how) { done.set_value(how.has_value()); });
    return got_from(done.get_future());
  };
  const auto drop = [&](std::uint32_t index) {
    std::promise<bool> done;
    b.thread->drop_adapter(index, [&](bool free) { done.set_value(free); });
    return got_from(done.get_future());
  };
  BOOST_TEST(put(0, "one"));
  job_request request;
  request.job_id = "a";
  request.prompt = {1, 2, 3};
  request.max_tokens = 900'000;
  request.adapters = {{0, 1.0F, "one"}};
  const auto sink = std::make_shared<waiting_sink>();
  b.thread->submit(std::move(request), sink);
  (void)sink->wait_start();
  for (int i = 0; i < 10; ++i) BOOST_TEST((put(1, "two") && drop(1)));
  BOOST_TEST(!put(0, "two"));
  BOOST_TEST(!put(2, "two"));
  BOOST_TEST(!drop(0));
  BOOST_TEST(!sink->now().ended());
  b.thread->cancel("a", cancel_reason::client_cancel);
  (void)sink->wait_end();
  BOOST_TEST(drop(0));
  BOOST_TEST(put(0, "two"));
}

BOOST_AUTO_TEST_CASE(steps_go_on_while_adapters_are_put_one_after_the_other) {
  fake_options options;
  options.step_delay = 1ms;
  options.context_tokens = 1'000'000;
  options.pages = {256, 4000};
  options.adapters = 3;
  options.adapter_parts = 40;
  thread_bench b(options);
  job_request request;
  request.job_id = "a";
  request.prompt = {1, 2, 3};
  request.max_tokens = 900'000;
  const auto sink = std::make_shared<waiting_sink>();
  b.thread->submit(std::move(request), sink);
  (void)sink->wait_start();
  const auto steps = b.device.steps();
  std::vector<std::uint32_t> order;
  std::vector<std::uint64_t> at;
  std::promise<void> done;
  for (const std::uint32_t index : {2U, 7U, 0U}) {  // there is no room for the second
    auto adapter = std::make_shared<lora_adapter>();
    adapter->digest = std::to_string(index);
    b.thread->put_adapter(index, adapter, [&, index](const result<void>& how) {
      BOOST_TEST(how.has_value() == (index != 7));
      order.push_back(index);
      at.push_back(b.device.steps());
      if (index == 0) done.set_value();
    });
  }
  got_from(done.get_future());
  BOOST_TEST(order == (std::vector<std::uint32_t>{2, 7, 0}), boost::test_tools::per_element());
  BOOST_TEST(at[0] >= steps + 38U);  // a step between any two parts
  BOOST_TEST(at[2] >= at[1] + 38U);
  b.thread->cancel("a", cancel_reason::client_cancel);
  (void)sink->wait_end();
}

BOOST_AUTO_TEST_CASE(the_thread_ends_in_the_middle_of_a_put) {
  fake_options options;
  options.pages = {256, 16};
  options.adapters = 1;
  options.adapter_parts = 4'000'000'000U;
  std::atomic<int> ends{0};
  {
    thread_bench b(options);
    for (int i = 0; i < 2; ++i) {
      b.thread->put_adapter(0, std::make_shared<lora_adapter>(), [&](const result<void>& how) {
        BOOST_TEST((how.error().code == errc::cancelled));
        ++ends;
      });
    }
    b.settle();
    BOOST_TEST(ends == 0);
  }
  BOOST_TEST(ends == 2);
}

BOOST_AUTO_TEST_CASE(the_positions_of_running_jobs_are_published) {
  fake_options options;
  options.step_delay = 1ms;
  options.context_tokens = 1'000'000;
  thread_bench b(options);
  const auto sink = b.submit("a", {1, 2, 3}, 900'000);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (b.state.kv_positions < 5 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  BOOST_TEST(b.state.kv_positions >= 5U);
  b.thread->cancel("a", cancel_reason::client_cancel);
  (void)sink->wait_end();
  b.settle();
  BOOST_TEST(b.state.kv_positions == 0U);
}

BOOST_AUTO_TEST_CASE(a_cancel_interrupts_the_step_in_progress) {
  fake_options options;
  options.step_delay = endless;
  thread_bench b(options);
  const auto sink = b.submit("a", {1}, 5);
  wait_until([&] { return b.device.steps() > 0; });
  b.thread->cancel("a", cancel_reason::disconnected);
  expect_error(sink->wait_end(), errc::cancelled);
  b.settle();
  BOOST_TEST(b.state.kv_positions == 0U);
  BOOST_TEST(b.device.held_slots() == 0U);
  BOOST_TEST(b.state.running == 0U);
}

BOOST_AUTO_TEST_CASE(a_cancel_of_a_waiting_job_does_not_disturb_the_running_one) {
  fake_options options;
  options.step_delay = 200ms;  // the cancel must come before the running job ends
  thread_bench b(options);
  const auto running = b.submit("running", {1}, 3);
  const auto waiting = b.submit("waiting", {2}, 3);
  (void)running->wait_start();
  b.thread->cancel("waiting", cancel_reason::client_cancel);
  expect_error(waiting->wait_end(), errc::cancelled);
  BOOST_REQUIRE(running->wait_end().end().has_value());
  BOOST_TEST(b.device.steps() == 3U);  // no step was lost
}

BOOST_AUTO_TEST_CASE(stop_ends_every_job_and_answers_late_ones) {
  fake_options options;
  options.step_delay = endless;
  thread_bench b(options);
  std::vector<waiting_ptr> sinks;
  for (int i = 0; i < 4; ++i) sinks.push_back(b.submit("job" + std::to_string(i), {1, 2}, 5));
  wait_until([&] { return b.device.steps() > 0; });
  b.thread->stop();
  for (const auto& sink : sinks) expect_error(sink->now(), errc::draining);
  BOOST_TEST(b.device.held_slots() == 0U);
  b.thread->stop();
  const auto late = b.submit("late", {1}, 1);
  expect_error(late->wait_end(), errc::draining);
  BOOST_TEST(!late->now().started());
  BOOST_TEST(b.device.steps() == 1U);
}

// As on a device that hangs: the step hears of no interrupt.
BOOST_AUTO_TEST_CASE(stop_waits_no_longer_than_it_is_told_for_a_step_that_does_not_end) {
  std::promise<void> ends;
  fake_options options;
  options.during_step = [ended = ends.get_future().share()] { ended.wait(); };
  thread_bench b(options);
  const auto running = b.submit("running", {1, 2}, 5);
  wait_until([&] { return b.device.steps() > 0; });
  BOOST_TEST(!b.thread->stop(20ms));
  BOOST_TEST(!running->now().ended());
  ends.set_value();
  BOOST_TEST(b.thread->stop(60s));
  expect_error(running->now(), errc::draining);
}

BOOST_AUTO_TEST_CASE(stop_ends_jobs_that_the_thread_had_not_yet_taken) {
  fake_options options;
  options.step_delay = endless;
  thread_bench b(options);
  std::vector<waiting_ptr> sinks{b.submit("running", {1, 2}, 5)};
  wait_until([&] { return b.device.steps() > 0; });
  for (int i = 0; i < 4; ++i) sinks.push_back(b.submit("queued" + std::to_string(i), {1, 2}, 5));
  b.thread->stop();
  for (const auto& sink : sinks) expect_error(sink->now(), errc::draining);
  BOOST_TEST(b.device.steps() == 1U);
}

BOOST_AUTO_TEST_CASE(a_shortage_of_memory_keeps_no_caller_of_stop_waiting) {
  fake_options options;
  options.step_delay = endless;
  scheduler_config config;
  bool first = true;
  config.on_released = [&] {
    if (std::exchange(first, false)) throw std::bad_alloc();
  };
  thread_bench b(options, std::move(config));
  (void)b.submit("running", {1, 2}, 5);
  wait_until([&] { return b.device.steps() > 0; });
  const auto queued = b.submit("queued", {1, 2}, 5);
  b.thread->stop();
  BOOST_TEST(!first);
  BOOST_TEST(queued->now().error().has_value());
}

BOOST_AUTO_TEST_CASE(jobs_end_between_two_steps_and_later_ones_run) {
  fake_options options;
  options.step_delay = endless;
  thread_bench b(options);
  std::vector<waiting_ptr> sinks;
  for (int i = 0; i < 4; ++i) sinks.push_back(b.submit("job" + std::to_string(i), {1, 2}, 5));
  wait_until([&] { return b.device.steps() > 0; });
  std::promise<std::uint64_t> at_rest;
  b.thread->end_jobs([&] { at_rest.set_value(b.device.held_slots()); });
  BOOST_TEST(got_from(at_rest.get_future()) == 0U);
  for (const auto& sink : sinks) expect_error(sink->now(), errc::draining);
  const auto before = b.device.steps();
  const auto later = b.submit("later", {1, 2}, 5);
  wait_until([&] { return b.device.steps() > before; });
  b.thread->cancel("later", cancel_reason::client_cancel);
  expect_error(later->wait_end(), errc::cancelled);
}

BOOST_AUTO_TEST_CASE(destruction_ends_the_jobs) {
  fake_options options;
  options.step_delay = endless;
  waiting_ptr sink;
  {
    thread_bench b(options);
    sink = b.submit("a", {1}, 5);
  }
  expect_error(sink->now(), errc::draining);
}

BOOST_AUTO_TEST_CASE(a_lost_device_is_told_to_health_and_to_the_owner_who_may_stop_from_there) {
  fake_options options;
  options.faults = {{2, errc::cuda_error}};
  scheduler_config config;
  std::promise<errc> told;
  thread_bench* bench = nullptr;
  config.on_failure = [&](const error& why) {
    bench->thread->stop();
    told.set_value(why.code);
  };
  thread_bench b(options, std::move(config));
  bench = &b;
  const auto one = b.submit("one", {1}, 100), two = b.submit("two", {2}, 100);
  expect_error(one->wait_end(), errc::cuda_error);
  BOOST_TEST((b.state.cause() == health_cause::lost));
  BOOST_TEST((got_from(told.get_future()) == errc::cuda_error));
  expect_error(two->wait_end(), errc::cuda_error);
  BOOST_TEST((b.state.get() == lifecycle::failed));
}

// Jobs are told why, and not that the worker is ending, as it will be for that reason.
BOOST_AUTO_TEST_CASE(what_others_find_wrong_ends_jobs_as_a_failed_step_does) {
  std::atomic<int> told{0};
  scheduler_config config;
  config.on_failure = [&](const error&) { ++told; };
  fake_options options;
  options.slots = 1;
  options.step_delay = 1ms;
  thread_bench b(options, config);
  const auto running = b.submit("a", {1}, 100'000);
  const auto waiting = b.submit("b", {1}, 5);
  (void)running->wait_start();
  for (int i = 0; i < 2; ++i) b.thread->fail(error(errc::internal, "the file was written to"));
  b.settle();
  b.thread->stop();
  for (const auto& sink : {running, waiting, b.submit("c", {1}, 5)}) {
    const auto seen = sink->wait_end();
    expect_error(seen, errc::internal);
    BOOST_TEST(seen.error()->failure.message == "the file was written to");
  }
  BOOST_TEST(told == 1);
}

BOOST_AUTO_TEST_CASE(out_of_memory_degrades_health_and_the_worker_goes_on) {
  fake_options options;
  options.faults = {{1, errc::vram_oom}};
  thread_bench b(options);
  b.state.set(lifecycle::ready);
  expect_error(b.submit("one", {1}, 5)->wait_end(), errc::vram_oom);
  BOOST_TEST((b.state.cause() == health_cause::job_out_of_memory));
  BOOST_REQUIRE(b.submit("two", {2}, 5)->wait_end().end().has_value());
  BOOST_TEST((b.state.cause() == health_cause::none));  // known before the job's client is told
  BOOST_TEST((b.state.get() == lifecycle::ready));
}

BOOST_AUTO_TEST_CASE(threads_that_submit_and_cancel_get_every_job_ended_once) {
  fake_options options;
  options.slots = 3;
  options.step_delay = 20us;
  thread_bench b(options);
  constexpr int clients = 4, jobs = 150;
  std::vector<std::vector<waiting_ptr>> sinks(clients);
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&, c] {
      draw_source random(static_cast<std::uint64_t>(c) + 1);
      for (int j = 0; j < jobs; ++j) {
        const std::string id = std::to_string(c) + "-" + std::to_string(j);
        sinks[static_cast<std::size_t>(c)].push_back(
            b.submit(id, {c, j % 100, 5}, 1 + static_cast<unsigned>(j % 9)));
        if (random.next() < 0.3) std::this_thread::sleep_for(50us);
        if (random.next() < 0.5) b.thread->cancel(id, cancel_reason::client_cancel);
        if (random.next() < 0.2) b.thread->post([] {});
        (void)b.state.running.load();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  int ended = 0, cancelled = 0;
  for (int c = 0; c < clients; ++c) {
    for (int j = 0; j < jobs; ++j) {
      const auto seen = sinks[static_cast<std::size_t>(c)][static_cast<std::size_t>(j)]->wait_end();
      BOOST_REQUIRE(seen.fault() == "");
      BOOST_REQUIRE(seen.ended());
      auto expected = b.device.expected({c, j % 100, 5}, 1 + static_cast<unsigned>(j % 9));
      if (seen.error()) expected.resize(seen.tokens().size());
      BOOST_TEST(seen.tokens() == expected, boost::test_tools::per_element());
      ++(seen.error() ? cancelled : ended);
    }
  }
  BOOST_TEST(ended > 100);
  BOOST_TEST(cancelled > 20);
  b.settle();
  BOOST_TEST(b.device.held_slots() == 0U);
}

BOOST_AUTO_TEST_CASE(stopping_under_load_loses_no_terminal_event) {
  for (int round = 0; round < 20; ++round) {
    fake_options options;
    options.slots = 2;
    options.step_delay = 30us;
    thread_bench b(options);
    std::vector<waiting_ptr> sinks;
    std::thread client([&] {
      for (int j = 0; j < 60; ++j) sinks.push_back(b.submit(std::to_string(j), {j, 1}, 6));
    });
    std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    b.thread->stop();
    client.join();
    for (const auto& sink : sinks) {
      const auto seen = sink->wait_end();
      BOOST_REQUIRE(seen.ended());
      BOOST_REQUIRE(seen.fault() == "");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
