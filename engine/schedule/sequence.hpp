// One job inside the scheduler, and the ways it can end. Private to engine/schedule.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/adapter_table.hpp"
#include "engine/schedule/draft_plan.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/kv_cache.hpp"

namespace orcd::engine {

/// Milliseconds between two moments.
[[nodiscard]] inline double ms_between(steady_time from, steady_time to) noexcept {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// A job's key for interrupt_if_alone(): never 0. Two ids may share one; a needless interrupt costs
/// time, not correctness.
[[nodiscard]] std::uint64_t job_key(std::string_view job_id) noexcept;

/// Its message is short enough for std::string to hold it without an allocation.
[[nodiscard]] inline error out_of_memory() {
  return {errc::internal, "out of memory"};
}

/// How a job ended: normally, or by an error.
struct job_outcome {
  std::variant<finish_reason, error> value;

  [[nodiscard]] static job_outcome of(finish_reason reason) { return {reason}; }
  [[nodiscard]] static job_outcome of(error failure) { return {std::move(failure)}; }
  /// What a cancel of this reason means for the job; `elapsed_ms` is since the request was received.
  [[nodiscard]] static job_outcome of(cancel_reason reason, double elapsed_ms);
};

/// One sequence of the scheduler. `tokens` holds prompt and output so far. Steps for the first `position`
/// positions were launched; the tokens of the last `pending` ones are not collected yet. A sequence whose
/// step was lost goes back to `computed` and repeats the rest: the accelerator guarantees the same bits.
///
/// A step with drafts feeds the last known token and guesses of those after it, and is pending as one. Its
/// results are judged from the first on like those of steps of one token, as long as the guesses before them
/// were right; the sequence goes on behind the last of these. Nothing is launched ahead of it.
///
/// Tokens of the prompt whose log probabilities are wanted (job_request::score_from) are computed one at a
/// step: the token before one is decoded, and the only token that its mask lets be chosen is the one that
/// follows in the prompt. So they need nothing of the accelerator that generated tokens do not need.
struct sequence {
  sequence(job_request r, std::shared_ptr<event_sink> s);

  /// The job has got a slot: for the first time, or again after it was set back.
  void start(std::uint32_t in, std::uint64_t admission_number, steady_time now);
  /// It has lost its slot. What is known of its tokens then is computed again when it has another.
  void leave_slot() noexcept;
  /// Known tokens that no step was launched for.
  [[nodiscard]] std::uint32_t missing() const noexcept {
    return static_cast<std::uint32_t>(tokens.size()) -
           std::min(position, static_cast<std::uint32_t>(tokens.size()));
  }
  /// A step for one token can be launched: for a known token, or for the one that the step before will
  /// choose. A constraint must know a token before it can say what may follow, so that nothing is launched
  /// ahead of it.
  [[nodiscard]] bool can_decode() const noexcept {
    if (pool || request.max_tokens == 0) return false;
    if (pending == 0) return missing() == 1;
    return !request.constraint && drafts.empty() && tokens_out() + pending < request.max_tokens;
  }
  /// A chunk of the prompt can be launched. The last token of a prompt is left to can_decode(), but not that
  /// of a pooled sequence, which never decodes.
  [[nodiscard]] bool can_prefill() const noexcept { return missing() > (pool ? 0U : 1U) && !can_score(); }
  /// A client waits for its next token, or for the next log probability of its prompt.
  [[nodiscard]] bool awaits_token() const noexcept {
    return can_score() || (!pool && request.max_tokens > 0 && missing() <= 1);
  }
  /// The most tokens that the chunk may have.
  [[nodiscard]] std::uint32_t chunk_max() const noexcept {
    return told < prompt_tokens || request.max_tokens == 0 ? told - 1 - position : missing();
  }
  /// A step can be launched that tells the log probability of a token of the prompt.
  [[nodiscard]] bool can_score() const noexcept {
    return told < prompt_tokens && position + 1 >= told && position + 1 < prompt_tokens;
  }
  /// The first tokens of what was known when it came to wait for its slot: those that may be taken from the
  /// prefix cache instead of being computed, and one more.
  [[nodiscard]] std::span<const token_id> sharable_prompt() const noexcept {
    if (request.max_tokens == 0)
      return std::span(tokens).first(std::min(told, std::max(prompt_tokens - 1, 1U)));
    return std::span(tokens).first(told < prompt_tokens ? told : std::min(known, positions_max()));
  }
  /// Whether nothing is left to do after the step that ended at `end`.
  [[nodiscard]] bool ends_with_prompt(std::uint32_t end) const noexcept {
    return !pool && request.max_tokens == 0 && end + 1 >= prompt_tokens;
  }
  /// Positions that the job needs at most. The last output token needs none, because nothing is computed
  /// after it.
  [[nodiscard]] std::uint32_t positions_max() const noexcept {
    return prompt_tokens + std::max(request.max_tokens, 1U) - 1;
  }
  /// Positions that the next step may fill at most, drafts left out.
  [[nodiscard]] std::uint32_t positions_next() const noexcept {
    const std::uint32_t next = can_decode() ? position + 1 : 0;
    return std::min(positions_max(), std::max(static_cast<std::uint32_t>(tokens.size()), next));
  }
  [[nodiscard]] bool stops_at_end() const {
    return !request.ignore_eos || (request.constraint && request.constraint->decides_end());
  }
  /// Whether the request itself names the token as one that ends its output.
  [[nodiscard]] bool stops_at(token_id token) const noexcept {
    return std::binary_search(request.stop_tokens.begin(), request.stop_tokens.end(), token);
  }
  [[nodiscard]] std::uint32_t tokens_out() const noexcept {
    return static_cast<std::uint32_t>(tokens.size()) - prompt_tokens;
  }
  [[nodiscard]] bool overdue(steady_time now) const noexcept {
    return request.deadline && now >= *request.deadline;
  }
  /// The request for the next token after the pending ones. A token that is asked for again, because its step
  /// was lost, gets the same draw.
  [[nodiscard]] const sample_request* ask();
  /// The requests for the next token and for the one behind each draft. No token is pending. A constraint may
  /// leave fewer drafts, or none.
  [[nodiscard]] const sample_request* ask_behind_drafts();
  void constrain_drafts();
  void force_drafts(std::uint32_t most);
  /// Before the result at `index` of a step with drafts is taken, of which `right` were right: brings the
  /// constraint to where it would be before a step for that token alone. `all`: no draft was wrong.
  void follow_drafts(std::uint32_t index, std::uint32_t right, bool all);
  /// Guesses what comes next: writes to `guessed` and tells how much the step may take of it. For a sequence
  /// that has pending tokens these are left out.
  [[nodiscard]] draft_offer offer_drafts(std::span<const token_id> ends);
  /// The request for the prompt's token after the next position.
  [[nodiscard]] const sample_request* ask_score();
  /// The error of a job for which nothing could be chosen.
  [[nodiscard]] error no_token() const;
  /// Tells the constraint of the output that the job came with; how the job ends if that output ends it.
  [[nodiscard]] std::optional<job_outcome> replay_produced();
  [[nodiscard]] sample_request request_of(std::uint32_t ahead);
  void append(const sampled_token& chosen, steady_time now);
  /// Sends how much of the prompt is computed once the step that ended at `end` is, if that is wanted. A step
  /// that was lost and repeated tells nothing new.
  void tell_progress(std::uint32_t end, steady_time now);
  /// Sends the event of the prompt's token at `index`, for which `scored` is the result.
  void tell_scored(std::uint32_t index, const sampled_token& scored);
  /// Sends the event of the end-of-generation token, if it is wanted.
  void tell_end(const sampled_token& end);
  /// Sends the terminal event; nothing may be sent after it.
  void finish(const job_outcome& how, steady_time now);
  [[nodiscard]] job_stats stats(steady_time now) const noexcept;

  job_request request;  ///< its prompt and its output so far were moved into `tokens`
  std::shared_ptr<event_sink> sink;
  std::uint64_t key;
  std::uint32_t prompt_tokens;
  std::uint32_t produced;        ///< tokens of the output that the job came with
  std::uint32_t known;           ///< tokens that were there when it last came to wait for a slot
  std::vector<token_id> tokens;  ///< prompt, then output
  std::uint32_t position = 0;
  std::uint32_t pending = 0;   ///< tokens asked for and not collected
  std::uint32_t computed = 0;  ///< positions whose KV is complete; 0 on an accelerator without pages
  std::uint32_t cached = 0;    ///< of them, those that others computed
  std::uint32_t told;          ///< the prompt's first token whose log probability is still to be told
  std::uint32_t progress_told = 0;
  adapter_table::hold adapters;  ///< null: it has none
  kv_lease lease;                ///< empty on an accelerator without pages
  bool begun = false;            ///< the accelerator holds something in `slot` that must be released
  bool in_slot = false;
  std::uint32_t slot = 0;
  std::uint64_t admission = 0;  ///< larger = later; another one each time that it gets a slot
  std::uint64_t arrival = 0;    ///< larger = later
  draw_source draws;
  std::vector<double> draws_ahead;  ///< of the next tokens, each kept until its token is accepted
  sample_request sample;
  std::unique_ptr<draft_source> drafter;  ///< null: it has no drafts
  draft_record acceptance;
  std::vector<token_id> guessed;  ///< what the drafter said last
  std::uint32_t guessed_kind = 0;
  std::vector<token_id> drafts;              ///< of the step in progress; its first `guessed` ones
  std::vector<token_id> fed;                 ///< that step's tokens
  std::vector<sample_request> asked_behind;  ///< and its requests
  std::vector<std::vector<std::uint32_t>> masks_behind;  ///< and their masks
  /// The request's constraint as it is behind all drafts of the step in progress; request.constraint is not.
  std::shared_ptr<token_constraint> constraint_ahead;
  std::uint64_t work_ahead = 0;   ///< what it has taken beside the request's constraint
  std::uint64_t wasted_work = 0;  ///< of copies whose drafts were not all right
  std::uint32_t drafts_tried = 0, drafts_right = 0;
  std::vector<std::uint32_t> only_next;  ///< the mask of ask_score()
  std::optional<pool_request> pool;      ///< set: the sequence is pooled
  pooled_values pooled;                  ///< its result
  steady_time queued_at{};               ///< when it came to wait for a slot
  bool replayed = false;                 ///< replay_produced() was called
  bool started = false;
  bool finished = false;
  steady_time slot_at{}, first_token_at{}, last_token_at{};
};

}  // namespace orcd::engine
