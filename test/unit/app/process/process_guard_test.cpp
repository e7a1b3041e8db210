// The last bound of a shutdown, in a child process of its own.
#include "app/process/process_guard.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "test/support/pause.hpp"

namespace {

using namespace std::chrono_literals;
using orcd::app::exit_code;
using orcd::app::process_guard;
using orcd::test::pause;

/// The exit status of a child that runs `body`; 77 when it comes back from it.
template <class Body>
int status_of(Body body) {
  const auto child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::close(STDERR_FILENO);
    body();
    std::_Exit(77);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(guard)

BOOST_AUTO_TEST_CASE(a_teardown_that_hangs_is_ended_with_its_code) {
  const int status = status_of([] {
    process_guard guard;
    guard.arm(20ms, exit_code::terminated);
    pause(60s, "a teardown that hangs");
  });
  BOOST_TEST(status == 143);
}

BOOST_AUTO_TEST_CASE(a_later_time_changes_nothing_and_an_earlier_one_holds) {
  const int status = status_of([] {
    process_guard guard;
    guard.arm(30s, exit_code::ok);
    guard.arm(20ms, exit_code::failure);
    guard.arm(40s, exit_code::usage);
    pause(60s, "a teardown that hangs");
  });
  BOOST_TEST(status == 1);
}

BOOST_AUTO_TEST_CASE(a_teardown_that_ends_is_left_alone) {
  const int status = status_of([] {
    { process_guard never_armed; }
    process_guard guard;
    guard.arm(60s, exit_code::failure);
  });
  BOOST_TEST(status == 77);
}

BOOST_AUTO_TEST_CASE(a_second_signal_ends_a_process_that_hangs) {
  const int status = status_of([] {
    process_guard guard;
    ::kill(::getpid(), SIGTERM);
    pollfd told{guard.descriptor(), POLLIN, 0};
    if (::poll(&told, 1, 60'000) != 1 || !guard.stop_asked()) return;
    ::kill(::getpid(), SIGINT);
    pause(60s, "a teardown that hangs");
  });
  BOOST_TEST(status == 130);
}

BOOST_AUTO_TEST_CASE(signals_are_counted_and_told) {
  const int status = status_of([] {
    process_guard guard;
    guard.enter(orcd::app::run_phase::serving);
    guard.allow_drain(60s);
    ::kill(::getpid(), SIGHUP);
    pollfd told{guard.descriptor(), POLLIN, 0};
    if (::poll(&told, 1, 60'000) != 1) std::_Exit(1);
    const auto first = guard.take();
    if (first.hangups != 1 || first.terminations != 0 || guard.stop_asked()) std::_Exit(2);
    ::kill(::getpid(), SIGTERM);
    if (::poll(&told, 1, 60'000) != 1) std::_Exit(3);
    const auto second = guard.take();
    if (second.terminations != 1 || second.hangups != 0 || !guard.stop_asked()) std::_Exit(4);
    if (::poll(&told, 1, 0) != 0) std::_Exit(5);
    ::kill(::getpid(), SIGUSR2);
    if (::poll(&told, 1, 60'000) != 1) std::_Exit(6);
    const auto third = guard.take();
    if (third.hand_overs != 1 || third.terminations != 0) std::_Exit(7);
  });
  BOOST_TEST(status == 77);
}

BOOST_AUTO_TEST_CASE(signals_without_a_use_end_nothing) {
  const int status = status_of([] {
    process_guard guard;
    for (const int number : {SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ, SIGALRM}) ::kill(::getpid(), number);
    pause(50ms, "a signal with a use would end it meanwhile");
  });
  BOOST_TEST(status == 77);
}

BOOST_AUTO_TEST_SUITE_END()
