// How the work of dealt_matvec.cu is divided: what a launch decides, and a block's tiles, columns and passes.
#pragma once

#include "kernels/device_room.hpp"
#include "kernels/divider.hpp"
#include "kernels/matvec_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps_max = 24;
constexpr std::uint32_t warps_min = 8;
constexpr std::uint32_t threads = warps_max * 32;
constexpr std::uint32_t first_bringer = threads - 32;  ///< thread of the warp that brings activations
/// Registers are those of so many threads: what is left has room for a block of the norm that follows.
constexpr std::uint32_t register_threads = 1024;
constexpr std::uint32_t slots_max = 96;
/// Of sums, unless one tile has more.
constexpr std::uint32_t sums_most = 48 * 1024;

/// What a launch decides. Nothing in it changes a bit. A tile is a row tile of the stacked matrices, or one
/// of the gate and one of the up matrix of the same rows; an item is an expert's columns, or all columns.
struct dealt_plan {
  divider blocks{};
  divider tiles{};                   ///< of an item
  divider in_tile{};                 ///< chunks of a tile
  std::uint32_t chunks = 0;          ///< of a row tile
  std::uint32_t first_tile[3] = {};  ///< of each matrix
  std::uint32_t out_row[3] = {};
  std::uint32_t chunk_bytes[3] = {};
  std::uint32_t tile_bytes[3] = {};
  std::uint32_t x_stride = 0;  ///< halfs
  std::uint32_t share = 1;     ///< blocks of a cluster, which copy activations to each other
  std::uint32_t warps = 0;     ///< that multiply
  std::uint32_t slots = 0;     ///< a multiple of them
  std::uint32_t ahead = 0;     ///< slots of a warp
  std::uint32_t slot_bytes = 0;
  std::uint32_t sums_bytes = 0;
  std::uint32_t x_at = 0, outputs_at = 0, sums_at = 0, slots_at = 0;  ///< in shared memory

  /// Of a tile's sums of so many columns.
  [[nodiscard]] ORCD_HD constexpr std::uint32_t tile_sums_bytes(std::uint32_t columns) const {
    return in_tile.d * tile_rows * columns * static_cast<std::uint32_t>(sizeof(float));
  }
};

/// A row tile in its matrix.
struct dealt_tile {
  std::uint32_t matrix;
  std::uint32_t tile;
};
__device__ __forceinline__ dealt_tile tile_of(const packed_matmul_args& a, const dealt_plan& plan,
                                              std::uint32_t tile, std::uint32_t member) {
  if (is_paired(a)) return {member, tile};
  const std::uint32_t matrix = (a.matrices > 1 && tile >= plan.first_tile[1] ? 1U : 0U) +
                               (a.matrices > 2 && tile >= plan.first_tile[2] ? 1U : 0U);
  return {matrix, tile - plan.first_tile[matrix]};
}

/// The expert of an item; of one product there is one of each.
template <bool Grouped>
__device__ __forceinline__ std::uint32_t expert_of(const tiled_matmul_args& args, std::uint32_t item) {
  return Grouped ? static_cast<std::uint32_t>(args.tiles[item].expert) : 0;
}
template <bool Grouped>
__device__ __forceinline__ std::uint32_t item_of(const dealt_plan& plan, std::uint32_t tile) {
  return Grouped ? plan.tiles.quotient(tile) : 0;
}

/// The tiles of a block, counted through all items.
struct tile_run {
  std::uint32_t first;
  std::uint32_t end;

  tile_run() = default;
  __device__ __forceinline__ tile_run(const dealt_plan& plan, std::uint32_t items) {
    const std::uint32_t all = items * plan.tiles.d;
    const std::uint32_t each = plan.blocks.quotient(all);
    const std::uint32_t longer = all - each * plan.blocks.d;  // blocks with one more
    first = blockIdx.x * each + min(blockIdx.x, longer);
    end = first + each + (blockIdx.x < longer ? 1 : 0);
  }
};

/// The beginning of a block's shared memory.
struct dealt_state {
  std::uint64_t slot_barriers[slots_max];
  std::uint64_t x_barrier;
  tile_run run;  ///< here, because registers are short
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
/// Of one product: all, as they are.
template <>
struct item_columns<false> {
  std::uint32_t count;
  static constexpr std::uint32_t expert = 0;

  __device__ __forceinline__ item_columns(const tiled_matmul_args& args, std::uint32_t /*item*/)
      : count(args.matmul.columns) {}
  __device__ __forceinline__ std::uint32_t operator[](std::uint32_t i) const { return i; }
};

/// Tiles of one item that are multiplied before their sums are folded.
struct dealt_pass {
  std::uint32_t first;  ///< chunk of the block
  std::uint32_t tile;   ///< of the item
  std::uint32_t tiles;
};

}  // namespace
}  // namespace orcd::kernels
