#include "engine/schedule/admission.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

admission::admission(admission_limits limits) : limits_(limits) {
  ORCD_ENSURE(limits_.slots > 0 && limits_.slots <= jobs_max);
  limits_.max_queue = std::min(limits_.max_queue, jobs_max - limits_.slots);
}

result<void> admission::enter(const std::string& job_id, const std::string& owner) {
  if (draining_) return error(errc::draining, "the worker is draining and takes no new jobs");
  if (const auto unused = check_unused(job_id); !unused) return unused;
  const std::size_t capacity = std::size_t{limits_.slots} + limits_.max_queue;
  if (jobs_.size() >= capacity) {
    return error(errc::queue_full, "the worker is full: " + std::to_string(running()) + " of " +
                                       std::to_string(limits_.slots) + " slots in use and " +
                                       std::to_string(waiting()) + " of " +
                                       std::to_string(limits_.max_queue) + " places in the queue taken");
  }
  const bool last = limits_.max_queue > 0 && capacity - jobs_.size() == 1;
  if (last && !owner.empty() && of_owners_.contains(owner)) {
    return error(errc::queue_full, "the worker is full but for one place, which is for another API key");
  }
  return enter_again(job_id, owner);
}

result<void> admission::enter_again(const std::string& job_id, const std::string& owner) {
  if (const auto unused = check_unused(job_id); !unused) return unused;
  // Nothing may fail for want of memory once the first of the two has changed.
  auto& of_owner = of_owners_.try_emplace(owner, 0).first->second;
  try {
    jobs_.emplace(job_id, owner);
  } catch (...) {
    if (of_owner == 0) of_owners_.erase(owner);
    throw;
  }
  ++of_owner;
  return {};
}

result<void> admission::reserve(const std::string& name) {
  if (const auto unused = check_unused(name); !unused) return unused;
  names_.insert(name);
  return {};
}

result<void> admission::check_unused(const std::string& id) const {
  if (!jobs_.contains(id) && !names_.contains(id)) return {};
  return duplicate_job(id);
}

error duplicate_job(const std::string& id) {
  return {errc::duplicate_job, "job_id '" + id + "' is in use by a job that has not ended", "job_id"};
}

void admission::leave(const std::string& job_id) {
  const auto job = jobs_.find(job_id);
  if (job == jobs_.end()) return;
  const auto owner = of_owners_.find(job->second);
  if (--owner->second == 0) of_owners_.erase(owner);
  jobs_.erase(job);
  call_if_idle();
}

void admission::hand_on(const std::string& job_id, const std::string& reserved) {
  auto name = names_.extract(reserved);
  auto place = jobs_.extract(job_id);
  ORCD_ENSURE(!name.empty() && !place.empty());
  place.key() = std::move(name.value());
  jobs_.insert(std::move(place));
}

void admission::end_answer() {
  if (answers_ > 0 && --answers_ == 0) call_if_idle();
}

void admission::drain() {
  draining_ = true;
  call_if_idle();
}

void admission::on_idle(std::function<void()> handler) {
  idle_ = std::move(handler);
  call_if_idle();
}

std::uint32_t admission::running() const noexcept {
  return static_cast<std::uint32_t>(std::min<std::size_t>(jobs_.size(), limits_.slots));
}

std::uint32_t admission::waiting() const noexcept {
  return static_cast<std::uint32_t>(jobs_.size()) - running();
}

// Moved out before it is called: it may call this object again, and it must run only once.
void admission::call_if_idle() {
  if (!draining_ || !jobs_.empty() || answers_ > 0 || !idle_) return;
  const auto handler = std::exchange(idle_, nullptr);
  handler();
}

}  // namespace orcd::engine
