// Jobs that get their pages as they grow, and are preempted when there are none: what they tell, who goes
// first, and what a job that waits again may still meet.
#include <set>

#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;
using namespace std::chrono_literals;

namespace {

struct counting_watch final : slot_watch {
  void begins() noexcept override { ++begun; }
  void ends() noexcept override { ++ended; }
  int begun = 0, ended = 0;
};

struct growth_bench : scheduler_bench {
  growth_bench(std::uint32_t pages, std::uint32_t slots, std::uint32_t depth = 1) {
    options.pages = {4, pages};
    options.slots = slots;
    options.launch_depth = depth;
    cache.tokens_min = 1;
    up();
  }
  [[nodiscard]] std::uint32_t pages_used() const {
    const kv_cache_counts counts = loop->counts().cache;
    return counts.pages - counts.pages_free - counts.pages_cached;
  }
  /// Two jobs of whom the second one came last, until it is preempted.
  void set_one_back() {
    first = submit("first", prompt_of(8), 16);
    auto job = request("second", prompt_of(8, 60), 16);
    job.watch = watch;
    second = submit(job);
    steps(1);
    BOOST_TEST_REQUIRE(loop->running() == 2U);
    while (loop->counts().preemptions == 0) BOOST_TEST_REQUIRE(loop->run_step());
    BOOST_TEST(loop->running() == 1U);
    BOOST_TEST(loop->waiting() == 1U);
    BOOST_TEST(loop->counts().short_of_pages == 1U);
    BOOST_TEST(device->held_slots() == 1U);
  }
  void expect_nothing_lost() const {
    const kv_cache_counts counts = loop->counts().cache;
    BOOST_TEST(counts.pages_free + counts.pages_cached == counts.pages);
  }

  sink_ptr first, second;
  std::shared_ptr<counting_watch> watch = std::make_shared<counting_watch>();  ///< of the second
};

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_growth)

BOOST_AUTO_TEST_CASE(a_job_has_the_pages_of_its_tokens_and_the_next_one_when_it_needs_it) {
  growth_bench b(32, 1);
  const auto sink = b.submit("a", prompt_of(6), 100);
  b.steps(1);
  BOOST_TEST(b.pages_used() == 2U);
  while (sink->tokens().size() < 11) BOOST_TEST_REQUIRE(b.loop->run_step());  // 16 positions are computed
  BOOST_TEST(b.pages_used() == 4U);
  b.steps(1);
  BOOST_TEST(b.pages_used() == 5U);
  b.finish();
  expect_tokens(*sink, b.device->expected(prompt_of(6), 100));
  BOOST_TEST(b.loop->counts().preemptions == 0U);
}

// By their limits one would fit; by what they use all do.
BOOST_AUTO_TEST_CASE(jobs_that_end_early_run_beside_each_other) {
  growth_bench b(40, 8);
  b.ends = {5};
  b.options.next = [](std::span<const token_id> sequence) {
    return sequence.size() >= 12 ? 5 : hashed_token(sequence);
  };
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 8; ++i) sinks.push_back(b.submit("n" + std::to_string(i), prompt_of(8, 1 + i), 140));
  b.steps(1);
  BOOST_TEST(b.loop->running() == 8U);
  b.finish();
  for (const auto& sink : sinks) expect_end(*sink, finish_reason::stop);
  BOOST_TEST(b.loop->counts().preemptions == 0U);
}

BOOST_AUTO_TEST_CASE(the_job_that_came_last_waits_and_goes_on_with_the_same_tokens) {
  for (const std::uint32_t depth : {1U, 2U, 3U}) {
    growth_bench b(9, 2, depth);
    b.set_one_back();
    BOOST_TEST(!b.second->tokens().empty());
    b.finish();
    expect_end(*b.first, finish_reason::length);
    expect_end(*b.second, finish_reason::length);
    expect_tokens(*b.first, b.device->expected(prompt_of(8), 16));
    expect_tokens(*b.second, b.device->expected(prompt_of(8, 60), 16));
    BOOST_TEST(b.loop->counts().preemptions == 1U);
    b.expect_nothing_lost();
  }
}

BOOST_AUTO_TEST_CASE(counts_and_times_are_those_of_a_job_that_was_not_set_back) {
  growth_bench b(9, 2);
  b.first = b.submit("first", prompt_of(8), 16);
  auto job = b.request("second", prompt_of(8, 60), 16);
  job.tell_progress = true;
  job.logprobs = true;
  job.watch = b.watch;
  job.cache.session = "s";
  b.second = b.submit(job);
  b.time += 3ms;
  while (b.loop->counts().preemptions == 0) BOOST_TEST_REQUIRE(b.loop->run_step());
  BOOST_TEST(b.watch->begun == 1);
  BOOST_TEST(b.watch->ended == 1);
  BOOST_TEST(b.loop->counts().cache.sessions == 0U);
  b.time += 50ms;
  b.finish();
  expect_end(*b.second, finish_reason::length);
  BOOST_TEST(b.watch->begun == 2);
  BOOST_TEST(b.watch->ended == 2);
  BOOST_TEST(b.second->progress().size() == 1U);
  BOOST_TEST(b.second->logprobs().size() == 16U);
  const job_stats& stats = b.second->stats();
  BOOST_TEST(stats.tokens_in == 8U);
  BOOST_TEST(stats.tokens_out == 16U);
  BOOST_TEST(stats.tokens_cached == 0U);
  BOOST_TEST(stats.queue_ms == 3.0);
  BOOST_TEST(stats.decode_ms == 50.0);
  BOOST_TEST(b.loop->counts().cache.queries == 2U);
  BOOST_TEST(b.loop->counts().cache.hits == 0U);
  BOOST_TEST(b.loop->counts().cache.sessions == 1U);
}

// A token that is asked for again, after any number of set-backs, gets the draw that it had.
BOOST_AUTO_TEST_CASE(tokens_keep_their_draws) {
  const auto draws_on = [](std::uint32_t pages, std::uint64_t& preemptions) {
    growth_bench b(pages, 3, 2);
    std::vector<sink_ptr> sinks;
    for (int i = 0; i < 3; ++i) {
      auto job = b.request("n" + std::to_string(i), prompt_of(8, 1 + 40 * i), 24);
      job.seed = static_cast<std::uint64_t>(7 + i);
      job.cache.enabled = false;
      sinks.push_back(b.submit(job));
    }
    b.finish();
    preemptions = b.loop->counts().preemptions;
    std::vector<std::set<double>> out(32);  // by position
    for (const auto& record : b.device->records()) {
      if (record.sampled) out.at(record.position + record.tokens - 1).insert(record.draw);
    }
    return out;
  };
  std::uint64_t none = 0, some = 0;
  const auto ample = draws_on(64, none);
  const auto few = draws_on(10, some);
  BOOST_TEST(none == 0U);
  BOOST_TEST(some > 0U);
  BOOST_TEST((ample == few));
}

BOOST_AUTO_TEST_CASE(who_came_later_does_not_overtake_a_job_that_was_set_back) {
  growth_bench b(9, 3);
  b.set_one_back();
  const auto later = b.submit("later", {7, 8}, 1);
  BOOST_TEST(b.watch->begun == 1);
  while (!later->started()) BOOST_TEST_REQUIRE(b.loop->run_step());
  BOOST_TEST(b.watch->begun == 2);
  b.finish();
  expect_end(*later, finish_reason::length);
}

BOOST_AUTO_TEST_CASE(a_job_that_was_set_back_can_be_ended) {
  for (const char* how : {"cancel", "deadline", "shutdown"}) {
    growth_bench b(9, 2);
    b.first = b.submit("first", prompt_of(8), 16);
    auto job = b.request("second", prompt_of(8, 60), 16);
    job.deadline = b.time + 1s;
    b.second = b.submit(job);
    while (b.loop->counts().preemptions == 0) BOOST_TEST_REQUIRE(b.loop->run_step());
    const std::size_t told = b.second->tokens().size();
    if (how == std::string("cancel")) b.loop->cancel("second", cancel_reason::disconnected);
    if (how == std::string("deadline")) b.time += 2s;
    if (how == std::string("shutdown")) b.loop->cancel_all(cancel_reason::shutdown);
    b.steps(1);
    BOOST_TEST_REQUIRE(b.second->error().has_value());
    BOOST_TEST(b.second->fault() == "");
    BOOST_TEST(b.second->started());
    BOOST_TEST(b.second->stats().tokens_out == told);
    b.finish();
    if (how != std::string("shutdown")) expect_tokens(*b.first, b.device->expected(prompt_of(8), 16));
    b.expect_nothing_lost();
  }
}

// Nobody but the oldest is sure to go on, and it does, however often others are preempted for it.
BOOST_AUTO_TEST_CASE(the_oldest_job_never_stops) {
  growth_bench b(17, 8, 2);
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 8; ++i) sinks.push_back(b.submit("n" + std::to_string(i), prompt_of(8, 1 + i), 60));
  for (std::size_t oldest = 0; oldest < sinks.size(); ++oldest) {
    for (std::size_t seen = sinks[oldest]->tokens().size(), waited = 0; !sinks[oldest]->ended();) {
      b.steps(1);
      waited = sinks[oldest]->tokens().size() > seen ? 0 : waited + 1;
      seen = sinks[oldest]->tokens().size();
      BOOST_TEST_REQUIRE(waited < 30U);
    }
  }
  b.finish();
  for (int i = 0; i < 8; ++i)
    expect_tokens(*sinks[static_cast<std::size_t>(i)], b.device->expected(prompt_of(8, 1 + i), 60));
  BOOST_TEST(b.loop->counts().preemptions > 0U);
  BOOST_TEST(b.loop->counts().preemptions <= 24U);
  b.expect_nothing_lost();
}

// Prompts share the steps' columns. A job that asks for one token has its pages until its prompt has had its
// turn, and those that grow meanwhile take no pages from it.
BOOST_AUTO_TEST_CASE(jobs_whose_prompts_wait_for_their_turn_are_seldom_set_back) {
  growth_bench b(24, 12);
  b.options.chunk_tokens = 2;
  b.up();
  std::vector<sink_ptr> sinks;
  const auto limit = [](int i) { return i % 5 == 4 ? 30U : 1U; };
  for (int i = 0; i < 60; ++i)
    sinks.push_back(b.submit("n" + std::to_string(i), prompt_of(10 + i % 3, 1 + i), limit(i)));
  b.finish();
  for (int i = 0; i < 60; ++i)
    expect_tokens(*sinks[static_cast<std::size_t>(i)],
                  b.device->expected(prompt_of(10 + i % 3, 1 + i), limit(i)));
  BOOST_TEST(b.loop->counts().preemptions <= 6U);
  b.expect_nothing_lost();
}

// What the running one still needs gets less with each step, though it gives nothing back.
BOOST_AUTO_TEST_CASE(a_job_starts_when_the_one_before_it_has_grown_enough) {
  growth_bench b(100, 2);
  // Jobs are seen to use what they ask for.
  for (int i = 0; i < 64; ++i) (void)b.submit("usual" + std::to_string(i), prompt_of(4), 4);
  b.finish();
  const auto before = b.submit("before", prompt_of(40), 240);
  b.steps(2);
  const auto next = b.submit("next", prompt_of(40, 60), 240);
  b.steps(100);
  BOOST_TEST(b.loop->running() == 1U);
  b.steps(120);
  BOOST_TEST(b.loop->running() == 2U);
  BOOST_TEST(!before->ended());
  b.finish();
  BOOST_TEST(b.loop->counts().preemptions == 0U);
  expect_tokens(*next, b.device->expected(prompt_of(40, 60), 240));
}

// Each has pages of its own of what all have computed at once, and the tree has one of each.
BOOST_AUTO_TEST_CASE(the_same_request_many_times_ends_on_pages_for_one) {
  for (const std::uint32_t pages : {16U, 17U, 20U, 40U}) {
    growth_bench b(pages, 4, 2);
    std::vector<sink_ptr> sinks;
    for (int i = 0; i < 4; ++i) sinks.push_back(b.submit("n" + std::to_string(i), prompt_of(5), 60));
    b.finish();
    for (const auto& sink : sinks) expect_tokens(*sink, b.device->expected(prompt_of(5), 60));
    b.expect_nothing_lost();
  }
}

BOOST_AUTO_TEST_CASE(a_pooled_job_is_set_back_too) {
  growth_bench b(12, 2);
  b.options.chunk_tokens = 2;
  b.up();
  const auto growing = b.submit("growing", prompt_of(5), 40);
  while (growing->tokens().size() < 4) BOOST_TEST_REQUIRE(b.loop->run_step());
  job_request pooled;
  pooled.job_id = "pooled";
  pooled.received_at = b.time;
  pooled.inputs = {{prompt_of(30, 3)}};
  const auto sink = b.submit(pooled);
  while (b.loop->counts().preemptions == 0) BOOST_TEST_REQUIRE(b.loop->run_step());
  b.finish();
  expect_tokens(*growing, b.device->expected(prompt_of(5), 40));
  expect_end(*sink, finish_reason::stop);
  BOOST_TEST(*sink->end()->pooled.front() == *pooled_of(prompt_of(30, 3)));
  b.expect_nothing_lost();
}

BOOST_AUTO_TEST_CASE(an_accelerator_that_cannot_extend_a_table_costs_that_job_alone) {
  growth_bench b(32, 2, 2);
  b.options.extend_out_of_memory = 2;
  b.up();
  const auto one = b.submit("one", prompt_of(8), 20);
  const auto other = b.submit("other", prompt_of(9, 60), 20);
  b.finish();
  BOOST_TEST((one->error().has_value() != other->error().has_value()));
  expect_error(one->error() ? *one : *other, errc::vram_oom);
  const auto& well = one->error() ? other : one;
  expect_end(*well, finish_reason::length);
  BOOST_TEST(b.degraded.size() == 1U);
  b.expect_nothing_lost();
}

BOOST_AUTO_TEST_SUITE_END()
