// What the throughput product of prompts is given. kernels/images/image_matmul.hpp says what is done with it.
// Shared by host and device code; no CUDA types.
#pragma once

#include "kernels/images/column_image.hpp"

namespace orcd::kernels {

/// matmul.x is an image of x_stride columns; so is matmul.act, of act_stride columns, for gate and up, whose
/// rows are a multiple of 64. x_order, x_divisor and experts are not looked at.
struct image_matmul_args {
  packed_matmul_args matmul;
  const std::int32_t* order = nullptr;  ///< device: out's row of entry m of a sorted list, or null = identity
  const image_tile* tiles = nullptr;    ///< device, or null = one range of all columns
  const std::int32_t* tile_count = nullptr;  ///< device; launches past it do nothing
  std::uint32_t tiles_max = 0;
  /// Columns of a dense product's tile: 64, 96 or 128, at most image_tile_columns(); 0: the fastest. With
  /// `tiles`, the most of one.
  std::uint32_t tile_columns = 0;
};

/// The most columns of a tile: as many as have room in shared memory beside a format's weights; 0: none.
[[nodiscard]] constexpr std::uint32_t image_tile_columns(packed_format format) {
  if (format == packed_format::f32) return 0;
  return format == packed_format::f16 || format == packed_format::bf16 ? 96 : 128;
}
/// Of matrices that share tiles.
[[nodiscard]] inline std::uint32_t image_tile_columns(const packed_matmul_args& args) {
  std::uint32_t columns = 128;
  for (std::uint32_t i = 0; i < args.matrices; ++i) {
    const std::uint32_t of_one = image_tile_columns(args.w[i].format);
    if (of_one < columns) columns = of_one;
  }
  return columns;
}

}  // namespace orcd::kernels
