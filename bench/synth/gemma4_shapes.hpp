// Gemma 4's models in their true shapes, with matrices in the mixture Q4_K_M. Source: the models' published
// configurations (config.json); sizes are what the shapes give.
#pragma once

#include <optional>
#include <string>

#include "bench/synth/model_shapes.hpp"

namespace orcd::bench {

/// Nullopt where none has this name. Errors: those of add_tokenizer().
[[nodiscard]] std::optional<engine::result<planned_model>> plan_gemma4_model(const model_choice& choice);

/// "gemma-4-31b, gemma-4-26b-a4b, ...".
[[nodiscard]] std::string gemma4_model_names();

}  // namespace orcd::bench
