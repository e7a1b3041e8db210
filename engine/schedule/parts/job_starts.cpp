#include "engine/schedule/parts/job_starts.hpp"

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

void job_starts::admit(steady_time now, std::uint64_t steps) {
  of_.pages.begin_admission();
  of_.pooled.feed(of_.waiting, of_.running, now);
  for (std::uint32_t slot = 0; slot < of_.running.size(); ++slot) {
    if (of_.running[slot]) continue;
    auto next = of_.waiting.next(of_.running, now);
    while (next && !of_.pages.can_hold(of_.waiting[*next])) {
      refuse(*next, now);
      next = of_.waiting.next(of_.running, now);
    }
    if (!next || !admit_one(slot, *next, now, steps)) return;
  }
}

/// False where there are not enough pages for it.
bool job_starts::admit_one(std::uint32_t slot, std::size_t index, steady_time now, std::uint64_t steps) {
  if (!reserve(of_.waiting[index], steps)) return false;
  sequence& job = of_.running.put(slot, of_.waiting.take(index), now);
  of_.device.begin(job);
  end_if_over(job, now);
  return true;
}

bool job_starts::reserve(sequence& job, std::uint64_t steps) {
  if (of_.pages.is_blocked(job, steps)) return false;
  if (of_.pages.reserve(job, of_.growth.pages_to_leave(job, of_.running), steps)) return true;
  ORCD_ENSURE(of_.running.running() > 0 || of_.pages.awaits_opening());
  return false;
}

/// Ends a job that needs no step: its prompt is known and all that it asks for, or the output that it came
/// with was all of it.
void job_starts::end_if_over(sequence& job, steady_time now) {
  std::optional<job_outcome> end;
  try {
    end = job.replay_produced();
  } catch (const std::bad_alloc&) {
    end = job_outcome::of(out_of_memory());
  }
  if (job.ends_with_prompt(job.position)) end = job_outcome::of(finish_reason::length);
  if (end) of_.ends.end(job.slot, *end, now);
}

// Callers have checked the length against the context, and a job of that length fits an empty cache: no
// request leads here.
void job_starts::refuse(std::size_t index, steady_time now) {
  const auto job = of_.waiting.take(index);
  job->finish(job_outcome::of(error(errc::vram_oom, "the job needs " + std::to_string(job->positions_max()) +
                                                        " positions, more than the KV cache has")),
              now);
}

}  // namespace orcd::engine
