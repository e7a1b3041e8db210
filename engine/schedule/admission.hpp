// Admission: knows every job from its acceptance to its terminal event, and refuses those beyond slots +
// max_queue. A waiting job never outlives the connection that asked for it, so that a count and a set of ids
// are enough; the queue itself is the scheduler's. io thread only. Source: M0-W-1301, WORK-3004.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "engine/base/error.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::engine {

struct admission_limits {
  std::uint32_t slots = 1;
  std::uint32_t max_queue = 8;  ///< waiting jobs beyond those in slots; cut so that all fit jobs_max
};

/// The refusal of an id that is in use.
[[nodiscard]] error duplicate_job(const std::string& id);

class admission {
 public:
  explicit admission(admission_limits limits);

  /// `owner`: the key_id of the API key that was shown; empty without keys. The last free place of the queue
  /// is left to an owner that has no job, so that one key cannot take all of them. Errors, checked in this
  /// order: draining, duplicate_job, queue_full.
  [[nodiscard]] result<void> enter(const std::string& job_id, const std::string& owner = {});
  /// For a job that another engine had taken: it has its place, whatever the limits say now. Errors:
  /// duplicate_job.
  [[nodiscard]] result<void> enter_again(const std::string& job_id, const std::string& owner);
  /// Takes a name that no job may then use: the id under which /cancel knows the several jobs of one request,
  /// or that of a job which waits for another's place. It takes no place. Errors: duplicate_job.
  [[nodiscard]] result<void> reserve(const std::string& name);
  /// Gives back a reserved name. Unknown ones are ignored.
  void unreserve(const std::string& name) { names_.erase(name); }
  /// To be called after the job's terminal event. Calls the idle handler when it was the last job. Unknown
  /// ids are ignored.
  void leave(const std::string& job_id);
  /// Instead of leave(): the job's place goes on to another job of its owner, whose id is reserved. It cannot
  /// be refused, also while the worker drains: its request was accepted before.
  void hand_on(const std::string& job_id, const std::string& reserved);
  /// An answer that is still being written takes no place, but the worker is not idle before it ends.
  void begin_answer() noexcept { ++answers_; }
  void end_answer();
  /// From now on enter() refuses every job.
  void drain();
  /// Called once, when draining and no job and no answer is left (at once if that is so already).
  void on_idle(std::function<void()> handler);

  [[nodiscard]] bool draining() const noexcept { return draining_; }
  [[nodiscard]] std::uint32_t running() const noexcept;  ///< min(jobs, slots)
  [[nodiscard]] std::uint32_t waiting() const noexcept;
  [[nodiscard]] bool contains(const std::string& job_id) const { return jobs_.contains(job_id); }

 private:
  [[nodiscard]] result<void> check_unused(const std::string& id) const;
  void call_if_idle();

  admission_limits limits_;
  bool draining_ = false;
  std::size_t answers_ = 0;
  std::unordered_map<std::string, std::string> jobs_;       ///< job id to owner
  std::unordered_map<std::string, std::size_t> of_owners_;  ///< owner to number of jobs
  std::unordered_set<std::string> names_;                   ///< reserved
  std::function<void()> idle_;
};

}  // namespace orcd::engine
