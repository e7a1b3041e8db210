#include "engine/schedule/sequence.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

// Memory for this many output tokens is reserved when a job is submitted, so that it is refused where there
// is none; longer outputs grow it.
constexpr std::uint32_t output_reserve_max = 4096;

constexpr std::uint32_t constrained_drafts_max = 7;
/// What copies of a constraint may take of the thread that all jobs share, in the constraint's unit: half of
/// what a grammar may (matcher::work_ahead). Drafts end there, the output does not depend on it.
constexpr std::uint64_t wasted_ahead = 12'000'000;
constexpr std::uint64_t wasted_a_token = 100'000;

}  // namespace

std::uint64_t job_key(std::string_view job_id) noexcept {
  return static_cast<std::uint64_t>(std::hash<std::string_view>{}(job_id)) | 1U;
}

job_outcome job_outcome::of(cancel_reason reason, double elapsed_ms) {
  switch (reason) {
    case cancel_reason::stop_string: return of(finish_reason::stop);
    case cancel_reason::client_cancel: return of(error(errc::cancelled, "the job was cancelled by request"));
    case cancel_reason::disconnected: return of(error(errc::cancelled, "the client closed its connection"));
    case cancel_reason::sibling_failed:
      return of(error(errc::cancelled, "another job of the same request failed"));
    case cancel_reason::shutdown:
      return of(error(errc::draining, "the worker is shutting down and ended the job"));
    case cancel_reason::timeout:
      return of(error(errc::inference_timeout, "the job was ended at its time limit, " +
                                                   std::to_string(std::llround(elapsed_ms)) +
                                                   " ms after it was received"));
  }
  return of(error(errc::internal, "unknown cancel reason"));
}

result<void> check_produced(const job_request& job, std::uint32_t vocab) {
  if (job.produced.empty()) return {};
  const auto refuse = [](const std::string& why) {
    return error(errc::internal, "the job cannot go on behind its output: " + why);
  };
  if (!job.inputs.empty() || job.score_from > 0) return refuse("it has none, or tells its prompt too");
  if (job.produced.size() > job.max_tokens) {
    return refuse(std::to_string(job.produced.size()) + " tokens, at most " + std::to_string(job.max_tokens));
  }
  for (const token_id token : job.produced) {
    if (token >= 0 && static_cast<std::uint32_t>(token) < vocab) continue;
    return refuse("token " + std::to_string(token) + ", the vocabulary has " + std::to_string(vocab));
  }
  return {};
}

sequence::sequence(job_request r, std::shared_ptr<event_sink> s)
    : request(std::move(r)),
      sink(std::move(s)),
      key(job_key(request.job_id)),
      prompt_tokens(static_cast<std::uint32_t>(request.prompt.size())),
      produced(static_cast<std::uint32_t>(request.produced.size())),
      known(prompt_tokens + produced),
      tokens(std::move(request.prompt)),
      told(request.score_from == 0 ? prompt_tokens : request.score_from),
      draws(request.seed) {
  ORCD_ENSURE(sink != nullptr);
  ORCD_ENSURE(prompt_tokens > 0 && told <= prompt_tokens);
  ORCD_ENSURE(told == prompt_tokens || request.logprobs);
  tokens.reserve(tokens.size() + std::max(produced, std::min(request.max_tokens, output_reserve_max)));
  tokens.insert(tokens.end(), request.produced.begin(), request.produced.end());
  request.produced = {};
  draws.discard(produced);
}

void sequence::start(std::uint32_t in, std::uint64_t admission_number, steady_time now) {
  ORCD_ENSURE(!in_slot && !finished);
  slot = in;
  admission = admission_number;
  in_slot = true;
  if (request.watch) request.watch->begins();
  if (std::exchange(started, true)) return;
  slot_at = now;
  progress_told = cached;
  sink->offer(started_event{ms_between(request.received_at, now), cached});
}

void sequence::leave_slot() noexcept {
  in_slot = false;
  known = static_cast<std::uint32_t>(tokens.size());
  if (request.watch) request.watch->ends();
}

/// The request for the token that comes `ahead` tokens after the last known one.
sample_request sequence::request_of(std::uint32_t ahead) {
  while (draws_ahead.size() <= ahead) draws_ahead.push_back(draws.next());
  sample_request out;
  out.params = &request.sampling;
  out.draw = draws_ahead[ahead];
  out.remaining = request.max_tokens - tokens_out() - ahead;
  out.logprobs = request.logprobs;
  out.top_logprobs = request.top_logprobs;
  out.stop_at_end = stops_at_end();
  return out;
}

const sample_request* sequence::ask() {
  sample = request_of(pending);
  if (request.constraint) sample.allowed = request.constraint->mask();
  return &sample;
}

const sample_request* sequence::ask_behind_drafts() {
  ORCD_ENSURE(pending == 0);
  const bool masked = request.constraint != nullptr;
  if (masked) constrain_drafts();
  asked_behind.clear();
  for (std::uint32_t i = 0; i <= drafts.size(); ++i) {
    asked_behind.push_back(request_of(i));
    if (masked) asked_behind.back().allowed = masks_behind[i];
  }
  return asked_behind.data();
}

/// Asks for the masks behind the drafts, as if they were output, up to one that may not come or that ends
/// what the constraint has to say. That is done by a copy, so that the constraint itself is where it was if
/// the step is lost.
void sequence::constrain_drafts() {
  constraint_ahead = request.constraint->copy();
  if (!constraint_ahead) return drafts.clear();
  const std::uint64_t before = constraint_ahead->work();
  masks_behind.resize(drafts.size() + 1);
  std::uint32_t right = 0;
  while (true) {
    const token_mask mask = constraint_ahead->mask();
    masks_behind[right].assign(mask.begin(), mask.end());
    work_ahead = constraint_ahead->work() - before;
    if (right == drafts.size() || !allows(mask, drafts[right])) break;
    if (!constraint_ahead->accept(drafts[right]) || constraint_ahead->complete() ||
        constraint_ahead->spent()) {
      constraint_ahead.reset();  // it is past the last draft that is left
      break;
    }
    ++right;
  }
  drafts.resize(right);
  wasted_work += work_ahead;
}

// Where all drafts were right, the copy is there already, and the other one is followed up to the last of
// them only.
void sequence::follow_drafts(std::uint32_t index, std::uint32_t right, bool all) {
  if (!request.constraint) return;
  if (all && constraint_ahead) {
    if (index != right) return;
    request.constraint = std::exchange(constraint_ahead, nullptr);
    wasted_work -= work_ahead;
    return;
  }
  (void)request.constraint->mask();
}

/// Guesses what the constraint forces. The mask is the next step's own, so that asking for it changes
/// nothing.
void sequence::force_drafts(std::uint32_t most) {
  constexpr int beginnings_max = 64;
  int allowed = 0;
  for (const std::uint32_t word : request.constraint->mask()) allowed += std::popcount(word);
  if (allowed == 0 || allowed > beginnings_max) return;
  guessed_kind = forced_kind;
  const auto copy = request.constraint->copy();
  if (!copy) return;
  const std::uint64_t before = copy->work();
  copy->force(most, guessed);
  wasted_work += copy->work() - before;
}

// The last output token is never a draft: nothing is computed after it. Nor is a token that ends the output.
draft_offer sequence::offer_drafts(std::span<const token_id> ends) {
  guessed.clear();
  const std::uint32_t left = request.max_tokens - tokens_out();
  if (!drafter || pool || left <= pending + 1) return {};
  if (request.constraint && wasted_work > wasted_ahead + tokens_out() * wasted_a_token) return {};
  // Each needs a mask, which takes time of the thread that all jobs share.
  const std::uint32_t most = request.constraint ? constrained_drafts_max : drafts_max;
  guessed_kind = drafter->guess(tokens, std::min(pending + most, left - 1), guessed);
  if (guessed.empty() && request.constraint) force_drafts(std::min(most, left - 1));
  const auto ends_output = [&](token_id token) {
    return (stops_at_end() && std::binary_search(ends.begin(), ends.end(), token)) || stops_at(token);
  };
  guessed.erase(std::find_if(guessed.begin(), guessed.end(), ends_output), guessed.end());
  const auto count = static_cast<std::uint32_t>(guessed.size());
  return {count - std::min(count, pending), acceptance.likely(guessed_kind)};
}

const sample_request* sequence::ask_score() {
  static const sampling_params greedy{.temperature = 0.0F};
  const auto wanted = static_cast<std::uint32_t>(tokens[position + 1]);
  only_next.assign(wanted / 32 + 1, 0);
  only_next.back() = 1U << wanted % 32;
  sample = {};
  sample.params = &greedy;
  sample.remaining = std::numeric_limits<std::uint32_t>::max();
  sample.logprobs = true;
  sample.top_logprobs = request.top_logprobs;
  sample.stop_at_end = false;
  sample.allowed = only_next;
  return &sample;
}

error sequence::no_token() const {
  const std::string limit = request.constraint ? request.constraint->failure() : std::string();
  if (!limit.empty()) return {errc::invalid_request, limit};
  return {errc::internal,
          "no token could be chosen: every logit is NaN, -infinity, banned or against the grammar"};
}

// As scheduler::accept_token judges each token, except for those that end a job without being part of its
// output: the job gets them again.
std::optional<job_outcome> sequence::replay_produced() {
  if (produced == 0 || std::exchange(replayed, true)) return std::nullopt;
  for (std::uint32_t i = 0; i < produced && request.constraint; ++i) {
    token_constraint& constraint = *request.constraint;
    if (constraint.complete() || !constraint.accept(tokens[prompt_tokens + i])) {
      return job_outcome::of(error(errc::internal, "the grammar does not allow the output made so far"));
    }
    if (i + 1 == produced && constraint.complete()) return job_outcome::of(finish_reason::stop);
    if (constraint.spent()) request.constraint.reset();
  }
  if (stops_at(tokens.back())) return job_outcome::of(finish_reason::stop);
  if (produced == request.max_tokens) return job_outcome::of(finish_reason::length);
  return std::nullopt;
}

void sequence::append(const sampled_token& chosen, steady_time now) {
  if (tokens_out() == produced) first_token_at = now;
  last_token_at = now;
  const std::uint32_t index = tokens_out();
  tokens.push_back(chosen.token);
  sink->offer(token_event{chosen.token, index, request.logprobs ? &chosen.logprobs : nullptr});
}

void sequence::tell_progress(std::uint32_t end, steady_time now) {
  const std::uint32_t processed = std::min(end, prompt_tokens);
  if (!request.tell_progress || processed <= progress_told) return;
  progress_told = processed;
  constexpr double longest = std::numeric_limits<std::uint32_t>::max();
  sink->offer(progress_event{processed,
                             static_cast<std::uint32_t>(std::clamp(ms_between(slot_at, now), 0.0, longest))});
}

// Nothing was chosen where the prompt has a token that is never generated, or one whose logit is -infinity or
// no number.
void sequence::tell_scored(std::uint32_t index, const sampled_token& scored) {
  ORCD_ENSURE(index == told && (scored.token == tokens[index] || scored.token < 0));
  static const token_logprobs impossible{.chosen = -std::numeric_limits<float>::infinity()};
  ++told;
  sink->offer(token_event{tokens[index], index, scored.token < 0 ? &impossible : &scored.logprobs,
                          token_part::prompt});
}

void sequence::tell_end(const sampled_token& end) {
  if (!request.tell_end) return;
  sink->offer(
      token_event{end.token, tokens_out(), request.logprobs ? &end.logprobs : nullptr, token_part::end});
}

void sequence::finish(const job_outcome& how, steady_time now) {
  ORCD_ENSURE(!finished);
  finished = true;
  if (in_slot) leave_slot();
  if (const auto* failure = std::get_if<error>(&how.value)) {
    sink->offer(error_event{*failure, stats(now)});
  } else {
    end_event end{std::get<finish_reason>(how.value), stats(now)};
    if (pool) end.pooled.push_back(std::move(pooled));
    sink->offer(end);
  }
}

job_stats sequence::stats(steady_time now) const noexcept {
  job_stats out;
  out.tokens_in = prompt_tokens;
  out.tokens_out = tokens_out();
  out.tokens_cached = cached;
  out.drafts = drafts_tried;
  out.drafts_right = drafts_right;
  out.queue_ms = ms_between(request.received_at, started ? slot_at : now);
  if (!started) return out;
  // The prefill is this process's own; the output may have begun in another one.
  const bool made = out.tokens_out > produced;
  out.prefill_ms = ms_between(slot_at, made ? first_token_at : now);
  if (!made && !request.first_token_at) return out;
  const steady_time first = request.first_token_at.value_or(first_token_at);
  out.first_token_ms = ms_between(request.received_at, first);
  if (made) out.decode_ms = ms_between(first, last_token_at);
  return out;
}

}  // namespace orcd::engine
