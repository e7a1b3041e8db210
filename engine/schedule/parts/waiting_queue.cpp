#include "engine/schedule/parts/waiting_queue.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

/// For so long jobs that came later go before a suspect.
constexpr std::chrono::seconds patience{10};

}  // namespace

void waiting_queue::push(std::unique_ptr<sequence> job, steady_time now) {
  ORCD_ENSURE(job != nullptr);
  job->queued_at = now;
  job->arrival = ++arrivals_;
  jobs_.push_back(std::move(job));
}

std::optional<std::size_t> waiting_queue::next(const slot_table& running, steady_time now) const {
  if (running.has_suspect()) return std::nullopt;
  std::optional<std::size_t> suspect;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!jobs_[i]->request.suspect) return i;
    if (!suspect) suspect = i;
    // What runs now may finish.
    if (now - jobs_[i]->queued_at > patience) break;
  }
  return running.running() == 0 ? suspect : std::nullopt;
}

std::unique_ptr<sequence> waiting_queue::take(std::size_t index) {
  auto job = std::move(jobs_[index]);
  jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index));
  return job;
}

// The gap is made first: it may need memory, and then the job still has its slot.
sequence& waiting_queue::put_back(slot_table& running, std::uint32_t slot) {
  const auto came_before = [](std::uint64_t arrival, const auto& other) { return arrival < other->arrival; };
  const auto after = std::upper_bound(jobs_.begin(), jobs_.end(), running[slot]->arrival, came_before);
  const auto gap = jobs_.emplace(after, nullptr);
  *gap = running.take(slot);
  return **gap;
}

// One walk, whatever the number that ends: those that stay move up over the ended ones.
void waiting_queue::end_if(const std::function<bool(const sequence&)>& which,
                           const std::function<job_outcome(const sequence&)>& how, steady_time now) {
  std::size_t kept = 0;
  std::size_t next = 0;
  const auto close_gap = [&] {
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(kept),
                jobs_.begin() + static_cast<std::ptrdiff_t>(next));
  };
  try {
    while (next < jobs_.size()) {
      if (!which(*jobs_[next])) {
        if (kept != next) jobs_[kept] = std::move(jobs_[next]);
        ++kept;
        ++next;
        continue;
      }
      const job_outcome outcome = how(*jobs_[next]);
      const auto job = std::move(jobs_[next++]);
      job->finish(outcome, now);
    }
  } catch (...) {
    close_gap();
    throw;
  }
  close_gap();
}

}  // namespace orcd::engine
