// The last bound of a shutdown, in a child process of its own.
#include "app/exit_guard.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

using namespace std::chrono_literals;
using orcd::app::exit_code;
using orcd::app::exit_guard;

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
    exit_guard guard;
    guard.arm(20ms, exit_code::terminated);
    std::this_thread::sleep_for(60s);
  });
  BOOST_TEST(status == 143);
}

BOOST_AUTO_TEST_CASE(a_later_time_changes_nothing_and_an_earlier_one_holds) {
  const int status = status_of([] {
    exit_guard guard;
    guard.arm(30s, exit_code::ok);
    guard.arm(20ms, exit_code::failure);
    guard.arm(40s, exit_code::usage);
    std::this_thread::sleep_for(60s);
  });
  BOOST_TEST(status == 1);
}

BOOST_AUTO_TEST_CASE(a_teardown_that_ends_is_left_alone) {
  const int status = status_of([] {
    { exit_guard never_armed; }
    exit_guard guard;
    guard.arm(60s, exit_code::failure);
  });
  BOOST_TEST(status == 77);
}

BOOST_AUTO_TEST_SUITE_END()
