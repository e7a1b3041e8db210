// The scheduler's stories when nothing goes wrong: ends, order, batching, chunking, draws, times.
#include <algorithm>

#include "engine/base/prompt_tokens.hpp"
#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(scheduler_stories)

BOOST_AUTO_TEST_CASE(a_job_runs_to_its_token_limit) {
  scheduler_bench b;
  auto& loop = b.up();
  const auto sink = b.submit("a", prompt_of(20), 5);
  BOOST_TEST(loop.waiting() == 1U);
  BOOST_TEST(!sink->started());
  b.finish();
  expect_end(*sink, finish_reason::length);
  expect_tokens(*sink, b.device->expected(prompt_of(20), 5));
  BOOST_TEST(sink->stats().tokens_in == 20U);
  BOOST_TEST(sink->stats().tokens_out == 5U);
  BOOST_TEST(loop.steps() == 7U);  // chunks of 8, 8, 4 (the last one samples), then four single tokens
}

BOOST_AUTO_TEST_CASE(a_job_that_wants_it_tells_how_far_its_prompt_is) {
  scheduler_bench b;
  b.up();
  auto request = b.request("a", prompt_of(20), 5);
  request.tell_progress = true;
  const auto sink = b.submit(request);
  const auto silent = b.submit("b", prompt_of(20), 5);
  b.steps(1);
  b.time += 30ms;
  b.finish();
  BOOST_TEST(sink->fault() == "");
  const auto& told = sink->progress();
  BOOST_TEST_REQUIRE(told.size() == 3U);
  BOOST_TEST((told[0].processed == 8U && told[1].processed == 16U && told[2].processed == 20U));
  BOOST_TEST((told[0].elapsed_ms == 0U && told[2].elapsed_ms == 30U));
  BOOST_TEST(silent->progress().empty());
}

BOOST_AUTO_TEST_CASE(the_smallest_job_takes_one_step) {
  scheduler_bench b;
  b.up();
  const auto sink = b.submit("a", {7}, 1);
  BOOST_TEST(!b.loop->run_step());
  expect_end(*sink, finish_reason::length);
  BOOST_TEST(sink->tokens().size() == 1U);
  BOOST_TEST(b.device->held_slots() == 0U);
}

BOOST_AUTO_TEST_CASE(an_idle_scheduler_runs_no_step) {
  scheduler_bench b;
  b.up();
  BOOST_TEST(!b.loop->run_step());
  BOOST_TEST(b.device->steps() == 0U);
  BOOST_TEST(b.loop->idle());
}

BOOST_AUTO_TEST_CASE(an_end_of_generation_token_ends_the_job_and_is_not_sent) {
  scheduler_bench b;
  b.options.next = [](auto sequence) { return sequence.size() == 6 ? 99 : 50; };
  b.ends = {120, 99};
  b.up();
  const auto sink = b.submit("a", prompt_of(3), 100);
  b.finish();
  expect_end(*sink, finish_reason::stop);
  expect_tokens(*sink, {50, 50, 50});
  BOOST_TEST(sink->stats().tokens_out == 3U);
}

BOOST_AUTO_TEST_CASE(end_of_generation_as_the_first_token_gives_an_empty_output) {
  scheduler_bench b;
  b.options.next = [](auto) { return 99; };
  b.ends = {99};
  b.up();
  const auto sink = b.submit("a", prompt_of(3), 100);
  b.finish();
  expect_end(*sink, finish_reason::stop);
  BOOST_TEST(sink->tokens().empty());
  BOOST_TEST(sink->started());
}

BOOST_AUTO_TEST_CASE(ignore_eos_goes_on_and_sends_the_token) {
  scheduler_bench b;
  b.options.next = [](auto) { return 99; };
  b.ends = {99};
  b.up();
  auto request = b.request("a", prompt_of(3), 4);
  request.ignore_eos = true;
  const auto sink = b.submit(std::move(request));
  b.finish();
  expect_end(*sink, finish_reason::length);
  expect_tokens(*sink, {99, 99, 99, 99});
}

BOOST_AUTO_TEST_CASE(jobs_get_slots_in_the_order_they_came) {
  scheduler_bench b;
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 4; ++i) sinks.push_back(b.submit("job" + std::to_string(i), prompt_of(3, i), 2));
  b.steps(1);
  BOOST_TEST(b.loop->running() == 1U);
  BOOST_TEST(b.loop->waiting() == 3U);
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    BOOST_TEST(sinks[i]->started());
    for (std::size_t later = i + 1; later < sinks.size(); ++later) BOOST_TEST(!sinks[later]->started());
    b.steps(2);
  }
  b.finish();
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    expect_tokens(*sinks[i], b.device->expected(prompt_of(3, static_cast<int>(i)), 2));
  }
}

BOOST_AUTO_TEST_CASE(tokens_do_not_depend_on_batching_or_chunking) {
  std::vector<std::vector<token_id>> alone;
  for (const std::uint32_t slots : {1U, 2U, 5U}) {
    for (const std::uint32_t chunk : {1U, 3U, 64U}) {
      scheduler_bench b;
      b.options.slots = slots;
      b.options.chunk_tokens = chunk;
      b.up();
      std::vector<sink_ptr> sinks;
      for (int i = 0; i < 6; ++i) {
        const auto n = static_cast<std::uint32_t>(i);
        sinks.push_back(b.submit("job" + std::to_string(i), prompt_of(1 + 9 * n, i), 3 + n));
      }
      b.finish();
      for (std::size_t i = 0; i < sinks.size(); ++i) {
        expect_end(*sinks[i], finish_reason::length);
        if (alone.size() <= i) alone.push_back(sinks[i]->tokens());
        expect_tokens(*sinks[i], alone[i]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_long_prompt_is_prefilled_beside_running_decodes) {
  scheduler_bench b;
  b.options.slots = 2;
  b.up();
  const auto first = b.submit("decoding", prompt_of(4), 20);
  b.steps(1);
  const auto second = b.submit("long", prompt_of(40), 1);
  for (std::size_t step = 2; step <= 6; ++step) {
    b.steps(1);
    BOOST_TEST(first->tokens().size() == step);
  }
  expect_end(*second, finish_reason::length);
}

BOOST_AUTO_TEST_CASE(prompts_are_prefilled_in_turn_one_chunk_per_step) {
  scheduler_bench b;
  b.options.slots = 3;
  b.up();
  for (int i = 0; i < 3; ++i) b.submit("job" + std::to_string(i), prompt_of(24, i), 1);
  b.steps(6);
  std::vector<std::uint32_t> slots;
  for (const auto& seen : b.device->records()) slots.push_back(static_cast<std::uint32_t>(seen.slot));
  const std::vector<std::uint32_t> in_turn{0, 1, 2, 0, 1, 2};
  BOOST_TEST(slots == in_turn, boost::test_tools::per_element());
  b.finish();
}

/// Tokens of prompts in each step, as slot:tokens.
std::vector<std::string> prompts_by_step(const scheduler_bench& b) {
  std::vector<std::string> out;
  for (const auto& seen : b.device->records()) {
    if (seen.sampled && seen.tokens == 1) continue;
    out.resize(std::max<std::size_t>(out.size(), seen.step));
    std::string& step = out[seen.step - 1];
    step += (step.empty() ? "" : " ") + std::to_string(static_cast<std::uint32_t>(seen.slot)) + ":" +
            std::to_string(seen.tokens);
  }
  return out;
}

BOOST_AUTO_TEST_CASE(several_prompts_share_a_step_up_to_a_chunks_tokens) {
  scheduler_bench b;
  b.options.slots = 8;
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 8; ++i) sinks.push_back(b.submit("job" + std::to_string(i), prompt_of(3, i), 1));
  b.finish();
  // Who had to leave tokens for the next step goes on first.
  const std::vector<std::string> expected{"0:3 1:3 2:2", "3:3 4:3 5:2", "6:3 7:3"};
  BOOST_TEST(prompts_by_step(b) == expected, boost::test_tools::per_element());
  for (std::size_t i = 0; i < sinks.size(); ++i)
    expect_tokens(*sinks[i], b.device->expected(prompt_of(3, static_cast<int>(i)), 1));
}

BOOST_AUTO_TEST_CASE(prompts_have_less_of_a_step_beside_few_that_decode_than_where_nobody_waits) {
  scheduler_bench b;
  b.options.slots = 2;
  b.options.chunk_tokens = 4 * prompt_tokens_least;
  b.up();
  const auto first = b.submit("first", prompt_of(2 * prompt_tokens_least + 1), 20);
  b.steps(2);
  const auto second = b.submit("second", prompt_of(2 * prompt_tokens_least + 2), 1);
  b.steps(3);
  const auto steps = prompts_by_step(b);
  BOOST_REQUIRE(steps.size() >= 4U);
  BOOST_TEST(steps[0] == "0:1025");
  BOOST_TEST(steps[2] == "1:512");
  BOOST_TEST(steps[3] == "1:512");
  b.finish();
}

BOOST_AUTO_TEST_CASE(the_more_sequences_run_the_more_prompt_tokens_a_step_has) {
  BOOST_TEST(prompt_tokens_for(1) == 512U);
  BOOST_TEST(prompt_tokens_for(32) == 512U);
  BOOST_TEST(prompt_tokens_for(33) == 528U);
  BOOST_TEST(prompt_tokens_for(128) == 2'048U);
  BOOST_TEST(prompt_tokens_for(0xffff'ffff) == 2'048U);
  BOOST_TEST(prompt_tokens_beside(0, 1, 2'048) == 2'048U);
  BOOST_TEST(prompt_tokens_beside(1, 2, 2'048) == 512U);
  BOOST_TEST(prompt_tokens_beside(1, 64, 2'048) == 1'024U);
  BOOST_TEST(prompt_tokens_beside(1, 64, 256) == 256U);
}

BOOST_AUTO_TEST_CASE(a_step_fills_experts_in_a_quarter_of_a_second) {
  BOOST_TEST(prompt_tokens_of(0, 0, 0) == 2'048U);
  BOOST_TEST(prompt_tokens_of(32, 4, 3'000'000'000) == 2'048U);
  BOOST_TEST(prompt_tokens_of(128, 8, 3'000'000'000) == 4'096U);
  BOOST_TEST(prompt_tokens_of(512, 8, 1'000'000'000) == 8'192U);  // and no more
  BOOST_TEST(prompt_tokens_of(4, 4, 1'000'000'000) == 512U);
  BOOST_TEST(prompt_tokens_of(128, 4, 5'000'000'000) == 4'096U);
  BOOST_TEST(prompt_tokens_of(128, 4, 6'000'000'000) == 2'048U);
  BOOST_TEST(prompt_tokens_of(0, 0, 20'000'000'000) == 1'024U);
  BOOST_TEST(prompt_tokens_of(0, 0, 400'000'000'000) == 512U);  // no fewer
}

BOOST_AUTO_TEST_CASE(a_long_prompt_takes_turns_with_short_ones) {
  scheduler_bench b;
  b.options.slots = 4;
  b.up();
  b.submit("long", prompt_of(30), 1);
  for (int i = 1; i < 4; ++i) b.submit("short" + std::to_string(i), prompt_of(5, i), 1);
  b.finish();
  const std::vector<std::string> expected{"0:8", "1:5 2:3", "2:2 3:5 0:1", "0:8", "0:8", "0:5"};
  BOOST_TEST(prompts_by_step(b) == expected, boost::test_tools::per_element());
}

// The device computes prompts and what decodes in one pass; the fake one refuses more of them than a chunk.
BOOST_AUTO_TEST_CASE(however_many_prompts_come_every_step_has_a_token_of_who_decodes) {
  for (const std::uint32_t depth : {1U, 2U}) {
    scheduler_bench b;
    b.options.slots = 9;
    b.options.launch_depth = depth;
    b.up();
    const auto first = b.submit("decoding", prompt_of(4), 40);
    b.steps(1);
    for (int i = 0; i < 16; ++i)
      b.submit("job" + std::to_string(i), prompt_of(1 + static_cast<std::uint32_t>(i) % 7, i), 2);
    for (std::size_t step = 2; step <= 12; ++step) {
      b.steps(1);
      BOOST_TEST(first->tokens().size() == step);
    }
    b.finish();
  }
}

BOOST_AUTO_TEST_CASE(beside_adapters_a_step_has_one_prompt) {
  scheduler_bench b;
  b.options.slots = 4;
  b.options.adapters = 1;
  b.options.pages = {.page_positions = 8, .pages = 8};
  b.up();
  BOOST_REQUIRE(put_adapter(*b.loop, 0, adapter_named("one")).has_value());
  for (int i = 0; i < 4; ++i) {
    auto request = b.request("job" + std::to_string(i), prompt_of(3, i), 1);
    if (i == 2) request.adapters.push_back(job_adapter{.index = 0, .digest = "one"});
    b.submit(std::move(request));
  }
  b.finish();
  const std::vector<std::string> expected{"0:3", "1:3", "2:3", "3:3"};
  BOOST_TEST(prompts_by_step(b) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_token_takes_the_next_draw_of_its_jobs_seed) {
  scheduler_bench b;
  b.options.slots = 2;
  b.up();
  auto one = b.request("one", prompt_of(12), 6), two = b.request("two", prompt_of(3), 9);
  one.seed = 42;
  two.seed = 43;
  b.submit(std::move(one));
  b.submit(std::move(two));
  b.finish();
  draw_source draws[2] = {draw_source(42), draw_source(43)};
  int sampled = 0;
  for (const auto& seen : b.device->records()) {
    if (!seen.sampled) continue;
    ++sampled;
    BOOST_TEST(seen.draw == draws[static_cast<std::uint32_t>(seen.slot)].next());
  }
  BOOST_TEST(sampled == 15);
}

BOOST_AUTO_TEST_CASE(times_are_measured_from_the_clock_given) {
  scheduler_bench b;
  b.options.during_step = [&] { b.time += 10ms; };
  b.up();
  const auto sink = b.submit("a", prompt_of(16), 3);
  b.time += 5ms;
  b.finish();
  const auto& stats = sink->stats();
  BOOST_TEST(stats.queue_ms == 5.0);
  BOOST_TEST(stats.prefill_ms == 20.0);
  BOOST_TEST(stats.first_token_ms == 25.0);
  BOOST_TEST(stats.decode_ms == 20.0);
}

BOOST_AUTO_TEST_CASE(a_freed_slot_is_taken_by_the_next_job) {
  scheduler_bench b;
  b.options.slots = 2;
  b.up();
  b.submit("long", prompt_of(4), 50);
  for (int i = 0; i < 20; ++i) b.submit("short" + std::to_string(i), prompt_of(5, i), 2);
  b.finish();
  BOOST_TEST(b.device->releases() == 21U);
}

BOOST_AUTO_TEST_CASE(log_probabilities_come_to_the_job_that_asked) {
  for (const std::uint32_t depth : {1U, 2U}) {
    scheduler_bench b;
    b.options.slots = 2;
    b.options.launch_depth = depth;
    b.up();
    auto asked = b.request("a", prompt_of(5), 4);
    asked.logprobs = true;
    asked.top_logprobs = 2;
    const auto with = b.submit(std::move(asked));
    const auto without = b.submit("b", prompt_of(5), 4);
    b.finish();
    BOOST_TEST_REQUIRE(with->logprobs().size() == 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      BOOST_TEST(with->logprobs()[i].chosen == -static_cast<float>(with->tokens()[i]) / 8.0F);
      BOOST_TEST(with->logprobs()[i].listed == 2U);
    }
    BOOST_TEST(without->logprobs().empty());
  }
}

namespace {

/// Counts the calls of one job's watch, and looks at who is in a slot then.
struct counting_watch final : slot_watch {
  explicit counting_watch(scheduler& l) : loop(l) {}
  void begins() noexcept override {
    ++begun;
    others = loop.running() - 1;
  }
  void ends() noexcept override { ++ended; }
  scheduler& loop;
  int begun = 0;
  int ended = 0;
  std::uint32_t others = 99;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_job_that_runs_alone_lets_others_go_first_and_has_no_company) {
  scheduler_bench b;
  b.options.slots = 4;
  auto& loop = b.up();
  const auto first = b.submit("first", prompt_of(9), 6);
  auto suspect = b.request("suspect", prompt_of(11, 3), 5);
  suspect.suspect = true;
  const auto watch = std::make_shared<counting_watch>(loop);
  suspect.watch = watch;
  const auto alone = b.submit(suspect);
  const auto later = b.submit("later", prompt_of(7, 5), 4);
  b.steps(2);
  BOOST_TEST(first->started());
  BOOST_TEST(later->started());
  BOOST_TEST(!alone->started());
  BOOST_TEST(watch->begun == 0);
  while (!alone->started()) BOOST_REQUIRE(loop.run_step());
  BOOST_TEST(first->end().has_value());
  BOOST_TEST(later->end().has_value());
  BOOST_TEST(loop.running() == 1U);
  BOOST_TEST(watch->others == 0U);
  const auto after = b.submit("after", prompt_of(5, 9), 3);
  b.steps(2);
  BOOST_TEST(!after->started());
  BOOST_TEST(watch->ended == 0);
  b.finish();
  BOOST_TEST(watch->begun == 1);
  BOOST_TEST(watch->ended == 1);
  expect_end(*after, finish_reason::length);
  expect_tokens(*alone, b.device->expected(prompt_of(11, 3), 5));
}

BOOST_AUTO_TEST_CASE(a_job_that_runs_alone_is_not_overtaken_for_ever) {
  scheduler_bench b;
  b.options.slots = 2;
  auto& loop = b.up();
  const auto first = b.submit("first", prompt_of(9), 40);
  auto suspect = b.request("suspect", prompt_of(11, 3), 2);
  suspect.suspect = true;
  const auto alone = b.submit(suspect);
  const auto early = b.submit("early", prompt_of(7, 5), 2);
  b.steps(8);
  BOOST_TEST(early->end().has_value());
  b.time += 11s;
  const auto late = b.submit("late", prompt_of(7, 5), 2);
  while (!first->end()) BOOST_REQUIRE(loop.run_step());
  BOOST_TEST(!late->started());
  b.finish();
  expect_end(*alone, finish_reason::length);
  expect_end(*late, finish_reason::length);
}

BOOST_AUTO_TEST_CASE(jobs_that_run_alone_take_turns_and_may_be_cancelled) {
  scheduler_bench b;
  b.options.slots = 3;
  auto& loop = b.up();
  std::vector<sink_ptr> sinks;
  for (const auto* name : {"a", "b", "c"}) {
    auto one = b.request(name, prompt_of(9), 3);
    one.suspect = true;
    sinks.push_back(b.submit(one));
  }
  loop.cancel("b", cancel_reason::client_cancel);
  b.steps(1);
  BOOST_TEST(loop.running() == 1U);
  b.finish();
  expect_end(*sinks[0], finish_reason::length);
  expect_error(*sinks[1], errc::cancelled);
  expect_end(*sinks[2], finish_reason::length);
}

BOOST_AUTO_TEST_SUITE_END()
