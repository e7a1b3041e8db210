// Pages of running jobs: reserved, given as they grow, given back; and what the accelerator is told of them.
#include "test/unit/schedule/parts/part_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

struct running_pages_bench : part_bench {
  running_pages_bench(std::uint32_t pages, std::uint32_t slots) {
    options.pages = {4, pages};
    options.slots = slots;
    config.cache.tokens_min = 1;
  }
  /// A job with pages, in a slot of the accelerator.
  sequence& run(std::uint32_t slot, std::unique_ptr<sequence> one) {
    BOOST_REQUIRE(parts->pages.reserve(*one, 0, 0));
    one->arrival = ++arrivals;
    sequence& out = parts->running.put(slot, std::move(one), time);
    parts->device.begin(out);
    return out;
  }
  [[nodiscard]] std::uint32_t used() const {
    const kv_cache_counts counts = parts->pages.cache()->counts();
    return counts.pages - counts.pages_free - counts.pages_cached;
  }
  std::uint64_t arrivals = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule_pages)

BOOST_AUTO_TEST_CASE(a_job_that_found_too_few_is_blocked_until_some_are_given_back) {
  running_pages_bench b(4, 2);
  auto& p = b.up().pages;
  b.run(0, b.job("a", 11));
  const auto second = b.job("b", 7);
  p.begin_admission();
  BOOST_TEST(!p.is_blocked(*second, 0));
  BOOST_TEST(!p.reserve(*second, 0, 0));
  BOOST_TEST(p.lacks());
  BOOST_TEST(!p.awaits_opening());
  BOOST_TEST(p.is_blocked(*second, 31));   // nothing can have changed,
  BOOST_TEST(!p.is_blocked(*second, 32));  // now it may
  BOOST_TEST(!p.is_blocked(*b.job("c"), 0));
  b.parts->ends.end(0, job_outcome::of(finish_reason::stop), b.time);
  BOOST_TEST(!p.is_blocked(*second, 0));
  BOOST_TEST(p.reserve(*second, 0, 0));
  BOOST_TEST(second->lease.pages.size() == 2U);
  p.give_back(*second);
  BOOST_TEST(b.used() == 0U);
}

BOOST_AUTO_TEST_CASE(what_is_to_be_left_is_not_reserved) {
  running_pages_bench b(4, 1);
  auto& p = b.up().pages;
  const auto one = b.job("a", 7);
  BOOST_TEST(!p.reserve(*one, 3, 0));
  BOOST_TEST(p.reserve(*one, 2, 0));
  p.give_back(*one);
}

BOOST_AUTO_TEST_CASE(without_pages_every_job_has_what_it_needs) {
  part_bench b;
  auto& p = b.up().pages;
  const auto one = b.job("a", 500, 500);
  BOOST_TEST(p.cache() == nullptr);
  BOOST_TEST(p.can_hold(*one));
  BOOST_TEST(p.reserve(*one, 9, 0));
  BOOST_TEST(!p.is_blocked(*one, 0));
  BOOST_TEST(p.room_for_drafts(*one) > 1000U);
}

BOOST_AUTO_TEST_CASE(a_preempted_job_begins_again_and_what_it_computed_stays) {
  running_pages_bench b(8, 1);
  auto& p = b.up().pages;
  sequence& job = b.run(0, b.job("a", 9));
  b.step();  // 8 tokens
  p.note_computed(job, 8);
  BOOST_TEST(job.computed == 8U);
  b.parts->device.release(job);
  p.preempt(job);
  BOOST_TEST(job.computed == 0U);
  BOOST_TEST(job.position == 0U);
  BOOST_TEST(job.lease.pages.empty());
  BOOST_TEST(p.preemptions() == 1U);
  BOOST_TEST(p.lacks());
  BOOST_TEST(b.used() == 0U);
  BOOST_TEST(p.reserve(job, 0, 0));
  BOOST_TEST(job.computed == 8U);
  BOOST_TEST(job.cached == 0U);  // it is its own
  p.give_back(job);
}

BOOST_AUTO_TEST_CASE(a_job_waits_for_the_page_that_an_earlier_one_computes) {
  running_pages_bench b(16, 2);
  auto& p = b.up().pages;
  sequence& one = b.run(0, b.job(b.request("a", prompt_of(12))));
  sequence& two = b.run(1, b.job(b.request("b", prompt_of(12))));
  BOOST_TEST(!p.waits_for_page(one, b.parts->running));
  BOOST_TEST(p.waits_for_page(two, b.parts->running));
  b.step();  // 8 tokens of the first
  BOOST_TEST(one.computed == 8U);
  p.catch_up(two);
  BOOST_TEST(two.computed == 8U);
  BOOST_TEST(two.cached == 8U);
  BOOST_TEST(!two.begun);
}

BOOST_AUTO_TEST_CASE(the_oldest_gets_a_page_first_and_the_latest_is_preempted) {
  running_pages_bench b(3, 3);
  b.up();
  sequence& later = b.run(0, b.job("b", 2, 20));
  sequence& older = b.run(1, b.job("a", 2, 20));
  std::swap(later.arrival, older.arrival);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(b.parts->growth.give_pages(b.parts->running) == nullptr);
    b.step();
  }
  // Both have 4 positions now, and there is one page for two.
  BOOST_TEST(older.lease.pages.size() == 1U);
  BOOST_TEST(b.parts->growth.give_pages(b.parts->running) == &later);
  BOOST_TEST(older.lease.pages.size() == 2U);
  BOOST_TEST(later.lease.pages.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_job_leaves_what_the_running_ones_are_expected_to_need) {
  running_pages_bench b(32, 2);
  auto& growth = b.up().growth;
  const auto next = b.job("next", 4, 4);
  BOOST_TEST(growth.pages_to_leave(*next, b.parts->running) == 0U);  // nobody runs
  // Before any job has ended none is expected to grow beyond its next page; one that used all that it asked
  // for says that others will.
  b.run(0, b.job("a", 4, 80));
  const std::uint32_t before = growth.pages_to_leave(*next, b.parts->running);
  auto ended = b.job("e", 4, 3);
  for (int i = 0; i < 3; ++i) ended->tokens.push_back(1);
  for (int i = 0; i < 30; ++i) growth.note_end(*ended);
  BOOST_TEST(growth.pages_to_leave(*next, b.parts->running) > before);
}

BOOST_AUTO_TEST_CASE(the_job_for_which_the_accelerator_failed_is_told_once) {
  running_pages_bench b(8, 2);
  b.options.begin_out_of_memory = 2;
  auto& p = b.up();
  b.run(0, b.job("a"));
  BOOST_TEST(p.device.take_failed() == nullptr);
  BOOST_CHECK_THROW(b.run(1, b.job("b")), accelerator_failure);
  BOOST_TEST(p.device.take_failed() == p.running[1].get());
  BOOST_TEST(p.device.take_failed() == nullptr);
  BOOST_TEST(p.running[1]->begun);
  p.device.release(*p.running[1]);
  BOOST_TEST(b.accelerator->held_slots() == 1U);
}

// The copy is not made yet where begin() fails, and its positions are not computed.
BOOST_AUTO_TEST_CASE(copied_positions_are_computed_once_the_accelerator_has_begun) {
  running_pages_bench b(8, 1);
  b.options.begin_out_of_memory = 2;
  auto& p = b.up();
  sequence& first = b.run(0, b.job(b.request("a", prompt_of(7))));
  b.step();
  BOOST_TEST(first.computed >= 6U);
  p.ends.end(0, job_outcome::of(finish_reason::stop), b.time);
  auto next = b.job(b.request("b", prompt_of(7)));
  BOOST_REQUIRE(p.pages.reserve(*next, 0, 0));
  BOOST_TEST(next->computed == 6U);
  BOOST_REQUIRE(next->lease.copy.has_value());
  BOOST_CHECK_THROW(p.device.begin(p.running.put(0, std::move(next), b.time)), accelerator_failure);
  BOOST_TEST(p.running[0]->computed == 4U);
}

BOOST_AUTO_TEST_SUITE_END()
