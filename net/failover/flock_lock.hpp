// The failover lock as an flock(2) on a file that all engines of a host see: the kernel frees it when its
// holder dies. A thread waits in the kernel, so that a dead engine's lock is had within a millisecond.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "net/failover/failover_lock.hpp"

namespace boost::asio {
class io_context;
}

namespace orcd::net {

struct flock_config {
  std::string path;
  std::string identity;                  ///< written into the file for owner()
  std::chrono::milliseconds poll{0};     ///< 0: wait in the kernel; else try this often
  std::chrono::milliseconds watch{100};  ///< how often the file is looked for while the lock is held
};

class flock_lock final : public failover_lock {
 public:
  flock_lock(boost::asio::io_context& io, flock_config config);
  ~flock_lock() override;

  /// Whether there can be a lock at that path: it is no directory, may be written, and lies on a file system
  /// whose locks end with their holder, which network file systems do not promise.
  [[nodiscard]] engine::result<void> check() const;
  /// Whether somebody has it now, this process or another one. Any thread; another engine that asks for the
  /// lock in the very moment may have to ask once more.
  [[nodiscard]] bool is_taken() const noexcept;

  void acquire(granted_handler granted) override;
  void release() noexcept override;
  [[nodiscard]] std::string owner() const override;
  [[nodiscard]] std::chrono::nanoseconds held_for() const noexcept override;
  void on_lost(lost_handler lost) override { lost_ = std::move(lost); }

 private:
  void wait(const std::weak_ptr<flock_lock*>& self);
  [[nodiscard]] engine::result<bool> lock(int descriptor) noexcept;
  [[nodiscard]] engine::result<int> open_high() const;
  void answer(const std::weak_ptr<flock_lock*>& self, engine::result<void> granted);
  void watch_file();
  void stop_waiting() noexcept;

  boost::asio::io_context& io_;
  const flock_config config_;
  granted_handler granted_;
  lost_handler lost_;
  boost::asio::steady_timer timer_;
  std::atomic<int> held_{-1};           ///< set by the thread when it has the lock
  std::atomic<std::int64_t> since_{0};  ///< when that was, on the steady clock; 0 without it
  /// What handlers that are still queued look at: gone after release().
  std::shared_ptr<flock_lock*> self_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};  ///< the thread has left the kernel for good
  std::thread thread_;
};

}  // namespace orcd::net
