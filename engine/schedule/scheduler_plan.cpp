// What the next step carries: a token, or some with drafts, of every sequence that decodes
// (scheduler_drafts.cpp), and chunks of prompts.
//
// Prompts of several sequences share a step's columns, so that many short ones take few steps. All together
// they have as many as a chunk of one prompt, so that nobody who decodes waits longer for them; how many that
// is depends on how many sequences run (engine/base/prompt_tokens.hpp).
#include <algorithm>
#include <new>
#include <optional>

#include "engine/base/prompt_tokens.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

bool scheduler::plan() {
  parts_.clear();
  spare_.clear();
  grow();
  for (const auto& job : slots_) {
    if (job && job->missing() > 1 && !job->can_score()) catch_up(*job);
  }
  if (plan_decodes()) plan_prefill();
  return !parts_.empty();
}

/// Chunks of prompts, from the next slot in turn on, until the step is full. The next turn begins behind the
/// last slot that had one, or with that slot if others have left it less than it could use. A pooled sequence
/// joins others only whole, since that of an encoder cannot be cut; the first that was left out for this
/// begins the next turn.
void scheduler::plan_prefill() {
  const auto count = static_cast<std::uint32_t>(slots_.size());
  const std::uint32_t first = prefill_turn_;
  const bool one_only = has_adapters();
  const auto decoding =
      std::count_if(slots_.begin(), slots_.end(), [](const auto& job) { return job && job->awaits_token(); });
  const std::uint32_t most =
      prompt_tokens_beside(static_cast<std::uint32_t>(decoding), running_, chunk_tokens_);
  std::uint32_t left = most;
  std::optional<std::uint32_t> left_out;
  for (std::uint32_t i = 0; i < count && left > 0; ++i) {
    const std::uint32_t slot = (first + i) % count;
    const auto& job = slots_[slot];
    if (!job || !job->can_prefill() || waits_for_page(*job)) continue;
    const bool begins = left == most;
    if (!begins && one_only) continue;
    if (!begins && job->pool && job->missing() > left) {
      if (!left_out) left_out = slot;
      continue;
    }
    const std::uint32_t tokens = std::min(job->chunk_max(), left);
    const bool cut_short = !begins && tokens < job->chunk_max();
    add_part(*job, tokens);
    if (!job) continue;  // ended for lack of memory
    left -= tokens;
    prefill_turn_ = cut_short ? slot : (slot + 1) % count;
  }
  if (left_out) prefill_turn_ = *left_out;
}

/// Sequences with adapters have passes of their own on a device, so that several prompts would take longer
/// than one.
bool scheduler::has_adapters() const noexcept {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const auto& job) { return job && !job->request.adapters.empty(); });
}

// The value of a token that is still being computed is not known here: the accelerator feeds it back itself.
void scheduler::add_part(sequence& job, std::uint32_t tokens) {
  const bool known = job.pending == 0;
  const bool scores = job.can_score();
  const bool last = !known || tokens == job.missing();
  const sample_request* ask = nullptr;
  try {
    if (scores) ask = job.ask_score();
    if (last && !job.pool) ask = job.ask();  // a grammar may need much memory to say what it allows
  } catch (const std::bad_alloc&) {
    return finish(job.slot, job_outcome::of(out_of_memory()), config_.now());
  }
  begin(job);
  const std::span<const token_id> all(job.tokens);
  parts_.push_back({slot_id{job.slot}, job.position,
                    known ? all.subspan(job.position, tokens) : std::span<const token_id>{}, ask,
                    job.pool ? &*job.pool : nullptr});
  job.begun = true;
  job.position += tokens;
  job.lease.written = std::max(job.lease.written, job.position);
  spare_.push_back(
      {job.slot, job.admission, job.key, tokens, job.position, last || scores ? 1U : 0U, scores});
  if (last) ++job.pending;
}

}  // namespace orcd::engine
