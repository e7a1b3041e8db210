#include "net/discovery/registration.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd::net;
using namespace std::chrono_literals;
using step = registration_step;

namespace {

const registration::time start{1'000s};

registration granted(registration::time now = start) {
  registration plan{registration_times{}};
  plan.on_granted(7, 10s, now);
  return plan;
}

/// One whose entry stands, with epoch 5.
registration standing() {
  auto plan = granted();
  plan.on_read({}, 5, start);
  plan.on_put(true, start);
  return plan;
}

}  // namespace

namespace orcd::net {
std::ostream& operator<<(std::ostream& out, registration_step value) {
  return out << static_cast<int>(value);
}
}  // namespace orcd::net

BOOST_AUTO_TEST_SUITE(discovery_registration)

BOOST_AUTO_TEST_CASE(a_lease_then_a_look_then_the_entry) {
  registration plan{registration_times{}};
  BOOST_TEST(plan.next(start) == step::grant);
  plan.on_granted(7, 10s, start);
  BOOST_TEST(plan.next(start) == step::read);
  plan.on_read({}, 5, start);
  BOOST_TEST(plan.next(start) == step::put);
  BOOST_TEST(plan.epoch() == 5U);
  BOOST_TEST(plan.replaces() == 0);
  BOOST_TEST(!plan.registered(start));
  plan.on_put(true, start);
  BOOST_TEST(plan.registered(start));
  BOOST_TEST(plan.next(start + 2'999ms) == step::wait);
  BOOST_TEST(plan.next(start + 3s) == step::keep);
}

BOOST_AUTO_TEST_CASE(a_successor_replaces_at_once_with_a_higher_epoch) {
  auto plan = granted();
  plan.on_read({5, 99, 40}, 41, start);
  BOOST_TEST(plan.next(start) == step::put);
  BOOST_TEST(plan.replaces() == 40);
  BOOST_TEST(plan.epoch() == 41U);
  auto behind = granted();
  behind.on_read({500, 99, 40}, 41, start);
  BOOST_TEST(behind.epoch() == 501U);
}

BOOST_AUTO_TEST_CASE(who_was_succeeded_leaves_the_entry_alone) {
  auto plan = standing();
  plan.on_kept(10s, start + 3s);
  BOOST_TEST(plan.next(start + 3s) == step::read);
  plan.on_read({6, 99, 44}, 50, start + 3s);
  BOOST_TEST(plan.superseded());
  BOOST_TEST(!plan.registered(start + 3s));
  BOOST_TEST(plan.next(start + 3s) == step::wait);
  BOOST_TEST(plan.next(start + 6s) == step::keep);
  // The successor's entry is gone, and this one serves.
  plan.on_kept(10s, start + 6s);
  plan.on_read({}, 60, start + 6s);
  BOOST_TEST(!plan.superseded());
  BOOST_TEST(plan.next(start + 6s) == step::put);
  BOOST_TEST(plan.epoch() == 5U);
}

BOOST_AUTO_TEST_CASE(an_entry_that_stands_is_looked_at_and_kept) {
  auto plan = standing();
  for (int i = 1; i < 5; ++i) {
    const auto now = start + i * 3s;
    BOOST_TEST(plan.next(now) == step::keep);
    plan.on_kept(10s, now);
    plan.on_read({5, 7, 40}, 50, now);
    BOOST_TEST(plan.registered(now + 9'999ms));
    BOOST_TEST(!plan.registered(now + 10s));
  }
}

BOOST_AUTO_TEST_CASE(an_entry_that_was_taken_away_is_written_again) {
  auto plan = standing();
  plan.on_kept(10s, start + 3s);
  plan.on_read({}, 50, start + 3s);
  BOOST_TEST(!plan.registered(start + 3s));
  BOOST_TEST(plan.next(start + 3s) == step::put);
  BOOST_TEST(plan.epoch() == 5U);
}

/// What it wrote before the store forgot the lease may stand there yet.
BOOST_AUTO_TEST_CASE(a_lost_lease_begins_anew_with_the_same_epoch) {
  auto plan = standing();
  plan.on_kept(std::nullopt, start + 20s);
  BOOST_TEST(plan.next(start + 20s) == step::grant);
  plan.on_granted(8, 10s, start + 20s);
  plan.on_read({5, 7, 40}, 50, start + 20s);
  BOOST_TEST(plan.next(start + 20s) == step::put);
  BOOST_TEST(plan.replaces() == 40);
  BOOST_TEST(plan.epoch() == 5U);
}

BOOST_AUTO_TEST_CASE(a_key_that_changed_meanwhile_is_read_again_and_not_for_ever) {
  auto plan = granted();
  for (int i = 0; i < 2; ++i) {
    plan.on_read({}, 5, start);
    plan.on_put(false, start);
    BOOST_TEST(plan.next(start) == step::read);
  }
  plan.on_read({}, 5, start);
  plan.on_put(false, start);
  BOOST_TEST(plan.next(start) == step::wait);
}

BOOST_AUTO_TEST_CASE(failures_are_tried_again_ever_less_often) {
  registration plan{registration_times{}};
  auto now = start;
  for (const auto delay : {200ms, 400ms, 800ms, 1'600ms, 3'200ms, 5'000ms, 5'000ms}) {
    plan.on_failure(step::grant, now);
    BOOST_TEST(plan.next(now + delay - 1ms) == step::wait);
    now += delay;
    BOOST_TEST(plan.next(now) == step::grant);
  }
  plan.on_granted(7, 10s, now);
  plan.on_failure(step::read, now);
  BOOST_TEST(plan.next(now + 200ms) == step::read);
}

BOOST_AUTO_TEST_CASE(a_refused_write_asks_for_another_lease) {
  auto plan = granted();
  plan.on_read({}, 5, start);
  plan.on_failure(step::put, start);
  BOOST_TEST(plan.next(start + 200ms) == step::grant);
}

BOOST_AUTO_TEST_CASE(a_store_with_short_leases_is_asked_more_often) {
  registration plan{registration_times{}};
  plan.on_granted(7, 3s, start);
  plan.on_read({}, 5, start);
  plan.on_put(true, start);
  BOOST_TEST(plan.next(start + 1s) == step::keep);
}

BOOST_AUTO_TEST_CASE(an_epoch_that_no_store_counts_to_is_none) {
  auto plan = granted();
  plan.on_read({~std::uint64_t{0}, 9, 40}, 41, start);
  BOOST_TEST(plan.next(start) == step::put);
  BOOST_TEST(plan.epoch() == 41U);
}

BOOST_AUTO_TEST_SUITE_END()
