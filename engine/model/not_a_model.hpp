// Files that are GGUF and no models: adapters, projectors, importance matrices.
#pragma once

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_file.hpp"

namespace orcd::engine {

/// Error (model_load_failed): the file says by general.type or general.architecture that it is something
/// else; the message says what. To be asked first: what such a file lacks would else be reported one by one.
[[nodiscard]] result<void> check_is_model(const gguf_file& file);

}  // namespace orcd::engine
