// Makes images of operand B of rows of activations. Eight neighbouring threads have the pieces of a column's
// group, so that a warp writes four columns, 512 bytes, in a row.
#include <cuda_fp16.h>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/images/column_image.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t image_threads = 256;
constexpr std::uint32_t group_threads = 64;  ///< of eight columns
constexpr std::uint32_t groups_at_once = image_threads / group_threads;
constexpr std::uint32_t tile_slices = 16;  ///< blocks of a tile; each has eights of columns

__device__ __forceinline__ uint4 piece_of(const __half* group, std::uint32_t piece, half_order order) {
  if (order == half_order::packed) return *reinterpret_cast<const uint4*>(group + piece * 8);
  const auto* const words = reinterpret_cast<const std::uint32_t*>(group) + piece;
  return {words[0], words[8], words[16], words[24]};
}

/// grid: (tiles, slices)
__global__ void __launch_bounds__(image_threads) image_kernel(const __grid_constant__ to_image_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  image_tile tile{0, static_cast<std::int32_t>(blockIdx.x * 128), 0,
                  static_cast<std::int32_t>(blockIdx.x * 128)};
  if (a.tiles != nullptr) {
    if (static_cast<std::int32_t>(blockIdx.x) >= *a.tile_count) return;
    tile = a.tiles[blockIdx.x];
  } else {
    tile.count = static_cast<std::int32_t>(min(128U, a.columns - blockIdx.x * 128));
  }
  const std::uint32_t groups = a.x_stride / group_cols;
  const std::uint32_t piece = threadIdx.x % 8;
  const std::uint32_t first_group = threadIdx.x / group_threads;
  const std::uint32_t count = static_cast<std::uint32_t>(tile.count);
  for (std::uint32_t column = blockIdx.y * 8 + threadIdx.x / 8 % 8; column < count;
       column += tile_slices * 8) {
    std::uint32_t row = static_cast<std::uint32_t>(tile.first) + column;
    if (a.order != nullptr) row = static_cast<std::uint32_t>(a.order[row]);
    const __half* from = a.x + static_cast<std::uint64_t>(row / a.x_divisor) * a.x_stride;
    __half* const to =
        a.image + (static_cast<std::uint64_t>(tile.at) + column) * group_cols + (piece ^ column % 8) * 8;
#pragma unroll 4
    for (std::uint32_t group = first_group; group < groups; group += groups_at_once)
      *reinterpret_cast<uint4*>(to + static_cast<std::uint64_t>(group) * a.image_columns * group_cols) =
          piece_of(from + group * group_cols, piece, a.x_order);
  }
}

}  // namespace

int launch_to_image(const to_image_args& a, CUstream_st* stream) {
  const bool listed = a.tiles != nullptr;
  if (a.x == nullptr || a.image == nullptr || a.x_stride == 0 || a.x_stride % group_cols != 0 ||
      a.x_divisor == 0 || a.image_columns % image_align != 0 || listed != (a.tile_count != nullptr) ||
      (listed ? a.tiles_max == 0 : a.columns == 0 || a.columns > a.image_columns))
    return cudaErrorInvalidValue;
  const std::uint32_t tiles = listed ? a.tiles_max : (a.columns + 127) / 128;
  return launch_dependent(image_kernel, dim3(tiles, tile_slices), dim3(image_threads), 0, stream, a);
}

}  // namespace orcd::kernels
