#include "engine/schedule/parts/pooled_queue.hpp"

#include <utility>
#include <variant>

namespace orcd::engine {

// Makes no more sequences than there are slots, so that a job that comes later does not wait for a long
// list of inputs.
void pooled_queue::feed(waiting_queue& waiting, const slot_table& running, steady_time now) {
  while (!jobs_.empty() && waiting.size() + running.running() < running.size()) {
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    if (!job->has_next()) continue;
    waiting.push(job->next(), now);
    if (job->has_next()) jobs_.push_back(job);
  }
}

void pooled_queue::end_if(const std::function<bool(const job_request&)>& which, cancel_reason reason,
                          steady_time now) {
  for (std::size_t i = 0; i < jobs_.size();) {
    if (!which(jobs_[i]->request())) {
      ++i;
      continue;
    }
    const auto job = std::move(jobs_[i]);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
    const double elapsed = job->elapsed_ms(now);
    const job_outcome how = job_outcome::of(reason, elapsed);
    if (const auto* why = std::get_if<error>(&how.value)) job->end(*why, elapsed);
  }
}

void pooled_queue::end_all(const error& why, steady_time now) {
  while (!jobs_.empty()) {
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    job->end(why, job->elapsed_ms(now));
  }
}

}  // namespace orcd::engine
