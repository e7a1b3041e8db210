// More models that people run, in their true shapes with the types of a Q4_K_M file. Source: the models'
// published configurations (config.json); sizes are what the shapes give.
#pragma once

#include <optional>
#include <string>

#include "bench/synth/model_shapes.hpp"

namespace orcd::bench {

/// Nullopt where none has this name. Errors: those of add_tokenizer().
[[nodiscard]] std::optional<engine::result<planned_model>> plan_other_model(const model_choice& choice);

/// "llama-3.1-8b, smollm3-3b, ...".
[[nodiscard]] std::string other_model_names();

}  // namespace orcd::bench
