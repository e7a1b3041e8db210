// What a running job writes to its client: execution (execution.hpp) decides when, an implementation of this
// decides in which form. No socket, no clock. io thread only. Private to net/.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/sampling/logprobs.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::net {

/// One token of the output and the text that it set free.
struct output_token {
  engine::token_id id = -1;
  std::uint32_t index = 0;  ///< 0-based
  std::string_view text;    ///< valid UTF-8, often empty; nothing of a stop string
  bool stopped = false;     ///< it completed a stop string
  /// Empty unless asked for; else the token's own and those of the likeliest, in this order.
  std::span<const engine::token_logprob> logprobs;
};

/// Every call may append to `out`. Order: started, token*, tail?, then one of ended and failed.
class job_output {
 public:
  virtual ~job_output() = default;
  virtual void started(std::string& out, double queue_ms, std::chrono::system_clock::time_point wall) = 0;
  /// True when the output is over with this token for a reason of the form's own: a normal end.
  [[nodiscard]] virtual bool token(std::string& out, const output_token& token) = 0;
  /// Text that only the end of the output set free; `index` is above that of every token with text.
  virtual void tail(std::string& out, std::string_view text, std::uint32_t index) = 0;
  /// The results of a pooled job, right before ended().
  virtual void pooled(const std::vector<engine::pooled_values>& /*values*/) {}
  virtual void ended(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) = 0;
  virtual void failed(std::string& out, const engine::error& failure) = 0;
  /// Something that a client skips.
  virtual void keep_alive(std::string& out) = 0;
};

}  // namespace orcd::net
