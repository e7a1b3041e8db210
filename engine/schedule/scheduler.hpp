// The step loop as plain code: jobs in, one accelerator step at a time, events out. Owned and called
// by the GPU thread only, except interrupt(). No Asio, no clock of its own: time is passed in.
// Source: design 3, M0-W-1301, WORK-3060..3063.
#pragma once

#include "engine/accelerator.hpp"
#include "engine/schedule/job.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace orcd::engine {

struct scheduler_config {
  std::uint32_t slots = 1;
  std::vector<token_id> end_of_generation;
  std::function<steady_time()> now;  ///< std::chrono::steady_clock::now, or a test's clock
  /// Told when the accelerator fails for good, after every job got its error event.
  std::function<void(const error&)> on_failure;
};

class scheduler {
 public:
  scheduler(accelerator& device, scheduler_config config);
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Queues a job for the next free slot, first come first served.
  void submit(job_request request, std::shared_ptr<event_sink> sink);
  /// Ends a waiting job at once, a running one before the next step. Unknown ids are ignored.
  void cancel(const std::string& job_id, cancel_reason reason);
  /// From any thread: makes the running step return early so that a cancel is acted on at once.
  void interrupt() noexcept { interrupt_.store(true, std::memory_order_relaxed); }

  /// Admits waiting jobs, runs one step and emits its events. Returns whether there is more to do.
  bool run_step();

  [[nodiscard]] bool idle() const noexcept;
  [[nodiscard]] std::uint32_t running() const noexcept;
  [[nodiscard]] std::uint32_t waiting() const noexcept;
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

 private:
  struct sequence;
  // The implementation adds its private members here.
  accelerator& device_;
  scheduler_config config_;
  interrupt_flag interrupt_{false};
  std::uint64_t steps_ = 0;
  std::deque<std::unique_ptr<sequence>> waiting_;
  std::vector<std::unique_ptr<sequence>> running_;
};

}  // namespace orcd::engine
