// What an engine has that shares its serving port with others: the lock, the states that it goes through, and
// the system port. app/worker_failover.cpp drives it. Private to app/.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "app/options.hpp"
#include "net/failover/engine_cycle.hpp"
#include "net/failover/flock_lock.hpp"
#include "net/failover/holder_link.hpp"
#include "net/failover/system_port.hpp"

namespace orcd::app {

/// When the io thread and the GPU thread were last seen to move. Written by them, read by any thread.
class heartbeats {
 public:
  void of_io() noexcept { io_ = now(); }
  void of_gpu() noexcept { gpu_ = now(); }
  /// Another number when the GPU thread has moved since.
  [[nodiscard]] std::uint64_t gpu_progress() const noexcept {
    return static_cast<std::uint64_t>(gpu_.load());
  }
  /// Whether both have moved within `limit`.
  [[nodiscard]] bool are_younger_than(std::chrono::milliseconds limit) const noexcept {
    return now() - std::min(io_.load(), gpu_.load()) < limit.count();
  }

 private:
  [[nodiscard]] static std::int64_t now() noexcept {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  }
  std::atomic<std::int64_t> io_{now()};
  std::atomic<std::int64_t> gpu_{now()};
};

struct engine_failover {
  engine_failover(boost::asio::io_context& io, const failover_options& opts)
      : status(opts.engine_id),
        lock(io, {opts.lock_path, "engine-" + std::to_string(opts.engine_id),
                  std::chrono::milliseconds(opts.lock_poll_ms)}),
        beat_timer(io),
        wake_timer(io),
        rest_timer(io),
        pages_timer(io),
        pause(io) {}

  net::failover_status status;
  net::engine_cycle cycle{status};
  net::flock_lock lock;
  boost::asio::steady_timer beat_timer;
  boost::asio::steady_timer wake_timer;   ///< between tries for the serving port
  boost::asio::steady_timer rest_timer;   ///< between looks at what a hand-over has left
  boost::asio::steady_timer pages_timer;  ///< until pages that the engine before may write to are used
  std::chrono::steady_clock::time_point taken_at{};  ///< when the pages were taken over
  std::string maker{};     ///< what other engines must be of to go on with this one's streams
  bool watched = false;    ///< threads and files, since it stood by for the first time
  bool announced = false;  ///< it serves, and whoever wanted to be told has been
  /// Told of the end of the hand-over that is under way.
  std::function<void(const engine::result<void>&)> handed_over{};
  std::chrono::steady_clock::time_point left_at{};  ///< when another engine could have the lock
  std::shared_ptr<heartbeats> beats = std::make_shared<heartbeats>();
  std::shared_ptr<net::holder_link> link{};  ///< null: the engine has a port of its own
  /// Accepts itself while the holder is away.
  std::optional<boost::asio::ip::tcp::acceptor> substitute{};
  boost::asio::steady_timer pause;  ///< after an accept that failed
  bool takes_connections = false;   ///< it is the active one, and not ending
  /// The holder has all connections, so that another engine can go on with them. Written by the io thread.
  std::atomic<bool> can_leave{false};
  bool leaves_well = false;          ///< it could not begin, so that no request is the reason
  std::atomic<bool> leaves{false};   ///< this engine fails, and ends without a word to its clients
  std::atomic<bool> expired{false};  ///< the time to come to serve is over
  std::mutex mutex;                  ///< of what follows
  std::string wake_problem;          ///< why the serving port could not be had, at the last try
  /// Last: its thread reads what is above.
  std::unique_ptr<net::system_port> port;
};

}  // namespace orcd::app
