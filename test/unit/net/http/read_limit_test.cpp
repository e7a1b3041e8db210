// How much longer a client has where this process did not run.
#include "net/http/read_limit.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "test/support/pause.hpp"

namespace orcd::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

BOOST_AUTO_TEST_SUITE(reading_limits)

constexpr std::chrono::nanoseconds limit = seconds(10);

std::chrono::nanoseconds given(std::chrono::nanoseconds late_by, bool readable = false) {
  return time_given_back(late_by, limit, readable);
}

BOOST_AUTO_TEST_CASE(a_client_gets_back_the_time_in_which_nobody_listened) {
  BOOST_TEST((given(seconds(4)) == seconds(4)));
  BOOST_TEST((given(milliseconds(500)) == milliseconds(500)));
  BOOST_TEST((given(seconds(4), true) == seconds(4)));
}

BOOST_AUTO_TEST_CASE(it_has_lost_no_more_than_the_limit) {
  BOOST_TEST((given(std::chrono::hours(8)) == limit));
  BOOST_TEST((given(std::chrono::hours(8), true) == limit));
}

BOOST_AUTO_TEST_CASE(what_every_timer_is_late_by_is_not_given_back) {
  BOOST_TEST((given({}) == seconds(0)));
  BOOST_TEST((given(milliseconds(3)) == seconds(0)));
}

BOOST_AUTO_TEST_CASE(what_has_come_is_read_first) {
  BOOST_TEST((given({}, true) == seconds(1)));
  BOOST_TEST((given(milliseconds(30), true) == seconds(1)));
}

/// Keeps the thread for so long, as a machine without a processor to spare does.
void stall(asio::io_context& io, milliseconds length) {
  asio::post(io, [length] { orcd::test::pause(length, "the thread does something else"); });
}

BOOST_AUTO_TEST_CASE(time_is_given_back_once) {
  asio::io_context io;
  beast::tcp_stream stream(io);
  read_limit time(stream);
  time.start(seconds(1));
  stall(io, milliseconds(1'500));
  io.run_one();  // the stall
  io.run_one();  // the timer, half a second late
  BOOST_TEST(!time.passed());
  stall(io, milliseconds(1'500));
  io.run();
  BOOST_TEST(time.passed());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
