// A thread that nothing can block: it takes the process's signals and ends the process at its deadline,
// whatever hangs elsewhere (a handler on the io thread, a kernel that never ends, a log that is never read).
// Made first of all in main(), so that every other thread inherits the blocked signals, and so that no thread
// has to be made once something has failed.
//
//   SIGINT, SIGTERM   stop; the second one soon, the third one at once (app/process/signal_policy.hpp)
//   SIGHUP            read the keys and the log level again
//   SIGUSR2           another engine is to serve
//   SIGUSR1           nothing, until it has a use
//   SIGPIPE, SIGXFSZ  ignored: a client or a log that takes no more is an error of one write
//   SIGALRM           ignored; ends the process when even its last words cannot be written
//
// SIGQUIT keeps its default action, an end at once with a core dump, for debugging a process that hangs.
// Faults (SIGBUS, SIGSEGV, ...) are delivered to the thread that causes them and are never blocked.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "app/process/exit_code.hpp"
#include "app/process/signal_policy.hpp"

namespace orcd::app {

/// Signals that came since they were last taken.
struct signal_counts {
  unsigned interrupts = 0;
  unsigned terminations = 0;
  unsigned hangups = 0;
  unsigned hand_overs = 0;
};

class process_guard {
 public:
  /// Blocks the signals in the calling thread and starts the guard's thread. Throws std::system_error when
  /// there is no thread or no descriptor left.
  process_guard();
  /// Disarms: everything has ended by itself. The signals stay blocked.
  ~process_guard();
  process_guard(const process_guard&) = delete;
  process_guard& operator=(const process_guard&) = delete;

  /// Ends the process with `code` after `limit` unless this object is gone by then. A later call can only
  /// shorten the time. Any thread; allocates nothing.
  void arm(std::chrono::milliseconds limit, exit_code code) noexcept;

  /// The time that a stop which a first signal asked for has from now on, be it more than before. Nothing
  /// where nobody has asked, or has asked twice. Any thread.
  void allow_stop(std::chrono::milliseconds limit, exit_code code) noexcept;

  /// What signal_policy needs to know when the next signal comes. Any thread.
  void enter(run_phase phase) noexcept;
  void allow_drain(std::chrono::milliseconds limit) noexcept;

  /// Readable when there is something to take().
  [[nodiscard]] int descriptor() const noexcept { return event_; }
  [[nodiscard]] signal_counts take() noexcept;
  /// Whether SIGINT or SIGTERM has come: start-up checks it between its steps.
  [[nodiscard]] bool stop_asked() const noexcept { return stop_asked_; }

 private:
  using clock = std::chrono::steady_clock;
  void watch();
  void on_signal(int number) noexcept;
  [[nodiscard]] std::optional<clock::duration> time_left() noexcept;
  void end_if_late() noexcept;

  int event_ = -1;
  std::atomic<unsigned> interrupts_{0};
  std::atomic<unsigned> terminations_{0};
  std::atomic<unsigned> hangups_{0};
  std::atomic<unsigned> hand_overs_{0};
  std::atomic<bool> stop_asked_{false};
  std::atomic<bool> released_{false};

  std::mutex mutex_;  ///< held for a few assignments only
  signal_policy policy_;
  std::optional<clock::time_point> deadline_;
  exit_code code_ = exit_code::ok;

  std::thread thread_;  ///< last, so that everything it uses exists
};

}  // namespace orcd::app
