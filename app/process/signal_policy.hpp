// How long the process may go on after a signal that asks it to stop. Pure: process_guard applies it on a
// thread of its own, so that it holds whatever the other threads do. What the signal means for the streams is
// decided by shutdown_fsm on the io thread.
#pragma once

#include <chrono>

#include "app/process/exit_code.hpp"

namespace orcd::app {

// What a stop may take after its drain. With the default drain the process is gone thirty seconds after the
// first signal, when a pool manager would kill it (WORK-3101).
inline constexpr std::chrono::seconds drain_default{25};
/// For streams to get their error event and for connections to be closed.
inline constexpr std::chrono::milliseconds farewell_limit{2'000};
/// For giving memory back to a GPU and joining threads (M0-W-1630 allows a second).
inline constexpr std::chrono::milliseconds teardown_limit{3'000};
/// For a start that is given up: the load has to notice it first.
inline constexpr std::chrono::milliseconds abandon_limit{5'000};

/// How far the process has come, as far as ending it is concerned.
enum class run_phase {
  opening,  ///< reads options and files; nothing has to be torn down
  loading,  ///< the io thread runs and can give the load up; a GPU may have memory to give back
  serving,  ///< streams may be open
};

struct signal_limit {
  std::chrono::milliseconds after{};  ///< the process is gone when this has passed since the signal
  exit_code code = exit_code::ok;     ///< and with this code, unless it ended by itself before
};

class signal_policy {
 public:
  void enter(run_phase phase) noexcept { phase_ = phase; }
  /// The time that the first signal leaves to running streams: --drain-timeout.
  void allow_drain(std::chrono::milliseconds limit) noexcept { drain_ = limit; }
  /// That have come.
  [[nodiscard]] unsigned signals() const noexcept { return signals_; }

  /// `forced` is interrupted for SIGINT, terminated for SIGTERM.
  [[nodiscard]] signal_limit on_signal(exit_code forced) noexcept;

 private:
  run_phase phase_ = run_phase::opening;
  std::chrono::milliseconds drain_{0};
  unsigned signals_ = 0;
};

}  // namespace orcd::app
