// Which waiting jobs get slots. Jobs are admitted in the order they came: one that waits for pages is not
// overtaken, so that it gets them when those before it end. Private to engine/schedule; the scheduler's
// thread only.
#pragma once

#include <cstdint>

#include "engine/schedule/parts/job_ends.hpp"
#include "engine/schedule/parts/pooled_queue.hpp"
#include "engine/schedule/parts/waiting_queue.hpp"

namespace orcd::engine {

class job_starts {
 public:
  /// Between what jobs move, and what knows of their pages.
  struct parts {
    waiting_queue& waiting;
    pooled_queue& pooled;
    slot_table& running;
    device_sequences& device;
    page_plan& pages;
    page_growth& growth;
    job_ends& ends;
  };
  explicit job_starts(parts of) : of_(of) {}

  /// Gives each free slot, the lowest first, to the job whose turn it is. `steps`: completed. Throws
  /// accelerator_failure and std::bad_alloc.
  void admit(steady_time now, std::uint64_t steps);

 private:
  [[nodiscard]] bool admit_one(std::uint32_t slot, std::size_t index, steady_time now, std::uint64_t steps);
  [[nodiscard]] bool reserve(sequence& job, std::uint64_t steps);
  void end_if_over(sequence& job, steady_time now);
  void refuse(std::size_t index, steady_time now);

  parts of_;
};

}  // namespace orcd::engine
