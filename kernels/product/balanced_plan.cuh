// How the work of balanced_matvec.cu is divided: what the launch decides, and the tiles, columns and passes
// of a block.
#pragma once

#include "kernels/device/device_room.hpp"
#include "kernels/device/divider.hpp"
#include "kernels/product/matvec_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps_max = 24;
constexpr std::uint32_t warps_min = 8;
constexpr std::uint32_t threads = warps_max * 32;
constexpr std::uint32_t first_loader =
    /// The thread with which the warp that loads activations begins.
    threads - 32;
/// Registers are limited as if a block had so many threads: what that leaves is enough for a block of the
/// norm that follows, which can then start early.
constexpr std::uint32_t register_threads = 1024;
constexpr std::uint32_t slots_max = 96;
/// Bytes of sums, unless one tile has more.
constexpr std::uint32_t sums_most = 48 * 1024;

/// What the launch decides; nothing in it changes a bit of the result. A tile is a row tile of the stacked
/// matrices, or a gate tile with the up tile of the same rows. An item is an expert with its columns, or all
/// columns.
struct balanced_plan {
  divider blocks{};
  divider tiles{};                   ///< of an item
  divider in_tile{};                 ///< chunks of a tile
  std::uint32_t chunks = 0;          ///< of a row tile
  std::uint32_t first_tile[3] = {};  ///< of each matrix
  std::uint32_t out_row[3] = {};
  std::uint32_t chunk_bytes[3] = {};
  std::uint32_t tile_bytes[3] = {};
  std::uint32_t x_stride = 0;        ///< in halves
  std::uint32_t cluster_blocks = 1;  ///< blocks of a cluster, which send activations to each other
  std::uint32_t warps = 0;           ///< that multiply
  std::uint32_t slots = 0;           ///< of shared memory, each for a chunk; a multiple of the warps
  std::uint32_t ahead = 0;           ///< slots of a warp
  std::uint32_t slot_bytes = 0;
  std::uint32_t sums_bytes = 0;
  std::uint32_t x_at = 0, outputs_at = 0, sums_at = 0, slots_at = 0;  ///< offsets in shared memory

  /// Bytes of a tile's sums for so many columns.
  [[nodiscard]] ORCD_HD constexpr std::uint32_t tile_sums_bytes(std::uint32_t columns) const {
    return in_tile.d * tile_rows * columns * static_cast<std::uint32_t>(sizeof(float));
  }
};

/// A row tile and its matrix.
struct balanced_tile {
  std::uint32_t matrix;
  std::uint32_t tile;
};
__device__ __forceinline__ balanced_tile tile_of(const packed_matmul_args& a, const balanced_plan& plan,
                                                 std::uint32_t tile, std::uint32_t member) {
  if (is_paired(a)) return {member, tile};
  const std::uint32_t matrix = (a.matrices > 1 && tile >= plan.first_tile[1] ? 1U : 0U) +
                               (a.matrices > 2 && tile >= plan.first_tile[2] ? 1U : 0U);
  return {matrix, tile - plan.first_tile[matrix]};
}

/// The expert of an item, and the item of a tile; 0 for a single product.
template <bool Grouped>
__device__ __forceinline__ std::uint32_t expert_of(const tiled_matmul_args& args, std::uint32_t item) {
  return Grouped ? static_cast<std::uint32_t>(args.tiles[item].expert) : 0;
}
template <bool Grouped>
__device__ __forceinline__ std::uint32_t item_of(const balanced_plan& plan, std::uint32_t tile) {
  return Grouped ? plan.tiles.quotient(tile) : 0;
}

/// The consecutive tiles of a block, counted through all items. Blocks differ by at most one.
struct tile_run {
  std::uint32_t first;
  std::uint32_t end;

  tile_run() = default;
  __device__ __forceinline__ tile_run(const balanced_plan& plan, std::uint32_t items) {
    const std::uint32_t all = items * plan.tiles.d;
    const std::uint32_t each = plan.blocks.quotient(all);
    const std::uint32_t longer = all - each * plan.blocks.d;  // the first blocks have one more
    first = blockIdx.x * each + min(blockIdx.x, longer);
    end = first + each + (blockIdx.x < longer ? 1 : 0);
  }
};

/// The beginning of a block's shared memory.
struct balanced_state {
  std::uint64_t slot_barriers[slots_max];
  std::uint64_t x_barrier;
  tile_run run;  ///< here, because there are no registers for it
};

/// The columns of an item, at most matvec_columns_max.
template <bool Grouped>
struct item_columns {
  const tiled_matmul_args& args;
  std::uint32_t first;  ///< in args.order
  std::uint32_t count;
  std::uint32_t expert;

  __device__ __forceinline__ item_columns(const tiled_matmul_args& its_args, std::uint32_t item)
      : args(its_args) {
    const expert_tile e = args.tiles[item];
    first = static_cast<std::uint32_t>(e.first);
    count = static_cast<std::uint32_t>(e.count);
    expert = static_cast<std::uint32_t>(e.expert);
  }
  __device__ __forceinline__ std::uint32_t operator[](std::uint32_t i) const {
    return static_cast<std::uint32_t>(args.order[first + i]);
  }
};
/// Of a single product: all columns in their order.
template <>
struct item_columns<false> {
  std::uint32_t count;
  static constexpr std::uint32_t expert = 0;

  __device__ __forceinline__ item_columns(const tiled_matmul_args& args, std::uint32_t /*item*/)
      : count(args.matmul.columns) {}
  __device__ __forceinline__ std::uint32_t operator[](std::uint32_t i) const { return i; }
};

/// A pass: tiles of one item that are multiplied before their sums are folded.
struct balanced_pass {
  std::uint32_t first;  ///< chunk, counted in the block
  std::uint32_t tile;   ///< tile, counted in the item
  std::uint32_t tiles;
};

}  // namespace
}  // namespace orcd::kernels
