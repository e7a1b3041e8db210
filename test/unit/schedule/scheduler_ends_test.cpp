// The scheduler's stories when a job is ended from outside or the device fails.
#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(scheduler_ends)

BOOST_AUTO_TEST_CASE(cancelling_a_running_job_ends_it_and_frees_its_slot) {
  scheduler_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(4), 100);
  b.steps(3);
  b.loop->cancel("a", cancel_reason::client_cancel);
  expect_error(*sink, errc::cancelled);
  BOOST_TEST(sink->tokens().size() == 3U);
  BOOST_TEST(b.loop->idle());
  BOOST_TEST(b.device->held_slots() == 0U);
}

BOOST_AUTO_TEST_CASE(cancelling_in_prefill_ends_the_job_before_its_first_token) {
  scheduler_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(100), 100);
  b.steps(2);
  b.loop->cancel("a", cancel_reason::disconnected);
  expect_error(*sink, errc::cancelled);
  BOOST_TEST(sink->started());
  BOOST_TEST(sink->tokens().empty());
  BOOST_TEST(b.device->held_slots() == 0U);
}

BOOST_AUTO_TEST_CASE(cancelling_a_waiting_job_leaves_the_others_in_order) {
  scheduler_bench b;
  b.up();
  const auto one = b.submit("one", prompt_of(4), 3);
  const auto two = b.submit("two", prompt_of(5), 3);
  const auto three = b.submit("three", prompt_of(6), 3);
  b.steps(1);
  b.loop->cancel("two", cancel_reason::client_cancel);
  expect_error(*two, errc::cancelled);
  BOOST_TEST(!two->started());
  b.finish();
  expect_end(*one, finish_reason::length);
  expect_end(*three, finish_reason::length);
}

BOOST_AUTO_TEST_CASE(cancel_is_idempotent_and_ignores_unknown_ids) {
  scheduler_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(4), 100);
  b.steps(1);
  b.loop->cancel("nobody", cancel_reason::client_cancel);
  b.loop->cancel("a", cancel_reason::client_cancel);
  b.loop->cancel("a", cancel_reason::timeout);
  expect_error(*sink, errc::cancelled);
}

namespace {

/// Has no memory for its masks, or for what it is told, from a token on.
class starving final : public token_constraint {
 public:
  starving(std::size_t mask_fails_at, std::size_t accept_fails_at)
      : mask_at_(mask_fails_at), accept_at_(accept_fails_at), words_(4, ~0U) {}
  token_mask mask() override {
    if (count_ >= mask_at_) throw std::bad_alloc();
    return words_;
  }
  bool accept(token_id) override {
    if (++count_ > accept_at_) throw std::bad_alloc();
    return true;
  }
  bool complete() const override { return false; }

 private:
  std::size_t mask_at_, accept_at_, count_ = 0;
  std::vector<std::uint32_t> words_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_job_without_memory_ends_and_the_others_go_on) {
  for (const auto& [mask_at, accept_at] : {std::pair{0U, 9U}, std::pair{2U, 9U}, std::pair{9U, 2U}}) {
    scheduler_bench b;
    b.options.slots = 2;
    b.up();
    job_request hungry;
    hungry.job_id = "hungry";
    hungry.prompt = prompt_of(4);
    hungry.max_tokens = 50;
    hungry.constraint = std::make_shared<starving>(mask_at, accept_at);
    const auto failed = std::make_shared<recording_sink>();
    b.loop->submit(std::move(hungry), failed);
    const auto other = b.submit("other", prompt_of(5), 20);
    b.finish();
    expect_error(*failed, errc::internal);
    expect_end(*other, finish_reason::length);
    BOOST_TEST(b.device->held_slots() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(memory_that_is_nobodys_own_ends_every_job_once) {
  scheduler_bench b;
  b.options.during_step = [] { throw std::bad_alloc(); };
  b.up();
  const auto running = b.submit("a", prompt_of(4), 20);
  const auto waiting = b.submit("b", prompt_of(5), 20);
  b.steps(1);
  expect_error(*running, errc::internal);
  expect_error(*waiting, errc::internal);
  BOOST_TEST(b.loop->idle());
  expect_error(*b.submit("late", prompt_of(6), 20), errc::internal);
}

BOOST_AUTO_TEST_CASE(a_stop_string_is_a_normal_end) {
  scheduler_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(4), 100);
  b.steps(5);
  b.loop->cancel("a", cancel_reason::stop_string);
  expect_end(*sink, finish_reason::stop);
  BOOST_TEST(sink->stats().tokens_out == 5U);
}

BOOST_AUTO_TEST_CASE(every_cancel_reason_has_its_code) {
  const std::pair<cancel_reason, errc> reasons[] = {{cancel_reason::client_cancel, errc::cancelled},
                                                    {cancel_reason::disconnected, errc::cancelled},
                                                    {cancel_reason::timeout, errc::inference_timeout},
                                                    {cancel_reason::shutdown, errc::draining}};
  for (const auto& [reason, code] : reasons) {
    scheduler_bench b;
    b.up();
    const auto sink = b.submit("a", prompt_of(4), 100);
    b.steps(1);
    b.loop->cancel("a", reason);
    expect_error(*sink, code);
  }
}

BOOST_AUTO_TEST_CASE(shutdown_ends_running_and_waiting_jobs) {
  scheduler_bench b;
  b.options.slots = 2;
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 5; ++i) sinks.push_back(b.submit("job" + std::to_string(i), prompt_of(4, i), 100));
  b.steps(2);
  b.loop->cancel_all(cancel_reason::shutdown);
  for (const auto& sink : sinks) expect_error(*sink, errc::draining);
  BOOST_TEST(b.loop->idle());
  BOOST_TEST(b.device->held_slots() == 0U);
}

BOOST_AUTO_TEST_CASE(an_overdue_running_job_ends_before_the_next_step) {
  scheduler_bench b;
  b.options.during_step = [&] { b.time += 10ms; };
  b.up();
  auto request = b.request("a", prompt_of(4), 100);
  request.deadline = b.time + 35ms;
  const auto sink = b.submit(std::move(request));
  b.finish();
  expect_error(*sink, errc::inference_timeout);
  BOOST_TEST(sink->tokens().size() == 4U);  // the step that crosses the limit still counts
  BOOST_TEST(sink->error()->failure.message.find("40 ms") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_overdue_waiting_job_ends_without_a_slot) {
  scheduler_bench b;
  b.options.during_step = [&] { b.time += 10ms; };
  b.up();
  const auto first = b.submit("first", prompt_of(4), 10);
  auto request = b.request("second", prompt_of(4), 10);
  request.deadline = b.time + 25ms;
  const auto second = b.submit(std::move(request));
  b.steps(4);
  expect_error(*second, errc::inference_timeout);
  BOOST_TEST(!second->started());
  BOOST_TEST(second->stats().queue_ms == 30.0);
  b.finish();
  expect_end(*first, finish_reason::length);
}

BOOST_AUTO_TEST_CASE(a_job_that_arrives_overdue_never_starts) {
  scheduler_bench b;
  b.up();
  auto request = b.request("a", prompt_of(4), 10);
  request.deadline = b.time;
  const auto sink = b.submit(std::move(request));
  b.finish();
  expect_error(*sink, errc::inference_timeout);
  BOOST_TEST(!sink->started());
  BOOST_TEST(b.device->steps() == 0U);
}

BOOST_AUTO_TEST_CASE(an_interrupted_step_is_computed_again_with_the_same_draws) {
  scheduler_bench b;
  b.options.slots = 2;
  int step = 0;
  b.options.during_step = [&] {
    if (++step % 5 == 0) b.loop->interrupt();
  };
  b.up();
  auto one = b.request("one", prompt_of(20), 6), two = b.request("two", prompt_of(5), 6);
  one.seed = 1;
  two.seed = 2;
  const auto first = b.submit(std::move(one)), second = b.submit(std::move(two));
  b.finish();
  expect_end(*first, finish_reason::length);
  expect_end(*second, finish_reason::length);
  expect_tokens(*first, b.device->expected(prompt_of(20), 6));
  expect_tokens(*second, b.device->expected(prompt_of(5), 6));
  draw_source draws[2] = {draw_source(1), draw_source(2)};
  for (const auto& seen : b.device->records()) {
    if (seen.sampled) BOOST_TEST(seen.draw == draws[static_cast<std::uint32_t>(seen.slot)].next());
  }
  BOOST_TEST(b.loop->steps() < b.device->steps());
}

BOOST_AUTO_TEST_CASE(an_interrupt_between_steps_is_not_lost) {
  scheduler_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(4), 2);
  b.loop->interrupt();
  BOOST_TEST(b.loop->run_step());
  BOOST_TEST(b.loop->steps() == 0U);
  b.finish();
  expect_tokens(*sink, b.device->expected(prompt_of(4), 2));
}

BOOST_AUTO_TEST_CASE(a_targeted_interrupt_stops_only_a_step_of_that_job_alone) {
  scheduler_bench b;
  b.options.slots = 2;
  b.options.during_step = [&] { b.loop->interrupt_if_alone("one"); };
  b.up();
  b.loop->interrupt_if_alone("one");  // nothing runs: nothing to stop
  b.submit("one", prompt_of(4), 3);
  b.steps(2);
  BOOST_TEST(b.loop->steps() == 0U);
  b.submit("two", prompt_of(1), 50);
  b.steps(2);
  BOOST_TEST(b.loop->steps() == 2U);  // beside another job it is left to finish its step
  b.loop->cancel("one", cancel_reason::client_cancel);
  b.steps(3);
  BOOST_TEST(b.loop->steps() == 5U);
}

BOOST_AUTO_TEST_CASE(a_lost_device_ends_every_job_and_every_later_one) {
  scheduler_bench b;
  b.options.slots = 2;
  b.options.faults = {{3, errc::cuda_error}};
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 4; ++i) sinks.push_back(b.submit("job" + std::to_string(i), prompt_of(4, i), 100));
  b.finish();
  for (const auto& sink : sinks) {
    expect_error(*sink, errc::cuda_error);
    BOOST_TEST(sink->error()->failure.message == "injected fault at step 3");
  }
  BOOST_REQUIRE(b.failures.size() == 1U);
  BOOST_TEST(b.degraded.empty());
  const auto late = b.submit("late", prompt_of(4), 100);
  expect_error(*late, errc::cuda_error);
  BOOST_TEST(!late->started());
  BOOST_TEST(b.loop->idle());
  BOOST_TEST(b.failures.size() == 1U);
}

// Health changes first, then the jobs are told, then the owner, who may end the process.
BOOST_AUTO_TEST_CASE(a_failure_is_told_in_this_order) {
  scheduler_bench b;
  b.options.faults = {{1, errc::vram_oom}, {2, errc::cuda_error}};
  b.up();
  scheduler_config config;
  std::vector<sink_ptr> sinks;
  std::vector<std::string> told;
  const auto tell = [&](const char* what) {
    std::string text = what;
    for (const auto& sink : sinks) text += sink->ended() ? " 1" : " 0";
    told.push_back(text);
  };
  config.on_degraded = [&](const error&) { tell("degraded"); };
  config.on_lost = [&](const error&) { tell("lost"); };
  config.on_failure = [&](const error&) { tell("failure"); };
  b.loop = std::make_unique<scheduler>(*b.device, config);
  for (const char* id : {"a", "b", "c"}) sinks.push_back(b.submit(id, prompt_of(4), 2));
  b.steps(2);
  const std::vector<std::string> expected{"degraded 0 0 0", "lost 1 0 0", "failure 1 1 1"};
  BOOST_TEST(told == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(out_of_memory_fails_the_prefilling_job_and_the_others_go_on) {
  scheduler_bench b;
  b.options.slots = 2;
  b.options.faults = {{4, errc::vram_oom}};
  b.up();
  const auto first = b.submit("decoding", prompt_of(4), 12);
  b.steps(2);
  const auto second = b.submit("prefilling", prompt_of(60), 3);
  const auto third = b.submit("waiting", prompt_of(5), 3);
  b.finish();
  expect_error(*second, errc::vram_oom);
  expect_end(*first, finish_reason::length);
  expect_tokens(*first, b.device->expected(prompt_of(4), 12));
  expect_end(*third, finish_reason::length);
  expect_tokens(*third, b.device->expected(prompt_of(5), 3));
  BOOST_TEST(b.degraded.size() == 1U);
  BOOST_TEST(b.failures.empty());
}

// Jobs that ran when memory ran out prove nothing: what they need they had before.
BOOST_AUTO_TEST_CASE(a_shortage_is_over_when_a_job_that_came_after_it_ends_well) {
  scheduler_bench b;
  b.options.slots = 2;
  b.options.faults = {{4, errc::vram_oom}};
  b.up();
  const auto before = b.submit("before", prompt_of(4), 12);
  b.steps(2);
  const auto victim = b.submit("victim", prompt_of(60), 3);
  b.finish();
  expect_error(*victim, errc::vram_oom);
  expect_end(*before, finish_reason::length);
  BOOST_TEST(b.degraded.size() == 1U);
  BOOST_TEST(b.recovered == 0U);
  b.submit("cancelled", prompt_of(4), 12);
  b.steps(2);
  b.loop->cancel("cancelled", cancel_reason::client_cancel);
  b.finish();
  BOOST_TEST(b.recovered == 0U);
  for (const char* id : {"after", "later"}) {
    const auto job = b.submit(id, prompt_of(4), 3);
    b.finish();
    expect_end(*job, finish_reason::length);
  }
  BOOST_TEST(b.recovered == 1U);
}

BOOST_AUTO_TEST_CASE(out_of_memory_on_every_step_ends_every_job_in_turn) {
  scheduler_bench b;
  b.options.slots = 2;
  for (std::uint64_t step = 1; step <= 10; ++step) b.options.faults.push_back({step, errc::vram_oom});
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(b.submit("job" + std::to_string(i), prompt_of(4, i), 5));
  b.finish();
  for (const auto& sink : sinks) expect_error(*sink, errc::vram_oom);
  BOOST_TEST(b.device->steps() == 3U);
}

BOOST_AUTO_TEST_CASE(a_step_without_a_choosable_token_fails_that_job_only) {
  for (const std::uint32_t depth : {1U, 2U}) {
    scheduler_bench b;
    b.options.slots = 2;
    b.options.launch_depth = depth;
    b.options.next = [](auto sequence) { return sequence[0] == 1 && sequence.size() == 6 ? -1 : 50; };
    b.up();
    const auto bad = b.submit("bad", prompt_of(4, 1), 10);
    const auto good = b.submit("good", prompt_of(4, 2), 10);
    b.finish();
    expect_error(*bad, errc::internal);
    BOOST_TEST(bad->tokens().size() == 2U);
    expect_end(*good, finish_reason::length);
  }
}

BOOST_AUTO_TEST_SUITE_END()
