// The KV pages of jobs: reserved before a job's first step, shared while it runs, given back at its end or
// when it is preempted. Which jobs get further pages as they grow is page_growth's. On an accelerator without
// pages there is nothing to plan: every job has what it needs. Private to engine/schedule; the scheduler's
// thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/schedule/kv_cache.hpp"
#include "engine/schedule/parts/device_sequences.hpp"
#include "engine/schedule/parts/slot_table.hpp"

namespace orcd::engine {

class page_plan {
 public:
  page_plan(accelerator& target, device_sequences& device, kv_cache_config config)
      : accelerator_(target), device_(device), config_(config) {}

  /// Makes the cache if there is none. The accelerator is loaded.
  void make_cache();
  /// As scheduler::take_over_pages(), open_pages() and leave_pages() have it.
  std::uint32_t take_over(page_ledger ledger);
  void open();
  void leave();
  /// Null before the first job, and on an accelerator without pages.
  [[nodiscard]] kv_cache* cache() noexcept { return cache_.get(); }
  [[nodiscard]] const kv_cache* cache() const noexcept { return cache_.get(); }

  /// Waiting jobs are about to ask for pages: whether some lack them is to be found out again.
  void begin_admission() noexcept { lacks_ = awaits_opening_ = false; }
  /// Whether a job of this length fits an empty cache.
  [[nodiscard]] bool can_hold(const sequence& job) const noexcept;
  /// Positions for which a job gets pages with its slot: those of what is known, and of what may be launched
  /// before the next page is asked for.
  [[nodiscard]] std::uint32_t positions_at_first(const sequence& job) const noexcept;
  /// Whether nothing has changed since reserve() found too few pages for this job. `steps`: completed.
  [[nodiscard]] bool is_blocked(const sequence& job, std::uint64_t steps) noexcept;
  /// Gives a job its first pages and says how much of it is computed; false, and nothing, where fewer than
  /// `leave` would be left.
  [[nodiscard]] bool reserve(sequence& job, std::uint32_t leave, std::uint64_t steps);
  /// Whether a job waits for pages: one that asked since begin_admission(), or that was preempted since. And
  /// whether it waits for pages that are closed.
  [[nodiscard]] bool lacks() const noexcept { return lacks_; }
  [[nodiscard]] bool awaits_opening() const noexcept { return awaits_opening_; }

  /// One page of group 0 more for a running job, unless all are in use.
  [[nodiscard]] bool extend(sequence& job);
  /// A step is planned that fills the job's positions up to `end`: it gets the pages of groups with windows
  /// that it lacks, of which there are enough.
  void reach(sequence& job, std::uint32_t end);
  /// The job's steps in progress are lost, and device_sequences::release() has set it back: gives back the
  /// pages that it had for them, but for those of group 0.
  void set_back(sequence& job);
  /// States that the step is to copy which takes the job to `end`; valid until the job's next step is
  /// planned.
  [[nodiscard]] std::span<const state_copy> wanted_states(sequence& job, std::uint32_t end);
  /// The job's sequence will be released: keeps the last state that is made of computed tokens alone.
  void keep_state(sequence& job) noexcept;
  /// Drafts after its next token that a job has pages for.
  [[nodiscard]] std::uint32_t room_for_drafts(const sequence& job) const noexcept;
  /// Takes over pages that others have published since the job got its own; no step of the job may be in
  /// progress.
  void catch_up(sequence& job);
  /// Whether a job that was admitted earlier is computing the page that this one would compute next. Jobs
  /// wait only for earlier ones, so that they cannot wait for each other.
  [[nodiscard]] bool waits_for_page(const sequence& job, const slot_table& running) const noexcept;
  /// The positions up to `end` are computed: their full pages are published.
  void note_computed(sequence& job, std::uint32_t end);
  /// The job ends. Throws std::bad_alloc.
  void give_back(sequence& job);
  /// The job waits again, and nothing of it is computed. Throws std::bad_alloc.
  void preempt(sequence& job);
  /// Jobs that were preempted so far, each as often as it was.
  [[nodiscard]] std::uint64_t preemptions() const noexcept { return preemptions_; }

 private:
  void keep_last_state(sequence& job);
  [[nodiscard]] std::uint64_t moment(std::uint64_t steps) const noexcept;
  void note_lack() noexcept;

  accelerator& accelerator_;
  device_sequences& device_;
  const kv_cache_config config_;
  std::unique_ptr<kv_cache> cache_;  ///< made for the first job: the accelerator is loaded then
  bool shares_pages_ = false;        ///< they are in memory of several processes
  bool lacks_ = false;
  bool awaits_opening_ = false;
  std::uint64_t blocked_job_ = 0;  ///< key of the job that found too few pages,
  std::uint64_t blocked_at_ = 0;   ///< and the moment() of that
  std::uint64_t preemptions_ = 0;
};

}  // namespace orcd::engine
