// What is looked at every now and then while the worker serves: that its threads move, that the file it reads
// its weights from is intact, that the device still has them. io thread, unless a function says otherwise.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/options/options.hpp"
#include "app/process/heartbeats.hpp"
#include "app/service/service_manager.hpp"
#include "engine/worker_state.hpp"

namespace orcd::app {

class watchers {
 public:
  struct hooks {
    std::function<void(std::function<void()>)> on_gpu_thread;  ///< between two steps
    std::function<void()> feed;                                ///< the service manager's watchdog
    /// The io thread moves; the number changes when the GPU thread has.
    std::function<void(std::uint64_t)> moved;
    std::function<engine::result<void>()> check_file;
    std::function<void(const engine::error&)> file_damaged;  ///< nothing is looked at after that
    std::function<std::vector<std::string>()> audit;         ///< what has left the device; on the GPU thread
  };

  /// What is looked at besides the threads.
  struct plan {
    bool beats = false;  ///< somebody asks probes
    bool file = false;
    std::chrono::seconds residency{0};  ///< between two looks; 0: none
  };
  /// The host backend reads its weights from the mapped file all the time, unless they are shared; a GPU has
  /// them in memory of its own.
  [[nodiscard]] static plan plan_for(const options& opts, bool beats, bool shared_weights) noexcept;

  watchers(boost::asio::io_context& io, backend_kind backend, engine::worker_state& state,
           engine::narrator& narrator, hooks asked);

  /// Once; later calls do nothing.
  void start(const plan& what);
  /// After a handler that failed, with which a timer may be lost; before start() nothing.
  void look_again();
  /// Whether the threads have moved of late. Any thread.
  [[nodiscard]] bool are_moving() const noexcept;

 private:
  void beat();
  void watch_progress();
  void watch_file();
  void watch_residency();
  void on_not_resident(const std::vector<std::string>& failures);

  boost::asio::io_context& io_;
  const backend_kind backend_;
  engine::worker_state& state_;
  engine::narrator& narrator_;
  const hooks asked_;
  std::optional<plan> plan_;  ///< since start()
  boost::asio::steady_timer beat_timer_;
  boost::asio::steady_timer progress_timer_;
  boost::asio::steady_timer file_timer_;
  boost::asio::steady_timer residency_timer_;
  std::optional<progress_watchdog> watchdog_;
  std::chrono::milliseconds watch_interval_{};
  std::shared_ptr<std::atomic<std::uint64_t>> pings_answered_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::shared_ptr<heartbeats> beats_ = std::make_shared<heartbeats>();
};

}  // namespace orcd::app
