// What worker-orcd-inspect says of projector files.
#pragma once

#include <optional>
#include <string>

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_file.hpp"

namespace orcd::app {

/// One sentence about a projector, or why it cannot be used; nothing of other files.
[[nodiscard]] std::optional<engine::result<std::string>> describe_projector(const engine::gguf_file& file);

}  // namespace orcd::app
