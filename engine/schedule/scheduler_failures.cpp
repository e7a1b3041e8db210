// How the scheduler goes on after a failed step: what it forgets, and which job ends for it.
#include <utility>

#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

// After a step that did not complete, the accelerator's state of its sequences is undefined beyond what
// earlier steps computed. They go on from there (from position 0 on an accelerator without pages) and give
// the same bits.
void scheduler::forget_launched() noexcept {
  for (const auto& step : launched_) {
    for (const auto& part : step) {
      if (sequence* job = job_of(part)) release(*job);
    }
  }
  launched_.clear();
  if (cache_) cache_->forgot_launched();
}

// If begin() failed, its job is the victim. A failed step does not say which job allocated: take the one with
// the longest part in the launched steps, and among equals the one that was admitted last.
sequence* scheduler::out_of_memory_victim() noexcept {
  if (beginning_ != nullptr) return std::exchange(beginning_, nullptr);
  sequence* victim = nullptr;
  if (launched_.empty()) {
    for (const auto& job : slots_) {
      if (job && (victim == nullptr || job->admission > victim->admission)) victim = job.get();
    }
    return victim;
  }
  std::size_t longest = 0;
  for (const auto& step : launched_) {
    for (const auto& part : step) {
      sequence* job = job_of(part);
      if (job == nullptr) continue;
      const bool worse = victim == nullptr || part.tokens > longest ||
                         (part.tokens == longest && job->admission > victim->admission);
      if (!worse) continue;
      victim = job;
      longest = part.tokens;
    }
  }
  return victim;
}

// A job that was admitted after the shortage found all the memory that it needed.
void scheduler::note_recovery(const sequence& job, const job_outcome& how) {
  const bool well = std::holds_alternative<finish_reason>(how.value);
  if (!short_at_ || !well || job.admission <= *short_at_) return;
  short_at_.reset();
  if (config_.on_recovered) config_.on_recovered();
}

}  // namespace orcd::engine
