// What has failed: a shortage of device memory, from which the worker recovers, or the accelerator for good.
// And which job ends for a shortage. Private to engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/schedule/parts/launched_steps.hpp"
#include "engine/schedule/parts/slot_table.hpp"
#include "engine/schedule/scheduler_config.hpp"

namespace orcd::engine {

class failures {
 public:
  /// Of `hooks`, which outlives this: on_degraded, on_recovered and on_lost.
  explicit failures(const scheduler_config& hooks) : hooks_(hooks) {}

  /// Why the accelerator is lost, if it is.
  [[nodiscard]] const std::optional<error>& lost() const noexcept { return lost_; }
  void lose(const error& why);
  /// Device memory ran out when so many jobs had been admitted.
  void run_short(const error& why, std::uint64_t admissions);
  /// A job ends. One that was admitted after the shortage and ends well found all the memory that it needed.
  void note_end(const sequence& job, const job_outcome& how);

  /// The job that ends for a shortage, where the call for no job in particular failed. A failed step does not
  /// say which job allocated: the one with the longest part in the launched steps, and among equals, or if no
  /// step is launched, the one that was admitted last. Null: no job runs.
  [[nodiscard]] static sequence* choose_victim(const launched_steps& launched,
                                               const slot_table& running) noexcept;

 private:
  const scheduler_config& hooks_;
  std::optional<error> lost_;
  std::optional<std::uint64_t> short_at_;  ///< admissions when memory ran out; unset: recovered
};

}  // namespace orcd::engine
