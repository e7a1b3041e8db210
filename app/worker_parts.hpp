// The worker's parts and their order. Private to app/: worker_start.cpp builds, worker_load.cpp loads the
// model, worker_failover.cpp waits for another engine's end, worker_holder.cpp has connections from a holder,
// worker_adapters.cpp gets its LoRA adapters, worker_reports.cpp has the worker listed and its traces sent,
// worker_signals.cpp takes the signals, worker.cpp runs and ends. Everything here is on the io thread unless
// a function says otherwise.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/descriptor_plan.hpp"
#include "app/engine_failover.hpp"
#include "app/load_progress.hpp"
#include "app/model_setup.hpp"
#include "app/narration.hpp"
#include "app/options.hpp"
#include "app/process_guard.hpp"
#include "app/service/service_manager.hpp"
#include "app/shutdown.hpp"
#include "app/weights/weights_share.hpp"
#include "engine/chat_format.hpp"
#include "engine/schedule/admission.hpp"
#include "gpu/gpu_thread.hpp"
#include "gpu/weight_check.hpp"
#include "net/discovery/etcd_registrar.hpp"
#include "net/jobs/background_threads.hpp"
#include "net/models/adapter_registry.hpp"
#include "net/server/server.hpp"
#include "net/traces/trace_exporter.hpp"

namespace orcd::app {

/// What SIGHUP changes.
struct reloaded {
  engine::severity log_level = engine::severity::info;
  std::optional<net::api_keys> keys;  ///< nullopt: there is no --api-key-file
};

/// An adapter of --lora that was read.
struct start_adapter {
  adapter_option asked;
  net::adapter_values values;
};

/// The keys of the file at `path`. Errors: worker_start_failed, naming the file and the line, never a key.
[[nodiscard]] engine::result<net::api_keys> read_keys(const std::string& path);

/// The names that a Host field may hold.
[[nodiscard]] net::host_rules serving_hosts(const options& opts);

class worker {
 public:
  worker(const options& opts, log_narrator& narrator, process_guard& guard,
         std::function<engine::result<options>()> read_again)
      : opts_(opts), narrator_(narrator), guard_(guard), read_again_(std::move(read_again)) {}
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
  [[nodiscard]] std::uint64_t spare_descriptors() const;
  [[nodiscard]] std::optional<descriptor_plan> plan_connections(std::uint64_t reserve, std::uint32_t asked);
  engine::result<void> make_room_for_connections(std::uint64_t reserve);
  std::optional<start_failure> open();
  void warn_of_open_key_file();
  engine::result<void> read_request_files();
  // LoRA adapters (worker_adapters.cpp).
  engine::result<void> read_adapters();
  [[nodiscard]] net::adapter_hooks hooks_of_adapters();
  engine::result<void> make_adapters();
  bool put_next_adapter(const engine::memory_plan& plan);
  void make_server();
  std::optional<start_failure> link_weights();
  [[nodiscard]] weights_share::hooks hooks_of_weights();
  void let_weights_go();
  void get_weights_back();
  [[nodiscard]] engine::result<void> map_weights_again();
  void start_digest();
  void find_digest(const std::stop_token& stop);
  void start_load();
  engine::result<engine::memory_plan> load_on_gpu_thread();
  engine::result<weights_share::claimed> claim_weights();
  engine::result<engine::memory_plan> load_weights(const engine::accelerator_config& config,
                                                   const gpu::weight_check* check);
  engine::result<engine::memory_plan> load_checked(const engine::accelerator_config& config);
  engine::result<void> wait_for_check(gpu::weight_check& check);
  void know_digest(std::string digest);
  void narrate_gpu_wait(const gpu::wait_notice& notice);
  void report_progress(unsigned percent);
  void on_loaded(const engine::result<engine::memory_plan>& plan);
  void announce();
  void become_ready();
  void start_discovery();
  void start_traces();
  void tell_of_discovery(net::registrar_event event, const std::string& text);
  [[nodiscard]] std::string render_more_metrics() const;
  void fail_start(const start_failure& failure);
  engine::result<std::uint16_t> reserve_port();
  void use_port(std::uint16_t port);
  // As one of several engines (worker_failover.cpp).
  std::optional<start_failure> start_failover();
  [[nodiscard]] net::probe_facts gather_probe_facts() const;
  void on_waking_timeout();
  void step_cycle(net::cycle_event event);
  void stand_by();
  void try_to_serve();
  void try_later(const std::string& problem);
  // With a holder (worker_holder.cpp).
  std::optional<start_failure> link_holder();
  void take_connections();
  [[nodiscard]] std::uint32_t room_for_held();
  void take_pages_over();
  void open_pages();
  void on_taken_over(net::held_connections held);
  void narrate_takeover(std::uint64_t all, const net::takeover_counts& counts);
  void on_holder_lost();
  void accept_without_holder();
  void on_holder_connected();
  void accept_itself();
  void leave_connections();
  void leave_streams();
  [[nodiscard]] std::optional<engine::error> hand_over_problem() const;
  void hand_over(std::function<void(const engine::result<void>&)> told);
  void leave_for_another();
  void give_role_up();
  void await_rest();
  void stand_by_again(bool followed);
  void beat();
  // Running and ending.
  void listen_to_signals();
  void await_signals();
  void reload();
  [[nodiscard]] engine::result<reloaded> read_anew() const;
  void apply(engine::result<reloaded> what);
  void run_io();
  void wind_up();
  void start_watchdog();
  void start_watching();
  void watch(std::chrono::milliseconds interval);
  void watch_file();
  void watch_residency();
  void on_not_resident(const std::vector<std::string>& failures);
  void on_fatal(const engine::error& why, exit_code code = exit_code::failure);
  void handle(shutdown_event event, const char* reason);
  void perform(shutdown_action action, const char* reason);
  void begin_drain(const char* reason);
  void linger();
  void stop_server();
  void post_event(shutdown_event event, const char* reason);

  const options& opts_;
  log_narrator& narrator_;
  process_guard& guard_;
  const std::function<engine::result<options>()> read_again_;
  const std::chrono::steady_clock::time_point started_at_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point load_started_at_;
  service_manager service_;
  shutdown_fsm fsm_;
  load_progress progress_;
  std::atomic<bool> cancel_load_{false};
  unsigned notified_percent_ = 101;

  // What sessions refer to is declared before the io_context that holds their frames, and what posts to the
  // io_context after it: members are destroyed in reverse. The destructor stops the GPU thread first.
  engine::worker_state state_;
  engine::worker_identity identity_;
  std::optional<engine::served_model> model_;
  std::optional<engine::chat_format> chat_;
  std::unique_ptr<engine::accelerator> accelerator_;
  std::unique_ptr<gpu::gpu_thread> gpu_thread_;
  std::optional<engine::admission> admission_;
  std::unique_ptr<net::trace_exporter> traces_;  ///< null: no spans are kept
  boost::asio::io_context io_{1};
  net::background_threads background_;               ///< posts its results to `io_`
  std::vector<start_adapter> start_adapters_;        ///< read and not on the device yet
  std::unique_ptr<net::adapter_registry> adapters_;  ///< likewise; null until the model is open
  boost::asio::posix::stream_descriptor signals_{io_};
  boost::asio::steady_timer drain_timer_{io_};
  boost::asio::steady_timer watchdog_timer_{io_};
  boost::asio::steady_timer file_timer_{io_};
  boost::asio::steady_timer residency_timer_{io_};
  std::optional<progress_watchdog> watchdog_;
  std::chrono::milliseconds watch_interval_{};
  std::shared_ptr<std::atomic<std::uint64_t>> pings_answered_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  net::api_keys keys_;
  std::optional<net::server> server_;
  std::uint32_t connections_ = 0;  ///< connections that may be open at a time
  bool listening_ = false;
  bool drain_begun_ = false;
  bool exhausted_ = false;
  std::uint16_t port_ = 0;
  std::string uri_;
  std::jthread digest_;
  std::unique_ptr<engine_failover> failover_;       ///< null: the worker is alone
  std::unique_ptr<net::etcd_registrar> registrar_;  ///< null: not ready yet, or listed nowhere
  std::unique_ptr<weights_share> weights_;          ///< null: this engine's are its own
  bool weights_are_away_ = false;                   ///< unmapped, on the GPU thread
  bool weights_are_back_ = false;                   ///< since the engine has the lock
};

}  // namespace orcd::app
