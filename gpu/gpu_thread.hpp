// The one thread that owns the accelerator. It runs an io_context of its own, to which jobs and cancels are
// posted from any thread. Each handler runs one scheduler step, so jobs and cancels are taken between steps.
//
//   submit(), cancel(), post() --> queue --> GPU thread: scheduler::run_step() --> launch, collect
//   cancel(), stop()           --> interrupt flag: a step in progress stops early
//   event_sink::offer()        <-- tokens and errors, on the GPU thread
//
// It takes no lock that a session holds (WORK-3060).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/schedule/job.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/worker_state.hpp"

namespace orcd::gpu {

class gpu_thread final : public engine::job_service {
 public:
  /// Starts the thread. `state` gets step times and the running count, and `health` when the device runs out
  /// of memory (degraded) or is lost (unhealthy, lifecycle failed). After that the config's own handlers are
  /// called, on this thread.
  gpu_thread(engine::accelerator& accelerator, engine::scheduler_config config, engine::worker_state& state);
  /// stop(), then joins the thread. Everything posted before has run.
  ~gpu_thread() override;

  /// After stop() the job gets an `error` event (draining).
  void submit(engine::job_request request, std::shared_ptr<engine::event_sink> sink) override;
  /// Interrupts the step in progress if it works for this job alone.
  void cancel(const std::string& job_id, engine::cancel_reason reason) override;
  /// Runs `task` on the GPU thread, between steps (for audits). It must not throw.
  void post(std::function<void()> task);
  /// scheduler::begin_adapter() and the rest of it in parts between steps, while streams run; `done` gets the
  /// result on the GPU thread, and must not throw. At most engine::adapters_max wait; more are refused
  /// (not_ready).
  void put_adapter(std::uint32_t index, std::shared_ptr<const engine::lora_adapter> adapter,
                   std::function<void(engine::result<void>)> done);
  /// scheduler::drop_adapter(); `done` gets whether the room is free, on the GPU thread.
  void drop_adapter(std::uint32_t index, std::function<void(bool free)> done);
  /// scheduler::take_over_pages(); `done` gets the pages that are known and those that are closed, on the GPU
  /// thread. Before the first job after the start or end_jobs(). From end_jobs() on the pages are another
  /// process's.
  void take_over_pages(engine::page_ledger ledger,
                       std::function<void(std::uint32_t known, std::uint32_t closed)> done);
  /// scheduler::open_pages(); jobs that waited for them go on.
  void open_pages();
  /// Ends every job (draining) between two steps, and waits for the steps in progress; `done` is called on
  /// the GPU thread when the device has nothing to do. Jobs that are submitted later run.
  void end_jobs(std::function<void()> done);
  /// Every job ends with `why` between two steps, and scheduler_config::on_failure is told, as after a step
  /// that failed: for what somebody else finds out. Nothing after an earlier failure or stop().
  void fail(engine::error why);
  /// Starts no new steps; interrupts the running one. When this returns true, every job has had its terminal
  /// event (if called on the GPU thread: at the next handler); false: not within `at_most`, because the step
  /// in progress does not end, and they get it when it does. The thread goes on to answer late submits until
  /// the object is destroyed. May be called again.
  [[nodiscard]] bool stop(std::chrono::milliseconds at_most) noexcept;
  /// Waits as long as the step takes: for callers who end with the process that somebody else bounds.
  void stop() noexcept;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace orcd::gpu
