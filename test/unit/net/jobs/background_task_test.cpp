// Work beside the io thread: its result comes back to that thread, whatever becomes of the work.
#include "net/jobs/background_task.hpp"

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
  std::vector<queued_task> waiting;
  background_runner run = [this](queued_task task) {
    waiting.push_back(std::move(task));
    return result<void>();
  };
  void release() {
    std::thread([this] {
      for (const auto& task : waiting) task.work();
      waiting.clear();
    }).join();
  }
};

std::shared_ptr<background_task<int>> begin(const background_runner& run, asio::io_context& io,
                                            background_task<int>::work what, task_schedule schedule = {}) {
  return background_task<int>::start(run, io.get_executor(), std::move(schedule), std::move(what),
                                     "could not be done")
      .value();
}

/// Whether the background task was done within that time.
std::optional<bool> wait_for(asio::io_context& io, background_task<int>& work,
                             std::chrono::milliseconds patience) {
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

BOOST_AUTO_TEST_SUITE(background_tasks)

BOOST_AUTO_TEST_CASE(without_another_thread_it_is_done_at_once) {
  asio::io_context io;
  const auto work = begin({}, io, [] { return result<int>(7); });
  BOOST_TEST((wait_for(io, *work, std::chrono::milliseconds(0)) == true));
  BOOST_TEST(work->result().value() == 7);
}

BOOST_AUTO_TEST_CASE(another_thread_does_it_and_the_result_comes_back) {
  asio::io_context io;
  held_back other;
  std::thread::id worked_on;
  const auto work = begin(other.run, io, [&] {
    worked_on = std::this_thread::get_id();
    return result<int>(8);
  });
  other.release();
  BOOST_TEST((wait_for(io, *work, std::chrono::seconds(60)) == true));
  BOOST_TEST(work->result().value() == 8);
  BOOST_TEST((worked_on != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(what_comes_too_late_is_not_begun) {
  asio::io_context io;
  held_back other;
  bool begun = false;
  const auto work = begin(other.run, io, [&] {
    begun = true;
    return result<int>(9);
  });
  BOOST_TEST((wait_for(io, *work, std::chrono::milliseconds(1)) == false));
  work->abandon();
  other.release();
  io.restart();
  io.run();
  BOOST_TEST(!begun);
}

BOOST_AUTO_TEST_CASE(it_goes_with_its_place_and_says_when_nobody_waits) {
  asio::io_context io;
  held_back other;
  task_schedule schedule;
  schedule.owner = {"a tenant", 17};
  schedule.length = task_length::lengthy;
  schedule.until = engine::steady_time(std::chrono::hours(1));
  const auto work = begin(
      other.run, io, [] { return result<int>(1); }, schedule);
  const queued_task& task = other.waiting.at(0);
  BOOST_TEST(task.owner.tenant == "a tenant");
  BOOST_TEST(task.owner.connection == 17U);
  BOOST_TEST((task.length == task_length::lengthy));
  BOOST_TEST((task.until == schedule.until));
  BOOST_TEST(!task.abandoned->load());
  work->abandon();
  BOOST_TEST(task.abandoned->load());
}

BOOST_AUTO_TEST_CASE(what_it_needs_is_freed_on_the_thread_that_did_it) {
  asio::io_context io;
  held_back other;
  std::thread::id freed_on;
  std::shared_ptr<int> input(new int(3), [&](const int* number) {
    freed_on = std::this_thread::get_id();
    delete number;
  });
  const auto work = begin(other.run, io, [input] { return result<int>(*input); });
  input.reset();
  other.release();
  BOOST_TEST((freed_on != std::thread::id()));
  BOOST_TEST((freed_on != std::this_thread::get_id()));
  BOOST_TEST((wait_for(io, *work, std::chrono::seconds(60)) == true));
}

BOOST_AUTO_TEST_CASE(a_queue_that_is_full_refuses_it) {
  asio::io_context io;
  const background_runner full = [](queued_task) -> result<void> {
    return engine::error(engine::errc::queue_full, "too many");
  };
  const auto refused = background_task<int>::start(
      full, io.get_executor(), {}, [] { return result<int>(1); }, "no");
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == engine::errc::queue_full));
}

BOOST_AUTO_TEST_CASE(an_error_and_an_exception_come_back_too) {
  asio::io_context io;
  const auto refused =
      begin({}, io, [] { return result<int>(engine::error(engine::errc::invalid_request, "bad", "input")); });
  BOOST_TEST((wait_for(io, *refused, std::chrono::seconds(1)) == true));
  BOOST_TEST(refused->result().error().param == "input");
  const auto thrown = begin({}, io, []() -> result<int> { throw std::runtime_error("secret"); });
  BOOST_TEST((wait_for(io, *thrown, std::chrono::seconds(1)) == true));
  BOOST_TEST(thrown->result().error().message == "could not be done");
  BOOST_TEST((thrown->result().error().code == engine::errc::internal));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
