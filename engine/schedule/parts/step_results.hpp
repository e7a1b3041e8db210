// What becomes of the results of a step: each job gets its tokens, or ends. Private to engine/schedule; the
// scheduler's thread only.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/accelerator.hpp"
#include "engine/schedule/parts/job_ends.hpp"
#include "engine/schedule/parts/launched_steps.hpp"
#include "engine/schedule/parts/page_plan.hpp"

namespace orcd::engine {

/// Drafts of all jobs so far.
struct draft_counts {
  std::uint64_t steps = 0;                           ///< a sequence's steps that had drafts
  std::uint64_t tokens = 0;                          ///< drafts
  std::uint64_t right = 0;                           ///< of them, those that became output
  std::array<std::uint64_t, drafts_max> right_at{};  ///< the same by how many drafts came before
};

class step_results {
 public:
  /// `ends_of_generation` is in ascending order; it and the parts outlive this.
  step_results(std::span<const token_id> ends_of_generation, slot_table& running, page_plan& pages,
               job_ends& ends)
      : ends_of_generation_(ends_of_generation), running_(running), pages_(pages), ends_(ends) {}

  /// The results of a collected step, in the order of its parts. Those of jobs that have ended since mean
  /// nothing. Throws std::bad_alloc where that is of no one job.
  void accept(const launched_step& step, std::span<const sampled_token> results, steady_time now);

  [[nodiscard]] const draft_counts& drafts() const noexcept { return drafts_; }

 private:
  void accept_part(const launched_part& part, sequence& job, std::span<const sampled_token> results,
                   steady_time now);
  void accept_drafts(const launched_part& part, sequence& job, std::span<const sampled_token> results,
                     steady_time now);
  void accept_one(sequence& job, const sampled_token& chosen, steady_time now);
  void accept_pooled(sequence& job, const sampled_token& result, steady_time now);
  void accept_token(sequence& job, const sampled_token& chosen, steady_time now);
  void end(const sequence& job, const job_outcome& how, steady_time now);
  [[nodiscard]] sequence* job_of(const launched_part& part) const noexcept;

  std::span<const token_id> ends_of_generation_;
  slot_table& running_;
  page_plan& pages_;
  job_ends& ends_;
  draft_counts drafts_;
};

}  // namespace orcd::engine
