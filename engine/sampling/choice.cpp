#include "engine/sampling/choice.hpp"

#include <algorithm>

#include "engine/sampling/rare_samplers.hpp"
#include "engine/sampling/sampling.hpp"

namespace orcd::engine {

token_id choose(std::span<const float> logits, const sampling_params& params, std::span<const token_id> seen,
                std::span<const token_id> banned, double draw, sampling_workspace& workspace,
                token_mask allowed) {
  if (params.uses_usual_order()) return choose_rarely(logits, params, seen, banned, draw, workspace, allowed);
  const std::size_t window =
      params.penalises() ? std::min<std::size_t>(seen.size(), params.repeat_last_n) : 0;
  return sample(logits, params, seen.last(window), banned, draw, workspace, allowed);
}

}  // namespace orcd::engine
