// The step loop as plain code: jobs in, one accelerator step at a time, events out. Owned and called by the
// GPU thread only, except the two interrupt functions. No Asio, and no clock but scheduler_config::now. A
// sink must not call back into the scheduler from offer().
//
// Running ahead: where the accelerator allows it, the next step is launched before the tokens of the last one
// are known; the accelerator feeds each sequence its own token back. What the host finds out one step late
// (an end token, a stop string, a cancel) costs that sequence a step, whose token is dropped; which tokens a
// job gets does not depend on it. A job with a constraint cannot run ahead, because its next mask depends on
// the last token: it takes part in the first step that is launched after that token is known, and its
// neighbours run ahead meanwhile.
//
// Pages: with its slot a job gets those of its tokens so far (engine/schedule/kv_cache.hpp), and the next one
// before a step needs it. Jobs are admitted in the order they came: one that waits for pages is not
// overtaken, so that it gets them when those before it end. When there is no page left, the running job that
// came last is set back (scheduler_growth.cpp), waits in the order of arrival, and goes on later with the
// same tokens.
//
// A job that runs alone (job_request::alone) gets a slot when all others are free, and until its end nobody
// else does. Jobs that came after it go before it for a while; then nobody does.
//
// Pooled jobs (engine/schedule/pooled_job.hpp) become sequences as slots get free, one input after the other;
// several such jobs take turns.
//
// Adapters: a job names its LoRA adapters by place and digest, and holds them until it ends. What they are
// and how strong they are is part of the salt under which its pages are shared.
//
// Fairness: a step carries one token of every decoding sequence and chunks of prompts, of the next sequences
// in turn and of chunk_tokens() tokens in all, or fewer beside few that decode
// (engine/base/prompt_tokens.hpp), so that no slot starves and the time of a step is bounded. A sequence in
// turn lets others go first while an earlier one computes the very page that it would compute, and takes that
// page over. Source: M0-W-1301, WORK-3060..3063, WORK-3072.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/adapter_table.hpp"
#include "engine/schedule/draft_plan.hpp"
#include "engine/schedule/growth_forecast.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/kv_cache.hpp"

namespace orcd::engine {

/// Whether sequences have drafts (engine/schedule/draft_source.hpp).
struct speculation {
  bool enabled = false;
  /// Drafts that a sequence with a guess has, whatever they cost; 0: as many as pay. At most drafts_max.
  std::uint32_t always = 0;
  /// Makes a sequence's source of drafts; empty: lookup_drafts.
  std::function<std::unique_ptr<draft_source>(job_request& job, std::uint32_t prompt_tokens)> source = {};
};

struct scheduler_config {
  std::uint32_t slots = 1;
  std::vector<token_id> end_of_generation;
  std::function<steady_time()> now;  ///< std::chrono::steady_clock::now when empty, or a test's clock
  /// Called when the accelerator has failed for good, after every job got its error event. Later jobs get the
  /// same error at once.
  std::function<void(const error&)> on_failure;
  /// Called when a step ran out of device memory, before the one job that is failed for it gets its event;
  /// the others go on.
  std::function<void(const error&)> on_degraded = {};
  /// Called after on_degraded when a job that was admitted since then ends well, before it gets its event.
  std::function<void()> on_recovered = {};
  /// Called first when the accelerator fails for good, before any event: /health must not look good to a
  /// client that has just seen the failure.
  std::function<void(const error&)> on_lost = {};
  /// Called when a running job's slot and pages are free again, before the job gets its terminal event: a
  /// client that has seen the event must not find them in use.
  std::function<void()> on_released = {};
  /// Called when a running job has lost its slot and pages to older ones and waits again, with its id and the
  /// tokens of its output so far.
  std::function<void(const std::string& job_id, std::uint32_t tokens)> on_set_back = {};
  kv_cache_config cache = {};  ///< where the accelerator has pages
  speculation drafts = {};     ///< where the accelerator takes drafts
};

/// A job's own text and its prediction, which is taken out of it.
[[nodiscard]] std::unique_ptr<draft_source> make_lookup_drafts(job_request& job, std::uint32_t prompt_tokens);

/// Drafts of all jobs so far.
struct draft_counts {
  std::uint64_t steps = 0;                           ///< a sequence's steps that had drafts
  std::uint64_t tokens = 0;                          ///< drafts
  std::uint64_t right = 0;                           ///< of them, those that became output
  std::array<std::uint64_t, drafts_max> right_at{};  ///< the same by how many drafts came before
};

class pooled_job;
struct job_outcome;
struct sequence;

class scheduler {
 public:
  scheduler(accelerator& target, scheduler_config config);
  ~scheduler();  ///< jobs still here get no event: call cancel_all() first
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

  /// Puts a LoRA adapter where no job uses one, between two steps. Errors: not_ready, while a job uses what
  /// is there; model_load_failed, where it does not fit the model or the room; that of a lost accelerator.
  [[nodiscard]] result<void> put_adapter(std::uint32_t index, const lora_adapter& adapter);
  /// The same in parts, between any two steps one: begins it, in place of one that has not ended, and does
  /// the next part; null: there is more to do. `adapter` stays as it is until the end.
  [[nodiscard]] result<void> begin_adapter(std::uint32_t index, const lora_adapter& adapter);
  [[nodiscard]] std::optional<result<void>> continue_adapter();
  /// No job that is submitted later gets the adapter; those that have it keep it until they end, and then its
  /// room is free. Returns whether it is free now. One that is being put will not be there.
  bool drop_adapter(std::uint32_t index) noexcept;
  [[nodiscard]] const adapter_table& adapters() const noexcept { return adapters_; }

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
    return running_ == 0 && waiting_.empty() && pooled_.empty() && launched_.empty();
  }
  [[nodiscard]] std::uint32_t running() const noexcept { return running_; }
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return static_cast<std::uint32_t>(waiting_.size() + pooled_.size());
  }
  /// Of them, those that wait for pages: a slot is free for each.
  [[nodiscard]] std::uint32_t short_of_pages() const noexcept {
    const auto free = static_cast<std::uint32_t>(slots_.size()) - running_;
    return pages_lack_ ? std::min(waiting(), free) : 0;
  }
  /// Positions that the accelerator holds, or will after the steps in progress, for the running jobs.
  [[nodiscard]] std::uint64_t kv_positions() const noexcept;
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }  ///< completed
  [[nodiscard]] const draft_counts& drafts() const noexcept { return draft_counts_; }
  /// Running jobs that lost their slot and pages to older ones, each as often as it happened.
  [[nodiscard]] std::uint64_t set_backs() const noexcept { return set_backs_; }
  /// All zero before the first job and on an accelerator without pages.
  [[nodiscard]] kv_cache_counts cache_counts() const noexcept {
    return cache_ ? cache_->counts() : kv_cache_counts{};
  }

 private:
  /// One job's part of a launched step. The job may have ended since, and another may have its slot.
  struct launched_part {
    std::uint32_t slot = 0;
    std::uint64_t admission = 0;
    std::uint64_t key = 0;
    std::uint32_t tokens = 0;
    std::uint32_t end = 0;  ///< position after them
    std::uint32_t samples = 0;
    bool scores = false;  ///< what it samples is known: a token of the prompt
    [[nodiscard]] std::uint32_t drafts() const noexcept { return samples > 1 ? samples - 1 : 0; }
  };
  using launched_step = std::vector<launched_part>;

  template <class Work>
  bool attempt(Work&& work);
  [[nodiscard]] std::function<void(std::span<const kv_page>)> clear_function();
  [[nodiscard]] result<adapter_table::hold> hold_adapters(job_request& request);
  void forget_unused_adapters() noexcept;
  [[nodiscard]] result<void> failed_put(std::uint32_t index, const accelerator_failure& failure);
  /// Nothing can be done before open_pages().
  [[nodiscard]] bool waits_for_pages() const noexcept;
  void expire(steady_time now);
  void admit(steady_time now);
  [[nodiscard]] std::optional<std::size_t> next_in_turn(steady_time now) const;
  bool admit_one(std::uint32_t slot, std::size_t place, steady_time now);
  void end_if_over(sequence& job, steady_time now);
  void feed_pooled();
  void end_pooled(const std::function<bool(const pooled_job&)>& which, cancel_reason reason, steady_time now);
  void plan_prefill();
  [[nodiscard]] bool has_adapters() const noexcept;
  [[nodiscard]] bool reserve(sequence& job);
  [[nodiscard]] std::uint32_t positions_at_first(const sequence& job) const noexcept;
  [[nodiscard]] job_growth growth_of(const sequence& job, std::uint32_t own_pages, std::size_t pages,
                                     std::uint32_t wait) const;
  [[nodiscard]] std::uint32_t pages_to_leave(const sequence& next);
  void grow();
  void note_want() noexcept;
  [[nodiscard]] sequence* next_to_grow() const noexcept;
  [[nodiscard]] sequence& latest_running() const noexcept;
  [[nodiscard]] bool extend(sequence& job);
  void grow_for_drafts();
  [[nodiscard]] std::uint32_t room_for_drafts(const sequence& job) const noexcept;
  void set_back(std::uint32_t slot);
  void begin(sequence& job);
  void catch_up(sequence& job);
  [[nodiscard]] bool waits_for_page(const sequence& job) const noexcept;
  void note_computed(sequence& job, std::uint32_t end);
  void give_back_pages(sequence& job);
  [[nodiscard]] bool plan();
  void offer_drafts();
  [[nodiscard]] bool plan_decodes();
  void add_part(sequence& job, std::uint32_t tokens);
  void add_draft_part(sequence& job, std::uint32_t count);
  void launch_steps();
  [[nodiscard]] std::uint64_t only_key() const noexcept;
  void collect_step();
  void accept_results(const launched_step& step, steady_time now);
  void accept_drafts(const launched_part& part, std::span<const sampled_token> results, steady_time now);
  void accept_result(sequence& job, const sampled_token& chosen, steady_time now);
  void accept_token(sequence& job, const sampled_token& chosen, steady_time now);
  [[nodiscard]] sequence* job_of(const launched_part& part) noexcept;
  void forget_launched() noexcept;
  void handle_failure(const accelerator_failure& failure);
  [[nodiscard]] sequence* out_of_memory_victim() noexcept;
  void finish(std::uint32_t slot, const job_outcome& how, steady_time now);
  void note_recovery(const sequence& job, const job_outcome& how);
  void refuse(std::size_t place, steady_time now);
  void release(sequence& job) noexcept;
  template <class Why>
  void end_waiting(const Why& why, steady_time now);

  accelerator& accelerator_;
  scheduler_config config_;
  std::uint32_t chunk_tokens_;
  adapter_table adapters_;
  /// An adapter on its way.
  struct adapter_put {
    std::uint32_t index = 0;
    std::string digest;
    bool dropped = false;
  };
  std::optional<adapter_put> put_;
  std::deque<std::unique_ptr<sequence>> waiting_;   ///< in the order of arrival
  std::deque<std::shared_ptr<pooled_job>> pooled_;  ///< with inputs that no sequence was made for
  std::vector<std::unique_ptr<sequence>> slots_;    ///< by slot id; null where the slot is free
  std::uint32_t running_ = 0;                       ///< slots in use
  std::uint32_t prefill_turn_ = 0;                  ///< slot from which chunks of prompts are sought
  std::uint64_t steps_ = 0;
  draft_counts draft_counts_;
  std::uint64_t admissions_ = 0;
  std::uint64_t arrivals_ = 0;
  std::uint64_t set_backs_ = 0;
  growth_forecast forecast_;
  std::optional<std::uint64_t> short_at_;  ///< admissions_ when device memory ran out; unset: recovered
  std::optional<error> failure_;           ///< the accelerator is lost
  std::unique_ptr<kv_cache> cache_;        ///< made for the first job: the accelerator is loaded then
  bool starved_ = false;                   ///< a job waits for pages that are closed
  bool pages_lack_ = false;                ///< a job waits for pages, whoever has them
  bool is_heir_ = false;                   ///< of pages that are in memory of several processes
  std::uint64_t blocked_job_ = 0;          ///< key of the job that found too few pages,
  std::uint64_t blocked_at_ = 0;           ///< and the cache's changes() and steps then

  sequence* beginning_ = nullptr;  ///< set while accelerator::begin() or extend() runs for this job

  std::vector<launched_step> launched_;  ///< oldest first; at most the accelerator's launch_depth()
  // Reused from step to step, so that a step allocates nothing.
  std::vector<sequence_step> parts_;  ///< being launched
  std::vector<sampled_token> sampled_;
  std::vector<draft_offer> offers_;  ///< by slot
  launched_step spare_;
  std::vector<job_growth> growing_;

  interrupt_flag interrupt_{false};
  std::atomic<std::uint64_t> alone_{0};  ///< key of the only job of the steps in progress, else 0
};

}  // namespace orcd::engine
