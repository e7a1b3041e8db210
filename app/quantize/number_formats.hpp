// One value of a trainer's file as f32: exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "app/quantize/manifest.hpp"
#include "engine/base/number_formats.hpp"

namespace orcd::app {

using engine::bfloat_to_float;
using engine::half_to_float;
using engine::load_number;

/// Value `i` of a float type; of unaligned bytes.
[[nodiscard]] inline float value_at(source_type type, const std::byte* from, std::size_t i) noexcept {
  switch (type) {
    case source_type::f32: return load_number<float>(from + 4 * i);
    case source_type::f16: return half_to_float(load_number<std::uint16_t>(from + 2 * i));
    default: return bfloat_to_float(load_number<std::uint16_t>(from + 2 * i));
  }
}

}  // namespace orcd::app
