// Activations as the tensor cores of Hopper read them, so that a tile of columns comes into shared memory by
// one bulk copy for each 64 of k: images of operand B.
//
//   [group of 64 k][columns of the image][128 bytes]
//
// The 128 bytes are the group's halves in packed order (half_order), eight pieces of 16 bytes, of which piece
// p of a column lies at p ^ (column % 8), as the swizzle demands. Tiles begin at multiples of eight columns,
// and columns between tiles hold anything. Shared by host and device code; no CUDA types but __half.
#pragma once

#include "kernels/product/packed_matmul_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

inline constexpr std::uint32_t image_align = 8;  ///< columns

/// Columns with those that fill the last eight.
[[nodiscard]] ORCD_HD constexpr std::uint32_t image_columns(std::uint32_t columns) {
  return (columns + image_align - 1) / image_align * image_align;
}
/// The most that tiles of sorted pairs take, each expert's first tile being aligned.
[[nodiscard]] ORCD_HD constexpr std::uint64_t sorted_image_columns(std::uint64_t pairs,
                                                                   std::uint32_t experts) {
  const std::uint64_t chosen = experts < pairs ? experts : pairs;
  return (pairs + (image_align - 1) * chosen + image_align - 1) / image_align * image_align;
}
/// Where half i of a column is in an image of `columns` columns.
[[nodiscard]] ORCD_HD constexpr std::uint64_t place_in_image(std::uint32_t columns, std::uint32_t column,
                                                             std::uint32_t i) {
  const std::uint32_t place = place_of_half(half_order::packed, i % group_cols);
  return (std::uint64_t{i / group_cols} * columns + column) * group_cols + (place / 8 ^ column % 8) * 8 +
         place % 8;
}

/// A tile of columns: `count` entries of a sorted list from `first`, all of one expert, which lie in images
/// from column `at` on.
struct image_tile {
  std::int32_t expert;
  std::int32_t first;
  std::int32_t count;
  std::int32_t at;  ///< a multiple of image_align
};

/// Makes an image of rows: image column at + i of a tile is row order[first + i] / x_divisor. Without `tiles`
/// image column m is row m, of `columns`.
struct to_image_args {
  const __half* x = nullptr;   ///< [..][x_stride], 16-byte aligned
  std::uint32_t x_stride = 0;  ///< halves, a multiple of 64
  half_order x_order = half_order::natural;
  std::uint32_t columns = 0;
  const std::int32_t* order = nullptr;
  std::uint32_t x_divisor = 1;
  const image_tile* tiles = nullptr;
  const std::int32_t* tile_count = nullptr;  ///< device; with tiles
  std::uint32_t tiles_max = 0;
  __half* image = nullptr;  ///< 16-byte aligned
  std::uint32_t image_columns = 0;
};
/// Determinism class: exact. Bound: memory.
[[nodiscard]] int launch_to_image(const to_image_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
