// The choice of a token with all samplers: those of sampling.hpp, and llama-server's (rare_samplers.hpp),
// which a GPU does not have.
#pragma once

#include <span>

#include "engine/sampling/sampling_params.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

/// As sample(), with all tokens of the sequence so far, `seen`, oldest first, of which each sampler looks at
/// its own window.
[[nodiscard]] token_id choose(std::span<const float> logits, const sampling_params& params,
                              std::span<const token_id> seen, std::span<const token_id> banned, double draw,
                              sampling_workspace& workspace, token_mask allowed = {});

}  // namespace orcd::engine
