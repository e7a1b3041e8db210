// The worker's parts and their order. Private to app/: worker_start.cpp builds, worker_load.cpp loads the
// model, worker.cpp runs and ends.
// Everything here is on the io thread but where a function says otherwise.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/exit_guard.hpp"
#include "app/load_progress.hpp"
#include "app/model_setup.hpp"
#include "app/narration.hpp"
#include "app/options.hpp"
#include "app/service_manager.hpp"
#include "app/shutdown.hpp"
#include "engine/chat_format.hpp"
#include "engine/schedule/admission.hpp"
#include "gpu/gpu_thread.hpp"
#include "gpu/weight_check.hpp"
#include "net/server.hpp"

namespace orcd::app {

class worker {
 public:
  worker(const options& opts, log_narrator& narrator, exit_guard& guard)
      : opts_(opts), narrator_(narrator), guard_(guard) {}
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  exit_code run();

 private:
  [[nodiscard]] static double ms_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  // Start-up, in this order.
  void narrate_startup();
  std::optional<start_failure> open();
  engine::result<void> read_request_files();
  void make_server();
  void start_digest();
  void start_load();
  engine::result<engine::memory_plan> load_on_gpu_thread();
  engine::result<engine::memory_plan> load_weights(const gpu::weight_check* check);
  void narrate_gpu_wait(const gpu::wait_notice& notice);
  void report_progress(unsigned percent);
  void on_loaded(const engine::result<engine::memory_plan>& plan);
  void announce();
  void become_ready();
  void fail_start(const start_failure& failure);
  // Running and ending.
  void await_signal();
  void watch(std::chrono::milliseconds interval);
  void watch_file();
  void watch_residency();
  void on_not_resident(const std::vector<std::string>& failures);
  void on_fatal(const engine::error& why, exit_code code = exit_code::failure);
  void handle(shutdown_event event, const char* reason);
  void perform(shutdown_action action, const char* reason);
  void begin_drain(const char* reason);
  void stop_server();
  void post_event(shutdown_event event, const char* reason);

  const options& opts_;
  log_narrator& narrator_;
  exit_guard& guard_;
  const std::chrono::steady_clock::time_point started_at_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point load_started_at_;
  service_manager service_;
  shutdown_fsm fsm_;
  load_progress progress_;
  std::atomic<bool> cancel_load_{false};
  unsigned notified_percent_ = 101;

  // What sessions refer to outlives the io_context that holds their frames; what posts to the
  // io_context ends before it. The destructor stops the GPU thread first.
  engine::worker_state state_;
  engine::worker_identity identity_;
  std::optional<engine::served_model> model_;
  std::optional<engine::chat_format> chat_;
  std::unique_ptr<engine::accelerator> device_;
  std::unique_ptr<gpu::gpu_thread> gpu_thread_;
  std::optional<engine::admission> admission_;
  boost::asio::io_context io_{1};
  boost::asio::thread_pool aside_{1};  ///< for what would hold up the io thread; posts to `io_`
  boost::asio::signal_set signals_{io_, SIGINT, SIGTERM};
  boost::asio::steady_timer drain_timer_{io_};
  boost::asio::steady_timer watchdog_timer_{io_};
  boost::asio::steady_timer file_timer_{io_};
  boost::asio::steady_timer residency_timer_{io_};
  std::optional<progress_watchdog> watchdog_;
  std::shared_ptr<std::atomic<std::uint64_t>> pings_answered_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  net::api_keys keys_;
  std::optional<net::server> server_;
  bool listening_ = false;
  std::uint16_t port_ = 0;
  std::string uri_;
  std::jthread digest_;
};

}  // namespace orcd::app
