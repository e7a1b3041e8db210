// How the scheduler runs pooled jobs: sequences for free slots, and the end of jobs between two of their
// sequences.
#include "engine/schedule/pooled_job.hpp"
#include "engine/schedule/scheduler.hpp"

namespace orcd::engine {

// Makes no more sequences than there are slots, so that a job that comes later does not wait behind a long
// list of inputs.
void scheduler::feed_pooled() {
  while (!pooled_.empty() && waiting_.size() + running_ < slots_.size()) {
    const auto job = std::move(pooled_.front());
    pooled_.pop_front();
    if (!job->has_next()) continue;
    waiting_.push_back(job->next());
    waiting_.back()->queued_at = config_.now();
    waiting_.back()->arrival = ++arrivals_;
    if (job->has_next()) pooled_.push_back(job);
  }
}

void scheduler::end_pooled(const std::function<bool(const pooled_job&)>& which, cancel_reason reason,
                           steady_time now) {
  for (std::size_t i = 0; i < pooled_.size();) {
    if (!which(*pooled_[i])) {
      ++i;
      continue;
    }
    const auto job = std::move(pooled_[i]);
    pooled_.erase(pooled_.begin() + static_cast<std::ptrdiff_t>(i));
    const double elapsed = job->elapsed_ms(now);
    const job_outcome how = job_outcome::of(reason, elapsed);
    if (const auto* why = std::get_if<error>(&how.value)) job->end(*why, elapsed);
  }
}

}  // namespace orcd::engine
