// Decides which of several engines on one host is active. All calls and handlers are on the thread of one
// io_context. The lock elects only: memory that the engine before may still write is another matter, because
// its kernels go on for some milliseconds after its lock is free. Source: FailoverLock of the failover plan.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "engine/base/error.hpp"

namespace orcd::net {

class failover_lock {
 public:
  using granted_handler = std::function<void(engine::result<void>)>;
  using lost_handler = std::function<void(engine::error)>;

  failover_lock() = default;
  virtual ~failover_lock() = default;
  failover_lock(const failover_lock&) = delete;
  failover_lock& operator=(const failover_lock&) = delete;

  /// Waits, without a limit, until this engine is the active one, and says so once; an error means that the
  /// lock cannot be had. Not again before release().
  virtual void acquire(granted_handler granted) = 0;
  /// Gives the active role up, or no longer waits for it: no handler is called after that. The end of the
  /// process does the same, however it ends.
  virtual void release() noexcept = 0;
  /// Who was granted the lock last: "engine-1". Empty when that is unknown. Any thread.
  [[nodiscard]] virtual std::string owner() const = 0;
  /// How long this process has had the lock, whether or not the io_context's thread has been told yet; zero
  /// without it. Any thread.
  [[nodiscard]] virtual std::chrono::nanoseconds held_for() const noexcept = 0;
  /// Called once if the lock is lost while it is held.
  virtual void on_lost(lost_handler lost) = 0;
};

}  // namespace orcd::net
