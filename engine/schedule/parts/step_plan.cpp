#include "engine/schedule/parts/step_plan.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include "engine/base/prompt_tokens.hpp"

namespace orcd::engine {

step_plan::step_plan(accelerator& target, parts of) : accelerator_(target), of_(of) {
  step_.reserve(of_.running.size());
}

bool step_plan::plan() {
  step_.clear();
  record_.clear();
  for (const auto& job : of_.running.jobs()) {
    if (job && job->missing() > 1 && !job->can_score()) of_.pages.catch_up(*job);
  }
  try {
    if (plan_decodes()) plan_prefill();
  } catch (...) {
    take_back();
    throw;
  }
  return !step_.empty();
}

/// The step will not be launched.
void step_plan::take_back() noexcept {
  for (const launched_part& part : record_) {
    sequence* const job = of_.running.find(part.slot, part.admission);
    if (job == nullptr) continue;
    of_.device.release(*job);
    of_.pages.set_back(*job);
  }
  record_.clear();
  step_.clear();
}

/// Adds the parts of all sequences that decode. False if the step waits for those that will have drafts.
bool step_plan::plan_decodes() {
  const bool drafts = of_.drafts.enabled();
  if (drafts) {
    of_.drafts.choose(of_.running);
    if (of_.drafts.most_wait(of_.running)) return false;
  }
  for (std::uint32_t slot = 0; slot < of_.running.size(); ++slot) {
    const auto& job = of_.running[slot];
    if (!job || !(job->can_decode() || job->can_score())) continue;
    const std::uint32_t taken = drafts ? of_.drafts.taken(slot) : 0;
    if (taken > 0 && job->pending > 0) continue;
    if (drafts && of_.drafts.passed(slot)) job->drafts.pass();
    if (taken > 0) {
      add_with_drafts(*job, taken);
    } else {
      add(*job, 1);
    }
  }
  return true;
}

/// Chunks of prompts, from the next slot in turn on, until the step is full. The next turn begins after the
/// last slot that had one, or with that slot if others have left it less than it could use. A pooled sequence
/// joins others only whole, since that of an encoder cannot be cut; the first that was left out for this
/// begins the next turn.
///
/// Sequences with adapters have passes of their own on a device, so that several prompts would take longer
/// than one.
void step_plan::plan_prefill() {
  const std::uint32_t count = of_.running.size();
  const std::uint32_t first = prefill_turn_;
  const bool one_only = of_.running.has_adapters();
  const auto& jobs = of_.running.jobs();
  const auto decoding =
      std::count_if(jobs.begin(), jobs.end(), [](const auto& job) { return job && job->awaits_token(); });
  const std::uint32_t most = prompt_tokens_beside(static_cast<std::uint32_t>(decoding), of_.running.running(),
                                                  accelerator_.chunk_tokens());
  std::uint32_t left = most;
  std::optional<std::uint32_t> left_out;
  for (std::uint32_t i = 0; i < count && left > 0; ++i) {
    const std::uint32_t slot = (first + i) % count;
    const auto& job = jobs[slot];
    if (!job || !job->can_prefill() || of_.pages.waits_for_page(*job, of_.running)) continue;
    const bool begins = left == most;
    if (!begins && one_only) continue;
    if (!begins && job->pool && job->missing() > left) {
      if (!left_out) left_out = slot;
      continue;
    }
    const std::uint32_t wanted = job->media.fit(job->position, job->chunk_max(), most);
    const std::uint32_t tokens = job->media.fit(job->position, std::min(wanted, left), left);
    const bool cut_short = !begins && tokens < wanted;
    if (tokens == 0) {
      if (cut_short && !left_out) left_out = slot;
      continue;
    }
    add(*job, tokens);
    if (!job) continue;  // ended for lack of memory
    left -= tokens;
    prefill_turn_ = cut_short ? slot : (slot + 1) % count;
  }
  if (left_out) prefill_turn_ = *left_out;
}

// The value of a token that is still being computed is not known here: the accelerator feeds it back itself.
void step_plan::add(sequence& job, std::uint32_t tokens) {
  const bool known = job.pending == 0;
  const bool scores = job.can_score();
  const bool last = !known || tokens == job.missing();
  const sample_request* ask = nullptr;
  try {
    if (scores) ask = job.ask_score();
    if (last && !job.pool) ask = job.ask();  // a grammar may need much memory to say what it allows
  } catch (const std::bad_alloc&) {
    return of_.ends.end_out_of_memory(job.slot);
  }
  of_.pages.reach(job, job.position + tokens);
  of_.device.begin(job);
  const auto states = of_.pages.wanted_states(job, job.position + tokens);
  const std::span<const token_id> all(job.tokens);
  step_.push_back({slot_id{job.slot}, job.position,
                   known ? all.subspan(job.position, tokens) : std::span<const token_id>{}, ask,
                   job.pool ? &*job.pool : nullptr, 1, states,
                   job.media.empty() ? std::span<const media_rows>{} : job.media.rows(job.position, tokens),
                   job.media.rotary_shift(job.position)});
  job.begun = true;
  job.position += tokens;
  job.lease.written = std::max(job.lease.written, job.position);
  record_.push_back(
      {job.slot, job.admission, job.key, tokens, job.position, last || scores ? 1U : 0U, scores});
  if (last) ++job.pending;
}

void step_plan::add_with_drafts(sequence& job, std::uint32_t count) {
  const sample_request* ask = nullptr;
  try {
    ask = job.ask_after_drafts(count);
  } catch (const std::bad_alloc&) {
    return of_.ends.end_out_of_memory(job.slot);
  }
  count = job.drafts.count();
  if (count == 0) {
    job.drafts.keep_copy(job.request.constraint);
    return add(job, 1);
  }
  of_.pages.reach(job, job.position + count + 1);
  of_.device.begin(job);
  step_.push_back({slot_id{job.slot},
                   job.position,
                   job.drafts.fed(),
                   ask,
                   nullptr,
                   count + 1,
                   {},
                   {},
                   job.media.rotary_shift(job.position)});
  job.begun = true;
  job.position += count + 1;
  job.lease.written = std::max(job.lease.written, job.position);
  record_.push_back({job.slot, job.admission, job.key, count + 1, job.position, count + 1, false});
  job.pending = 1;
}

}  // namespace orcd::engine
