// The step loop as plain code: jobs in, one accelerator step at a time, events out. Owned and called by the
// GPU thread only, except the two interrupt functions. No Asio, and no clock but scheduler_config::now. A
// sink must not call back into the scheduler from offer().
//
// The loop is here; what it goes through are parts, each with a state of its own (engine/schedule/parts):
//
//   submit()    pooled_queue -> waiting_queue -> job_starts -> slot_table -> job_ends: the terminal event
//   run_step()  page_growth -> step_plan, with draft_offers -> launched_steps -> step_results
//   below them  page_plan over the kv_cache; device_sequences, which the accelerator holds; adapters_in_use;
//               failures: what has failed, and which job ends for it
//
// Running ahead: where the accelerator allows it, the next step is launched before the tokens of the last one
// are known; the accelerator feeds each sequence its own token back. What the host finds out one step late
// (an end token, a stop string, a cancel) costs that sequence a step, whose token is dropped; which tokens a
// job gets does not depend on it. A job with a constraint cannot run ahead, because its next mask depends on
// the last token: it takes part in the first step that is launched after that token is known, and its
// neighbours run ahead meanwhile.
//
// Fairness: a step carries one token of every decoding sequence and chunks of prompts, of the next sequences
// in turn and of chunk_tokens() tokens in all, or fewer beside few that decode
// (engine/base/prompt_tokens.hpp), so that no slot starves and the time of a step is bounded. Source:
// M0-W-1301, WORK-3060..3063, WORK-3072.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/parts/adapters_in_use.hpp"
#include "engine/schedule/parts/job_starts.hpp"
#include "engine/schedule/parts/media_encoding.hpp"
#include "engine/schedule/parts/step_plan.hpp"
#include "engine/schedule/parts/step_results.hpp"
#include "engine/schedule/scheduler_config.hpp"

namespace orcd::engine {

/// What a scheduler does now, and has done.
struct scheduler_counts {
  std::uint32_t running = 0;  ///< jobs, or inputs of pooled ones, that have a slot
  std::uint32_t waiting = 0;
  std::uint32_t short_of_pages = 0;  ///< of them, those that wait for pages: a slot is free for each
  /// Positions that the accelerator holds, or will after the steps in progress, for the running jobs.
  std::uint64_t kv_positions = 0;
  std::uint64_t steps = 0;  ///< completed
  /// Running jobs that lost slot and pages to older ones, each as often as it did.
  std::uint64_t preemptions = 0;
  draft_counts drafts;
  media_counts media;
  kv_cache_counts cache;  ///< all zero before the first job and on an accelerator without pages
};

class scheduler {
 public:
  scheduler(accelerator& target, scheduler_config config);
  ~scheduler() = default;  ///< jobs still here get no event: call cancel_all() first
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Before the first job: the accelerator's pages are in memory that another process may have used. What
  /// that one has noted is known; what it may still write to is used after open_pages() only, and jobs that
  /// find too few pages wait for it. Returns the pages that are known.
  std::uint32_t take_over_pages(page_ledger ledger);
  /// The other process has ended for good, with all that it gave the device to do.
  void open_pages();
  /// Waits until the device has come to rest. Pages that were taken over are another process's from now on.
  /// All jobs have ended, and no step is in progress.
  void leave_pages();

  /// Queues a job for the next free slot, first come first served. Admission bounds their number: more than
  /// jobs_max is a programmer error. A job for which there is no host memory is not taken (std::bad_alloc).
  void submit(job_request request, std::shared_ptr<event_sink> sink);
  /// Ends a job at once, waiting or running, and frees its slot. Unknown ids are ignored.
  void cancel(const std::string& job_id, cancel_reason reason);
  /// Ends every job.
  void cancel_all(cancel_reason reason);

  /// Puts a LoRA adapter where no job uses one, in parts, between any two steps one: begins it, in place of
  /// one that has not ended, and does the next part; null: there is more to do. `adapter` stays as it is
  /// until the end. Errors: not_ready, while a job uses what is there; model_load_failed, where it does not
  /// fit the model or the room; that of a lost accelerator.
  [[nodiscard]] result<void> begin_adapter(std::uint32_t index, const lora_adapter& adapter);
  [[nodiscard]] std::optional<result<void>> continue_adapter();
  /// No job that is submitted later gets the adapter; those that have it keep it until they end, and then its
  /// room is free. Returns whether it is free now. One that is being put will not be there.
  bool drop_adapter(std::uint32_t index) noexcept;
  [[nodiscard]] const adapter_table& adapters() const noexcept { return adapters_.table(); }

  /// Ends every job with this error, and each later one at once: nothing can be computed any more. For the
  /// owner, after one of its calls threw and left this object in an unknown state.
  void lose(const error& why);

  /// From any thread: makes the steps in progress return early, or the next one if none is. The
  /// sequences they carried are computed again from their tokens; no event is lost or repeated.
  void interrupt() noexcept { interrupt_.store(true, std::memory_order_relaxed); }
  /// From any thread: interrupt(), but only if the steps in progress work for this job alone, so that
  /// ending one job never costs another its progress.
  void interrupt_if_alone(std::string_view job_id) noexcept;

  /// Ends overdue jobs, admits waiting ones, launches as many steps as the accelerator takes, collects
  /// one and emits its events. Returns whether there is more to do.
  bool run_step();

  [[nodiscard]] bool idle() const noexcept {
    return slots_.running() == 0 && waiting_.empty() && pooled_.empty() && launched_.empty();
  }
  [[nodiscard]] std::uint32_t running() const noexcept { return slots_.running(); }
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return static_cast<std::uint32_t>(waiting_.size() + pooled_.size());
  }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }  ///< completed
  [[nodiscard]] scheduler_counts counts() const noexcept;

 private:
  template <class Work>
  bool attempt(Work&& work);
  template <class Work>
  [[nodiscard]] result<void> attempt_put(Work&& work);
  void end_jobs(const std::function<bool(const job_request&)>& which, cancel_reason reason, steady_time now);
  void give_pages();
  void preempt(std::uint32_t slot);
  void preempt_lost();
  void launch_steps();
  void collect_step();
  void forget_launched() noexcept;
  void handle_failure(const accelerator_failure& failure);

  accelerator& accelerator_;
  scheduler_config config_;
  // Each part may touch those before it that it was given.
  waiting_queue waiting_;
  pooled_queue pooled_;
  slot_table slots_;
  adapters_in_use adapters_;
  device_sequences device_;
  page_plan pages_;
  page_growth growth_;
  failures failures_;
  job_ends ends_;
  job_starts starts_;
  draft_offers drafts_;
  media_encoding media_;
  step_plan plan_;
  launched_steps launched_;
  step_results results_;

  std::vector<sampled_token> sampled_;  ///< reused, so that a step allocates nothing
  std::uint64_t steps_ = 0;
  interrupt_flag interrupt_{false};
  std::atomic<std::uint64_t> only_job_{0};  ///< key of the only job of the steps in progress, else 0
};

}  // namespace orcd::engine
