// Notifies systemd (sd_notify(3)). Every call does nothing when no service manager listens. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orcd::app {

class service_manager {
 public:
  using send_function = std::function<void(const std::string& state)>;
  /// Sends to $NOTIFY_SOCKET.
  service_manager();
  /// Sends through `send`, for tests.
  explicit service_manager(send_function send) : send_(std::move(send)) {}

  /// A share of the load is done: `systemctl status` shows it, and the start-up timeout begins anew.
  void loading(unsigned percent);
  /// Something else that a start has to wait for: said, and the start-up timeout begins anew.
  void waiting(std::string_view what);
  /// Ready for requests: `systemctl start` returns.
  void ready(std::string_view status);
  /// A drain may take `limit`; the stop timeout is extended by it.
  void stopping(std::chrono::seconds limit);
  void failed(std::string_view status);
  void feed_watchdog();

  /// WatchdogSec= of the unit, if this process has to feed a watchdog.
  [[nodiscard]] static std::optional<std::chrono::microseconds> watchdog_interval();

 private:
  send_function send_;
};

/// Decides when the watchdog may be fed: the io loop is alive because it calls tick(), and the GPU thread
/// because it has answered the last ping or got it less than `limit` ago. Pure; the caller posts the pings.
class progress_watchdog {
 public:
  using time = std::chrono::steady_clock::time_point;
  explicit progress_watchdog(std::chrono::milliseconds limit) : limit_(limit) {}

  struct decision {
    bool feed = false;
    bool ping = false;  ///< post one ping; its answer adds one to `answered`
  };
  [[nodiscard]] decision tick(time now, std::uint64_t answered) noexcept;

 private:
  std::chrono::milliseconds limit_;
  std::uint64_t sent_ = 0;
  time sent_at_{};
};

}  // namespace orcd::app
