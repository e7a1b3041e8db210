// The scheduler over an accelerator with pages: what is skipped, who waits for memory, what is given back.
#include <algorithm>

#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

struct pages_bench : scheduler_bench {
  pages_bench(std::uint32_t pages, std::uint32_t slots) {
    options.pages = {4, pages};
    options.slots = slots;
    cache.tokens_min = 1;
  }
  /// Prompt tokens computed by the steps so far.
  [[nodiscard]] std::uint32_t computed() const {
    std::uint32_t sum = 0;
    for (const auto& part : device->records()) sum += part.tokens;
    return sum;
  }
  /// Whether no page but the cached ones holds anything.
  [[nodiscard]] bool free_pages_are_clear() const {
    return device->written_pages().size() <= loop->counts().cache.pages - loop->counts().cache.pages_free;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler_pages)

BOOST_AUTO_TEST_CASE(a_known_prompt_is_not_computed_again_and_the_tokens_are_the_same) {
  pages_bench b(16, 1);
  b.up();
  const auto cold = b.submit("a", prompt_of(20), 5);
  b.finish();
  const std::uint32_t before = b.computed();
  const auto hit = b.submit("b", prompt_of(20), 5);
  b.finish();
  BOOST_TEST(b.computed() - before == 1U + 4);  // the prompt's last token, then the answer's
  BOOST_TEST(cold->stats().tokens_cached == 0U);
  BOOST_TEST(hit->stats().tokens_cached == 19U);
  BOOST_TEST(hit->stats().tokens_in == 20U);
  expect_tokens(*hit, b.device->expected(prompt_of(20), 5));
  expect_tokens(*cold, hit->tokens());
}

BOOST_AUTO_TEST_CASE(progress_begins_with_what_is_known) {
  pages_bench b(16, 1);
  b.up();
  for (const std::uint32_t cached : {0U, 19U}) {
    auto request = b.request("a" + std::to_string(cached), prompt_of(20), 3);
    request.tell_progress = true;
    const auto sink = b.submit(request);
    b.finish();
    BOOST_TEST(sink->fault() == "");
    BOOST_TEST(sink->cached() == cached);
    BOOST_TEST(sink->progress().size() == (cached == 0 ? 3U : 1U));
    BOOST_TEST(sink->progress().back().processed == 20U);
  }
}

BOOST_AUTO_TEST_CASE(the_next_turn_starts_from_the_answer) {
  pages_bench b(16, 1);
  b.up();
  auto turn = prompt_of(10);
  const auto first = b.submit("a", turn, 7);
  b.finish();
  turn.insert(turn.end(), first->tokens().begin(), first->tokens().end());
  turn.insert(turn.end(), {3, 4, 5});
  const auto second = b.submit("b", turn, 3);
  b.finish();
  BOOST_TEST(second->stats().tokens_cached == 16U);  // the answer's last token was never computed
  expect_tokens(*second, b.device->expected(turn, 3));
}

BOOST_AUTO_TEST_CASE(a_running_job_shares_what_it_has_computed) {
  pages_bench b(32, 2);
  b.up();
  const auto first = b.submit("a", prompt_of(20), 40);
  b.steps(6);
  const auto second = b.submit("b", prompt_of(20), 5);
  b.finish();
  BOOST_TEST(second->stats().tokens_cached == 19U);
  expect_tokens(*second, b.device->expected(prompt_of(20), 5));
  expect_tokens(*first, b.device->expected(prompt_of(20), 40));
}

BOOST_AUTO_TEST_CASE(jobs_that_come_together_compute_what_they_share_once) {
  pages_bench b(64, 4);
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 4; ++i) {
    auto request = b.request("n" + std::to_string(i), prompt_of(42), 5);
    request.seed = static_cast<std::uint64_t>(i);
    sinks.push_back(b.submit(request));
  }
  b.finish();
  // Ten whole pages once, the last two tokens of each prompt, and the answers but for their last tokens.
  BOOST_TEST(b.computed() == 40U + 4 * 2 + 4 * 4);
  for (const auto& sink : sinks) expect_tokens(*sink, b.device->expected(prompt_of(42), 5));
  BOOST_TEST(sinks[0]->stats().tokens_cached == 0U);
  BOOST_TEST(sinks[3]->stats().tokens_cached == 40U);
  BOOST_TEST(b.loop->counts().cache.hits == 3U);
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_page_of_a_cancelled_job_computes_it) {
  pages_bench b(64, 2);
  b.up();
  const auto first = b.submit("a", prompt_of(60), 5);
  const auto second = b.submit("b", prompt_of(60), 5);
  b.steps(2);
  BOOST_TEST(second->started());
  b.loop->cancel("a", cancel_reason::disconnected);
  b.finish();
  expect_tokens(*second, b.device->expected(prompt_of(60), 5));
  BOOST_TEST(second->stats().tokens_cached == 16U);
}

BOOST_AUTO_TEST_CASE(a_step_has_others_prompts_while_one_waits_for_a_page) {
  pages_bench b(64, 3);
  b.up();
  const auto first = b.submit("a", prompt_of(20), 1);
  const auto second = b.submit("b", prompt_of(20), 1);
  const auto third = b.submit("c", prompt_of(3, 50), 1);
  b.steps(2);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> seen;  // step and tokens
  for (const auto& part : b.device->records()) seen.emplace_back(part.step, part.tokens);
  const std::vector<std::pair<std::uint64_t, std::uint32_t>> expected{{1, 8}, {2, 3}, {2, 5}};
  BOOST_TEST((seen == expected));
  BOOST_TEST((third->ended() && !first->ended() && !second->ended()));
  b.finish();
  expect_tokens(*second, b.device->expected(prompt_of(20), 1));
  BOOST_TEST(second->stats().tokens_cached == 16U);
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_another_tenant) {
  pages_bench b(64, 2);
  b.up();
  auto one = b.request("a", prompt_of(40), 2);
  auto two = b.request("b", prompt_of(40), 2);
  two.cache.salt = "other";
  const auto first = b.submit(one);
  const auto second = b.submit(two);
  b.finish();
  BOOST_TEST(first->stats().tokens_cached + second->stats().tokens_cached == 0U);
  BOOST_TEST(b.computed() == 2 * 41U);
}

BOOST_AUTO_TEST_CASE(a_job_waits_for_its_pages_though_a_slot_is_free_and_is_not_overtaken) {
  pages_bench b(8, 3);
  b.up();
  const auto large = b.submit("a", prompt_of(20), 11);    // 6 pages at first
  const auto next = b.submit("b", prompt_of(8, 50), 14);  // 3 pages
  const auto small = b.submit("c", {7}, 1);               // 1 page, which is there
  b.steps(3);
  BOOST_TEST(b.loop->running() == 1U);
  BOOST_TEST(b.loop->waiting() == 2U);
  BOOST_TEST(b.loop->counts().short_of_pages == 2U);
  BOOST_TEST(!small->started());
  b.finish();
  BOOST_TEST(b.loop->counts().short_of_pages == 0U);
  expect_end(*large, finish_reason::length);
  expect_end(*next, finish_reason::length);
  expect_end(*small, finish_reason::length);
}

BOOST_AUTO_TEST_CASE(a_job_that_can_never_fit_fails_and_the_others_go_on) {
  pages_bench b(4, 2);
  b.up();
  const auto before = b.submit("a", prompt_of(4), 2);
  const auto huge = b.submit("b", prompt_of(10), 8);  // 17 positions, 16 are there
  const auto after = b.submit("c", prompt_of(4), 3);
  b.finish();
  BOOST_TEST((huge->error()->failure.code == errc::vram_oom));
  BOOST_TEST(!huge->started());
  expect_end(*before, finish_reason::length);
  expect_end(*after, finish_reason::length);
}

BOOST_AUTO_TEST_CASE(a_cancelled_job_gives_its_pages_back_before_the_next_step) {
  pages_bench b(8, 2);
  b.up();
  const auto first = b.submit("a", prompt_of(20), 12);  // 31 positions, all 8 pages
  const auto second = b.submit("b", {1, 2, 3}, 10);
  b.steps(2);
  BOOST_TEST(!second->started());
  b.loop->cancel("a", cancel_reason::client_cancel);
  BOOST_TEST(b.free_pages_are_clear());
  b.steps(1);
  BOOST_TEST(second->started());
  b.finish();
  expect_tokens(*second, b.device->expected({1, 2, 3}, 10));
}

BOOST_AUTO_TEST_CASE(an_opted_out_job_leaves_no_trace) {
  pages_bench b(8, 1);
  b.up();
  auto request = b.request("a", prompt_of(12), 3);
  request.cache.enabled = false;
  const auto sink = b.submit(request);
  b.finish();
  expect_end(*sink, finish_reason::length);
  BOOST_TEST(b.device->written_pages().empty());
  BOOST_TEST(b.loop->counts().cache.pages_free == 8U);
}

BOOST_AUTO_TEST_CASE(an_interrupted_job_goes_on_from_what_is_certain) {
  pages_bench b(16, 1);
  bool once = true;
  b.options.during_step = [&] {
    if (b.device->steps() == 3 && std::exchange(once, false)) b.loop->interrupt();
  };
  b.up();
  const auto sink = b.submit("a", prompt_of(40), 3);
  b.finish();
  expect_tokens(*sink, b.device->expected(prompt_of(40), 3));
  BOOST_TEST(b.computed() == 40U + 2);  // collected steps: nothing twice
  BOOST_TEST(b.device->steps() == 8U);  // 5 chunks, 2 tokens, and the one that was lost
}

BOOST_AUTO_TEST_CASE(no_slot_starves_while_long_prompts_keep_coming) {
  pages_bench b(64, 4);
  b.up();
  const auto canary = b.submit("canary", {5, 6}, 60);
  int submitted = 0;
  std::uint32_t slowest = 0, since = 0;
  std::size_t seen = 0;
  while (!canary->ended()) {
    if (b.loop->waiting() == 0) {
      auto prompt = prompt_of(40);
      prompt.front() = 100 + submitted % 20;
      prompt[1] = submitted / 20;
      (void)b.submit("p" + std::to_string(submitted++), prompt, 2);
    }
    b.steps(1);
    since = canary->tokens().size() == seen ? since + 1 : 0;
    seen = canary->tokens().size();
    slowest = std::max(slowest, since);
  }
  BOOST_TEST(submitted > 5);
  BOOST_TEST(slowest <= 1U);  // a token each step, but for the first
  b.finish();
}

// The page that the copy was to fill must not be taken for one that holds the prompt, by nobody later.
BOOST_AUTO_TEST_CASE(a_begin_that_runs_out_of_memory_costs_the_job_that_begins_and_leaves_no_false_page) {
  pages_bench b(24, 2);
  b.options.launch_depth = 2;
  b.options.begin_out_of_memory = 3;
  b.up();
  b.submit("a", prompt_of(10), 2);
  b.finish();
  const auto running = b.submit("long", prompt_of(30, 50), 12);
  b.steps(8);
  const auto failed = b.submit("b", prompt_of(10), 20);
  b.finish();
  expect_error(*failed, errc::vram_oom);
  expect_end(*running, finish_reason::length);
  expect_tokens(*running, b.device->expected(prompt_of(30, 50), 12));
  BOOST_TEST(b.degraded.size() == 1U);
  BOOST_TEST(b.free_pages_are_clear());
  const auto again = b.submit("c", prompt_of(10), 20);
  b.finish();
  expect_tokens(*again, b.device->expected(prompt_of(10), 20));
  BOOST_TEST(again->stats().tokens_cached > 8U);
}

BOOST_AUTO_TEST_SUITE_END()
