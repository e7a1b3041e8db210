// The one thread that owns the accelerator: an io_context of its own, run by that thread alone, to
// which jobs and cancels are posted; each handler runs one scheduler step, so that they slip in
// between steps. It takes no lock that a session holds. Every function may be called from any thread.
// Source: design 3, WORK-3060.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/schedule/job.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/worker_state.hpp"

namespace orcd::gpu {

class gpu_thread final : public engine::job_service {
 public:
  /// Starts the thread. `state` gets step times and the running count, `health` when the device runs
  /// out of memory (degraded) or is lost (unhealthy, and lifecycle failed); then the config's own
  /// handlers are called, on this thread.
  gpu_thread(engine::accelerator& device, engine::scheduler_config config, engine::worker_state& state);
  /// stop(), then joins the thread. Everything posted before has run.
  ~gpu_thread() override;

  /// After stop() the job gets an `error` event (draining).
  void submit(engine::job_request request, std::shared_ptr<engine::event_sink> sink) override;
  /// Interrupts the step in progress if it works for this job alone.
  void cancel(const std::string& job_id, engine::cancel_reason reason) override;
  /// Runs `task` on the GPU thread, between steps (audits). It must not throw.
  void post(std::function<void()> task);
  /// No new steps; the running one is interrupted and every job has its terminal event when this
  /// returns (on the GPU thread itself: at the next handler). The thread goes on to answer late
  /// submits until the object is destroyed. May be called again.
  void stop() noexcept;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace orcd::gpu
