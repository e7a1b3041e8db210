// The layout of a ternary matrix in VRAM: row by row, four values a byte, in the order of I2_S. Byte j of 32
// holds the codes (0, 1 and 2 for -1, 0 and 1) of values j, j + 32, j + 64 and j + 96 of 128 at bits 6, 4, 2
// and 0. Shared by host and device code; no CUDA types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

inline constexpr std::uint32_t ternary_block_cols = 128;

struct ternary_matrix {
  const std::byte* data = nullptr;  ///< device, 16-byte aligned; cols / 4 bytes a row
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;   ///< a multiple of ternary_block_cols
  float code_scale = 0.0F;  ///< every value is a code, less 1, times this
};

}  // namespace orcd::kernels
