// The last bound: whatever hangs while the process tears itself down (a kernel that never ends, a
// reader that never reads the log), the process is gone when the time is up.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "app/exit_code.hpp"

namespace orcd::app {

class exit_guard {
 public:
  exit_guard() = default;
  /// Disarms: everything ended by itself.
  ~exit_guard();
  exit_guard(const exit_guard&) = delete;
  exit_guard& operator=(const exit_guard&) = delete;

  /// Ends the process with `code` after `limit` unless this object is gone by then. Only the first call
  /// sets the time; a later one may only make it shorter or change nothing.
  void arm(std::chrono::milliseconds limit, exit_code code);

 private:
  void wait();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point deadline_;
  exit_code code_ = exit_code::ok;
  bool released_ = false;
  std::thread thread_;
};

}  // namespace orcd::app
