// The one thread that owns the accelerator: an io_context of its own, run by that thread alone, to
// which jobs and cancels are posted; each handler runs one scheduler step, so that they slip in
// between steps. Source: design 3, WORK-3060.
#pragma once

#include "engine/schedule/job.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/worker_state.hpp"

#include <functional>
#include <memory>

namespace orcd::gpu {

class gpu_thread final : public engine::job_service {
 public:
  /// Starts the thread. `state` gets step times and the running count.
  gpu_thread(engine::accelerator& device, engine::scheduler_config config, engine::worker_state& state);
  /// Ends running jobs (shutdown), joins the thread.
  ~gpu_thread() override;

  void submit(engine::job_request request, std::shared_ptr<engine::event_sink> sink) override;
  void cancel(const std::string& job_id, engine::cancel_reason reason) override;
  /// Runs `task` on the GPU thread, between steps (audits).
  void post(std::function<void()> task);
  /// No new steps; the running one is interrupted, jobs get their terminal event, the thread ends.
  void stop() noexcept;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace orcd::gpu
