// rope.cache: what the angles of a model's positions follow from. The engine computes its own; the file is
// there to be compared with. Pure.
#pragma once

#include <array>
#include <cstddef>

#include "app/quantize/arguments.hpp"

namespace orcd::app {

/// Magic TRRC, version 1, a zero; then u32 positions, u32 rotated dimensions, f64 theta, f64 YaRN factor (0:
/// none), u32 original context, 28 zero bytes. Little-endian.
[[nodiscard]] std::array<std::byte, 68> rope_cache_image(const model_sizes& sizes) noexcept;

}  // namespace orcd::app
