// How long the process may go on after a signal.
#include "app/process/signal_policy.hpp"

#include <boost/test/unit_test.hpp>

#include "app/options/options.hpp"

namespace {

using namespace std::chrono_literals;
using orcd::app::exit_code;
using orcd::app::run_phase;
using orcd::app::signal_policy;

}  // namespace

BOOST_AUTO_TEST_SUITE(signals)

BOOST_AUTO_TEST_CASE(a_signal_during_start_up_ends_it_soon_and_is_no_failure) {
  for (const auto phase : {run_phase::opening, run_phase::loading}) {
    signal_policy policy;
    policy.allow_drain(300s);
    policy.enter(phase);
    const auto first = policy.on_signal(exit_code::terminated);
    BOOST_TEST((first.after <= 5s));
    BOOST_TEST((first.code == exit_code::ok));
    const auto second = policy.on_signal(exit_code::terminated);
    BOOST_TEST((second.after < 1s));
    BOOST_TEST((second.code == exit_code::terminated));
  }
}

BOOST_AUTO_TEST_CASE(a_first_signal_leaves_the_drain_its_time) {
  signal_policy policy;
  policy.enter(run_phase::serving);
  policy.allow_drain(300s);
  const auto first = policy.on_signal(exit_code::terminated);
  BOOST_TEST((first.after >= 300s + orcd::app::farewell_limit + orcd::app::teardown_limit));
  BOOST_TEST((first.after < 300s + 20s));
  BOOST_TEST((first.code == exit_code::terminated));
}

// A pool manager kills a worker thirty seconds after it asked it to stop: streams must have had their last
// event by then, with time to read it.
BOOST_AUTO_TEST_CASE(the_default_drain_ends_within_thirty_seconds_with_two_of_them_for_last_events) {
  signal_policy policy;
  policy.enter(run_phase::serving);
  policy.allow_drain(std::chrono::seconds(orcd::app::options{}.drain_timeout_sec));
  BOOST_TEST((policy.on_signal(exit_code::terminated).after <= 30s));
  BOOST_TEST((orcd::app::farewell_limit >= 2s));
  BOOST_TEST((orcd::app::teardown_limit >= 3s));
}

BOOST_AUTO_TEST_CASE(a_second_one_does_not_and_a_third_waits_for_nothing) {
  signal_policy policy;
  policy.enter(run_phase::serving);
  policy.allow_drain(300s);
  static_cast<void>(policy.on_signal(exit_code::terminated));
  const auto second = policy.on_signal(exit_code::interrupted);
  BOOST_TEST((second.after <= 3s));
  BOOST_TEST((second.code == exit_code::interrupted));
  const auto third = policy.on_signal(exit_code::terminated);
  BOOST_TEST((third.after < 500ms));
  BOOST_TEST((third.code == exit_code::terminated));
}

BOOST_AUTO_TEST_SUITE_END()
