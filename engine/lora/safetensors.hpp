// The header of a safetensors file: 8 bytes with its length, JSON with the name, type, shape and place of
// each tensor, then the tensors' bytes. Every place is checked: together the tensors fill the file without
// overlaps and gaps. Pure. Source: the format's description in the safetensors repository.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/tensor_view.hpp"
#include "engine/lora/adapter_limits.hpp"

namespace orcd::engine {

/// Views are of the image and of `names`. An extent may be 0 here.
struct safetensors_contents {
  std::vector<std::string> names;
  std::vector<tensor_view> tensors;
};

/// Types: F32, F16, BF16. Errors are "FILE: ..." with the tensor, the field, its value and what it must be.
[[nodiscard]] result<safetensors_contents> read_safetensors(std::span<const std::byte> image,
                                                            std::string_view file,
                                                            const adapter_limits& limits);

}  // namespace orcd::engine
