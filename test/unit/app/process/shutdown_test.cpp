// How the worker ends: the order of events decides the action and the exit code.
#include "app/process/shutdown.hpp"

#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <random>
#include <vector>

using orcd::app::exit_code;
using orcd::app::shutdown_fsm;
using action = orcd::app::shutdown_action;
using event = orcd::app::shutdown_event;

namespace {

/// The action of the last event.
action after(shutdown_fsm& fsm, std::initializer_list<event> events) {
  action last = action::none;
  for (const auto e : events) last = fsm.on(e);
  return last;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ending)

BOOST_AUTO_TEST_CASE(an_engine_that_handed_over_ends_as_one_that_never_served) {
  shutdown_fsm fsm;
  BOOST_TEST((after(fsm, {event::loaded, event::asleep, event::sigterm}) == action::cancel_start));
  shutdown_fsm again;
  BOOST_TEST(
      (after(again, {event::loaded, event::asleep, event::loaded, event::sigterm}) == action::begin_drain));
  // One that ends already is not woken by it.
  shutdown_fsm ending;
  BOOST_TEST(
      (after(ending, {event::loaded, event::sigterm, event::asleep, event::idle}) == action::stop_server));
}

BOOST_AUTO_TEST_CASE(a_cuda_fault_and_a_lost_device_end_with_codes_of_their_own) {
  using orcd::app::fault_exit_code;
  using orcd::engine::errc;
  BOOST_TEST((fault_exit_code(errc::cuda_error, false) == exit_code::cuda_fault));
  BOOST_TEST((fault_exit_code(errc::cuda_error, true) == exit_code::device_lost));
  BOOST_TEST((fault_exit_code(errc::internal, true) == exit_code::failure));
  BOOST_TEST(static_cast<int>(exit_code::cuda_fault) == 3);
  BOOST_TEST(static_cast<int>(exit_code::device_lost) == 4);
  shutdown_fsm fsm;
  fsm.set_failure_code(exit_code::device_lost);
  BOOST_TEST((after(fsm, {event::loaded, event::sigterm, event::fatal}) == action::stop_server));
  BOOST_TEST((fsm.code() == exit_code::device_lost));
}

BOOST_AUTO_TEST_CASE(a_signal_drains_and_the_last_job_ends_it_well) {
  shutdown_fsm fsm;
  BOOST_TEST((after(fsm, {event::loaded, event::sigterm}) == action::begin_drain));
  BOOST_TEST(fsm.ending());
  BOOST_TEST((fsm.on(event::idle) == action::stop_server));
  BOOST_TEST((fsm.on(event::stopped) == action::finish));
  BOOST_TEST((fsm.code() == exit_code::ok));
}

BOOST_AUTO_TEST_CASE(a_drain_that_takes_too_long_still_ends_well) {
  shutdown_fsm fsm;
  BOOST_TEST((after(fsm, {event::loaded, event::sigint, event::drain_timeout}) == action::stop_server));
  BOOST_TEST((fsm.on(event::idle) == action::none));
  BOOST_TEST((fsm.on(event::stopped) == action::finish));
  BOOST_TEST((fsm.code() == exit_code::ok));
}

BOOST_AUTO_TEST_CASE(a_second_signal_cuts_the_drain_short) {
  shutdown_fsm fsm;
  BOOST_TEST((after(fsm, {event::loaded, event::sigterm, event::sigterm}) == action::stop_server));
  BOOST_TEST((fsm.on(event::stopped) == action::finish));
  BOOST_TEST((fsm.code() == exit_code::terminated));
  shutdown_fsm other;
  after(other, {event::loaded, event::sigterm, event::sigint});
  BOOST_TEST((other.code() == exit_code::interrupted));
}

BOOST_AUTO_TEST_CASE(a_third_signal_waits_for_nothing) {
  shutdown_fsm fsm;
  const auto last = after(fsm, {event::loaded, event::sigterm, event::sigterm, event::sigterm});
  BOOST_TEST((last == action::exit_now));
  BOOST_TEST((fsm.code() == exit_code::terminated));
}

BOOST_AUTO_TEST_CASE(a_second_signal_while_the_streams_are_being_closed_ends_at_once) {
  shutdown_fsm fsm;
  BOOST_TEST((after(fsm, {event::loaded, event::sigterm, event::idle, event::sigterm}) == action::exit_now));
  BOOST_TEST((fsm.code() == exit_code::terminated));
}

BOOST_AUTO_TEST_CASE(post_shutdown_drains_and_repeats_change_nothing) {
  shutdown_fsm fsm;
  BOOST_TEST((after(fsm, {event::loaded, event::request}) == action::begin_drain));
  BOOST_TEST((after(fsm, {event::request, event::request}) == action::none));
  // The supervisor's ordinary SIGTERM after it is the first signal, not an impatient one.
  BOOST_TEST((fsm.on(event::sigterm) == action::none));
  BOOST_TEST((fsm.on(event::sigterm) == action::stop_server));
}

BOOST_AUTO_TEST_CASE(a_signal_while_loading_gives_the_load_up_and_is_no_failure) {
  for (const auto asked : {event::sigterm, event::sigint, event::request}) {
    shutdown_fsm fsm;
    BOOST_TEST((fsm.on(asked) == action::cancel_start));
    BOOST_TEST(fsm.ending());
    BOOST_TEST((fsm.code() == exit_code::ok));
    BOOST_TEST((fsm.on(event::loaded) == action::none));
  }
}

BOOST_AUTO_TEST_CASE(failures_exit_with_their_code) {
  shutdown_fsm start;
  BOOST_TEST((start.on(event::start_failed) == action::stop_server));
  BOOST_TEST((start.on(event::stopped) == action::finish));
  BOOST_TEST((start.code() == exit_code::failure));

  shutdown_fsm fatal;
  fatal.set_failure_code(exit_code::device_lost);
  BOOST_TEST((after(fatal, {event::loaded, event::fatal}) == action::stop_server));
  BOOST_TEST((fatal.code() == exit_code::device_lost));
}

BOOST_AUTO_TEST_CASE(a_fatal_failure_wins_over_a_drain) {
  shutdown_fsm draining;
  BOOST_TEST((after(draining, {event::loaded, event::sigterm, event::fatal}) == action::stop_server));
  BOOST_TEST((draining.code() == exit_code::failure));
  // Also when the server is being stopped already: the exit code must tell.
  shutdown_fsm stopping;
  BOOST_TEST((after(stopping, {event::loaded, event::sigterm, event::idle, event::fatal}) == action::none));
  BOOST_TEST((stopping.code() == exit_code::failure));
}

BOOST_AUTO_TEST_CASE(events_out_of_place_do_nothing) {
  shutdown_fsm fsm;
  BOOST_TEST((after(fsm, {event::loaded, event::idle}) == action::none));
  BOOST_TEST((after(fsm, {event::drain_timeout, event::stopped}) == action::none));
  BOOST_TEST(!fsm.ending());
}

BOOST_AUTO_TEST_CASE(any_sequence_stops_the_server_once_and_finishes_once) {
  const std::vector<event> all{event::loaded,        event::sigint,       event::sigterm,
                               event::request,       event::start_failed, event::idle,
                               event::drain_timeout, event::fatal,        event::stopped};
  std::mt19937 random(7);
  for (int round = 0; round < 5'000; ++round) {
    shutdown_fsm fsm;
    int drains = 0;
    int stops = 0;
    int finishes = 0;
    for (int i = 0; i < 12; ++i) {
      const auto did = fsm.on(all[random() % all.size()]);
      drains += did == action::begin_drain || did == action::cancel_start ? 1 : 0;
      stops += did == action::stop_server ? 1 : 0;
      finishes += did == action::finish ? 1 : 0;
      BOOST_REQUIRE(did != action::begin_drain || stops == 0);
    }
    BOOST_REQUIRE(drains <= 1);
    BOOST_REQUIRE(stops <= 1);
    BOOST_REQUIRE(finishes <= 1);
    BOOST_REQUIRE(finishes == 0 || fsm.ending());
  }
}

BOOST_AUTO_TEST_SUITE_END()
