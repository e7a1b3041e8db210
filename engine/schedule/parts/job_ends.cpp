#include "engine/schedule/parts/job_ends.hpp"

#include <new>

namespace orcd::engine {

void job_ends::end(std::uint32_t slot, const job_outcome& how, steady_time now) {
  const auto job = of_.running.take(slot);
  of_.growth.note_end(*job);
  of_.pages.keep_state(*job);
  of_.device.release(*job);
  try {
    of_.pages.give_back(*job);
  } catch (const std::bad_alloc&) {
    job->finish(job_outcome::of(out_of_memory()), now);
    if (of_.faults.lost()) return;
    throw;
  }
  if (config_.on_released) config_.on_released();
  of_.faults.note_end(*job, how);
  job->finish(how, now);
}

}  // namespace orcd::engine
