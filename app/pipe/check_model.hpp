// Whether what the SDK says of a model is what its files say. Errors (model_load_failed) name the field, both
// values and the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "app/pipe/sdk_config.hpp"
#include "engine/served/served_model.hpp"

namespace orcd::app {

[[nodiscard]] engine::result<void> check_model(const sdk_config& config, const engine::gguf_file& file,
                                               const engine::model& model);

/// An image of rope.cache (docs/pipe.md) against the SDK's values and what the model's file
/// says of its rotation. Pure; `name` is the file's in messages.
[[nodiscard]] engine::result<void> check_rope_cache(std::span<const std::byte> image, const std::string& name,
                                                    const sdk_config& config, const engine::rope_spec& rope);

/// The rope.cache beside a qmodel.tensors, if it is there. Models of other kinds have none.
[[nodiscard]] engine::result<void> check_rope_file(const sdk_config& config, const engine::gguf_file& file,
                                                   const engine::rope_spec& rope);

/// The header of a qmodel.lora: its magic and version, and that a GGUF follows. Reads the file's beginning.
[[nodiscard]] engine::result<void> check_adapter_file(const std::string& path);

}  // namespace orcd::app
