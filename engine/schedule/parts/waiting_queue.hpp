// The jobs that wait for a slot, in the order of arrival. A suspect (job_request::suspect) gets a slot when
// all others are free, and until its end no other does; jobs that came after it go before it for a while,
// then none does. A preempted job waits where it would have, had it never got a slot. Private to
// engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "engine/schedule/parts/slot_table.hpp"

namespace orcd::engine {

class waiting_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }
  /// By the order of arrival.
  [[nodiscard]] sequence& operator[](std::size_t index) const noexcept { return *jobs_[index]; }

  /// A job has come; it is the last one.
  void push(std::unique_ptr<sequence> job, steady_time now);
  /// Index of the job that may have a slot next; nullopt: none may now.
  [[nodiscard]] std::optional<std::size_t> next(const slot_table& running, steady_time now) const;
  [[nodiscard]] std::unique_ptr<sequence> take(std::size_t index);
  /// The job in a slot leaves that and waits in the order of its arrival.
  sequence& put_back(slot_table& running, std::uint32_t slot);

  /// Ends the jobs for which `which` is true, in their order, each as `how` says. If that throws, the jobs
  /// that were not ended are still here.
  void end_if(const std::function<bool(const sequence&)>& which,
              const std::function<job_outcome(const sequence&)>& how, steady_time now);

 private:
  std::deque<std::unique_ptr<sequence>> jobs_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace orcd::engine
