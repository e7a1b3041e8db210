// Shapes of models with recurrent layers, for models with random weights: sizes from their configurations,
// the types of a Q4_K_M file.
#pragma once

#include <optional>
#include <string>

#include "bench/synth/model_shapes.hpp"

namespace orcd::bench {

/// None where the choice's model is none of these.
[[nodiscard]] std::optional<engine::result<planned_model>> plan_hybrid_model(const model_choice& choice);
/// Their names, separated by commas.
[[nodiscard]] std::string hybrid_model_names();

}  // namespace orcd::bench
