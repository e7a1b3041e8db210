// The ends of running jobs. Slot and pages are freed before the terminal event is sent, so that a client that
// reacts to the event finds them free. Private to engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>

#include "engine/schedule/parts/device_sequences.hpp"
#include "engine/schedule/parts/failures.hpp"
#include "engine/schedule/parts/page_growth.hpp"
#include "engine/schedule/parts/page_plan.hpp"
#include "engine/schedule/parts/slot_table.hpp"
#include "engine/schedule/scheduler_config.hpp"

namespace orcd::engine {

class job_ends {
 public:
  /// What knows of a running job.
  struct parts {
    slot_table& running;
    device_sequences& device;
    page_plan& pages;
    page_growth& growth;
    failures& faults;
  };
  /// Of `config`, which outlives this: on_released and now.
  job_ends(parts of, const scheduler_config& config) : of_(of), config_(config) {}

  /// Ends the job in the slot. The event is sent even if freeing its pages runs out of host memory; that is
  /// thrown (std::bad_alloc), unless the accelerator is lost and pages are of no use.
  void end(std::uint32_t slot, const job_outcome& how, steady_time now);
  /// There was no host memory for something that concerns this job alone.
  void end_out_of_memory(std::uint32_t slot) { end(slot, job_outcome::of(out_of_memory()), config_.now()); }

 private:
  parts of_;
  const scheduler_config& config_;
};

}  // namespace orcd::engine
