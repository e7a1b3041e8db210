// What running jobs are expected to need, by hand and against a walk through their future.
#include "engine/schedule/growth_forecast.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

using namespace orcd::engine;

namespace {

constexpr std::uint32_t page = 4;

std::uint64_t peak_of(std::vector<job_growth> jobs) {
  return further_pages_at_peak(jobs, page);
}

/// All fill a position at a time, and are gone once they have filled what they need.
std::uint64_t walked_peak(const std::vector<job_growth>& jobs) {
  std::uint64_t held = 0, most = 0;
  for (const job_growth& job : jobs) held += job.own_pages;
  for (std::uint32_t time = 0; time <= 60; ++time) {
    std::uint64_t now = 0;
    for (const job_growth& job : jobs) {
      std::uint32_t pages = 0;
      while ((job.room_pages + pages) * page + job.room_rest < time) ++pages;
      now += job.steps >= time ? job.own_pages + std::min(pages, job.further_pages) : 0;
    }
    most = std::max(most, now);
  }
  return most - held;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(growth_forecasts)

BOOST_AUTO_TEST_CASE(equal_jobs_need_theirs_at_once_and_others_use_what_is_given_back) {
  BOOST_TEST(peak_of({}) == 0U);
  BOOST_TEST(peak_of({{4, 0, 2, 0, 2}, {9, 1, 0, 0, 4}}) == 0U);
  BOOST_TEST(peak_of({{4, 0, 0, 1, 4}, {9, 0, 0, 1, 4}, {2, 0, 0, 1, 4}}) == 3U);
  BOOST_TEST(peak_of({{1, 0, 0, 8, 32}, {5, 0, 0, 1, 4}}) == 3U);  // five pages are free when it needs more
  BOOST_TEST(peak_of({{5, 0, 0, 1, 4}, {1, 0, 0, 8, 32}}) == 3U);
}

// One needs its second page just before the other, which got its last one at the same step, ends.
BOOST_AUTO_TEST_CASE(a_page_that_is_needed_just_before_another_job_ends_is_needed_beside_its_pages) {
  BOOST_TEST(peak_of({{1, 0, 0, 2, 6}, {1, 0, 3, 1, 4}}) == 2U);
  BOOST_TEST(peak_of({{1, 0, 0, 2, 6}, {1, 0, 3, 1, 5}}) == 3U);
}

BOOST_AUTO_TEST_CASE(a_job_whose_prompt_waits_keeps_its_pages_meanwhile) {
  BOOST_TEST(peak_of({{1, 0, 0, 2, 6}, {2, 0, 0, 0, 0}}) == 0U);
  BOOST_TEST(peak_of({{1, 0, 0, 2, 6}, {2, 0, 0, 0, 5}}) == 2U);
}

BOOST_AUTO_TEST_CASE(the_peak_is_that_of_a_walk_through_the_future) {
  std::minstd_rand random(7);
  const auto number = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  for (int run = 0; run < 2'000; ++run) {
    std::vector<job_growth> jobs(1 + number(9));
    for (job_growth& job : jobs) job = {number(12), number(3), number(page), number(16), number(60)};
    BOOST_TEST(peak_of(jobs) == walked_peak(jobs));
  }
}

BOOST_AUTO_TEST_CASE(a_job_is_expected_to_need_a_page_until_it_has_all) {
  growth_forecast forecast;
  BOOST_TEST(forecast.further(500, 0) == 1U);
  BOOST_TEST(forecast.further(500, 3) == 4U);
  BOOST_TEST(forecast.further(3, 3) == 0U);
  BOOST_TEST(forecast.further(0, 0) == 0U);
}

BOOST_AUTO_TEST_CASE(what_jobs_use_is_expected_of_the_next) {
  growth_forecast forecast;
  for (int i = 0; i < 200; ++i) forecast.ended(100, 400);
  BOOST_TEST(forecast.share() == 0.25, boost::test_tools::tolerance(1e-4));
  BOOST_TEST(forecast.further(400, 20) == 100U);
  for (int i = 0; i < 200; ++i) forecast.ended(400, 400);
  BOOST_TEST(forecast.share() > 0.99);
  BOOST_TEST(forecast.share() <= 1.0);
  forecast.ended(0, 0);  // it asked for none
  BOOST_TEST(forecast.share() > 0.99);
}

BOOST_AUTO_TEST_CASE(pages_that_run_out_say_that_it_was_too_little) {
  growth_forecast forecast;
  forecast.ran_out(0, 0);
  BOOST_TEST(forecast.share() == 0.0);
  forecast.ran_out(300, 1'000);
  BOOST_TEST(forecast.share() == 0.3);
  forecast.ran_out(100, 1'000);
  BOOST_TEST(forecast.share() == 0.3);
  forecast.ran_out(2'000, 1'000);
  BOOST_TEST(forecast.share() == 1.0);
}

BOOST_AUTO_TEST_SUITE_END()
