// Who may enter: one object on the io thread that knows every job between its acceptance and its
// terminal event. No queue of ours outlives its connection, so this is a count and a set of ids.
// Source: design 2 (max-queue), M0-W-1301, WORK-3004.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>

#include "engine/base/error.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::engine {

struct admission_limits {
  std::uint32_t slots = 1;
  std::uint32_t max_queue = 8;  ///< waiting jobs beyond those in slots; cut so that all fit jobs_max
};

class admission {
 public:
  explicit admission(admission_limits limits);

  /// Errors: draining, duplicate_job, queue_full, asked in this order.
  [[nodiscard]] result<void> enter(const std::string& job_id);
  /// Takes a name that is no job's, so that no job enters under it: what /cancel calls several jobs by. It
  /// counts for nothing. Errors: duplicate_job.
  [[nodiscard]] result<void> reserve(const std::string& name);
  /// Gives back a reserved name. Unknown ones are ignored.
  void unreserve(const std::string& name) { names_.erase(name); }
  /// After the job's terminal event; calls the idle handler when it was the last. Unknown ids are
  /// ignored.
  void leave(const std::string& job_id);
  /// From now on nobody enters.
  void drain();
  /// Called once, when draining and no job is left (at once if that is so already).
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
  std::unordered_set<std::string> jobs_;
  std::unordered_set<std::string> names_;  ///< reserved
  std::function<void()> idle_;
};

}  // namespace orcd::engine
