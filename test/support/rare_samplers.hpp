// Samplers that the device does not have, in some mixture.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/sampling/dry.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace orcd::test {

/// The same mixture for the same number.
inline void use_rare_samplers(engine::sampling_params& params, std::uint32_t number) {
  params.dry_multiplier = 1.5F;
  params.dry_allowed_length = number % 3;
  if (number % 2 == 0) params.dry_last_n = 20;
  const auto breakers = std::make_shared<engine::dry_breakers>();
  breakers->rows = {{3, {}}, {5, {6}}};
  params.breakers = breakers;
  params.xtc_probability = 0.6F;
  params.xtc_threshold = 0.02F;
  if (number % 3 != 1) params.typical_p = 0.8F;
  if (number % 3 != 2) params.top_n_sigma = 1.5F;
  if (number % 2 == 1) params.dynatemp_range = 0.5F;
}

}  // namespace orcd::test
