// The wait for a step, on a clock that moves only when somebody sleeps or looks at it.
#include "gpu/plan/step_wait.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using orcd::gpu::step_end;

namespace {

struct wait_bench {
  std::chrono::steady_clock::time_point time{};
  std::vector<std::chrono::nanoseconds> naps;
  int looks = 0, health_checks = 0;
  orcd::engine::interrupt_flag interrupt{false};

  step_end wait(std::chrono::nanoseconds done_after, const orcd::gpu::step_pace& pace = {}) {
    const auto begin = time;
    orcd::gpu::step_clock clock;
    clock.now = [this] { return time += 1us; };
    clock.sleep = [this](std::chrono::nanoseconds nap) {
      naps.push_back(nap);
      time += nap;
    };
    return orcd::gpu::wait_for_step(
        [&] {
          ++looks;
          return time - begin >= done_after;
        },
        [this] { ++health_checks; }, interrupt, pace, clock);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(step_wait)

BOOST_AUTO_TEST_CASE(what_is_done_is_not_waited_for) {
  wait_bench b;
  BOOST_TEST((b.wait(0us) == step_end::done));
  BOOST_TEST(b.looks == 1);
  BOOST_TEST(b.naps.empty());
}

BOOST_AUTO_TEST_CASE(a_short_wait_is_polled_and_a_long_one_slept) {
  wait_bench b;
  BOOST_TEST((b.wait(8us) == step_end::done));
  BOOST_TEST(b.naps.empty());
  BOOST_TEST((b.wait(250us) == step_end::done));
  BOOST_TEST(b.naps.size() > 5U);
  BOOST_TEST(b.naps.size() < 30U);
  BOOST_TEST((b.naps.front() == 10us));
  b.naps.clear();
  BOOST_TEST((b.wait(1s) == step_end::done));
  BOOST_TEST((b.naps.back() == 200us));
  BOOST_TEST(static_cast<std::size_t>(b.health_checks) >= b.naps.size());
}

// Where the device waits for the host: naps until shortly before the step will end, and polls then.
BOOST_AUTO_TEST_CASE(a_wait_that_knows_when_it_ends_does_not_sleep_past_it) {
  for (const auto done_after : {400us, 430us, 480us, 550us}) {
    wait_bench b;
    BOOST_TEST((b.wait(done_after, {.expected = 500us, .margin = 80us}) == step_end::done));
    BOOST_TEST(!b.naps.empty());
    BOOST_TEST(b.naps.size() < 10U);
    BOOST_TEST((b.time.time_since_epoch() <= std::max<std::chrono::nanoseconds>(done_after, 420us) + 10us));
  }
  // What takes much longer than it should is slept through again.
  wait_bench late;
  BOOST_TEST((late.wait(50ms, {.expected = 500us, .margin = 80us}) == step_end::done));
  BOOST_TEST((late.naps.back() == 200us));
}

BOOST_AUTO_TEST_CASE(an_interrupt_ends_the_wait) {
  wait_bench b;
  b.interrupt = true;
  BOOST_TEST((b.wait(1h) == step_end::interrupted));
  BOOST_TEST((b.wait(0us) == step_end::done));  // what is done is taken
}

BOOST_AUTO_TEST_CASE(no_wait_is_endless) {
  wait_bench b;
  BOOST_TEST((b.wait(1h, {.limit = 2s}) == step_end::overdue));
}

BOOST_AUTO_TEST_CASE(a_failed_device_ends_the_wait) {
  const orcd::engine::interrupt_flag never{false};
  BOOST_CHECK_THROW(
      (void)orcd::gpu::wait_for_step([] { return false; }, [] { throw std::runtime_error("lost"); }, never),
      std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
