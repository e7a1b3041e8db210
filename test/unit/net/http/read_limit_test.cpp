// How much longer a client has where this process did not run.
#include "net/http/read_limit.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

namespace orcd::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

BOOST_AUTO_TEST_SUITE(reading_limits)

BOOST_AUTO_TEST_CASE(a_client_gets_back_the_time_in_which_nobody_listened) {
  BOOST_TEST(time_given_back(seconds(48)).count() == std::chrono::nanoseconds(seconds(48)).count());
  BOOST_TEST(time_given_back(milliseconds(500)).count() ==
             std::chrono::nanoseconds(milliseconds(500)).count());
}

BOOST_AUTO_TEST_CASE(what_every_timer_is_late_by_is_not_given_back) {
  BOOST_TEST(time_given_back({}).count() == 0);
  BOOST_TEST(time_given_back(milliseconds(3)).count() == 0);
}

/// Keeps the thread for so long, as a machine without a processor to spare does.
void stall(asio::io_context& io, milliseconds length) {
  asio::post(io, [length] { std::this_thread::sleep_for(length); });
}

BOOST_AUTO_TEST_CASE(time_is_given_back_once) {
  asio::io_context io;
  beast::tcp_stream stream(io);
  read_limit limit(stream);
  limit.start(seconds(0));
  stall(io, milliseconds(60));
  io.poll();
  BOOST_TEST(!limit.passed());
  stall(io, milliseconds(200));
  io.run();
  BOOST_TEST(limit.passed());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
