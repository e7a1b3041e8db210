// What becomes of a loop whose handlers run out of memory.
#include "app/worker/io_loop.hpp"

#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <new>
#include <stdexcept>

namespace {

namespace asio = boost::asio;
using orcd::app::run_handlers;

}  // namespace

BOOST_AUTO_TEST_SUITE(io_loop)

BOOST_AUTO_TEST_CASE(the_handlers_that_are_left_run_after_each_wind_up) {
  asio::io_context io;
  unsigned wound_up = 0;
  unsigned ran = 0;
  for (int i = 0; i < 3; ++i) {
    asio::post(io, [] { throw std::bad_alloc(); });
    asio::post(io, [&] { ++ran; });
  }
  run_handlers(
      io, [] { return false; }, [&] { ++wound_up; });
  BOOST_TEST(wound_up == 3U);
  BOOST_TEST(ran == 3U);
}

BOOST_AUTO_TEST_CASE(a_wind_up_may_run_out_of_memory_itself) {
  asio::io_context io;
  asio::post(io, [] { throw std::bad_alloc(); });
  unsigned wound_up = 0;
  run_handlers(
      io, [] { return false; },
      [&] {
        if (++wound_up == 1) throw std::bad_alloc();
      });
  BOOST_TEST(wound_up == 2U);
}

BOOST_AUTO_TEST_CASE(a_start_without_memory_ends_at_once_and_so_does_any_other_failure) {
  const auto never = [] { BOOST_ERROR("nothing is to be wound up"); };
  asio::io_context starting;
  asio::post(starting, [] { throw std::bad_alloc(); });
  BOOST_CHECK_THROW(run_handlers(
                        starting, [] { return true; }, never),
                    std::bad_alloc);
  asio::io_context serving;
  asio::post(serving, [] { throw std::runtime_error("odd"); });
  BOOST_CHECK_THROW(run_handlers(
                        serving, [] { return false; }, never),
                    std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
