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

/// Decoding of one sequence with a short context: a line through the times that were measured for models on
/// the same path, one kernel for all layers or many kernels, by the bytes of a token and by layers. Of the
/// models measured on an H200 none was further than 16 % from it.
[[nodiscard]] std::vector<speed_guess> guess_speeds(const engine::model& m, bool one_kernel);

}  // namespace orcd::app
