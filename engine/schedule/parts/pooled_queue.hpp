// The pooled jobs that have inputs for which no sequence was made yet. They become sequences as slots get
// free, one input after the other, and several such jobs take turns. Private to engine/schedule; the
// scheduler's thread only.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "engine/schedule/parts/waiting_queue.hpp"
#include "engine/schedule/pooled_job.hpp"

namespace orcd::engine {

class pooled_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return jobs_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }

  void push(std::shared_ptr<pooled_job> job) { jobs_.push_back(std::move(job)); }
  /// Makes sequences and has them wait, no more than there are slots for all that wait and run.
  void feed(waiting_queue& waiting, const slot_table& running, steady_time now);
  /// No more sequences are made of the jobs for which `which` is true; each ends as a cancel of this reason
  /// says when those that were made have ended.
  void end_if(const std::function<bool(const job_request&)>& which, cancel_reason reason, steady_time now);
  /// The same for all, with an error.
  void end_all(const error& why, steady_time now);

 private:
  std::deque<std::shared_ptr<pooled_job>> jobs_;
};

}  // namespace orcd::engine
