// The scheduler's stories when the device takes steps ahead of their results.
#include <algorithm>

#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;
using namespace std::chrono_literals;

namespace {

struct ahead_bench : scheduler_bench {
  ahead_bench() { options.launch_depth = 2; }

  [[nodiscard]] std::size_t count(bool fake_record::*what) const {
    const auto& seen = device->records();
    return static_cast<std::size_t>(
        std::count_if(seen.begin(), seen.end(), [&](const auto& r) { return r.*what; }));
  }
};

/// What each of several mixed jobs gets, at this depth.
std::vector<std::vector<token_id>> outputs_at(std::uint32_t depth, bool device_knows_ends) {
  scheduler_bench b;
  b.options.slots = 3;
  b.options.launch_depth = depth;
  b.ends = {42, 43, 44};
  if (device_knows_ends) b.options.end_of_generation = b.ends;
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 40; ++i) {
    auto request = b.request("job" + std::to_string(i), prompt_of(static_cast<unsigned>(1 + i * 3 % 30), i),
                             static_cast<unsigned>(1 + i * 7 % 50));
    request.ignore_eos = i % 5 == 0;
    request.seed = static_cast<unsigned>(i);
    sinks.push_back(b.submit(std::move(request)));
  }
  b.finish();
  std::vector<std::vector<token_id>> out;
  for (const auto& sink : sinks) {
    BOOST_TEST(sink->fault() == "");
    BOOST_TEST(sink->end().has_value());
    out.push_back(sink->tokens());
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_ahead)

BOOST_AUTO_TEST_CASE(the_next_step_is_launched_before_the_last_ones_token_is_known) {
  ahead_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(4), 5);
  b.steps(1);
  BOOST_TEST(b.device->steps() == 2U);
  BOOST_TEST(sink->tokens().size() == 1U);
  b.steps(1);
  BOOST_TEST(b.device->steps() == 3U);
  b.finish();
  expect_end(*sink, finish_reason::length);
  expect_tokens(*sink, b.device->expected(prompt_of(4), 5));
  BOOST_TEST(b.count(&fake_record::fed_back) == 4U);
}

BOOST_AUTO_TEST_CASE(no_step_is_launched_beyond_the_token_limit) {
  for (const std::uint32_t tokens : {1U, 2U, 3U}) {
    ahead_bench b;
    b.options.context_tokens = 3 + tokens;  // prompt + max_tokens - 1
    b.up();
    const auto sink = b.submit("a", prompt_of(4), tokens);
    b.finish();
    expect_end(*sink, finish_reason::length);
    BOOST_TEST(b.device->steps() == tokens);
  }
}

BOOST_AUTO_TEST_CASE(chunks_of_a_prompt_follow_each_other_without_a_wait) {
  ahead_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(30), 2);
  b.steps(1);
  BOOST_TEST(b.device->steps() == 2U);
  BOOST_TEST(b.loop->steps() == 1U);
  b.finish();
  expect_tokens(*sink, b.device->expected(prompt_of(30), 2));
}

BOOST_AUTO_TEST_CASE(an_end_token_costs_one_step_in_vain_whose_token_is_dropped) {
  for (const bool device_knows : {true, false}) {
    ahead_bench b;
    b.options.next = [](auto sequence) { return sequence.size() == 6 ? 99 : 50; };
    b.ends = {99};
    if (device_knows) b.options.end_of_generation = b.ends;
    b.up();
    const auto sink = b.submit("a", prompt_of(3), 100);
    b.finish();
    expect_end(*sink, finish_reason::stop);
    expect_tokens(*sink, {50, 50, 50});
    BOOST_TEST(b.device->steps() == 5U);
    BOOST_TEST(b.count(&fake_record::in_vain) == (device_knows ? 1U : 0U));
  }
}

BOOST_AUTO_TEST_CASE(a_slot_is_taken_again_while_a_step_in_vain_is_under_way) {
  ahead_bench b;
  b.options.next = [](auto sequence) { return sequence.size() >= 6 ? 99 : 50; };
  b.ends = {99};
  b.up();
  const auto first = b.submit("first", prompt_of(3), 100);
  const auto second = b.submit("second", prompt_of(2, 9), 100);
  b.finish();
  expect_tokens(*first, {50, 50, 50});
  expect_tokens(*second, {50, 50, 50, 50});
}

BOOST_AUTO_TEST_CASE(every_job_gets_the_same_tokens_at_any_depth) {
  const auto expected = outputs_at(1, false);
  BOOST_TEST(std::count_if(expected.begin(), expected.end(), [](const auto& o) { return o.size() > 5; }) >
             10);
  for (const std::uint32_t depth : {1U, 2U, 3U}) {
    for (const bool device_knows : {true, false}) {
      BOOST_TEST((outputs_at(depth, device_knows) == expected), "depth " << depth);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cancel_takes_effect_at_once_and_the_step_under_way_is_dropped) {
  ahead_bench b;
  b.up();
  const auto sink = b.submit("a", prompt_of(4), 100);
  b.steps(3);
  b.loop->cancel("a", cancel_reason::client_cancel);
  expect_error(*sink, errc::cancelled);
  BOOST_TEST(sink->tokens().size() == 3U);
  BOOST_TEST(b.device->held_slots() == 0U);
  BOOST_TEST(!b.loop->idle());  // one step is still to be collected
  b.finish();
}

BOOST_AUTO_TEST_CASE(an_interrupt_loses_every_step_under_way_and_repeats_its_draws) {
  ahead_bench b;
  b.options.slots = 2;
  int step = 0;
  b.options.during_step = [&] {
    if (++step % 5 == 0) b.loop->interrupt();
  };
  b.up();
  auto one = b.request("one", prompt_of(20), 9), two = b.request("two", prompt_of(5), 7);
  one.seed = 1;
  two.seed = 2;
  const auto first = b.submit(std::move(one)), second = b.submit(std::move(two));
  b.finish();
  expect_tokens(*first, b.device->expected(prompt_of(20), 9));
  expect_tokens(*second, b.device->expected(prompt_of(5), 7));
  draw_source draws[2] = {draw_source(1), draw_source(2)};
  for (const auto& seen : b.device->records()) {
    if (seen.sampled) BOOST_TEST(seen.draw == draws[static_cast<std::uint32_t>(seen.slot)].next());
  }
}

BOOST_AUTO_TEST_CASE(a_failure_found_late_ends_every_job_once) {
  ahead_bench b;
  b.options.slots = 2;
  b.options.faults = {{3, errc::cuda_error, true}};
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 3; ++i) sinks.push_back(b.submit("job" + std::to_string(i), prompt_of(4, i), 100));
  b.finish();
  for (const auto& sink : sinks) expect_error(*sink, errc::cuda_error);
  BOOST_TEST(b.failures.size() == 1U);
}

BOOST_AUTO_TEST_CASE(out_of_memory_found_late_fails_one_job_and_the_others_go_on) {
  ahead_bench b;
  b.options.slots = 2;
  b.options.faults = {{4, errc::vram_oom, true}};
  b.up();
  const auto first = b.submit("decoding", prompt_of(4), 12);
  b.steps(2);
  const auto second = b.submit("prefilling", prompt_of(60), 3);
  b.finish();
  expect_error(*second, errc::vram_oom);
  expect_tokens(*first, b.device->expected(prompt_of(4), 12));
}

BOOST_AUTO_TEST_SUITE_END()
