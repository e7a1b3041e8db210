// A job: one accepted request on its way through the scheduler, and the events it causes.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"
#include "engine/media/prepared_medium.hpp"
#include "engine/model/pooling.hpp"
#include "engine/sampling/logprobs.hpp"
#include "engine/sampling/sampling.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

using steady_time = std::chrono::steady_clock::time_point;

/// The most jobs that may be waiting or running at once, whatever the options say.
inline constexpr std::uint32_t jobs_max = 65'536;

/// A medium begins at a position: what it is, for those who compare sequences. The words are its digest, all
/// below any token and other than media_token.
struct media_mark {
  std::uint32_t position = 0;
  std::array<token_id, 9> words{};
};

/// Positions of the prompt, which has media_token there, that a medium's rows stand at.
struct media_run {
  std::uint32_t position = 0;
  std::uint32_t count = 0;
  std::uint32_t first = 0;  ///< of the medium's rows
};

/// A picture or a sound of a job's prompt.
struct job_medium {
  std::shared_ptr<const prepared_medium> content;
  std::string digest;           ///< 64 hexadecimal digits, of what its tower gets, and of the tower
  std::uint32_t rows = 0;       ///< that it becomes
  std::vector<media_run> runs;  ///< in order; together they are the rows, each once
  bool see_each_other = false;  ///< the rows of a run
  std::uint32_t columns = 0;    ///< not 0: its one run is a grid (media_rows::columns)
};

/// What a job takes from the prefix cache and leaves in it. Only jobs with the same salt, and the same
/// adapters, share anything.
struct cache_request {
  bool enabled = true;       ///< false: computes its whole prompt and leaves nothing
  std::string salt = {};     ///< of the tenant
  std::string session = {};  ///< a conversation whose last state is kept for its next request; or empty
  std::uint32_t system_tokens = 0;  ///< the prompt's first tokens that other conversations share; 0 = unknown
  std::vector<media_mark> media = {};  ///< of the prompt, in order; the scheduler sets it
};

/// The tokens of one text, or of two in a row where the model gives the second a token type of its own.
struct pooled_input {
  std::vector<token_id> tokens;      ///< at least one; all fit the context
  std::uint32_t second_segment = 0;  ///< index at which the second text begins; 0 = there is one text
};

/// A LoRA adapter that a job's sequence has from its first token to its last.
struct job_adapter {
  std::uint32_t index = 0;          ///< where the accelerator has it
  float strength = 1.0F;            ///< 0: as if it were not named
  std::string digest = {};          ///< of what is expected there (lora_adapter::digest)
  std::string_view field = "lora";  ///< of the request, that asks for it: for messages. Outlives the job
};

/// Told of a job's time in a slot, on the GPU thread; must not block or throw. A job that is preempted
/// has several such times.
class slot_watch {
 public:
  virtual ~slot_watch() = default;
  virtual void begins() noexcept = 0;  ///< before its first step, or the first of one of its inputs
  virtual void ends() noexcept = 0;    ///< after the last one, before anybody is told
};

/// A job for the scheduler; validated and tokenized before it gets here.
struct job_request {
  std::string job_id;
  std::vector<token_id> prompt;  ///< at least one token
  /// prompt + max_tokens - 1 fits the context. 0: the prompt is computed up to its last token, and nothing is
  /// generated.
  std::uint32_t max_tokens = 1;
  sampling_params sampling;
  std::uint64_t seed = 0;
  bool logprobs = false;           ///< each token_event carries log probabilities
  std::uint32_t top_logprobs = 0;  ///< and those of this many most likely tokens, at most top_logprobs_max
  bool ignore_eos = false;         ///< go on at end-of-generation tokens (benchmarks)
  std::vector<token_id> stop_tokens = {};  ///< ascending; each ends the job as end-of-generation tokens do
  bool keep_stop_token = false;            ///< such a token is still part of the output
  /// The prompt's tokens from this one on are told too, with the log probability that the model gives each
  /// after those before it. Each costs a step of one token, as a generated one does. 0 = none are told; at
  /// most the prompt's size.
  std::uint32_t score_from = 0;
  std::uint32_t score_top = 0;  ///< and those of this many most likely tokens, at most top_logprobs_max
  bool score_ranks = false;     ///< and where each stands among all, for which the host gets all logits
  bool tell_end = false;        ///< the end-of-generation token that ends the job is told too
  bool tell_progress = false;   ///< the job has progress events
  std::optional<steady_time> deadline;  ///< of the whole job; the earlier of timeout and X-Deadline
  steady_time received_at{};
  cache_request cache = {};
  /// At most active_adapters_max that are applied, none twice. A job whose adapter is not there any more gets
  /// an error (not_found). Not for pooled jobs.
  std::vector<job_adapter> adapters = {};
  /// Restricts the output, for example to a grammar; null: no restriction. Used by the GPU thread alone once
  /// the job was submitted. The job ends at an end-of-generation token that it allows, even with ignore_eos
  /// if the constraint decides the end.
  std::shared_ptr<token_constraint> constraint = {};
  /// For embeddings and ranking: each input is pooled and nothing is generated. Then `prompt` is empty, and
  /// of the other members only job_id, deadline and received_at count.
  std::vector<pooled_input> inputs = {};
  /// Output that the job has already, made by another process: check_produced() says what it may be. It
  /// counts as output in everything, except that no event tells of it. What follows is what would have
  /// followed there, bit for bit.
  std::vector<token_id> produced = {};
  std::optional<steady_time> first_token_at = {};  ///< when the first of them was made, if that is known
  /// Suspected of having crashed an engine: no other job has a slot while it has. Jobs that come later go
  /// first, for at most ten seconds.
  bool suspect = false;
  std::shared_ptr<slot_watch> watch = {};  ///< null: none
  /// Text that the output is expected to repeat, as drafts (engine/schedule/draft_source.hpp). Changes no
  /// token of the output.
  std::vector<token_id> prediction = {};
  /// Media of the prompt, in order. Then the prompt's last token is none of theirs, and score_from is 0.
  std::vector<job_medium> media = {};

  /// Tokens of the prompt, or of all inputs together.
  [[nodiscard]] std::uint32_t tokens_in() const noexcept {
    std::size_t count = prompt.size();
    for (const pooled_input& input : inputs) count += input.tokens.size();
    return static_cast<std::uint32_t>(count);
  }
  /// Token events that the job can have at most.
  [[nodiscard]] std::size_t events_max() const noexcept {
    const std::size_t scored = score_from == 0 ? 0 : prompt.size() - score_from;
    return scored + (max_tokens - std::min<std::size_t>(max_tokens, produced.size())) + (tell_end ? 1 : 0);
  }
};

/// Whether the job can go on after `produced`: at most max_tokens, ids below `vocab`, no pooled job and none
/// that is told its prompt's tokens (`score_from`). Errors: internal, because no client chooses these tokens.
[[nodiscard]] result<void> check_produced(const job_request& job, std::uint32_t vocab);

enum class finish_reason { stop, length };

/// Why a job is ended from outside the step loop.
enum class cancel_reason {
  client_cancel,   ///< POST /cancel
  disconnected,    ///< the client closed its connection
  stop_string,     ///< the session saw a stop string: a normal end
  timeout,         ///< inference timeout or deadline
  shutdown,        ///< drain timeout or a second SIGTERM
  sibling_failed,  ///< another job of the same request failed: the request has one answer, and that is the
                   ///< failure
};

/// Measured by the scheduler; durations in milliseconds.
struct job_stats {
  std::uint32_t tokens_in = 0;
  std::uint32_t tokens_out = 0;
  std::uint32_t tokens_cached = 0;  ///< of tokens_in: their KV was there already
  double queue_ms = 0;              ///< received to slot
  double prefill_ms = 0;            ///< slot to first token
  double first_token_ms = 0;        ///< received to first token
  double decode_ms = 0;             ///< first token to last
  std::uint32_t resumed = 0;        ///< engines that died while they worked at it
  std::uint32_t drafts = 0;         ///< tokens that were guessed and computed,
  std::uint32_t drafts_right = 0;   ///< and of them those that became output
};

struct started_event {
  double queue_ms = 0;
  std::uint32_t cached = 0;  ///< tokens of the prompt whose KV is there already
};
/// More of the prompt is computed; the last one says all of it.
struct progress_event {
  std::uint32_t processed = 0;   ///< tokens of the prompt whose KV is there now; greater than ever before
  std::uint32_t elapsed_ms = 0;  ///< since the job got its slot
};
enum class token_part {
  prompt,  ///< one of the prompt's own (job_request::score_from)
  output,  ///< generated
  end,     ///< the end-of-generation token that ended the job (job_request::tell_end); no part of the output
};
struct token_event {
  token_id token = -1;
  std::uint32_t index = 0;                   ///< 0-based position in the output, or in the prompt
  const token_logprobs* logprobs = nullptr;  ///< if asked for; valid during the call
  token_part part = token_part::output;
};
/// Terminal: the job ran to its end.
struct end_event {
  finish_reason reason = finish_reason::stop;
  job_stats stats;
  std::vector<pooled_values> pooled = {};  ///< one for each input, in their order
};
/// Terminal: the job was ended. `code` is cancelled, inference_timeout, draining, vram_oom, ...
struct error_event {
  error failure;
  job_stats stats;
};

/// Order per job: started, token* (those of the prompt first), then exactly one of end or error (M0-W-1311).
/// A job that never got a slot has no started event. Progress comes before the first token that was chosen
/// with what it tells.
using job_event = std::variant<started_event, progress_event, token_event, end_event, error_event>;

/// Where a job's events go. Called on the GPU thread; must not block, throw, or call the scheduler
/// back. An implementation hands the event to the session's thread.
class event_sink {
 public:
  virtual ~event_sink() = default;
  virtual void offer(const job_event& event) noexcept = 0;
};

/// Submits and cancels jobs from any thread; the scheduler's thread does the work.
class job_service {
 public:
  virtual ~job_service() = default;
  /// Always accepted: admission (engine/schedule/admission.hpp) was asked first.
  virtual void submit(job_request request, std::shared_ptr<event_sink> sink) = 0;
  /// Idempotent; unknown ids are ignored. The job's terminal event follows within one step, `error`
  /// for every reason but stop_string, which ends normally with finish_reason::stop.
  virtual void cancel(const std::string& job_id, cancel_reason reason) = 0;
};

}  // namespace orcd::engine
