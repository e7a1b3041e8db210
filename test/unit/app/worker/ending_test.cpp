// The order in which a worker ends: no server, no signals.
#include "app/worker/ending.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;
using app::exit_code;
using app::shutdown_event;
using names = std::vector<std::string>;

app::options draining_in(std::uint32_t seconds) {
  app::options out;
  out.drain_timeout_sec = seconds;
  return out;
}

/// A worker that notes what its ending has done.
class ending_worker {
 public:
  explicit ending_worker(std::uint32_t drain_timeout_sec = 25) : opts_(draining_in(drain_timeout_sec)) {
    end.watch_jobs(jobs);
  }
  void serve() { end.handle(shutdown_event::loaded, ""); }

  bool lingers = false;
  names steps;
  exit_code armed = exit_code::ok;  ///< what the process would end with if it hung
  test::told_events log;
  engine::worker_state state;
  engine::admission jobs{engine::admission_limits{1, 1}};
  boost::asio::io_context io;

 private:
  const app::options opts_;
  app::service_manager service_{[](const std::string&) {}};

  [[nodiscard]] std::function<void()> note(const char* step) {
    return [this, step] { steps.emplace_back(step); };
  }
  [[nodiscard]] app::ending::hooks hooks() {
    return {.cancel_start = note("cancel"),
            .handed_over = [] { return false; },
            .failed = [this](bool device) { steps.emplace_back(device ? "device" : "process"); },
            .start_failed = note("start"),
            .leave_lists = note("lists"),
            .lingers = [this] { return lingers; },
            .stop_server =
                [this](std::chrono::milliseconds) {
                  steps.emplace_back("server");
                  end.post(shutdown_event::stopped, "");
                },
            .finish = note("finish"),
            .exit_now = note("exit"),
            .arm = [this](std::chrono::milliseconds, exit_code code) { armed = code; },
            .allow_stop = [](std::chrono::milliseconds, exit_code) {},
            .listen_again = note("signals")};
  }

 public:
  app::ending end{io, opts_, state, service_, log, hooks()};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(ending)

BOOST_AUTO_TEST_CASE(an_idle_worker_drains_stops_and_finishes) {
  ending_worker worker;
  worker.serve();
  worker.end.handle(shutdown_event::sigterm, "SIGTERM");
  BOOST_TEST(worker.jobs.draining());
  BOOST_TEST((worker.state.get() == engine::lifecycle::draining));
  BOOST_TEST(worker.end.has_begun());
  worker.io.run();
  BOOST_TEST(worker.steps == (names{"lists", "server", "finish"}), boost::test_tools::per_element());
  BOOST_TEST((worker.end.code() == exit_code::ok));
}

BOOST_AUTO_TEST_CASE(a_drain_ends_with_its_time_whoever_still_runs) {
  ending_worker worker(0);
  worker.serve();
  BOOST_REQUIRE(worker.jobs.enter("job").has_value());
  worker.end.handle(shutdown_event::sigterm, "SIGTERM");
  worker.io.run();
  BOOST_TEST(worker.steps == (names{"lists", "server", "finish"}), boost::test_tools::per_element());
  BOOST_TEST(worker.log.has("drain_timeout"));
}

BOOST_AUTO_TEST_CASE(a_worker_that_lingers_ends_with_its_drain_at_the_latest) {
  ending_worker worker(0);
  worker.lingers = true;
  worker.serve();
  worker.end.handle(shutdown_event::sigterm, "SIGTERM");
  worker.io.run();
  BOOST_TEST(worker.steps == (names{"lists", "server", "finish"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_start_that_is_stopped_just_leaves) {
  ending_worker worker;
  worker.end.handle(shutdown_event::sigterm, "SIGTERM");
  BOOST_TEST(worker.steps == names{"cancel"}, boost::test_tools::per_element());
  BOOST_TEST(worker.log.last() == "Stopped before the worker was ready");
}

BOOST_AUTO_TEST_CASE(a_failed_start_is_one_line_and_the_code_of_its_reason) {
  ending_worker worker;
  worker.end.fail_start(engine::error(engine::errc::stale_weights, "other weights"));
  worker.io.run();
  BOOST_TEST(worker.steps == (names{"start", "server", "finish"}), boost::test_tools::per_element());
  BOOST_TEST((worker.end.code() == exit_code::stale_weights));
  BOOST_TEST((worker.state.get() == engine::lifecycle::failed));
  const auto told = worker.log.all();
  BOOST_TEST(std::count(told.begin(), told.end(), "error") == 1);
}

BOOST_AUTO_TEST_CASE(a_lost_device_ends_the_worker_and_no_other_engine_is_to_go_on) {
  ending_worker worker;
  worker.serve();
  worker.end.fail(engine::error(engine::errc::cuda_error, "gone"), exit_code::device_lost);
  BOOST_TEST(worker.steps.empty());  // the caller may be any thread
  worker.io.run();
  BOOST_TEST(worker.steps == (names{"device", "server", "finish"}), boost::test_tools::per_element());
  BOOST_TEST((worker.end.code() == exit_code::device_lost));
}

BOOST_AUTO_TEST_CASE(without_memory_it_drains_once_and_hears_signals_again) {
  ending_worker worker;
  worker.serve();
  BOOST_REQUIRE(worker.jobs.enter("job").has_value());
  worker.end.wind_up();
  worker.end.wind_up();
  BOOST_TEST(worker.steps == (names{"signals", "lists", "signals"}), boost::test_tools::per_element());
  BOOST_TEST((worker.armed == exit_code::failure));
  BOOST_TEST((worker.state.cause() == engine::health_cause::handler_out_of_memory));
}

BOOST_AUTO_TEST_CASE(the_third_signal_waits_for_nothing) {
  ending_worker worker;
  worker.serve();
  BOOST_REQUIRE(worker.jobs.enter("job").has_value());
  for (int signals = 0; signals < 3; ++signals) worker.end.handle(shutdown_event::sigterm, "SIGTERM");
  BOOST_TEST(worker.steps == (names{"lists", "server", "exit"}), boost::test_tools::per_element());
  BOOST_TEST((worker.armed == exit_code::terminated));
}

BOOST_AUTO_TEST_SUITE_END()
