// The states of an engine, and what its probes answer in each. The names of the failover plan's cases are
// kept.
#include "net/failover/engine_cycle.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "net/failover/probe_answers.hpp"

namespace orcd::net {
namespace {

using event = cycle_event;
using action = cycle_action;
using state = failover_state;

struct engine_under_test {
  failover_status status{1};
  engine_cycle cycle{status};
  std::vector<action> actions;

  void go(std::initializer_list<event> events) {
    for (const auto one : events) actions.push_back(cycle.on(one));
  }
  [[nodiscard]] probe_facts facts(engine::lifecycle lifecycle) const {
    probe_facts out;
    out.state = status.state();
    out.lifecycle = lifecycle;
    out.engine = status.engine();
    out.owner = "engine-0";
    return out;
  }
};

/// The status of /live, /health and /ready.
std::vector<unsigned> probes(const probe_facts& facts) {
  std::vector<unsigned> out;
  for (const auto* path : {"/live", "/health", "/ready"})
    out.push_back(answer_probe("GET", path, facts)->status);
  return out;
}

const std::vector<unsigned> none{503, 503, 503};
const std::vector<unsigned> waits{200, 200, 503};
const std::vector<unsigned> serves{200, 200, 200};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(failover_cycle, engine_under_test)

BOOST_AUTO_TEST_CASE(test_shadow_flow_sequence) {
  go({event::initialised, event::lock_granted, event::serving});
  const std::vector<action> wanted{action::acquire_lock, action::wake, action::register_worker};
  BOOST_TEST((actions == wanted));
  BOOST_TEST((status.state() == state::active));
  BOOST_TEST(status.transitions(state::init, state::standby) == 1U);
  BOOST_TEST(status.transitions(state::standby, state::waking) == 1U);
  BOOST_TEST(status.transitions(state::waking, state::active) == 1U);
  BOOST_TEST(status.wake_time().count() >= 0);
}

BOOST_AUTO_TEST_CASE(test_no_premature_registration) {
  // Whatever comes before the lock and the port, nobody is told of this engine.
  go({event::serving, event::lock_granted, event::initialised, event::serving, event::initialised,
      event::lock_granted, event::lock_granted});
  for (const auto one : actions) BOOST_TEST((one != action::register_worker));
  BOOST_TEST((status.state() == state::waking));
}

BOOST_AUTO_TEST_CASE(a_wake_that_fails_is_the_end) {
  go({event::initialised, event::lock_granted, event::failed, event::serving, event::initialised});
  BOOST_TEST((status.state() == state::dead));
  BOOST_TEST((actions.back() == action::none));
}

BOOST_AUTO_TEST_CASE(an_engine_that_drains_does_not_wake) {
  go({event::initialised, event::drain, event::lock_granted, event::drain});
  BOOST_TEST((status.state() == state::draining));
  BOOST_TEST(status.transitions(state::standby, state::draining) == 1U);
  BOOST_TEST(status.transitions(state::draining, state::draining) == 0U);
}

BOOST_AUTO_TEST_CASE(test_health_probe_init) {
  auto at = facts(engine::lifecycle::starting);
  BOOST_TEST(probes(at) == none);
  at.starts_healthy = true;
  BOOST_TEST(is_healthy(at));
  BOOST_TEST(!is_live(at));
  at.endpoint_only = true;
  BOOST_TEST(!is_healthy(at));
}

BOOST_AUTO_TEST_CASE(test_health_probe_standby) {
  go({event::initialised});
  auto at = facts(engine::lifecycle::standby);
  BOOST_TEST(probes(at) == waits);
  at.endpoint_only = true;
  BOOST_TEST(!is_healthy(at));
  at.endpoint_only = false;
  at.cause = engine::health_cause::not_resident;
  BOOST_TEST(!is_healthy(at));
  at.moving = false;
  BOOST_TEST(!is_live(at), "an engine that is stuck cannot take over");
  go({event::lock_granted});
  BOOST_TEST(probes(facts(engine::lifecycle::waking)) == waits);
}

BOOST_AUTO_TEST_CASE(test_health_probe_active) {
  go({event::initialised, event::lock_granted, event::serving});
  BOOST_TEST(probes(facts(engine::lifecycle::waking)) == waits, "registered only later");
  auto at = facts(engine::lifecycle::ready);
  BOOST_TEST(probes(at) == serves);
  at.moving = false;
  BOOST_TEST(probes(at) == none);
  go({event::drain});
  const std::vector<unsigned> drains{200, 503, 503};
  BOOST_TEST(probes(facts(engine::lifecycle::draining)) == drains);
}

BOOST_AUTO_TEST_CASE(a_probe_tells_the_state) {
  go({event::initialised});
  const auto answer = answer_probe("GET", "/health?verbose=1", facts(engine::lifecycle::standby));
  BOOST_TEST_REQUIRE(answer.has_value());
  BOOST_TEST(answer->body ==
             R"({"status":"ok","failover_state":"STANDBY","state":"standby","role":"standby","engine_id":1,)"
             R"("lock_owner":"engine-0","resumed_total":0})");
  auto held = facts(engine::lifecycle::standby);
  held.holder_connected = false;
  held.resumed = 7;
  held.epoch = 3;
  const auto more = answer_probe("GET", "/health", held)->body;
  BOOST_TEST(more.ends_with(R"("lock_owner":"engine-0","epoch":3,"holder_connected":false,)"
                            R"("resumed_total":7})"));
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_alone_says_nothing_of_others) {
  auto alone = facts(engine::lifecycle::ready);
  alone.alone = true;
  alone.state = state::active;
  BOOST_TEST(answer_probe("GET", "/ready", alone)->body == R"({"status":"ok","state":"ready"})");
}

BOOST_AUTO_TEST_CASE(an_engine_that_hands_over_comes_to_stand_by_again) {
  go({event::initialised, event::lock_granted, event::serving, event::hand_over});
  BOOST_TEST((actions.back() == action::leave));
  BOOST_TEST((status.state() == state::yielding));
  BOOST_TEST(probes(facts(engine::lifecycle::standby)) == waits, "not a moment of 503 on the way");
  go({event::hand_over, event::serving, event::lock_granted, event::initialised});
  BOOST_TEST((status.state() == state::yielding));
  go({event::left});
  BOOST_TEST((actions.back() == action::acquire_lock));
  BOOST_TEST((status.state() == state::standby));
  go({event::left, event::hand_over, event::lock_granted, event::serving});
  BOOST_TEST((actions.back() == action::register_worker));
  BOOST_TEST(status.transitions(state::active, state::yielding) == 1U);
  BOOST_TEST(status.transitions(state::yielding, state::standby) == 1U);
  BOOST_TEST(status.transitions(state::waking, state::active) == 2U);
}

BOOST_AUTO_TEST_CASE(only_an_active_engine_hands_over_and_it_may_end_meanwhile) {
  for (const auto& before : {std::vector<event>{},
                             {event::initialised},
                             {event::initialised, event::lock_granted},
                             {event::initialised, event::drain},
                             {event::failed}}) {
    engine_under_test one;
    for (const auto each : before) static_cast<void>(one.cycle.on(each));
    const auto was = one.status.state();
    BOOST_TEST((one.cycle.on(event::hand_over) == action::none));
    BOOST_TEST((one.cycle.on(event::left) == action::none));
    BOOST_TEST((one.status.state() == was));
  }
  go({event::initialised, event::lock_granted, event::serving, event::hand_over, event::drain, event::left});
  BOOST_TEST((status.state() == state::draining));
}

BOOST_AUTO_TEST_CASE(orders_are_answered_by_state) {
  const auto at = facts(engine::lifecycle::standby);
  BOOST_TEST((find_order("POST", "/engine/sleep?x") == system_order::sleep));
  BOOST_TEST((find_order("POST", "/engine/wake_up") == system_order::wake_up));
  BOOST_TEST((find_order("POST", "/shutdown") == system_order::shutdown));
  BOOST_TEST(!find_order("GET", "/engine/sleep").has_value());
  BOOST_TEST(!find_order("POST", "/engine/sleeping").has_value());
  BOOST_TEST(!find_order("POST", "/health").has_value());
  BOOST_TEST(answer_probe("GET", "/shutdown", at)->allow == "POST");
  BOOST_TEST(answer_probe("GET", "/engine/sleep", at)->status == 405U);
  BOOST_TEST(answer_probe("GET", "/engine/sleep", at)->allow == "POST");
  BOOST_TEST(answer_wake(at).error().message.find("only the lock") != std::string::npos);
  BOOST_TEST(answer_order(at, answer_wake(at)).status == 409U);
  go({event::initialised, event::lock_granted, event::serving});
  BOOST_TEST(answer_wake(facts(engine::lifecycle::ready)).has_value());
  BOOST_TEST(answer_order(facts(engine::lifecycle::ready), {}).status == 200U);
}

BOOST_AUTO_TEST_CASE(requests_that_are_no_probes) {
  const auto at = facts(engine::lifecycle::starting);
  BOOST_TEST(answer_probe("GET", "/execute", at)->status == 404U);
  BOOST_TEST(answer_probe("GET", "", at)->status == 404U);
  BOOST_TEST(answer_probe("POST", "/health", at)->status == 405U);
  BOOST_TEST(answer_probe("POST", "/metrics", at)->status == 405U);
  BOOST_TEST(answer_probe("HEAD", "/health", at)->status == 503U);
  BOOST_TEST(!answer_probe("GET", "/metrics?x", at).has_value());
}

BOOST_AUTO_TEST_CASE(metrics_have_one_state) {
  go({event::initialised});
  const auto text = render_failover_metrics(status);
  BOOST_TEST(text.find("orcd_failover_state{state=\"STANDBY\"} 1\n") != std::string::npos);
  BOOST_TEST(text.find("orcd_failover_state{state=\"ACTIVE\"} 0\n") != std::string::npos);
  BOOST_TEST(text.find("holder") == std::string::npos, "it has none");
  status.set_holder(true);
  BOOST_TEST(render_failover_metrics(status).find("\norcd_failover_holder_connected 1\n") !=
             std::string::npos);
  status.set_holder(false);
  BOOST_TEST(render_failover_metrics(status).find("\norcd_failover_holder_connected 0\n") !=
             std::string::npos);
  BOOST_TEST(text.find("orcd_failover_transitions_total{from=\"INIT\",to=\"STANDBY\"} 1\n") !=
             std::string::npos);
  const std::string taken_over = "orcd_failover_transitions_total{from=\"WAKING\",to=\"ACTIVE\"} ";
  BOOST_TEST(text.find(taken_over + "0\n") != std::string::npos,
             "or its first takeover would be no increase");
  go({event::lock_granted, event::serving});
  BOOST_TEST(render_failover_metrics(status).find(taken_over + "1\n") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
