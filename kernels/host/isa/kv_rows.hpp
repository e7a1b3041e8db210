// One cached row of K or V as f32, padded with zeros to whole lanes.
#pragma once

#include "engine/model/kv_type.hpp"
#include "kernels/host/isa/half.hpp"
#include "kernels/host/isa/sixteens.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels::host::ORCD_ISA {

ORCD_INLINE std::uint32_t padded(std::uint32_t width) {
  return (width + 15U) & ~15U;
}

template <engine::kv_type Type>
ORCD_INLINE void widen_row(const std::byte* from, std::uint32_t width, float* to) {
  if constexpr (Type == engine::kv_type::q8_0) {
    for (std::uint32_t i = 0; i < padded(width); i += lane_count) {
      const auto& block = reinterpret_cast<const block_q8_0*>(from)[i / engine::kv_block_values];
      const float_lanes quants = to_float(widen_signed(block.qs + i % engine::kv_block_values));
      store(to + i, round_to_half(half_to_float(block.d) * quants));
    }
  } else if constexpr (Type == engine::kv_type::f32) {
    const auto* values = reinterpret_cast<const float*>(from);
    each_sixteen(width,
                 [&](std::uint32_t i, std::uint32_t count) { store(to + i, load_some(values + i, count)); });
  } else {
    const auto load_row = [](const std::uint8_t* bytes) __attribute__((always_inline)) {
      if constexpr (Type == engine::kv_type::f16) return load_half(bytes);
      return load_bfloat(bytes);
    };
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(from);
    const std::uint32_t whole = width & ~15U;
    for (std::uint32_t i = 0; i < whole; i += lane_count) store(to + i, load_row(bytes + 2 * std::size_t{i}));
    if (whole != width) {
      alignas(64) std::uint8_t rest[2 * lane_count] = {};
      __builtin_memcpy(rest, bytes + 2 * std::size_t{whole}, 2 * std::size_t{width - whole});
      store(to + whole, load_row(rest));
    }
  }
}

/// Calls visitor.operator()<Type>() with the row's type.
template <class Visitor>
ORCD_INLINE void for_kv_type(engine::kv_type type, Visitor visitor) {
  using engine::kv_type;
  switch (type) {
    case kv_type::f16: return visitor.template operator()<kv_type::f16>();
    case kv_type::bf16: return visitor.template operator()<kv_type::bf16>();
    case kv_type::q8_0: return visitor.template operator()<kv_type::q8_0>();
    case kv_type::f32: return visitor.template operator()<kv_type::f32>();
  }
}

}  // namespace orcd::kernels::host::ORCD_ISA
