// What the next step carries: a token, or some with drafts, of every sequence that decodes, and chunks of
// prompts. Private to engine/schedule; the scheduler's thread only.
//
// Prompts of several sequences share a step's columns, so that many short ones take few steps. All together
// they have as many as a chunk of one prompt, so that no sequence that decodes waits longer for them; how
// many that is depends on how many sequences run (engine/base/prompt_tokens.hpp). A sequence in turn lets
// others go first while an earlier one computes the very page that it would compute, and takes that page
// over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/parts/draft_offers.hpp"
#include "engine/schedule/parts/launched_steps.hpp"

namespace orcd::engine {

class step_plan {
 public:
  /// Whose parts a step has, what they need, and how a job ends for which there is no memory.
  struct parts {
    slot_table& running;
    device_sequences& device;
    page_plan& pages;
    draft_offers& drafts;
    job_ends& ends;
  };
  step_plan(accelerator& target, parts of);

  /// Plans a step; false where there is nothing to launch. All jobs have the pages of group 0 that it needs.
  /// Throws accelerator_failure and std::bad_alloc; then its jobs are where they would be if it had been
  /// lost.
  [[nodiscard]] bool plan();
  /// The planned step, for accelerator::launch(); valid until the next plan().
  [[nodiscard]] std::span<const sequence_step> step() const noexcept { return step_; }
  /// The record of the planned step.
  [[nodiscard]] launched_step take_record() noexcept { return std::move(record_); }
  /// A record that is needed no more: its memory is used again, so that a step allocates nothing.
  void reuse(launched_step record) noexcept { record_ = std::move(record); }

 private:
  [[nodiscard]] bool plan_decodes();
  void plan_prefill();
  void take_back() noexcept;
  void add(sequence& job, std::uint32_t tokens);
  void add_with_drafts(sequence& job, std::uint32_t count);

  accelerator& accelerator_;
  parts of_;
  std::uint32_t prefill_turn_ = 0;  ///< slot from which chunks of prompts are sought
  std::vector<sequence_step> step_;
  launched_step record_;
};

}  // namespace orcd::engine
