#include "engine/schedule/parts/slot_table.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

sequence* slot_table::find(std::uint32_t slot, std::uint64_t admission) const noexcept {
  const auto& job = jobs_[slot];
  return job && job->admission == admission ? job.get() : nullptr;
}

bool slot_table::has_suspect() const noexcept {
  return running_ > 0 &&
         std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job && job->request.suspect; });
}

bool slot_table::has_adapters() const noexcept {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const auto& job) { return job && !job->request.adapters.empty(); });
}

std::uint64_t slot_table::positions() const noexcept {
  std::uint64_t total = 0;
  for (const auto& job : jobs_) total += job ? job->position : 0;
  return total;
}

sequence& slot_table::put(std::uint32_t slot, std::unique_ptr<sequence> job, steady_time now) {
  ORCD_ENSURE(job != nullptr && jobs_[slot] == nullptr);
  jobs_[slot] = std::move(job);
  ++running_;
  jobs_[slot]->start(slot, ++admissions_, now);
  return *jobs_[slot];
}

std::unique_ptr<sequence> slot_table::take(std::uint32_t slot) {
  ORCD_ENSURE(jobs_[slot] != nullptr && running_ > 0);
  --running_;
  return std::move(jobs_[slot]);
}

}  // namespace orcd::engine
