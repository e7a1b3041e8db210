// A GGUF adapter: metadata general.type "adapter" and adapter.type "lora", and for a matrix NAME of the model
// the tensors NAME.lora_a and NAME.lora_b. Pure.
#pragma once

#include "engine/gguf/gguf_file.hpp"
#include "engine/lora/stored_pairs.hpp"

namespace orcd::engine {

[[nodiscard]] result<lora_adapter> read_gguf_adapter(const gguf_file& file, const adapter_source& source);

}  // namespace orcd::engine
