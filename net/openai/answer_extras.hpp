// What completions of llama-server and vLLM show besides what OpenAI's do: token ids, timings and the
// prompt's progress. Pure. Private to net/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/ids.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::net {

/// ,"NAME":[1,2,3]
void append_ids(std::string& out, std::string_view name, std::span<const engine::token_id> ids);

/// Where a job is, or was at its end.
struct job_timing {
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> cached{};  ///< of them; nothing while it is not known
  double prompt_ms = 0;
  std::uint32_t tokens = 0;  ///< of the output
  double output_ms = 0;
};
[[nodiscard]] job_timing timing_of(const engine::job_stats& stats) noexcept;

/// ,"timings":{...} as llama-server names the figures: prompt_n counts computed tokens, cache_n the others.
void append_timings(std::string& out, const job_timing& timing);

/// ,"prompt_progress":{...}
void append_progress(std::string& out, std::uint32_t total, std::uint32_t processed, double elapsed_ms);

}  // namespace orcd::net
