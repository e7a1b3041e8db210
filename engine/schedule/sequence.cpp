#include "engine/schedule/sequence.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

// Memory for this many output tokens is reserved when a job is submitted, so that it is refused where there
// is none; longer outputs grow it.
constexpr std::uint32_t output_reserve_max = 4096;

}  // namespace

std::uint64_t job_key(std::string_view job_id) noexcept {
  return static_cast<std::uint64_t>(std::hash<std::string_view>{}(job_id)) | 1U;
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

sequence::sequence(job_request r, std::shared_ptr<event_sink> sink)
    : request(std::move(r)),
      key(job_key(request.job_id)),
      prompt_tokens(static_cast<std::uint32_t>(request.prompt.size())),
      produced(static_cast<std::uint32_t>(request.produced.size())),
      known(prompt_tokens + produced),
      tokens(std::move(request.prompt)),
      told(request.score_from == 0 ? prompt_tokens : request.score_from),
      draws(request.seed, produced),
      telling(std::move(sink)) {
  ORCD_ENSURE(prompt_tokens > 0 && told <= prompt_tokens);
  ORCD_ENSURE(request.media.empty() || (request.score_from == 0 && tokens.back() != media_token));
  media.set(std::exchange(request.media, {}));
  tokens.reserve(tokens.size() + std::max(produced, std::min(request.max_tokens, output_reserve_max)));
  tokens.insert(tokens.end(), request.produced.begin(), request.produced.end());
  request.produced = {};
}

void sequence::start(std::uint32_t in, std::uint64_t admission_number, steady_time now) {
  ORCD_ENSURE(!in_slot);
  slot = in;
  admission = admission_number;
  in_slot = true;
  if (request.watch) request.watch->begins();
  if (!telling.started()) telling.start(request.received_at, cached, now);
}

void sequence::leave_slot() noexcept {
  in_slot = false;
  media.keep(nullptr);
  known = static_cast<std::uint32_t>(tokens.size());
  if (request.watch) request.watch->ends();
}

sample_request sequence::request_of(std::uint32_t ahead) {
  sample_request out;
  out.params = &request.sampling;
  out.draw = draws.at(ahead);
  out.remaining = request.max_tokens - tokens_out() - ahead;
  out.logprobs = request.logprobs;
  out.top_logprobs = request.top_logprobs;
  out.stop_at_end = stops_at_end();
  return out;
}

const sample_request* sequence::ask() {
  sample = request_of(pending);
  if (request.constraint) sample.allowed = request.constraint->mask();
  if (request.sampling.needs_logits()) sample.seen = tokens;
  return &sample;
}

const sample_request* sequence::ask_after_drafts(std::uint32_t count) {
  ORCD_ENSURE(pending == 0);
  return drafts.ask(count, tokens.back(), request.constraint.get(),
                    [this](std::uint32_t ahead) { return request_of(ahead); });
}

draft_offer sequence::offer_drafts(std::span<const token_id> ends) {
  if (pool || request.sampling.needs_logits()) {
    drafts.forget_guess();
    return {};
  }
  const auto ends_output = [&](token_id token) {
    return (stops_at_end() && std::binary_search(ends.begin(), ends.end(), token)) || stops_at(token);
  };
  return drafts.guess({tokens, tokens_out(), request.max_tokens - tokens_out(), pending,
                       request.constraint.get(), ends_output});
}

const sample_request* sequence::ask_score() {
  static const sampling_params greedy{.temperature = 0.0F};
  static const sampling_params ranked{.temperature = 0.0F, .tells_rank = true};
  const auto wanted = static_cast<std::uint32_t>(tokens[position + 1]);
  only_next.assign(wanted / 32 + 1, 0);
  only_next.back() = 1U << wanted % 32;
  sample = {};
  sample.params = request.score_ranks ? &ranked : &greedy;
  if (request.score_ranks) sample.seen = std::span(tokens).first(position + 1);
  sample.remaining = std::numeric_limits<std::uint32_t>::max();
  sample.logprobs = true;
  sample.top_logprobs = request.score_top;
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

// As step_results::accept_token judges each token, except for those that end a job without being part of its
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
  const std::uint32_t index = tokens_out();
  telling.note_output(index == produced, now);
  tokens.push_back(chosen.token);
  telling.output(chosen, index, request.logprobs);
}

void sequence::tell_progress(std::uint32_t end, steady_time now) {
  if (request.tell_progress) telling.progress(std::min(end, prompt_tokens), now);
}

void sequence::tell_scored(std::uint32_t index, const sampled_token& scored) {
  ORCD_ENSURE(index == told);
  ++told;
  telling.scored(tokens[index], index, scored);
}

void sequence::tell_end(const sampled_token& end) {
  if (request.tell_end) telling.output(end, tokens_out(), request.logprobs, token_part::end);
}

void sequence::finish(const job_outcome& how, steady_time now) {
  if (in_slot) leave_slot();
  telling.finish(how, stats(now), pool ? &pooled : nullptr);
}

job_stats sequence::stats(steady_time now) const noexcept {
  job_stats out;
  out.tokens_in = prompt_tokens;
  out.tokens_out = tokens_out();
  out.tokens_cached = cached;
  out.drafts = drafts.tried();
  out.drafts_right = drafts.right();
  telling.add_times(out, {request.received_at, request.first_token_at}, out.tokens_out > produced, now);
  return out;
}

}  // namespace orcd::engine
