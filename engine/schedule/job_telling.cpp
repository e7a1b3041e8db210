#include "engine/schedule/job_telling.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

job_telling::job_telling(std::shared_ptr<event_sink> sink) : sink_(std::move(sink)) {
  ORCD_ENSURE(sink_ != nullptr);
}

void job_telling::start(steady_time received_at, std::uint32_t cached, steady_time now) {
  ORCD_ENSURE(!started_ && !finished_);
  started_ = true;
  slot_at_ = now;
  progress_ = cached;
  sink_->offer(started_event{ms_between(received_at, now), cached});
}

void job_telling::progress(std::uint32_t processed, steady_time now) {
  if (processed <= progress_) return;
  progress_ = processed;
  constexpr double longest = std::numeric_limits<std::uint32_t>::max();
  sink_->offer(progress_event{
      processed, static_cast<std::uint32_t>(std::clamp(ms_between(slot_at_, now), 0.0, longest))});
}

// Nothing was chosen where the prompt has a token that is never generated, or one whose logit is -infinity or
// no number.
void job_telling::scored(token_id token, std::uint32_t index, const sampled_token& scored) {
  ORCD_ENSURE(scored.token == token || scored.token < 0);
  static const token_logprobs impossible{.chosen = -std::numeric_limits<float>::infinity()};
  sink_->offer(
      token_event{token, index, scored.token < 0 ? &impossible : &scored.logprobs, token_part::prompt});
}

void job_telling::note_output(bool first, steady_time now) noexcept {
  if (first) first_token_at_ = now;
  last_token_at_ = now;
}

void job_telling::output(const sampled_token& chosen, std::uint32_t index, bool logprobs, token_part part) {
  sink_->offer(token_event{chosen.token, index, logprobs ? &chosen.logprobs : nullptr, part});
}

void job_telling::finish(const job_outcome& how, const job_stats& stats, pooled_values* pooled) {
  ORCD_ENSURE(!finished_);
  finished_ = true;
  if (const auto* failure = std::get_if<error>(&how.value)) {
    sink_->offer(error_event{*failure, stats});
    return;
  }
  end_event end{std::get<finish_reason>(how.value), stats};
  if (pooled != nullptr) end.pooled.push_back(std::move(*pooled));
  sink_->offer(end);
}

void job_telling::add_times(job_stats& stats, const beginnings& from, bool made,
                            steady_time now) const noexcept {
  stats.queue_ms = ms_between(from.received_at, started_ ? slot_at_ : now);
  if (!started_) return;
  // The prefill is this process's own; the output may have begun in another one.
  stats.prefill_ms = ms_between(slot_at_, made ? first_token_at_ : now);
  if (!made && !from.first_token_at) return;
  const steady_time first = from.first_token_at.value_or(first_token_at_);
  stats.first_token_ms = ms_between(from.received_at, first);
  if (made) stats.decode_ms = ms_between(first, last_token_at_);
}

}  // namespace orcd::engine
