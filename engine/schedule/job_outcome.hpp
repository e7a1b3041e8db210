// The ways in which a job can end, and the time between two moments. Private to engine/schedule.
#pragma once

#include <chrono>
#include <utility>
#include <variant>

#include "engine/schedule/job.hpp"

namespace orcd::engine {

/// Milliseconds between two moments.
[[nodiscard]] inline double ms_between(steady_time from, steady_time to) noexcept {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// Its message is short enough for std::string to hold it without an allocation.
[[nodiscard]] inline error out_of_memory() {
  return {errc::internal, "out of memory"};
}

/// How a job ended: normally, or by an error.
struct job_outcome {
  std::variant<finish_reason, error> value;

  [[nodiscard]] static job_outcome of(finish_reason reason) { return {reason}; }
  [[nodiscard]] static job_outcome of(error failure) { return {std::move(failure)}; }
  /// What a cancel of this reason means for the job; `elapsed_ms` is since the request was received.
  [[nodiscard]] static job_outcome of(cancel_reason reason, double elapsed_ms);
};

}  // namespace orcd::engine
