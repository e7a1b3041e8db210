// The values of an adapter's tensors as f32, from the few formats that adapters come in. Pure.
#pragma once

#include <string_view>

#include "engine/gguf/tensor_view.hpp"

namespace orcd::engine {

/// What messages name.
inline constexpr std::string_view adapter_types = "F32, F16, BF16 and Q8_0";

[[nodiscard]] bool is_adapter_type(ggml_type type) noexcept;

/// All values, row by row, to as many floats. Only for types that is_adapter_type() has.
void read_values(const tensor_view& tensor, float* to);

}  // namespace orcd::engine
