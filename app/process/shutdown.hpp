// How the worker ends, as decisions without a socket, signal or timer: events in, one action out.
// app/worker/ending.cpp performs the actions. Source: WORK-3015, M0-W-1630.
#pragma once

#include "app/process/exit_code.hpp"

namespace orcd::app {

enum class shutdown_event {
  loaded,  ///< start-up is over, the worker serves
  asleep,  ///< another engine serves, and this one waits for its turn again
  sigint,
  sigterm,
  request,  ///< POST /shutdown
  start_failed,
  idle,  ///< no job and no answer is left
  drain_timeout,
  fatal,      ///< the accelerator failed for good
  exhausted,  ///< memory ran out in a handler, and a stream may hang for it; the others may finish
  stopped,    ///< the server's last session is gone, or the time for it is over
};

enum class shutdown_action {
  none,
  cancel_start,  ///< give the load up; no `stopped` follows
  begin_drain,   ///< refuse new jobs; `idle` or `drain_timeout` follows
  stop_server,   ///< end the open streams with an error and close; `stopped` follows
  finish,        ///< leave the io loop and tear down
  exit_now,      ///< end the process without waiting for anything
};

/// One per process, on the io thread. The first signal or POST /shutdown drains; a second signal cuts
/// the drain short, a third ends the process on the spot. A POST /shutdown followed by one SIGTERM is
/// the normal stop of a supervisor and cuts nothing short. A fatal failure wins over a drain.
class shutdown_fsm {
 public:
  [[nodiscard]] shutdown_action on(shutdown_event event) noexcept;
  /// The exit code if the process ended now.
  [[nodiscard]] exit_code code() const noexcept { return code_; }
  /// Sets the exit code of `fatal` and `start_failed`; failure by default.
  void set_failure_code(exit_code code) noexcept { failure_code_ = code; }
  [[nodiscard]] bool ending() const noexcept { return phase_ != phase::starting && phase_ != phase::serving; }

 private:
  enum class phase { starting, serving, draining, stopping, done };
  shutdown_action on_stop_asked(bool signal, exit_code forced) noexcept;
  shutdown_action stop_with(exit_code code) noexcept;

  phase phase_ = phase::starting;
  unsigned signals_ = 0;
  exit_code code_ = exit_code::ok;
  exit_code failure_code_ = exit_code::failure;
  exit_code drained_code_ = exit_code::ok;  ///< exit code of a drain that ends in order
};

}  // namespace orcd::app
