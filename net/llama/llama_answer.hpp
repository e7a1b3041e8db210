// The answer of POST /completion and /infill in llama-server's shape: one object for each prompt and choice,
// or their chunks. Pure. io thread only. Private to net/.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/jobs/job_group.hpp"
#include "net/openai/completion_api.hpp"
#include "net/openai/prepare_completion.hpp"

namespace orcd::net {

/// {"n_predict", "seed", "temperature", ...}: what a request asks for.
[[nodiscard]] std::string generation_settings(const engine::job_request& job,
                                              const completion_request& asked);

/// {"prompt_n", "prompt_ms", ...}.
[[nodiscard]] std::string timings_of(const engine::job_stats& stats);

/// The outputs and the answer of prepared jobs; `model` is the name that the answer tells.
[[nodiscard]] written_answer make_llama_answer(const prepared_completion& prepared, std::string model,
                                               const engine::tokenizer& vocabulary);

}  // namespace orcd::net
