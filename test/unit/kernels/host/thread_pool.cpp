#include "kernels/host/thread_pool.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <ctime>
#include <vector>

#include "test/support/pause.hpp"
#include "test/support/watched_thread.hpp"

namespace {
using orcd::kernels::host::thread_pool;
}

BOOST_AUTO_TEST_SUITE(pool)

BOOST_AUTO_TEST_CASE(covers_every_item_exactly_once) {
  for (const unsigned threads : {1U, 2U, 4U}) {
    thread_pool pool(threads);
    BOOST_TEST(pool.threads() == threads);
    for (const std::uint32_t count : {0U, 1U, 2U, 7U, 64U, 1001U}) {
      for (const std::uint32_t grain : {0U, 1U, 3U, 2000U}) {
        std::vector<int> seen(count, 0);  // plain ints: two threads on one item would be a data race
        pool.run(count, grain, [&](std::uint32_t begin, std::uint32_t end) {
          for (std::uint32_t i = begin; i < end; ++i) ++seen[i];
        });
        for (const int times : seen) BOOST_TEST_REQUIRE(times == 1);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(results_of_a_region_are_visible_to_the_next) {
  thread_pool pool(3);
  std::vector<std::uint64_t> values(97, 0);
  for (std::uint64_t round = 1; round <= 20'000; ++round) {
    pool.run(97, 1, [&](std::uint32_t begin, std::uint32_t end) {
      for (std::uint32_t i = begin; i < end; ++i) values[i] = values[i] + 1;
    });
    BOOST_TEST_REQUIRE(values[round % 97] == round);
  }
}

BOOST_AUTO_TEST_CASE(idle_workers_sleep) {
  thread_pool pool(4);
  std::atomic<int> calls{0};
  pool.run(64, 1, [&](std::uint32_t, std::uint32_t) { ++calls; });
  BOOST_TEST(calls.load() == 64);
  // They spin for a moment before they sleep, and a machine under load stretches that moment.
  double used = 1;
  for (int i = 0; i < 50 && used >= 0.05; ++i) {
    const std::clock_t before = std::clock();  // processor time of the whole process
    orcd::test::pause(std::chrono::milliseconds(200), "what they use is measured for so long");
    used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  }
  BOOST_TEST(used < 0.05, "idle workers used " << used << " s of 0.2 s");
}

BOOST_AUTO_TEST_CASE(starts_and_ends_without_work) {
  orcd::test::watched_thread begun_and_ended([] {
    for (int i = 0; i < 50; ++i) thread_pool pool(3);
  });
  BOOST_TEST(begun_and_ended.ends_within(std::chrono::seconds(60)));
}

BOOST_AUTO_TEST_SUITE_END()
