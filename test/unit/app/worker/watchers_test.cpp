// What the watchers look at, and what they do about it: no device, no file.
#include "app/worker/watchers.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;

/// A worker whose file and device are what a test says; its GPU thread is the test's own.
struct watched_worker {
  engine::result<void> file{};
  std::vector<std::string> gone;  ///< from the device
  unsigned checks = 0;
  unsigned damages = 0;
  unsigned beats = 0;
  test::told_events log;
  engine::worker_state state;
  boost::asio::io_context io;
  app::watchers watchers{io,
                         app::backend_kind::host,
                         state,
                         log,
                         {.on_gpu_thread = [](const std::function<void()>& task) { task(); },
                          .feed = [] {},
                          .moved = [this](std::uint64_t) { ++beats; },
                          .check_file =
                              [this] {
                                ++checks;
                                return file;
                              },
                          .file_damaged = [this](const engine::error&) { ++damages; },
                          .audit = [this] { return gone; }}};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(watchers)

BOOST_AUTO_TEST_CASE(the_file_is_for_the_host_and_the_device_for_a_gpu) {
  app::options opts;
  opts.residency_check_sec = 7;
  opts.backend = app::backend_kind::host;
  const auto host = app::watchers::plan_for(opts, true, false);
  BOOST_TEST(host.beats);
  BOOST_TEST(host.file);
  BOOST_TEST(host.residency.count() == 0);
  // Shared weights lie in memory that nobody writes to.
  BOOST_TEST(!app::watchers::plan_for(opts, true, true).file);
  opts.backend = app::backend_kind::cuda;
  const auto cuda = app::watchers::plan_for(opts, false, false);
  BOOST_TEST(!cuda.beats);
  BOOST_TEST(!cuda.file);
  BOOST_TEST(cuda.residency.count() == 7);
}

BOOST_AUTO_TEST_CASE(nothing_is_looked_at_before_the_start_and_nothing_twice_after_it) {
  watched_worker worker;
  worker.watchers.look_again();
  BOOST_TEST(worker.checks == 0U);
  worker.watchers.start({.beats = true, .file = true});
  worker.watchers.start({.beats = true, .file = true});
  BOOST_TEST(worker.checks == 1U);
  BOOST_TEST(worker.beats == 1U);
  BOOST_TEST(worker.watchers.are_moving());
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_told_once_and_not_looked_at_again) {
  watched_worker worker;
  worker.file = engine::error(engine::errc::model_load_failed, "cut short");
  worker.watchers.start({.file = true});
  worker.io.run();  // no timer is left
  BOOST_TEST(worker.damages == 1U);
  BOOST_TEST(worker.checks == 1U);
}

BOOST_AUTO_TEST_CASE(memory_that_has_left_the_device_is_told_once) {
  watched_worker worker;
  worker.state.resident = true;
  worker.gone = {"the weights", "the cache"};
  worker.watchers.start({.residency = std::chrono::hours(1)});
  worker.watchers.look_again();
  worker.io.run();  // the timer is cancelled
  BOOST_TEST(worker.log.all() == std::vector<std::string>{"not_resident"}, boost::test_tools::per_element());
  BOOST_TEST(worker.log.last() == "The model is no longer in VRAM: the weights; the cache");
  BOOST_TEST(!worker.state.resident.load());
  BOOST_TEST((worker.state.cause() == engine::health_cause::not_resident));
}

BOOST_AUTO_TEST_SUITE_END()
