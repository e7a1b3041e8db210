// How the worker's weights come onto the device: loaded, or from another engine of the device, checked with
// --verify; and how an engine that waits lets go of them for a while. Finds the digest of the model's file,
// too. io thread, unless a function says otherwise.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "app/model/model_setup.hpp"
#include "app/options/options.hpp"
#include "app/process/exit_code.hpp"
#include "app/service/service_manager.hpp"
#include "app/weights/weights_share.hpp"
#include "app/worker/load_progress.hpp"
#include "gpu/gpu_thread.hpp"
#include "gpu/weight_check.hpp"

namespace orcd::app {

class weights_role {
 public:
  /// What the role asks of the worker. On the io thread, but for the first two.
  struct hooks {
    std::function<bool()> others_live;  ///< another engine has the failover lock; any thread
    std::function<bool()> stop_asked;   ///< a signal has come; any thread
    std::function<void(const engine::result<engine::memory_plan>&)> loaded;
    std::function<void(std::string)> digest_known;  ///< of the model's file
    std::function<bool()> stands_by;                ///< and is not ending
    std::function<bool()> given_up;                 ///< nobody waits for the weights any more
    std::function<void(const engine::error&)> fail_start;
    std::function<void(const engine::error&, exit_code)> fail;  ///< the process cannot go on
  };

  /// What loads, and what is loaded. The thread may come to a task of this role after its stop(), so that it
  /// ends before this object does; what it is told then is nothing, after cancel().
  struct parts {
    const engine::served_model& model;
    engine::accelerator& accelerator;
    gpu::gpu_thread& thread;
  };

  /// Of an engine that shares its device with others.
  struct sharing {
    bool pages = false;   ///< a holder says when the engine before has ended for good: its KV cache goes on
    std::string cache{};  ///< what pages of a shared KV cache hold the same by
  };

  weights_role(boost::asio::io_context& io, const options& opts, engine::worker_state& state,
               service_manager& service, engine::narrator& narrator, hooks asked);

  // Start-up, in this order.
  void load_with(const parts& made) { parts_.emplace(made); }
  /// Finds the holder of the device's weights, where there is to be one.
  [[nodiscard]] std::optional<start_failure> link(const sharing& how);
  /// Begins to load and to find the digest.
  void start();

  /// Of an engine that waits, where it was asked for. With the GPU thread's tasks in their order, what maps
  /// them again comes later.
  void let_go();
  /// `next` when they are mapped again.
  void get_back(std::function<void()> next);

  [[nodiscard]] bool are_shared() const noexcept { return share_ != nullptr; }
  /// See weights_share; nullopt, and empty, where the weights are this engine's alone.
  [[nodiscard]] std::optional<engine::page_ledger> ledger() const;
  [[nodiscard]] std::string mapped_files() const;
  /// Since start().
  [[nodiscard]] double loading_ms() const;
  /// For the wait for a GPU. On the GPU thread, or before there is one.
  void tell_of_wait(const gpu::wait_notice& notice);

  /// Gives the load up, whoever waits for it. Any thread.
  void cancel() noexcept;
  [[nodiscard]] bool is_cancelled() const noexcept { return cancelled_; }
  /// After cancel() and the GPU thread's stop(): waits for the thread of the digest, and lets the holder go.
  void end();

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] weights_share::hooks share_hooks();
  // On the GPU thread.
  [[nodiscard]] engine::result<engine::memory_plan> load();
  [[nodiscard]] engine::result<weights_share::claimed> claim();
  [[nodiscard]] engine::result<engine::memory_plan> load_checked(const engine::accelerator_config& config);
  [[nodiscard]] engine::result<engine::memory_plan> load_weights(const engine::accelerator_config& config,
                                                                 const gpu::weight_check* check);
  [[nodiscard]] engine::result<void> wait_for_check(gpu::weight_check& check);
  void report_progress(unsigned percent);
  void unmap();
  [[nodiscard]] engine::result<void> map_again();
  // On the digest's thread.
  void find_digest(const std::stop_token& stop);
  void know_digest(std::string digest);

  boost::asio::io_context& io_;
  const options& opts_;
  engine::worker_state& state_;
  service_manager& service_;
  engine::narrator& narrator_;
  const hooks asked_;
  std::optional<parts> parts_;
  clock::time_point started_at_{};
  std::atomic<bool> cancelled_{false};
  load_progress progress_;
  unsigned notified_percent_ = 101;
  bool are_away_ = false;  ///< unmapped; of the GPU thread
  std::jthread digest_;
  std::unique_ptr<weights_share> share_;  ///< null: this engine's weights are its own
};

}  // namespace orcd::app
