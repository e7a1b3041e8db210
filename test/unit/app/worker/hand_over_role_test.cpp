// The steps by which an engine leaves its role to another one, and by which it ends: no holder, no clients.
#include "app/worker/hand_over_role.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <vector>

#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;
using net::cycle_event;
using net::failover_state;
using events = std::vector<std::string>;

constexpr std::uint32_t own_number = 1;

/// An engine whose holder and server are what a test says. What the role asks for is noted in order.
class leaving_engine {
 public:
  leaving_engine() : role_(io_, own_number, log_, hooks()) {}

  /// Runs what is due, and waits for timers until `steps` has `what`.
  void run_until(const std::string& what) {
    while (std::find(steps.begin(), steps.end(), what) == steps.end() && io_.run_one() > 0) {
    }
    BOOST_TEST(std::count(steps.begin(), steps.end(), what) == 1, what);
  }
  void serve() {
    state = failover_state::active;
    role_.note_serving();
  }
  /// Notes the end of a request as "told" or the reason.
  [[nodiscard]] app::hand_over_role::told_function note() {
    return [this](const engine::result<void>& how) { told.push_back(how ? "done" : how.error().message); };
  }
  [[nodiscard]] std::function<void()> ending(const std::string& name) {
    return [this, name] { steps.push_back(name); };
  }

  failover_state state = failover_state::init;
  bool holder = true;
  std::optional<net::report_frame> report = follows();
  std::size_t sessions = 0;
  events steps;
  events told;
  test::told_events log_;
  boost::asio::io_context io_;
  app::hand_over_role role_;

  [[nodiscard]] static net::report_frame follows() {
    net::report_frame out;
    out.standbys = 1;
    out.active = 0;
    out.settled = true;
    return out;
  }

 private:
  void step(cycle_event event) {
    if (event == cycle_event::hand_over) {
      state = failover_state::yielding;
      return role_.leave();
    }
    state = failover_state::standby;
    steps.emplace_back("stands by");
  }
  app::hand_over_role::hooks hooks() {
    return {.state = [this] { return state; },
            .ending = [] { return false; },
            .holder_has_sockets = [this] { return holder; },
            .unkept = [] { return std::size_t{0}; },
            .ask = [this](const auto& hears) { hears(report); },
            .step = [this](cycle_event event) { step(event); },
            .leave_connections = [this] { steps.emplace_back("connections"); },
            .end_jobs =
                [this](const auto& done) {
                  steps.emplace_back("jobs");
                  done();
                },
            .give_lock_up = [this] { steps.emplace_back("lock"); },
            .asleep = [this] { steps.emplace_back("asleep"); },
            .sessions = [this] { return sessions; },
            .recovering = [] { return std::size_t{0}; },
            .lock_held_for = [] { return std::chrono::nanoseconds(0); },
            .allow_stop = [this] { steps.emplace_back("time"); },
            .fail = [this](const engine::error&) { steps.emplace_back("failed"); }};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(hand_over_role)

BOOST_AUTO_TEST_CASE(connections_go_before_jobs_and_both_before_the_lock) {
  leaving_engine engine;
  engine.serve();
  engine.role_.request(engine.note());
  BOOST_TEST(engine.steps == (events{"connections", "jobs", "lock", "asleep", "stands by"}),
             boost::test_tools::per_element());
  BOOST_TEST(engine.told == events{"done"}, boost::test_tools::per_element());
  BOOST_TEST(engine.role_.has_left());
}

BOOST_AUTO_TEST_CASE(it_stands_by_only_when_its_sessions_have_ended) {
  leaving_engine engine;
  engine.serve();
  engine.sessions = 1;
  engine.role_.request(engine.note());
  BOOST_TEST(engine.steps.back() == "asleep");
  BOOST_TEST(engine.told.empty());
  engine.sessions = 0;
  engine.run_until("stands by");
  BOOST_TEST(engine.told == events{"done"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(one_that_is_refused_goes_on_and_says_why) {
  leaving_engine engine;
  engine.role_.request(engine.note());  // it has not told anybody that it serves
  engine.state = failover_state::active;
  engine.role_.request(engine.note());
  engine.serve();
  engine.report->standbys = 0;
  engine.role_.request(engine.note());
  engine.report.reset();
  engine.role_.request(engine.note());
  BOOST_TEST(engine.steps.empty());
  BOOST_TEST(engine.told == (events{"the engine is INIT", "the engine does not take requests",
                                    "no engine stands by that would answer as this one does",
                                    "the holder does not answer"}),
             boost::test_tools::per_element());
  BOOST_TEST(engine.log_.all() ==
                 (events{"hand_over_refused", "hand_over_refused", "hand_over_refused", "hand_over_refused"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_stop_without_another_engine_is_carried_out_at_once) {
  leaving_engine engine;
  engine.serve();
  engine.holder = false;
  engine.role_.stop(engine.ending("drains"));
  BOOST_TEST(engine.steps == events{"drains"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_stop_that_nobody_would_follow_drains) {
  leaving_engine engine;
  engine.serve();
  engine.report->standbys = 0;
  engine.role_.stop(engine.ending("drains"));
  BOOST_TEST(engine.steps == (events{"time", "drains"}), boost::test_tools::per_element());
  BOOST_TEST(engine.log_.all() == events{"stop_drains"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_stop_that_another_engine_follows_ends_without_the_lock_again) {
  leaving_engine engine;
  engine.serve();
  engine.role_.stop(engine.ending("ends"));
  BOOST_TEST(engine.steps == (events{"time", "connections", "jobs", "lock", "asleep", "ends"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_second_stop_counts_when_the_first_is_carried_out) {
  leaving_engine engine;
  engine.serve();
  engine.sessions = 1;
  engine.role_.stop(engine.ending("first"));
  engine.role_.stop(engine.ending("second"));
  BOOST_TEST(engine.steps.back() == "asleep");
  engine.sessions = 0;
  engine.run_until("second");
  BOOST_TEST(*(engine.steps.end() - 2) == "first");
}

BOOST_AUTO_TEST_CASE(whoever_came_to_end_and_serves_again_drains_once_it_has_recovered) {
  leaving_engine engine;
  engine.serve();
  engine.report->active = net::no_engine;
  engine.sessions = 1;
  engine.role_.stop(engine.ending("drains"));
  engine.report->standbys = 0;  // the one that stood by is gone
  engine.sessions = 0;
  engine.run_until("stands by");
  BOOST_TEST(engine.steps.back() == "stands by");
  engine.serve();
  engine.run_until("drains");
}

BOOST_AUTO_TEST_SUITE_END()
