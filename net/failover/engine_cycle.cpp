#include "net/failover/engine_cycle.hpp"

#include "net/status/metrics_text.hpp"

namespace orcd::net {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<failover_state, failover_states> all_states{
    failover_state::init,     failover_state::standby,  failover_state::waking, failover_state::active,
    failover_state::yielding, failover_state::draining, failover_state::dead};

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::size_t place_of(failover_state from, failover_state to) noexcept {
  return static_cast<std::size_t>(from) * failover_states + static_cast<std::size_t>(to);
}

double seconds(nanoseconds time) noexcept {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string_view to_string(failover_state state) noexcept {
  switch (state) {
    case failover_state::init: return "INIT";
    case failover_state::standby: return "STANDBY";
    case failover_state::waking: return "WAKING";
    case failover_state::active: return "ACTIVE";
    case failover_state::yielding: return "YIELDING";
    case failover_state::draining: return "DRAINING";
    case failover_state::dead: break;
  }
  return "DEAD";
}

nanoseconds failover_status::since_entered() const noexcept {
  return nanoseconds(now_ns() - entered_ns_.load());
}

std::uint64_t failover_status::transitions(failover_state from, failover_state to) const noexcept {
  return transitions_.at(place_of(from, to)).load();
}

nanoseconds failover_status::wake_time() const noexcept {
  return nanoseconds(wake_ns_.load());
}

void failover_status::enter(failover_state next) noexcept {
  const auto now = now_ns();
  const auto before = state_.load();
  if (before == failover_state::waking && next == failover_state::active) wake_ns_ = now - entered_ns_;
  ++transitions_.at(place_of(before, next));
  entered_ns_ = now;
  state_.store(next, std::memory_order_release);
}

cycle_action engine_cycle::on(cycle_event event) noexcept {
  const auto state = status_.state();
  if (state == failover_state::dead) return cycle_action::none;
  switch (event) {
    case cycle_event::initialised:
      if (state != failover_state::init) return cycle_action::none;
      status_.enter(failover_state::standby);
      return cycle_action::acquire_lock;
    case cycle_event::lock_granted:
      if (state != failover_state::standby) return cycle_action::none;
      status_.enter(failover_state::waking);
      return cycle_action::wake;
    case cycle_event::serving:
      if (state != failover_state::waking) return cycle_action::none;
      status_.enter(failover_state::active);
      return cycle_action::register_worker;
    case cycle_event::hand_over:
      if (state != failover_state::active) return cycle_action::none;
      status_.enter(failover_state::yielding);
      return cycle_action::leave;
    case cycle_event::left:
      if (state != failover_state::yielding) return cycle_action::none;
      status_.enter(failover_state::standby);
      return cycle_action::acquire_lock;
    case cycle_event::drain:
      if (state != failover_state::draining) status_.enter(failover_state::draining);
      return cycle_action::none;
    case cycle_event::failed: status_.enter(failover_state::dead); return cycle_action::none;
  }
  return cycle_action::none;
}

std::string render_failover_metrics(const failover_status& status) {
  metrics_text out;
  const auto now = status.state();
  out.family("orcd_failover_state", "gauge", "1 for the state that the engine is in, 0 for the others.");
  for (const auto state : all_states) out.sample(state == now ? 1 : 0, {{"state", to_string(state)}});
  out.family("orcd_failover_state_age_seconds", "gauge", "Since the engine entered that state.")
      .sample(seconds(status.since_entered()));
  out.family("orcd_failover_transitions_total", "counter", "Changes from one state to another.");
  for (const auto from : all_states) {
    for (const auto to : all_states) {
      const auto count = status.transitions(from, to);
      // Takeovers count from 0: what is 1 when it is first seen has, for Prometheus, not increased.
      const bool takes_over = from == failover_state::waking && to == failover_state::active;
      if (count == 0 && !takes_over) continue;
      out.sample(static_cast<double>(count), {{"from", to_string(from)}, {"to", to_string(to)}});
    }
  }
  out.family("orcd_failover_lock_to_serving_seconds", "gauge",
             "From the lock to the listening port, at the last wake; 0 before it.")
      .sample(seconds(status.wake_time()));
  if (const auto holder = status.holder_connected()) {
    out.family("orcd_failover_holder_connected", "gauge", "1 while the holder of the connections is there.")
        .sample(*holder ? 1 : 0);
  }
  return std::move(out).take();
}

}  // namespace orcd::net
