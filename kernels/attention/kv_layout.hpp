// Where the values of a (page, kv head) lie. It is a matrix of 256 positions by the padded head width,
// keys as rows of positions, values transposed, so that both are read along the dimension that is summed:
//
//   f16, bf16   keys [256][width], values [width][256].
//   q8_0        the quants plus 128 as bytes, then the scales, f16 [width / 32][256]. Rows r and r + 8 of a
//               group of 16 lie together, eight columns of each in turn: what one lane of a warp needs of
//               both for operand A of mma.m16n8k16 is one aligned load of 16 bytes. The scales of the keys
//               lie in pairs r, r + 8 for the same reason, those of the values by position.
//
// Shared by host and device code; no CUDA types.
#pragma once

#include <cstdint>

#include "engine/model/kv_type.hpp"
#include "kernels/device/host_device.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t kv_quant_bias = 128;

/// Byte of a quant; `columns` is the padded width for keys and 256 for values.
[[nodiscard]] ORCD_HD constexpr std::uint32_t kv_quant_place(std::uint32_t row, std::uint32_t column,
                                                             std::uint32_t columns) {
  return ((row / 16 * 8 + row % 8) * (columns / 32) + column / 32) * 64 + column % 32 / 8 * 16 +
         row / 8 % 2 * 8 + column % 8;
}

/// Index of a scale; `block` counts the 32-value blocks of a head.
[[nodiscard]] ORCD_HD constexpr std::uint32_t kv_key_scale_place(std::uint32_t position,
                                                                 std::uint32_t block) {
  return block * 256 + position / 16 * 16 + position % 8 * 2 + position / 8 % 2;
}
[[nodiscard]] ORCD_HD constexpr std::uint32_t kv_value_scale_place(std::uint32_t position,
                                                                   std::uint32_t block) {
  return block * 256 + position;
}

}  // namespace orcd::kernels
