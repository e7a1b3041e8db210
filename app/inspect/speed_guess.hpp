// How fast one sequence will decode, from what was measured of other models. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model/model_spec.hpp"

namespace orcd::app {

struct speed_guess {
  std::string_view card;
  double tokens_per_second = 0.0;
  double share = 0.0;  ///< of the rate at which its memory gives the weights of a token, 0 to 1
};

/// Decoding of one sequence with a short context: the weights of a token at the card's measured read rate,
/// and in each layer the time that was measured beside its reads for models on the same path
/// (docs/performance.md), one kernel for all layers or many kernels. A guess: models of the same path were
/// within 25 % of it.
[[nodiscard]] std::vector<speed_guess> guess_speeds(const engine::model& m, bool one_kernel);

}  // namespace orcd::app
