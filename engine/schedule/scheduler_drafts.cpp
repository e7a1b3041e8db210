// Drafts in the scheduler: who has some in the next step, and what becomes of them.
//
// A draft needs the last token to be known, so that a sequence with drafts is not launched ahead. Where one
// has a guess that pays while its last step is still under way, it waits for that step. Sequences without go
// on ahead, unless most of the step's would wait: then all wait, because two half steps take longer than a
// whole one.
#include <algorithm>
#include <new>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/lookup_drafts.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

std::unique_ptr<draft_source> make_lookup_drafts(job_request& job, std::uint32_t prompt_tokens) {
  return std::make_unique<lookup_drafts>(std::exchange(job.prediction, {}), prompt_tokens);
}

/// What each slot may bring, and how much of it pays.
void scheduler::offer_drafts() {
  const std::uint32_t room = accelerator_.draft_tokens();
  std::uint32_t decoding = 0;
  bool some = false;
  bool adapted = false;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const auto& job = slots_[slot];
    offers_[slot] = {};
    if (!job || (!job->can_decode() && job->drafts.empty())) continue;
    ++decoding;
    adapted = adapted || !job->request.adapters.empty();
    if (!job->drafter || !job->can_decode()) continue;
    try {
      offers_[slot] = job->offer_drafts(config_.end_of_generation);
    } catch (const std::bad_alloc&) {
      // A constraint that was asked for its mask may be half changed.
      if (job->request.constraint) {
        finish(slot, job_outcome::of(out_of_memory()), config_.now());
        continue;
      }
      job->drafter.reset();  // it goes on without
    }
    offers_[slot].most = std::min({offers_[slot].most, drafts_max, chunk_tokens_ - 1, room_for_drafts(*job)});
    if (config_.drafts.always > 0) offers_[slot].most = std::min(offers_[slot].most, config_.drafts.always);
    some = some || offers_[slot].most > 0;
  }
  if (!some) return;
  // Costs were measured without adapters, beside which steps are other kernels.
  if (adapted && config_.drafts.always == 0) {
    std::fill(offers_.begin(), offers_.end(), draft_offer{});
  } else if (config_.drafts.always > 0) {
    take_drafts(offers_, room);
  } else {
    choose_drafts(offers_, decoding, room, [&](std::uint32_t n) { return accelerator_.step_cost(n); });
  }
}

/// Adds the parts of all sequences that decode. False if the step waits for those that will have drafts.
bool scheduler::plan_decodes() {
  const bool drafts = config_.drafts.enabled && accelerator_.draft_tokens() > 0;
  if (drafts) offer_drafts();
  std::uint32_t wait = 0;
  std::uint32_t ready = 0;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const auto& job = slots_[slot];
    if (!job) continue;
    const bool waits = drafts && job->pending > 0 && (offers_[slot].taken > 0 || !job->drafts.empty());
    if (waits) {
      ++wait;
    } else if (job->can_decode() || job->can_score()) {
      ++ready;
    }
  }
  if (wait > 0 && wait >= ready) return false;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const auto& job = slots_[slot];
    if (!job || !(job->can_decode() || job->can_score())) continue;
    const std::uint32_t taken = drafts ? offers_[slot].taken : 0;
    if (taken > 0 && job->pending > 0) continue;
    if (drafts && offers_[slot].most > 0 && taken == 0) job->acceptance.pass(job->guessed_kind);
    if (taken > 0) {
      add_draft_part(*job, taken);
    } else {
      add_part(*job, 1);
    }
  }
  return true;
}

void scheduler::add_draft_part(sequence& job, std::uint32_t count) {
  const sample_request* ask = nullptr;
  try {
    job.drafts.assign(job.guessed.begin(), job.guessed.begin() + count);
    ask = job.ask_behind_drafts();
    count = static_cast<std::uint32_t>(job.drafts.size());
    job.fed.assign(1, job.tokens.back());
    job.fed.insert(job.fed.end(), job.drafts.begin(), job.drafts.end());
  } catch (const std::bad_alloc&) {
    return finish(job.slot, job_outcome::of(out_of_memory()), config_.now());
  }
  if (count == 0) {
    // The copy has been asked for the mask already.
    if (job.constraint_ahead) {
      job.request.constraint = std::exchange(job.constraint_ahead, nullptr);
      job.wasted_work -= job.work_ahead;
    }
    return add_part(job, 1);
  }
  begin(job);
  parts_.push_back({slot_id{job.slot}, job.position, job.fed, ask, nullptr, count + 1});
  job.begun = true;
  job.position += count + 1;
  job.lease.written = std::max(job.lease.written, job.position);
  spare_.push_back({job.slot, job.admission, job.key, count + 1, job.position, count + 1, false});
  job.pending = 1;
}

/// Takes the results of a step with drafts one after the other, as if each had come with a step of its own,
/// up to the first that is not what was guessed.
void scheduler::accept_drafts(const launched_part& part, std::span<const sampled_token> results,
                              steady_time now) {
  sequence& job = *slots_[part.slot];
  const std::vector<token_id> drafts = std::exchange(job.drafts, {});
  ORCD_ENSURE(drafts.size() == part.drafts() && results.size() == drafts.size() + 1);
  const std::uint32_t begin = part.end - part.samples;
  job.pending = 0;
  std::uint32_t right = 0;
  while (right < drafts.size() && results[right].token == drafts[right]) ++right;
  ++draft_counts_.steps;
  draft_counts_.tokens += drafts.size();
  draft_counts_.right += right;
  for (std::uint32_t i = 0; i < right; ++i) ++draft_counts_.right_at.at(i);
  job.drafts_tried += static_cast<std::uint32_t>(drafts.size());
  job.drafts_right += right;
  job.acceptance.note(job.guessed_kind, static_cast<std::uint32_t>(drafts.size()), right);
  for (std::uint32_t i = 0; i <= right; ++i) {
    if (i > 0) note_computed(job, begin + i + 1);
    job.position = begin + i + 1;
    job.follow_drafts(i, right, right == drafts.size());
    accept_result(job, results[i], now);
    if (job_of(part) == nullptr) return;
  }
  job.constraint_ahead.reset();
}

}  // namespace orcd::engine
