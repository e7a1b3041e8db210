// What running jobs are expected to need, by hand and against a walk through their future.
#include "engine/schedule/growth_forecast.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

using namespace orcd::engine;

namespace {

std::uint64_t peak_of(std::vector<job_pages> jobs) {
  return further_pages_at_peak(jobs);
}

/// All grow by a page at a time, and are gone once they have theirs.
std::uint64_t walked_peak(const std::vector<job_pages>& jobs) {
  std::uint64_t held = 0, most = 0;
  for (const job_pages& job : jobs) held += job.held;
  for (std::uint32_t time = 0; time <= 20; ++time) {
    std::uint64_t now = 0;
    for (const job_pages& job : jobs) now += job.further >= time ? job.held + time : 0;
    most = std::max(most, now);
  }
  return most - held;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(growth_forecasts)

BOOST_AUTO_TEST_CASE(equal_jobs_need_theirs_at_once_and_others_use_what_is_given_back) {
  BOOST_TEST(peak_of({}) == 0U);
  BOOST_TEST(peak_of({{4, 0}, {9, 0}}) == 0U);
  BOOST_TEST(peak_of({{4, 1}, {9, 1}, {2, 1}}) == 3U);
  BOOST_TEST(peak_of({{1, 8}, {5, 1}}) == 3U);  // the five pages are free when seven more are needed
  BOOST_TEST(peak_of({{5, 1}, {1, 8}}) == 3U);
}

BOOST_AUTO_TEST_CASE(the_peak_is_that_of_a_walk_through_the_future) {
  std::minstd_rand random(7);
  for (int run = 0; run < 2'000; ++run) {
    std::vector<job_pages> jobs(1 + random() % 9);
    for (job_pages& job : jobs)
      job = {static_cast<std::uint32_t>(random() % 12), static_cast<std::uint32_t>(random() % 20)};
    BOOST_TEST(peak_of(jobs) == walked_peak(jobs));
  }
}

BOOST_AUTO_TEST_CASE(a_job_is_expected_to_need_a_page_until_it_has_all) {
  growth_forecast forecast;
  BOOST_TEST(forecast.further(1, 500) == 1U);
  BOOST_TEST(forecast.further(500, 500) == 0U);
  BOOST_TEST(forecast.further(501, 500) == 0U);
}

BOOST_AUTO_TEST_CASE(what_jobs_use_is_expected_of_the_next) {
  growth_forecast forecast;
  for (int i = 0; i < 200; ++i) forecast.ended(100, 400);
  BOOST_TEST(forecast.share() == 0.25, boost::test_tools::tolerance(1e-4));
  BOOST_TEST(forecast.further(20, 420) == 100U);
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
