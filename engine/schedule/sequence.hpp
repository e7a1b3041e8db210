// One job inside the scheduler, and the ways it can end. Private to engine/schedule.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/kv_cache.hpp"
#include "engine/schedule/scheduler.hpp"

namespace orcd::engine {

/// Milliseconds between two moments.
[[nodiscard]] inline double ms_between(steady_time from, steady_time to) noexcept {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// A job's key for interrupt_if_alone(): never 0. Two ids may share one; a needless interrupt costs
/// time, not correctness.
[[nodiscard]] std::uint64_t job_key(std::string_view job_id) noexcept;

/// How a job ended: normally, or by an error.
struct scheduler::outcome {
  std::variant<finish_reason, error> value;

  [[nodiscard]] static outcome of(finish_reason reason) { return {reason}; }
  [[nodiscard]] static outcome of(error failure) { return {std::move(failure)}; }
  /// What a cancel of this reason means for the job; `elapsed_ms` is since the request was received.
  [[nodiscard]] static outcome of(cancel_reason reason, double elapsed_ms);
};

/// `tokens` grows by one per output token; steps for the first `position` positions were launched, the
/// last of which may wait for `pending` tokens that nobody has collected yet. A job whose step was lost
/// goes back to what is certain and is computed again: the accelerator's contract makes the bits the same.
struct scheduler::sequence {
  sequence(job_request r, std::shared_ptr<event_sink> s);

  void start(std::uint32_t in_slot, std::uint64_t admission_number, steady_time now);
  /// Known tokens that no step was launched for.
  [[nodiscard]] std::uint32_t missing() const noexcept {
    return static_cast<std::uint32_t>(tokens.size()) -
           std::min(position, static_cast<std::uint32_t>(tokens.size()));
  }
  /// A step for one token can be launched: a known one, or the one that the step before it will choose. A
  /// constraint must know a token before it can say what may follow, so that nothing is launched ahead of it.
  [[nodiscard]] bool can_decode() const noexcept {
    if (pool) return false;
    if (pending == 0) return missing() == 1;
    return !request.constraint && tokens_out() + pending < request.max_tokens;
  }
  /// A chunk of its prompt can be launched. The last token of a prompt goes with what decodes, but a pooled
  /// sequence never does.
  [[nodiscard]] bool can_prefill() const noexcept { return missing() > (pool ? 0U : 1U); }
  /// Positions that the job needs at most: the last token needs none.
  [[nodiscard]] std::uint32_t positions_max() const noexcept {
    return prompt_tokens + request.max_tokens - 1;
  }
  [[nodiscard]] bool stops_at_end() const noexcept { return !request.ignore_eos || request.constraint; }
  [[nodiscard]] std::uint32_t tokens_out() const noexcept {
    return static_cast<std::uint32_t>(tokens.size()) - prompt_tokens;
  }
  [[nodiscard]] bool overdue(steady_time now) const noexcept {
    return request.deadline && now >= *request.deadline;
  }
  /// Prepares the request for the token after the last and the pending ones: the same draw again if a step
  /// was lost.
  [[nodiscard]] const sample_request* ask();
  /// The error of a job for which nothing could be chosen.
  [[nodiscard]] error no_token() const;
  void append(const sampled_token& chosen, steady_time now);
  /// Sends the terminal event; nothing may be sent after it.
  void finish(const outcome& how, steady_time now);
  [[nodiscard]] job_stats stats(steady_time now) const noexcept;

  job_request request;  ///< its prompt was moved into `tokens`
  std::shared_ptr<event_sink> sink;
  std::uint64_t key;
  std::uint32_t prompt_tokens;
  std::vector<token_id> tokens;  ///< prompt, then output
  std::uint32_t position = 0;
  std::uint32_t pending = 0;   ///< tokens asked for and not collected
  std::uint32_t computed = 0;  ///< positions whose KV is complete, with pages
  std::uint32_t cached = 0;    ///< of them, those that others computed
  kv_lease lease;              ///< empty on an accelerator without pages
  bool on_device = false;      ///< the device holds something in `slot` that must be released
  std::uint32_t slot = 0;
  std::uint64_t admission = 0;  ///< larger = later
  draw_source draws;
  std::vector<double> draws_ahead;  ///< of the next tokens, each kept until its token is accepted
  sample_request sample;
  std::optional<pool_request> pool;  ///< set: the sequence is pooled
  pooled_values pooled;              ///< its result
  bool started = false;
  bool finished = false;
  steady_time slot_at{}, first_token_at{}, last_token_at{};
};

}  // namespace orcd::engine
