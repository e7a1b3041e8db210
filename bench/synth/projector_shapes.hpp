// Projectors in the true shapes of published models, with F16 matrices; they have no vocabulary. Source: the
// models' published configurations (config.json), and what engine/media takes of a file.
#pragma once

#include <optional>
#include <string>

#include "bench/synth/model_shapes.hpp"

namespace orcd::bench {

/// Nullopt where none has this name. Errors (invalid_request): layers as layers_of() says; a vocabulary or a
/// type of matrices that is asked for.
[[nodiscard]] std::optional<engine::result<planned_model>> plan_projector(const model_choice& choice);

/// "mmproj-qwen3-vl-8b, mmproj-gemma-3, ...".
[[nodiscard]] std::string projector_names();

}  // namespace orcd::bench
