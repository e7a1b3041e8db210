// How engines of one folder come to serve, one after the other: the real lock, no port, no model.
#include "app/worker/failover_role.hpp"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/service/service_manager.hpp"
#include "test/support/temporary_directory.hpp"
#include "test/support/wait_until.hpp"
#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;
using net::cycle_event;
using net::failover_state;
using words = std::vector<std::string>;

app::failover_options options_of(const std::string& folder, std::uint32_t number) {
  app::failover_options out;
  out.dir = folder;
  out.lock_path = folder + "/failover.lock";
  out.engine_id = number;
  out.holder = app::holder_use::off;
  return out;
}

/// An engine that notes what its role asks for, and waits where a test says so.
class waiting_engine {
 public:
  waiting_engine(const std::string& folder, std::uint32_t number) : opts_(options_of(folder, number)) {}

  template <class Condition>
  void run_until(const Condition& holds) {
    const auto limit = std::chrono::steady_clock::now() + test::wait_patience;
    while (!holds() && std::chrono::steady_clock::now() < limit) io.run_one_for(std::chrono::seconds(1));
    BOOST_TEST_REQUIRE(holds());
  }
  void run_until_step(const std::string& step) {
    run_until([&] { return std::find(steps.begin(), steps.end(), step) != steps.end(); });
  }
  void go_on() { std::exchange(next, nullptr)(); }

  bool ending = false;
  bool keys_are_read = true;
  int port_is_taken = 0;  ///< so often
  std::function<void()> next;
  words steps;
  test::told_events log;
  engine::worker_state state;
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> more{io.get_executor()};

 private:
  const app::failover_options opts_;

  void note(const char* step) { steps.emplace_back(step); }
  app::failover_role::hooks hooks() {
    app::failover_role::hooks out;
    out.ending = [this] { return ending; };
    out.fail_start = [this](const engine::error&) { note("start failed"); };
    out.fail = [this](const engine::error&) { note("failed"); };
    out.out_of_time = [this] { note("out of time"); };
    out.stands_by = [this] { note("stands by"); };
    out.get_weights = [this](std::function<void()> then) {
      note("weights");
      next = std::move(then);
    };
    out.reload = [this] { note("reload"); };
    out.reloading = [this] { return !keys_are_read; };
    out.when_reloaded = [this](std::function<void()> then) {
      note("keys");
      next = std::move(then);
    };
    out.reserve = [this]() -> engine::result<void> {
      note("reserve");
      if (port_is_taken-- > 0) return engine::error(engine::errc::worker_start_failed, "port 1 is taken");
      return {};
    };
    out.listen = [this]() -> engine::result<void> {
      note("listen");
      return {};
    };
    out.announce = [this] { note("announce"); };
    return out;
  }

 public:
  app::failover_role role{io, opts_, state, log, hooks()};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(failover_role)

BOOST_AUTO_TEST_CASE(it_serves_when_it_has_lock_weights_keys_and_port_in_this_order) {
  const test::temporary_directory folder;
  waiting_engine engine(folder.path().string(), 0);
  engine.port_is_taken = 2;
  engine.keys_are_read = false;
  engine.role.step(cycle_event::initialised);
  engine.run_until_step("weights");
  BOOST_TEST((engine.state.get() == engine::lifecycle::waking));
  engine.go_on();
  engine.keys_are_read = true;
  engine.go_on();
  BOOST_TEST(!engine.role.is_listening());
  engine.run_until_step("announce");
  BOOST_TEST(engine.steps == (words{"stands by", "reload", "weights", "keys", "reserve", "reserve", "reserve",
                                    "listen", "announce"}),
             boost::test_tools::per_element());
  BOOST_TEST((engine.role.status().state() == failover_state::active));
  BOOST_TEST(engine.role.is_listening());
}

BOOST_AUTO_TEST_CASE(the_second_engine_serves_when_the_first_gives_the_lock_up) {
  const test::temporary_directory folder;
  waiting_engine first(folder.path().string(), 0);
  waiting_engine second(folder.path().string(), 1);
  first.role.step(cycle_event::initialised);
  first.run_until_step("weights");
  second.role.step(cycle_event::initialised);
  BOOST_TEST((second.role.status().state() == failover_state::standby));
  BOOST_TEST(second.role.lock().is_taken());
  first.role.give_up();
  BOOST_TEST((first.role.status().state() == failover_state::draining));
  second.run_until_step("weights");
  BOOST_TEST((second.role.status().state() == failover_state::waking));
}

BOOST_AUTO_TEST_CASE(an_engine_that_ends_does_not_serve_with_the_lock_that_it_got) {
  const test::temporary_directory folder;
  waiting_engine engine(folder.path().string(), 0);
  engine.role.step(cycle_event::initialised);
  engine.ending = true;
  engine.run_until([&] { return engine.role.lock().held_for() > std::chrono::nanoseconds(0); });
  engine.io.poll();
  BOOST_TEST(engine.steps == words{"stands by"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_wake_that_is_out_of_time_says_what_it_has_waited_for) {
  const test::temporary_directory folder;
  waiting_engine engine(folder.path().string(), 0);
  engine.port_is_taken = 1'000'000;
  engine.role.step(cycle_event::initialised);
  engine.run_until_step("weights");
  engine.go_on();
  engine.run_until_step("reserve");
  engine.role.on_waking_timeout();
  BOOST_TEST(engine.log.last() ==
             "The engine has the lock and did not come to serve in time: port 1 is taken");
  const auto tries = engine.steps.size();
  BOOST_TEST(engine.steps.back() == "out of time");
  engine.io.run_for(std::chrono::milliseconds(20));
  BOOST_TEST(engine.steps.size() == tries);
}

BOOST_AUTO_TEST_CASE(without_a_holder_nobody_goes_on_with_what_fails) {
  const test::temporary_directory folder;
  waiting_engine engine(folder.path().string(), 0);
  for (const auto what : {app::failover_role::failure::start, app::failover_role::failure::process}) {
    engine.role.on_failed(what);
    BOOST_TEST(!engine.role.leaves());
  }
  BOOST_TEST((engine.role.status().state() == failover_state::dead));
}

BOOST_AUTO_TEST_SUITE_END()
