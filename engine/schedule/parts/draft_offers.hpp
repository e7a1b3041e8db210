// Which sequences bring drafts to the next step, and how many. Private to engine/schedule; the scheduler's
// thread only.
//
// A draft needs the last token to be known, so that a sequence with drafts is not launched ahead. Where one
// has a guess that pays while its last step is still under way, it waits for that step. Sequences without go
// on ahead, unless most of the step's would wait: then all wait, because two half steps take longer than a
// whole one.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/schedule/draft_plan.hpp"
#include "engine/schedule/parts/job_ends.hpp"
#include "engine/schedule/parts/page_plan.hpp"
#include "engine/schedule/scheduler_config.hpp"

namespace orcd::engine {

class draft_offers {
 public:
  /// Of `config`, which outlives this: its drafts and end_of_generation, which is in ascending order.
  draft_offers(accelerator& target, const scheduler_config& config, page_plan& pages, job_ends& ends);

  /// Whether any sequence may have drafts.
  [[nodiscard]] bool enabled() const noexcept;
  /// Asks each running sequence for its guess and chooses what the next step takes of all of them. A job for
  /// whose constraint there is no memory ends.
  void choose(const slot_table& running);
  /// Of the last choice: drafts that the sequence in the slot brings.
  [[nodiscard]] std::uint32_t taken(std::uint32_t slot) const noexcept { return offers_[slot].taken; }
  /// It has some that do not pay.
  [[nodiscard]] bool passed(std::uint32_t slot) const noexcept {
    return offers_[slot].most > 0 && offers_[slot].taken == 0;
  }
  /// It has to wait for its step in progress.
  [[nodiscard]] bool waits(const sequence& job) const noexcept {
    return job.pending > 0 && (taken(job.slot) > 0 || job.drafts.in_step());
  }
  /// Whether the step has to wait for those that do.
  [[nodiscard]] bool most_wait(const slot_table& running) const noexcept;

 private:
  [[nodiscard]] draft_offer offer_of(sequence& job);

  accelerator& accelerator_;
  const scheduler_config& config_;
  page_plan& pages_;
  job_ends& ends_;
  std::vector<draft_offer> offers_;  ///< by slot
};

}  // namespace orcd::engine
