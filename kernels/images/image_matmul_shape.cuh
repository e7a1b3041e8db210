// How the throughput product of prompts divides its work: the shape of a block, its shared memory, and which
// rows and columns an item is. Nothing here changes a bit of the result.
//
// A block has three warpgroups that multiply, each 64 rows (four row tiles, one a warp) by the columns of the
// item, and a warpgroup of which two warps start bulk copies: one those of weights, one of activations.
#pragma once

#include <cuda_runtime.h>

#include "kernels/device/device_room.hpp"
#include "kernels/images/image_matmul_args.hpp"
#include "kernels/product/packed_tile.cuh"

namespace orcd::kernels {

template <packed_format F>
struct image_plan {
  static constexpr std::uint32_t multipliers = 3;  ///< warpgroups
  static constexpr std::uint32_t threads = (multipliers + 1) * 128;
  static constexpr std::uint32_t row_tiles = multipliers * 4;  ///< of an item
  static constexpr std::uint32_t multiplier_registers = 160;
  static constexpr std::uint32_t producer_registers = 32;
  static constexpr std::uint32_t columns = image_tile_columns(F);

  /// Activations: two chunks of 256 of k. The last stages of a short chunk are filled with nothing.
  static constexpr std::uint32_t stages = 2 * groups_per_chunk;
  static constexpr std::uint32_t stage_bytes = columns * 128;

  static constexpr std::uint32_t chunk_bytes =
      layout_of(F).bytes() * (chunk_cols / layout_of(F).cols);  ///< of a row tile
  /// Weights: slots of two whole chunks, or where a chunk is large of four single groups.
  static constexpr bool whole_chunks = chunk_bytes <= 3584;
  static constexpr std::uint32_t slots = whole_chunks ? 2 : groups_per_chunk;
  static constexpr std::uint32_t slot_bytes = whole_chunks ? chunk_bytes : chunk_bytes / groups_per_chunk;

  static constexpr std::uint32_t weights_at = stages * stage_bytes;
  static constexpr std::uint32_t exchange_at = weights_at + slots * row_tiles * slot_bytes;
  static constexpr std::uint32_t barriers_at = exchange_at + row_tiles * 1024;
  static constexpr std::uint32_t items_at = barriers_at + 2 * (stages + slots) * 8;
  static constexpr std::uint32_t shared_bytes = items_at + row_tiles * 4;
  static_assert(slot_bytes % 16 == 0 && weights_at % 1024 == 0 && exchange_at % 16 == 0);
  static_assert(shared_bytes <= multiprocessor_shared_bytes);
};

/// One launch, of one format.
struct image_work {
  image_matmul_args args;
  std::uint32_t row_tiles;   ///< of all matrices
  std::uint32_t row_groups;  ///< items that a tile of columns has
  std::uint32_t groups;      ///< of 64 along k
  std::uint32_t tile_bytes;  ///< of a row tile
};

/// Launches a format's instance. Each family of formats has a source file with its instances.
template <packed_format F>
struct image_products {
  static int launch(const image_work& work, std::uint32_t blocks, cudaStream_t stream);
};

/// The items of a launch. Block b takes items b, b + grid and so on. Items that run at the same time share
/// the weights of `band` column tiles, so that L2 reads them from VRAM once.
struct image_items {
  static constexpr std::uint32_t band = 8;
  std::uint32_t column_tiles;
  std::uint32_t count;

  __device__ explicit image_items(const image_work& work) {
    column_tiles = work.args.tiles != nullptr
                       ? static_cast<std::uint32_t>(*work.args.tile_count)
                       : (work.args.matmul.columns + work.args.tile_columns - 1) / work.args.tile_columns;
    count = column_tiles * work.row_groups;
  }
  __device__ void place(const image_work& work, std::uint32_t item, std::uint32_t& row_group,
                        std::uint32_t& column_tile) const {
    const std::uint32_t first = item / (work.row_groups * band) * band;
    const std::uint32_t in_band = item - first * work.row_groups;
    const std::uint32_t width = min(band, column_tiles - first);
    row_group = in_band / width;
    column_tile = first + in_band % width;
  }
};

__device__ inline image_tile image_tile_of(const image_matmul_args& args, std::uint32_t column_tile) {
  if (args.tiles != nullptr) return args.tiles[column_tile];
  const auto first = static_cast<std::int32_t>(column_tile * args.tile_columns);
  return {0, first, static_cast<std::int32_t>(min(args.tile_columns, args.matmul.columns - first)), first};
}

/// A row tile in the stacked matrices. Gate and up tiles of the same rows are neighbours.
struct image_rows {
  std::uint32_t matrix = 0;
  std::uint32_t tile = 0;
  std::uint32_t out_row = 0;  ///< first row of the matrix in the stacked output
  bool live = false;          ///< false: past the end; computed like tile 0, never stored

  __device__ image_rows(const image_work& work, std::uint32_t index)
      : tile(index), live(index < work.row_tiles) {
    const packed_matmul_args& a = work.args.matmul;
    if (!live) tile = 0;
    if (is_paired(a)) {
      matrix = index & 1U;
      tile /= 2;
      return;
    }
    while (matrix + 1 < a.matrices && tile >= a.w[matrix].row_tiles()) {
      tile -= a.w[matrix].row_tiles();
      out_row += a.w[matrix].rows;
      ++matrix;
    }
  }
};

}  // namespace orcd::kernels
