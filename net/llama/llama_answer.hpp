// The answer of POST /completion and /infill in llama-server's shape: one object for each prompt and choice,
// or their chunks. Pure. io thread only. Private to net/.
#pragma once

#include <string>

#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion/answer_extras.hpp"
#include "net/completion/completion_api.hpp"
#include "net/completion/prepare_completion.hpp"

namespace orcd::net {

/// {"n_predict", "seed", "temperature", ...}: what a request asks for.
[[nodiscard]] std::string generation_settings(const engine::job_request& job,
                                              const completion_request& asked);

/// The outputs and the answer of prepared jobs; `model` is the name that the answer tells, `now` the clock
/// for the timings of a stream's chunks.
[[nodiscard]] written_answer make_llama_answer(const prepared_completion& prepared, std::string model,
                                               const engine::tokenizer& vocabulary,
                                               running_timing::clock now);

}  // namespace orcd::net
