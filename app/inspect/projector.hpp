// What worker-orcd-inspect says of projector files.
#pragma once

#include <optional>
#include <string>

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_file.hpp"

namespace orcd::app {

struct described_projector {
  std::string sentence;
  std::string cuda_problem;  ///< why the CUDA backend does not take it; empty: it does
};

/// What a projector is, or why it cannot be used; nothing of other files.
[[nodiscard]] std::optional<engine::result<described_projector>> describe_projector(
    const engine::gguf_file& file);

}  // namespace orcd::app
