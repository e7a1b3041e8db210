// The scheduler's stories about pooled jobs: one answer for all inputs, turns, and every way to end early.
#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;
using namespace std::chrono_literals;

namespace {

struct pooled_bench : scheduler_bench {
  explicit pooled_bench(std::uint32_t slots = 3, std::uint32_t chunk = 16) {
    options.slots = slots;
    options.chunk_tokens = chunk;
    up();
  }
  [[nodiscard]] job_request pooled(const std::string& id, const std::vector<std::uint32_t>& lengths) const {
    job_request r;
    r.job_id = id;
    r.received_at = time;
    token_id first = 1;
    for (const std::uint32_t length : lengths) r.inputs.push_back({prompt_of(length, first++)});
    return r;
  }
};

void expect_pooled(const recording_sink& sink, const std::vector<std::uint32_t>& lengths) {
  expect_end(sink, finish_reason::stop);
  BOOST_TEST(sink.started());
  BOOST_TEST(sink.tokens().empty());
  BOOST_TEST_REQUIRE(sink.end()->pooled.size() == lengths.size());
  std::uint32_t total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto expected = pooled_of(prompt_of(lengths[i], static_cast<token_id>(i + 1)));
    BOOST_TEST(*sink.end()->pooled[i] == *expected, "input " << i);
    total += lengths[i];
  }
  BOOST_TEST(sink.stats().tokens_in == total);
  BOOST_TEST(sink.stats().tokens_out == 0U);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_pooled)

BOOST_AUTO_TEST_CASE(each_input_has_its_result_in_its_place) {
  const std::vector<std::uint32_t> lengths{1, 40, 3, 16, 17, 2, 2, 5};
  for (const std::uint32_t slots : {1U, 2U, 5U}) {
    for (const std::uint32_t depth : {1U, 3U}) {
      pooled_bench b(slots);
      b.options.launch_depth = depth;
      b.up();
      const auto sink = b.submit(b.pooled("a", lengths));
      b.finish();
      expect_pooled(*sink, lengths);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_long_input_is_not_passed_over_while_short_ones_keep_coming) {
  for (const std::uint32_t depth : {1U, 2U}) {
    pooled_bench b(4, 16);
    b.options.launch_depth = depth;
    b.up();
    const auto many = b.submit(b.pooled("short", std::vector<std::uint32_t>(200, 5)));
    const auto one = b.submit(b.pooled("long", {16}));
    int steps = 0;
    while (!one->ended() && steps < 100) {
      b.steps(1);
      ++steps;
    }
    BOOST_TEST(steps <= 8);
    BOOST_TEST(!many->ended());
    b.finish();
  }
}

BOOST_AUTO_TEST_CASE(with_pages_they_are_all_given_back_and_nothing_is_kept) {
  const std::vector<std::uint32_t> lengths{9, 1, 30, 30, 4};
  pooled_bench b(2, 8);
  b.options.pages = {.page_positions = 8, .pages = 6};
  b.options.context_tokens = 40;
  b.cache = {.tokens_min = 1};
  b.up();
  const auto one = b.submit(b.pooled("a", lengths));
  const auto two = b.submit(b.pooled("b", lengths));
  b.finish();
  expect_pooled(*one, lengths);
  expect_pooled(*two, lengths);
  BOOST_TEST(b.device->written_pages().empty());
  BOOST_TEST(b.loop->counts().cache.pages_cached == 0U);
  BOOST_TEST(b.loop->counts().cache.queries == 0U);
}

BOOST_AUTO_TEST_CASE(short_inputs_share_a_step_as_far_as_they_fit) {
  pooled_bench b(4, 16);
  const auto sink = b.submit(b.pooled("a", {6, 6, 4, 1}));
  b.steps(1);
  BOOST_TEST(b.device->records().size() == 3U);  // 6 + 6 + 4 tokens
  b.finish();
  expect_pooled(*sink, {6, 6, 4, 1});
  BOOST_TEST(b.loop->steps() == 2U);
}

BOOST_AUTO_TEST_CASE(a_long_list_does_not_stand_before_the_next_job) {
  pooled_bench b(1, 16);
  const auto big = b.submit(b.pooled("big", std::vector<std::uint32_t>(100, 5)));
  b.steps(3);
  const auto small = b.submit(b.pooled("small", {4}));
  b.steps(3);
  BOOST_TEST(small->ended());
  BOOST_TEST(!big->ended());
  BOOST_TEST(b.loop->waiting() == 1U);
  b.finish();
  expect_pooled(*small, {4});
}

BOOST_AUTO_TEST_CASE(a_cancel_ends_what_runs_and_what_waits) {
  for (const std::uint32_t slots : {1U, 3U}) {
    pooled_bench b(slots, 4);
    const auto sink = b.submit(b.pooled("a", {20, 20, 20, 20, 20}));
    const auto other = b.submit(b.pooled("b", {7}));
    b.steps(2);
    b.loop->cancel("a", cancel_reason::disconnected);
    expect_error(*sink, errc::cancelled);
    b.loop->cancel("a", cancel_reason::client_cancel);
    b.finish();
    expect_pooled(*other, {7});
  }
}

BOOST_AUTO_TEST_CASE(a_job_that_never_got_a_slot_can_be_cancelled) {
  pooled_bench b(1, 4);
  const auto running = b.submit(b.pooled("a", {30}));
  b.steps(1);
  const auto waiting = b.submit(b.pooled("b", {3, 3}));
  b.steps(1);
  b.loop->cancel("b", cancel_reason::client_cancel);
  expect_error(*waiting, errc::cancelled);
  BOOST_TEST(!waiting->started());
  b.finish();
  expect_pooled(*running, {30});
}

BOOST_AUTO_TEST_CASE(a_deadline_ends_all_parts_with_one_event) {
  pooled_bench b(2, 4);
  auto request = b.pooled("a", {20, 20, 20, 20});
  request.deadline = b.time + 1s;
  const auto sink = b.submit(std::move(request));
  b.steps(2);
  b.time += 2s;
  b.steps(1);
  expect_error(*sink, errc::inference_timeout);
  BOOST_TEST(b.loop->idle());
}

BOOST_AUTO_TEST_CASE(an_interrupted_input_begins_again) {
  pooled_bench b(2, 4);
  const auto sink = b.submit(b.pooled("a", {18, 9, 3}));
  b.steps(2);
  b.loop->interrupt();
  b.steps(1);
  b.finish();
  expect_pooled(*sink, {18, 9, 3});
}

BOOST_AUTO_TEST_CASE(cancel_all_and_a_lost_device_end_them) {
  pooled_bench b(1, 4);
  const auto sink = b.submit(b.pooled("a", {20, 20}));
  const auto waiting = b.submit(b.pooled("b", {20, 20}));
  b.steps(1);
  b.loop->cancel_all(cancel_reason::shutdown);
  expect_error(*sink, errc::draining);
  expect_error(*waiting, errc::draining);
  BOOST_TEST(b.loop->idle());

  pooled_bench lost(2, 4);
  lost.options.faults = {{.step = 2, .code = errc::cuda_error}};
  lost.up();
  const auto first = lost.submit(lost.pooled("a", {20, 20, 20, 20}));
  lost.steps(3);
  expect_error(*first, errc::cuda_error);
  expect_error(*lost.submit(lost.pooled("b", {1})), errc::cuda_error);
  BOOST_TEST(lost.loop->idle());
}

BOOST_AUTO_TEST_CASE(out_of_memory_costs_the_job_whose_part_was_longest) {
  pooled_bench b(2, 16);
  b.options.faults = {{.step = 1, .code = errc::vram_oom}};
  b.up();
  const auto sink = b.submit(b.pooled("a", {12, 2}));
  const auto other = b.submit(b.pooled("b", {3}));
  b.finish();
  expect_error(*sink, errc::vram_oom);
  expect_pooled(*other, {3});
}

BOOST_AUTO_TEST_SUITE_END()
