// Rows of values in the types that are not ternary: F32, BF16, Q8_0. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "app/quantize/manifest.hpp"
#include "engine/gguf/ggml_type.hpp"

namespace orcd::app {

/// Converts `cols` values of a float type to a row of `out_cols`, the rest zeros. To BF16 by rounding to
/// nearest even; to Q8_0 blocks as their definition says: d = max |x| / 127 in f16, q = x / d rounded, halves
/// away from zero. False when a value is not finite, or is not in the type.
[[nodiscard]] bool convert_row(source_type from, std::span<const std::byte> values, engine::ggml_type to,
                               std::size_t out_cols, std::span<std::byte> out) noexcept;

}  // namespace orcd::app
