// Turns a running job's output into the bytes of its answer: job_execution (job_execution.hpp) decides when
// to write, an implementation of this what. No socket, no clock. io thread only. Private to net/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/sampling/logprobs.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::net {

/// One token of the output and the text that it completed.
struct output_token {
  engine::token_id id = -1;
  std::uint32_t index = 0;  ///< 0-based
  std::string_view text;    ///< valid UTF-8, often empty; nothing of a stop string
  bool stopped = false;     ///< this token completed a stop string
  /// Empty unless asked for; else the token's own log probability, then those of the most likely tokens.
  std::span<const engine::token_logprob> logprobs;
  std::string_view stop{};  ///< with `stopped`: the stop string
};

/// A token of the prompt, before every token of the output, or the end-of-generation token, after them.
struct beside_token {
  engine::token_part part = engine::token_part::prompt;
  engine::token_id id = -1;
  std::span<const engine::token_logprob> logprobs;  ///< as in output_token
  std::uint32_t rank = 0;                           ///< engine::token_logprobs::rank
};

/// How much of a job's prompt is computed.
struct prompt_progress {
  std::uint32_t cached = 0;      ///< tokens that were there when the job began
  std::uint32_t processed = 0;   ///< these and those that were computed since
  std::uint32_t elapsed_ms = 0;  ///< since the job began
};

/// Every call may append frames to `out`. Order: started, token*, tail?, then one of ended and failed; the
/// calls that most jobs do not have are in between.
class job_output {
 public:
  virtual ~job_output() = default;
  virtual void started(std::string& out, double queue_ms, std::chrono::system_clock::time_point wall) = 0;
  /// Right after started(), and as the prompt is computed for jobs that tell it.
  virtual void progress(std::string& /*out*/, const prompt_progress& /*progress*/) {}
  /// True when the implementation ends the output with this token, for example before a second tool call: a
  /// normal end.
  [[nodiscard]] virtual bool token(std::string& out, const output_token& token) = 0;
  /// For jobs that ask for it.
  virtual void beside_output(std::string& /*out*/, const beside_token& /*token*/) {}
  /// How many of the tokens so far, from the last one back, have log probabilities that are still to be
  /// written: another process that goes on with this output has to compute those again. Jobs that show none
  /// are not asked.
  [[nodiscard]] virtual std::size_t unwritten_values() const noexcept {
    return std::numeric_limits<std::size_t>::max();
  }
  /// Text that was held back until the end of the output; `index` is greater than that of every token with
  /// text.
  virtual void tail(std::string& out, std::string_view text, std::uint32_t index) = 0;
  /// The results of a pooled job, right before ended().
  virtual void pooled(const std::vector<engine::pooled_values>& /*values*/) {}
  virtual void ended(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) = 0;
  virtual void failed(std::string& out, const engine::error& failure) = 0;
  /// Appends something that clients skip.
  virtual void keep_alive(std::string& out) = 0;
};

}  // namespace orcd::net
