// An engine for a program that embeds one, without sockets, options and log: a model, the accelerator that it
// is loaded on, and the GPU thread that owns that. load() once, then submit() from any thread; close() once
// and last.
#pragma once

#include <memory>

#include "engine/accelerator.hpp"
#include "engine/served/served_model.hpp"
#include "engine/worker_state.hpp"
#include "gpu/gpu_thread.hpp"

namespace orcd::gpu {

class owned_engine {
 public:
  /// Starts the GPU thread; nothing is loaded yet.
  owned_engine(engine::served_model model, std::unique_ptr<engine::accelerator> device,
               engine::scheduler_config schedule);
  ~owned_engine() { close(); }
  owned_engine(const owned_engine&) = delete;
  owned_engine& operator=(const owned_engine&) = delete;

  /// Loads the weights on the GPU thread and waits for it. Errors: what the accelerator says, and
  /// model_load_failed where the file changed meanwhile.
  [[nodiscard]] engine::result<engine::memory_plan> load();
  /// Ends what is running and frees the device's memory, on the thread that allocated it.
  void close() noexcept;

  [[nodiscard]] gpu_thread& thread() noexcept { return *thread_; }
  /// GPU thread only, after load().
  [[nodiscard]] engine::accelerator& device() noexcept { return *device_; }
  [[nodiscard]] const std::shared_ptr<const engine::served_model>& model() const noexcept { return model_; }

 private:
  [[nodiscard]] engine::result<engine::memory_plan> load_here();

  std::shared_ptr<const engine::served_model> model_;
  std::unique_ptr<engine::accelerator> device_;
  engine::worker_state state_;
  std::unique_ptr<gpu_thread> thread_;
};

}  // namespace orcd::gpu
