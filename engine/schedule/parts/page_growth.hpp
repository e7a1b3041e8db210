// Running jobs get pages as they grow, one at a time before a step that needs it. Where there is none left
// that no job uses, the job that came last is preempted: it leaves its slot and its pages, waits before all
// that came after it, and is computed again from its prompt and what it has told. The oldest running job is
// never preempted for another, and a job of its length fits an empty cache, so that it always goes on. So
// that this is rare, a job that is admitted leaves as many pages as the running ones are expected to need.
// Private to engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/schedule/growth_forecast.hpp"
#include "engine/schedule/parts/page_plan.hpp"

namespace orcd::engine {

class page_growth {
 public:
  page_growth(accelerator& target, page_plan& pages, std::uint32_t slots);

  /// Pages that the running jobs and the next one are expected to need after it is admitted. Where nobody
  /// runs it may have all of them.
  [[nodiscard]] std::uint32_t pages_to_leave(const sequence& next, const slot_table& running);
  /// Gives each job the page that its next step needs, the oldest first. Returns the job that has to be
  /// preempted before the rest can have theirs; null: all have them.
  [[nodiscard]] sequence* give_pages(const slot_table& running);
  /// Drafts are worth a page that nobody uses, but no other job's turn.
  void give_pages_for_drafts(const slot_table& running);
  /// How much of what it asked for a job has used that ends.
  void note_end(const sequence& job) noexcept;

 private:
  [[nodiscard]] job_growth growth_of(const sequence& job, std::uint32_t own_pages, std::size_t pages,
                                     std::uint32_t wait) const;
  [[nodiscard]] sequence* next_to_grow(const slot_table& running) const noexcept;
  void note_want(const slot_table& running) noexcept;

  accelerator& accelerator_;
  page_plan& pages_;
  growth_forecast forecast_;
  std::vector<job_growth> growing_;  ///< reused, so that a step allocates nothing
};

}  // namespace orcd::engine
