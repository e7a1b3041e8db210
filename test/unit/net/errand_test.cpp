// Work beside the io thread: its result comes back to that thread, whatever becomes of the work.
#include "net/errand.hpp"

#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

namespace orcd::net {
namespace {

using engine::result;
using std::chrono::steady_clock;

/// Keeps what is to run aside until it is told to.
struct held_back {
  std::vector<std::function<void()>> waiting;
  aside run = [this](std::function<void()> what) { waiting.push_back(std::move(what)); };
  void release() {
    std::thread([this] {
      for (const auto& what : waiting) what();
    }).join();
  }
};

/// Whether the errand was done within that time.
std::optional<bool> wait_for(asio::io_context& io, errand<int>& work, std::chrono::milliseconds patience) {
  std::optional<bool> done;
  asio::co_spawn(io, work.done_by(steady_clock::now() + patience),
                 [&](const std::exception_ptr& thrown, bool in_time) {
                   BOOST_TEST(!thrown);
                   done = in_time;
                 });
  io.restart();
  io.run();
  return done;
}

BOOST_AUTO_TEST_SUITE(errands)

BOOST_AUTO_TEST_CASE(without_another_thread_it_is_done_at_once) {
  asio::io_context io;
  const auto work = errand<int>::start(
      {}, io.get_executor(), [] { return result<int>(7); }, "no");
  BOOST_TEST((wait_for(io, *work, std::chrono::milliseconds(0)) == true));
  BOOST_TEST(work->made().value() == 7);
}

BOOST_AUTO_TEST_CASE(another_thread_does_it_and_the_result_comes_back) {
  asio::io_context io;
  held_back other;
  std::thread::id worked_on;
  const auto work = errand<int>::start(
      other.run, io.get_executor(),
      [&] {
        worked_on = std::this_thread::get_id();
        return result<int>(8);
      },
      "no");
  other.release();
  BOOST_TEST((wait_for(io, *work, std::chrono::seconds(60)) == true));
  BOOST_TEST(work->made().value() == 8);
  BOOST_TEST((worked_on != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(what_comes_too_late_is_not_begun) {
  asio::io_context io;
  held_back other;
  bool begun = false;
  const auto work = errand<int>::start(
      other.run, io.get_executor(),
      [&] {
        begun = true;
        return result<int>(9);
      },
      "no");
  BOOST_TEST((wait_for(io, *work, std::chrono::milliseconds(1)) == false));
  other.release();
  io.restart();
  io.run();
  BOOST_TEST(!begun);
}

BOOST_AUTO_TEST_CASE(an_error_and_an_exception_come_back_too) {
  asio::io_context io;
  const auto refused = errand<int>::start(
      {}, io.get_executor(),
      [] { return result<int>(engine::error(engine::errc::invalid_request, "bad", "input")); }, "no");
  BOOST_TEST((wait_for(io, *refused, std::chrono::seconds(1)) == true));
  BOOST_TEST(refused->made().error().param == "input");
  const auto thrown = errand<int>::start(
      {}, io.get_executor(), []() -> result<int> { throw std::runtime_error("secret"); },
      "could not be done");
  BOOST_TEST((wait_for(io, *thrown, std::chrono::seconds(1)) == true));
  BOOST_TEST(thrown->made().error().message == "could not be done");
  BOOST_TEST((thrown->made().error().code == engine::errc::internal));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
