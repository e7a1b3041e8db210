// The life of one of several engines, of which one serves: decisions without a socket, lock or timer, and
// what they publish. Source: the states INIT, STANDBY, WAKING, ACTIVE and DEAD of the failover plan.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orcd::net {

enum class failover_state : std::uint8_t {
  init,      ///< loads the model
  standby,   ///< could serve, and waits for the lock
  waking,    ///< has the lock, and takes the serving port
  active,    ///< serves
  yielding,  ///< has left its connections to another engine, and comes to rest
  draining,  ///< takes no new requests, finishes the old ones
  dead,      ///< ends
};
inline constexpr std::size_t failover_states = 7;
[[nodiscard]] std::string_view to_string(failover_state state) noexcept;

enum class cycle_event {
  initialised,   ///< the model is loaded and everything is checked
  lock_granted,  ///< this engine is the active one
  serving,       ///< the serving port listens
  hand_over,     ///< the operator wants another engine to serve, and there is one
  left,          ///< that one may serve, and nothing of what this one did is left here
  drain,         ///< the operator ends it
  failed,        ///< whatever is left cannot be mended by this process
};

enum class cycle_action {
  none,
  acquire_lock,
  wake,             ///< take the serving port; `serving` or `failed` follows
  register_worker,  ///< tell who asked to be told that this engine serves
  leave,            ///< stop between two steps, give connections and lock up; `left` or `failed` follows
};

/// Published by the io thread, read by any thread.
class failover_status {
 public:
  explicit failover_status(std::uint32_t engine) : engine_(engine) {}

  [[nodiscard]] std::uint32_t engine() const noexcept { return engine_; }
  [[nodiscard]] failover_state state() const noexcept { return state_.load(std::memory_order_acquire); }
  /// How long it has been in that state.
  [[nodiscard]] std::chrono::nanoseconds since_entered() const noexcept;
  /// Transitions from one state into another.
  [[nodiscard]] std::uint64_t transitions(failover_state from, failover_state to) const noexcept;
  /// From the lock to the listening port, of the last wake; 0 before it.
  [[nodiscard]] std::chrono::nanoseconds wake_time() const noexcept;

  /// Whether a holder is there; nullopt for an engine that has none.
  void set_holder(bool there) noexcept { holder_ = there ? 1 : 0; }
  [[nodiscard]] std::optional<bool> holder_connected() const noexcept {
    const int known = holder_.load();
    return known < 0 ? std::nullopt : std::optional(known == 1);
  }
  /// Requests of other engines that this process went on with.
  void set_resumed(std::uint64_t count) noexcept { resumed_ = count; }
  [[nodiscard]] std::uint64_t resumed() const noexcept { return resumed_.load(); }
  /// Of this worker's entry where others find it; 0: it has none.
  void set_epoch(std::uint64_t epoch) noexcept { epoch_ = epoch; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_.load(); }

 private:
  friend class engine_cycle;
  void enter(failover_state state) noexcept;

  const std::uint32_t engine_;
  std::atomic<failover_state> state_{failover_state::init};
  std::atomic<std::int64_t> entered_ns_{std::chrono::steady_clock::now().time_since_epoch().count()};
  std::atomic<std::int64_t> wake_ns_{0};
  std::atomic<int> holder_{-1};
  std::atomic<std::uint64_t> resumed_{0};
  std::atomic<std::uint64_t> epoch_{0};
  std::array<std::atomic<std::uint64_t>, failover_states * failover_states> transitions_{};
};

class engine_cycle {
 public:
  explicit engine_cycle(failover_status& status) : status_(status) {}
  /// What follows; an event that has no meaning in the present state changes nothing.
  [[nodiscard]] cycle_action on(cycle_event event) noexcept;

 private:
  failover_status& status_;
};

/// The families orcd_failover_* of /metrics, in Prometheus' text format.
[[nodiscard]] std::string render_failover_metrics(const failover_status& status);

}  // namespace orcd::net
