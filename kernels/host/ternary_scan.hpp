// What products of ternary weights must know about a matrix before they can use it as it lies in the file.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/gguf/ggml_type.hpp"

namespace orcd::kernels::host {

/// The first of `bytes` bytes with a code of 3, which no I2_S value has. One pass without a branch for each.
[[nodiscard]] std::optional<std::uint64_t> find_invalid_code(const std::byte* data, std::uint64_t bytes);

/// The d of `blocks` blocks of TQ1_0 or TQ2_0 that all have the same one; blocks of zeros, whose d is 0,
/// agree with any. Nullopt where they differ, or d is not finite; 0 where all are zero.
[[nodiscard]] std::optional<float> common_scale(engine::ggml_type type, const std::byte* data,
                                                std::uint64_t blocks);

}  // namespace orcd::kernels::host
