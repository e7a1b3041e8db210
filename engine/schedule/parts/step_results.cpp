#include "engine/schedule/parts/step_results.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

void step_results::accept(const launched_step& step, std::span<const sampled_token> results,
                          steady_time now) {
  std::size_t next = 0;
  for (const auto& part : step) {
    sequence* job = job_of(part);
    if (job != nullptr) pages_.note_computed(*job, part.end - part.drafts());
    ORCD_ENSURE(next + part.samples <= results.size());
    const auto own = results.subspan(next, part.samples);
    for (const sampled_token& result : own) ORCD_ENSURE(result.slot == slot_id{part.slot});
    next += part.samples;
    if (job == nullptr) continue;
    job->tell_progress(part.end, now);
    try {
      accept_part(part, *job, own, now);
    } catch (const std::bad_alloc&) {
      if (job_of(part) == nullptr) throw;
      ends_.end(part.slot, job_outcome::of(out_of_memory()), now);
    }
  }
  ORCD_ENSURE(next == results.size());
}

/// The job of a launched part; null when it has ended.
sequence* step_results::job_of(const launched_part& part) const noexcept {
  return running_.find(part.slot, part.admission);
}

void step_results::end(const sequence& job, const job_outcome& how, steady_time now) {
  ends_.end(job.slot, how, now);
}

void step_results::accept_part(const launched_part& part, sequence& job,
                               std::span<const sampled_token> results, steady_time now) {
  if (part.scores) job.tell_scored(part.end, results.front());
  if (part.samples > 1) {
    accept_drafts(part, job, results, now);
  } else if (part.samples == 1 && !part.scores) {
    --job.pending;
    accept_one(job, results.front(), now);
  } else if (job.ends_with_prompt(part.end)) {
    end(job, job_outcome::of(finish_reason::length), now);
  }
}

/// Takes the results of a step with drafts one after the other, as if each had come with a step of its own,
/// up to the first that is not what was guessed.
void step_results::accept_drafts(const launched_part& part, sequence& job,
                                 std::span<const sampled_token> results, steady_time now) {
  const sequence_drafts::verdict found = job.drafts.judge(results);
  ORCD_ENSURE(found.drafts == part.drafts());
  const std::uint32_t begin = part.end - part.samples;
  job.pending = 0;
  ++drafts_.steps;
  drafts_.tokens += found.drafts;
  drafts_.right += found.right;
  for (std::uint32_t i = 0; i < found.right; ++i) ++drafts_.right_at.at(i);
  for (std::uint32_t i = 0; i <= found.right; ++i) {
    if (i > 0) pages_.note_computed(job, begin + i + 1);
    job.position = begin + i + 1;
    job.drafts.follow(i, found, job.request.constraint);
    accept_one(job, results[i], now);
    if (job_of(part) == nullptr) return;
  }
  job.drafts.forget_step();
}

void step_results::accept_one(sequence& job, const sampled_token& chosen, steady_time now) {
  if (job.pool) return accept_pooled(job, chosen, now);
  accept_token(job, chosen, now);
}

void step_results::accept_pooled(sequence& job, const sampled_token& result, steady_time now) {
  ORCD_ENSURE(result.pooled != nullptr);
  job.pooled = result.pooled;
  if (!std::all_of(job.pooled->begin(), job.pooled->end(), [](float v) { return std::isfinite(v); })) {
    return end(job, job_outcome::of(error(errc::internal, "the model's states are not all finite")), now);
  }
  end(job, job_outcome::of(finish_reason::stop), now);
}

// The end-of-generation token itself is neither sent nor counted.
void step_results::accept_token(sequence& job, const sampled_token& chosen, steady_time now) {
  const token_id token = chosen.token;
  job.draws.accept();
  if (token < 0) return end(job, job_outcome::of(job.no_token()), now);
  const auto& ends = ends_of_generation_;
  if (job.stops_at_end() && std::binary_search(ends.begin(), ends.end(), token)) {
    job.tell_end(chosen);
    return end(job, job_outcome::of(finish_reason::stop), now);
  }
  const bool stops = job.stops_at(token);
  if (stops && !job.request.keep_stop_token) return end(job, job_outcome::of(finish_reason::stop), now);
  token_constraint* constraint = job.request.constraint.get();
  if (constraint != nullptr && !constraint->accept(token)) {
    return end(job,
               job_outcome::of(error(errc::internal, "a token was chosen that the grammar does not allow")),
               now);
  }
  job.append(chosen, now);
  if (stops || (constraint != nullptr && constraint->complete())) {
    return end(job, job_outcome::of(finish_reason::stop), now);
  }
  if (constraint != nullptr && constraint->spent()) job.request.constraint.reset();
  if (job.tokens_out() == job.request.max_tokens) end(job, job_outcome::of(finish_reason::length), now);
}

}  // namespace orcd::engine
