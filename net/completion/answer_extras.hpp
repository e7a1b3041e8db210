// What completions of llama-server and vLLM show besides what OpenAI's do: token ids, timings and the
// prompt's progress. Pure. Private to net/.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/ids.hpp"
#include "engine/schedule/job.hpp"
#include "net/jobs/job_output.hpp"

namespace orcd::net {

/// ,"NAME":[1,2,3]
void append_ids(std::string& out, std::string_view name, std::span<const engine::token_id> ids);

/// Where a job is, or was at its end.
struct job_timing {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached = 0;  ///< of them
  double prompt_ms = 0;
  std::uint32_t tokens = 0;  ///< of the output
  double output_ms = 0;
};
[[nodiscard]] job_timing timing_of(const engine::job_stats& stats) noexcept;

/// The timing of a job that runs, by the clock of whoever writes its answer.
class running_timing {
 public:
  using clock = std::function<engine::steady_time()>;  ///< empty: every time is 0
  running_timing(clock now, std::uint32_t prompt_tokens)
      : now_(std::move(now)), prompt_tokens_(prompt_tokens) {}

  void started();
  void progress(const prompt_progress& progress) noexcept { cached_ = progress.cached; }
  /// To be called before anything of the output is written.
  void note_output();
  /// Nothing before the first output.
  [[nodiscard]] std::optional<job_timing> at(std::uint32_t tokens) const;

 private:
  [[nodiscard]] engine::steady_time now() const { return now_ ? now_() : engine::steady_time{}; }

  clock now_;
  std::uint32_t prompt_tokens_;
  std::uint32_t cached_ = 0;
  engine::steady_time begun_{};
  std::optional<engine::steady_time> first_;
};

/// {...} as llama-server names the figures: prompt_n counts computed tokens, cache_n the others.
[[nodiscard]] std::string render_timings(const job_timing& timing);
/// ,"timings":{...}
void append_timings(std::string& out, const job_timing& timing);

/// ,"prompt_progress":{...} of a prompt of `total` tokens.
void append_progress(std::string& out, std::uint32_t total, const prompt_progress& progress);

}  // namespace orcd::net
