// One job inside the scheduler: its tokens, how far they are computed, and what may be done for it next. What
// concerns its drafts and its client are parts of their own. Private to engine/schedule.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/adapter_table.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/job_outcome.hpp"
#include "engine/schedule/job_telling.hpp"
#include "engine/schedule/kv_cache.hpp"
#include "engine/schedule/sequence_drafts.hpp"
#include "engine/schedule/sequence_media.hpp"

namespace orcd::engine {

/// A job's key for interrupt_if_alone(): never 0. Two ids may share one; a needless interrupt costs
/// time, not correctness.
[[nodiscard]] std::uint64_t job_key(std::string_view job_id) noexcept;

/// Draws of the next tokens, each kept until its token is accepted: a token that is asked for again, because
/// its step was lost, gets the same one.
class kept_draws {
 public:
  /// The draws of the first `accepted` tokens are gone.
  kept_draws(std::uint64_t seed, std::uint32_t accepted) : source_(seed) { source_.discard(accepted); }
  /// That of the token that comes so many tokens after the last accepted one.
  [[nodiscard]] double at(std::uint32_t ahead) {
    while (kept_.size() <= ahead) kept_.push_back(source_.next());
    return kept_[ahead];
  }
  /// The next token is accepted.
  void accept() { kept_.erase(kept_.begin()); }

 private:
  draw_source source_;
  std::vector<double> kept_;
};

/// One sequence of the scheduler. `tokens` holds prompt and output so far. Steps for the first `position`
/// positions were launched; the tokens of the last `pending` ones are not collected yet. A sequence whose
/// step was lost goes back to `computed` and repeats the rest: the accelerator guarantees the same bits.
///
/// A step with drafts feeds the last known token and guesses of those after it, and is pending as one. Its
/// results are judged from the first on like those of steps of one token, as long as the guesses before them
/// were right; the sequence goes on after the last of these. Nothing is launched ahead of it.
///
/// Tokens of the prompt whose log probabilities are wanted (job_request::score_from) are computed one at a
/// step: the token before one is decoded, and the only token that its mask lets be chosen is the one that
/// follows in the prompt. So they need nothing of the accelerator that generated tokens do not need.
struct sequence {
  sequence(job_request r, std::shared_ptr<event_sink> s);

  /// The job has got a slot: for the first time, or again after it was preempted.
  void start(std::uint32_t in, std::uint64_t admission_number, steady_time now);
  /// It has lost its slot. What is known of its tokens then is computed again when it has another.
  void leave_slot() noexcept;
  /// Known tokens that no step was launched for.
  [[nodiscard]] std::uint32_t missing() const noexcept {
    return static_cast<std::uint32_t>(tokens.size()) -
           std::min(position, static_cast<std::uint32_t>(tokens.size()));
  }
  /// A step for one token can be launched: for a known token, or for the one that the step before will
  /// choose. A constraint must know a token before it can say what may follow, and a token that is chosen
  /// from the logits is not fed back, so that nothing is launched ahead of them.
  [[nodiscard]] bool can_decode() const noexcept {
    if (pool || request.max_tokens == 0) return false;
    if (pending == 0) return missing() == 1;
    return !request.constraint && !request.sampling.needs_logits() && !drafts.in_step() &&
           tokens_out() + pending < request.max_tokens;
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
  /// The request for the next token after the pending ones.
  [[nodiscard]] const sample_request* ask();
  /// The requests for the next token and for the one after each of `count` drafts, of which a constraint may
  /// leave fewer, or none. No token is pending.
  [[nodiscard]] const sample_request* ask_after_drafts(std::uint32_t count);
  /// What it may bring to a step beside its next token. `ends`: end-of-generation tokens, ascending.
  [[nodiscard]] draft_offer offer_drafts(std::span<const token_id> ends);
  /// The request for the prompt's token after the next position.
  [[nodiscard]] const sample_request* ask_score();
  /// The error of a job for which nothing could be chosen.
  [[nodiscard]] error no_token() const;
  /// Tells the constraint of the output that the job came with; how the job ends if that output ends it.
  [[nodiscard]] std::optional<job_outcome> replay_produced();
  /// The request for the token that comes `ahead` tokens after the last known one.
  [[nodiscard]] sample_request request_of(std::uint32_t ahead);
  /// One more token of output.
  void append(const sampled_token& chosen, steady_time now);
  /// Tells how much of the prompt is computed once the step that ended at `end` is, if that is wanted.
  void tell_progress(std::uint32_t end, steady_time now);
  /// Tells the prompt's token at `index`, for which `scored` is the result.
  void tell_scored(std::uint32_t index, const sampled_token& scored);
  /// Tells the end-of-generation token, if it is wanted.
  void tell_end(const sampled_token& end);
  /// Tells the end of the job; nothing may be told after it.
  void finish(const job_outcome& how, steady_time now);
  [[nodiscard]] job_stats stats(steady_time now) const noexcept;

  job_request request;  ///< its prompt and its output so far were moved into `tokens`
  std::uint64_t key;
  std::uint32_t prompt_tokens;
  std::uint32_t produced;        ///< tokens of the output that the job came with
  std::uint32_t known;           ///< tokens that were there when it last came to wait for a slot
  std::vector<token_id> tokens;  ///< prompt, then output
  std::uint32_t position = 0;
  std::uint32_t pending = 0;     ///< tokens asked for and not collected
  std::uint32_t computed = 0;    ///< positions whose KV is complete; 0 on an accelerator without pages
  std::uint32_t cached = 0;      ///< of them, those that others computed
  std::uint32_t told;            ///< the prompt's first token whose log probability is still to be told
  adapter_table::hold adapters;  ///< null: it has none
  kv_lease lease;                ///< empty on an accelerator without pages
  bool begun = false;            ///< the accelerator holds something in `slot` that must be released
  bool in_slot = false;
  bool replayed = false;  ///< replay_produced() was called
  std::uint32_t slot = 0;
  std::uint64_t admission = 0;  ///< larger = later; another one each time that it gets a slot
  std::uint64_t arrival = 0;    ///< larger = later
  steady_time queued_at{};      ///< when it came to wait for a slot
  kept_draws draws;
  sample_request sample;                 ///< of ask() or ask_score(),
  std::vector<std::uint32_t> only_next;  ///< and the mask of ask_score()
  sequence_drafts drafts;
  sequence_media media;
  job_telling telling;
  std::optional<pool_request> pool;  ///< set: the sequence is pooled
  pooled_values pooled;              ///< its result
};

}  // namespace orcd::engine
