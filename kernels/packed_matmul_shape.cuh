// How the throughput kernel divides its work: the shape of a block, its shared memory, and which rows and
// columns an item is. Nothing here changes a bit of a result.
//
// A block is some warpgroups that multiply and some that stage activations and start the copies of weights. A
// warpgroup multiplies 64 rows (four row tiles, one a warp) by N columns. With N = 128 two of them take two
// sets of rows and all of k; with fewer columns four of them (two of one set of rows by 64 columns) share
// `row_blocks` sets of rows and take turns with chunks of 256 of k. Where few rows would leave
// multiprocessors idle a cluster of blocks has the item, each block every so many-th chunk of its k (split
// k).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cluster.cuh"
#include "kernels/device_room.hpp"
#include "kernels/packed_matmul.hpp"
#include "kernels/packed_tile.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t warpgroup_threads = 128;
inline constexpr std::uint32_t group_row_tiles = 4;  ///< of a warpgroup

/// Groups of 64 columns in a slot of weights, per row tile.
ORCD_HD constexpr std::uint32_t slot_groups_of(packed_format f) {
  return f == packed_format::q8_0 ? 2 : is_float_format(f) ? 1 : 4;
}

ORCD_HD constexpr std::uint32_t smaller(std::uint32_t a, std::uint32_t b) {
  return a < b ? a : b;
}

/// A cluster's blocks fold outputs by units: two neighbouring row tiles by eight columns. Unit u of an item
/// belongs to block u % blocks.
ORCD_HD constexpr std::uint32_t split_units(std::uint32_t columns, std::uint32_t row_blocks) {
  return row_blocks * columns / 4;
}
inline constexpr std::uint32_t split_unit_bytes = 1024;  ///< of one chunk's sums
ORCD_HD constexpr std::uint32_t split_units_of_block(std::uint32_t columns, std::uint32_t row_blocks,
                                                     std::uint32_t blocks) {
  return (split_units(columns, row_blocks) + blocks - 1) / blocks;
}
/// Room for the sums of a round: of one chunk from every warpgroup that shares rows, in every block.
ORCD_HD constexpr std::uint32_t split_round_bytes_max(std::uint32_t columns) {
  return (columns == 16 ? 24 : 35) * split_unit_bytes;
}

/// An instance: for weights of a format, tiles of N columns, and whether clusters share k.
template <packed_format F, std::uint32_t N, bool SplitK = false>
struct block_plan {
  static constexpr bool wide = N == 128;
  static constexpr std::uint32_t multipliers = wide ? 2 : 4;  ///< warpgroups
  static constexpr std::uint32_t stagers = wide ? 2 : 1;
  static constexpr std::uint32_t threads = (multipliers + stagers) * warpgroup_threads;
  static constexpr std::uint32_t stager_threads = stagers * warpgroup_threads;
  static constexpr std::uint32_t warps = multipliers * 4;
  /// Registers a thread, where an equal share each is too few for some.
  static constexpr std::uint32_t multiplier_registers = 200;
  static constexpr std::uint32_t stager_registers = 56;
  /// Whether a warp unpacks a group of weights while the one before is multiplied: registers for two. Four
  /// warpgroups overlap anyway.
  static constexpr bool ahead = N != 64 && !is_float_format(F);

  /// Activations: one ring for the block, in rows of 128 bytes as operand B wants them.
  static constexpr std::uint32_t ring_chunks = SplitK ? (N == 16 ? 4 : 3) : N == 16 ? 6 : N == 32 ? 4 : 2;
  static constexpr std::uint32_t stage_groups = N == 16 ? 2 : 1;
  static constexpr std::uint32_t chunk_stages = groups_per_chunk / stage_groups;
  static constexpr std::uint32_t stages = ring_chunks * chunk_stages;
  static constexpr std::uint32_t stage_bytes = N * 128 * stage_groups;
  /// Warpgroups that share rows: what all of them work on at once must fit into the ring, or one would take
  /// a stage's bytes of a round before for its own.
  static constexpr std::uint32_t parts_max = smaller(multipliers, ring_chunks);
  /// Most sets of 64 rows.
  static constexpr std::uint32_t row_blocks_max = wide ? 2 : N == 64 ? 2 : 4;
  /// Running sums that warpgroups hand on, [row block][register / 4][thread][4] floats.
  /// Of a cluster: two rounds of chunks' sums, of the outputs that the block folds.
  static constexpr std::uint32_t totals_bytes = wide     ? 0
                                                : SplitK ? 2 * split_round_bytes_max(N)
                                                         : row_blocks_max * 64 * N * 4;
  /// Of a warp, for its output. A cluster's blocks have it in the sums that they have folded.
  static constexpr std::uint32_t exchange_bytes = SplitK ? 0 : warps * 1024;
  static constexpr std::uint32_t barrier_bytes = SplitK ? 1024 : 1280;

  /// Weights: slots of each warp, for as many whole chunks as there is room for, or some of one.
  static constexpr std::uint32_t slot_groups = slot_groups_of(F);
  static constexpr std::uint32_t chunk_slots = groups_per_chunk / slot_groups;
  static constexpr std::uint32_t slot_bytes =
      layout_of(F).bytes() * slot_groups * group_cols / layout_of(F).cols;
  static constexpr std::uint32_t slots_that_fit = (multiprocessor_shared_bytes - 1024 - stages * stage_bytes -
                                                   totals_bytes - exchange_bytes - barrier_bytes) /
                                                  (warps * slot_bytes);
  static constexpr std::uint32_t slots = slots_that_fit >= chunk_slots
                                             ? smaller(6, slots_that_fit / chunk_slots) * chunk_slots
                                             : smaller(2, slots_that_fit);
  static constexpr std::uint32_t weight_bytes = warps * slots * slot_bytes;
  /// Slots are filled again a chunk at a time, or, where few fit, with every stage that has been used up.
  static constexpr bool refill_by_stage = slots < 2 * chunk_slots;
  /// Stages of activations on their way in stagers' registers.
  static constexpr std::uint32_t stages_ahead = refill_by_stage || wide ? 1 : N == 64 ? 2 : 4;
  /// One copy brings a row tile's chunks for all warpgroups that share the rows: copies are dear to start.
  static constexpr bool together = chunk_slots == 1 && !SplitK;

  static constexpr std::uint32_t weights_at = stages * stage_bytes;  ///< after the ring of activations
  static constexpr std::uint32_t totals_at = weights_at + weight_bytes;
  static constexpr std::uint32_t exchange_at = totals_at + totals_bytes;
  static constexpr std::uint32_t barriers_at = exchange_at + exchange_bytes;
  static constexpr std::uint32_t shared_bytes = barriers_at + barrier_bytes + 1024;
  static_assert(slot_bytes % 16 == 0 && shared_bytes <= multiprocessor_shared_bytes);
  // A warp waits for a group's slot before the group before it, or with `ahead` two before it, is reported,
  // and slots are given back in whole stages: the slots that it holds till then must not be all there are.
  static_assert(slots * slot_groups >= stage_groups);
  static_assert(!ahead || slots >= 2 * chunk_slots || (slots >= 2 && slot_groups >= 2 * stage_groups));
  static_assert(stages_ahead % chunk_stages == 0 || chunk_stages % stages_ahead == 0);
  static_assert((2 * stages + warps * slots + 4 * multipliers) * 8 <= barrier_bytes);
  static_assert(!SplitK || (N <= 32 && split_units_of_block(N, row_blocks_max, 2) <= warps));
};

/// Something dealt to the blocks of a cluster: block b has every so many-th from b on.
struct dealt_share {
  std::uint32_t each = 0;  ///< what every block has,
  std::uint32_t rest = 0;  ///< and how many have one more

  static dealt_share of(std::uint32_t count, std::uint32_t blocks) {
    return {count / blocks, count % blocks};
  }
  [[nodiscard]] __device__ std::uint32_t count(std::uint32_t block) const {
    return each + (block < rest ? 1 : 0);
  }
};

/// A cluster's launch, which has one item a cluster.
struct split_plan {
  std::uint32_t blocks = 1;  ///< of a cluster
  std::uint32_t rounds = 0;
  std::uint32_t round_chunks = 0;  ///< of a round
  dealt_share chunks;
  dealt_share units;
};

/// One launch of one format.
struct matmul_work {
  tiled_matmul_args args;
  std::uint32_t row_tiles;   ///< of all matrices
  std::uint32_t row_blocks;  ///< sets of 64 rows of a block: 1, 2 or 4
  std::uint32_t row_groups;  ///< row_tiles / (4 * row_blocks), rounded up
  std::uint32_t groups;      ///< of 64 along k
  std::uint32_t chunks;      ///< of 256 along k
  std::uint64_t tile_bytes;  ///< of a row tile
  split_plan split;
};

/// Launches the instance for tiles of `columns` (16, 32, 64 or 128; 16 or 32 where k is split) with `blocks`
/// blocks; a file per family of formats has the definitions.
template <packed_format F>
struct packed_tiles {
  static int launch(const matmul_work& work, std::uint32_t columns, std::uint32_t blocks,
                    cudaStream_t stream);
};

/// The columns of an item: `count` entries of the sorted list from `first`, all of one expert.
struct column_range {
  std::uint32_t first;
  std::uint32_t count;
  std::uint32_t expert;
};

/// A row tile in the stacked matrices.
struct row_tile {
  std::uint32_t matrix;
  std::uint32_t tile;
  std::uint32_t out_row;  ///< first row of the matrix in the stacked output
  bool live;              ///< else past the end: computed like tile 0, never stored
};

/// Row tile `slot` of row group `row_group`. Gate and up tiles of the same rows are neighbours.
__device__ inline row_tile row_tile_of(const matmul_work& work, std::uint32_t row_group, std::uint32_t slot) {
  const packed_matmul_args& a = work.args.matmul;
  const std::uint32_t index = row_group * group_row_tiles * work.row_blocks + slot;
  row_tile r{0, index, 0, index < work.row_tiles};
  if (!r.live) r.tile = 0;
  if (is_paired(a)) {
    r.matrix = slot & 1U;
    r.tile /= 2;
    return r;
  }
  while (r.matrix + 1 < a.matrices && r.tile >= a.w[r.matrix].row_tiles()) {
    r.tile -= a.w[r.matrix].row_tiles();
    r.out_row += a.w[r.matrix].rows;
    ++r.matrix;
  }
  return r;
}

/// Which chunks of an item a block multiplies: all of them, or in a cluster every so many-th from its own.
template <bool SplitK>
struct chunk_share {
  static __device__ std::uint32_t first() { return SplitK ? cluster_rank() : 0; }
  static __device__ std::uint32_t step(const matmul_work& work) { return SplitK ? work.split.blocks : 1; }
  static __device__ std::uint32_t count(const matmul_work& work) {
    return SplitK ? work.split.chunks.count(first()) : work.chunks;
  }
  /// The block's nth.
  static __device__ std::uint32_t chunk(const matmul_work& work, std::uint32_t nth) {
    return SplitK ? nth * work.split.blocks + first() : nth;
  }
};

/// All items of a launch; block b takes items b, b + grid, b + 2 grid and so on; a cluster's have one.
/// Neighbouring items share the weights of `band` column tiles, so that L2 gives them out once.
template <std::uint32_t N, bool SplitK>
struct item_list {
  static constexpr std::uint32_t band = 4;
  std::uint32_t column_tiles;
  std::uint32_t count;

  __device__ explicit item_list(const matmul_work& work) {
    column_tiles = work.args.tiles != nullptr ? static_cast<std::uint32_t>(*work.args.tile_count)
                                              : (work.args.matmul.columns + N - 1) / N;
    count = column_tiles * work.row_groups;
  }
  /// The block's first item; from one to the next are step() of them.
  static __device__ std::uint32_t first() { return SplitK ? cluster_index() : blockIdx.x; }
  static __device__ std::uint32_t step() { return SplitK ? cluster_count() : gridDim.x; }
  /// Items of this block.
  [[nodiscard]] __device__ std::uint32_t of_block() const {
    return first() < count ? (count - first() - 1) / step() + 1 : 0;
  }
  __device__ void place(const matmul_work& work, std::uint32_t item, std::uint32_t& row_group,
                        std::uint32_t& column_tile) const {
    const std::uint32_t first = item / (work.row_groups * band) * band;
    const std::uint32_t in_band = item - first * work.row_groups;
    const std::uint32_t width = min(band, column_tiles - first);
    row_group = in_band / width;
    column_tile = first + in_band % width;
  }
};

template <std::uint32_t N>
__device__ column_range columns_of(const tiled_matmul_args& args, std::uint32_t column_tile) {
  if (args.tiles != nullptr) {
    const expert_tile e = args.tiles[column_tile];
    return {static_cast<std::uint32_t>(e.first), static_cast<std::uint32_t>(e.count),
            static_cast<std::uint32_t>(e.expert)};
  }
  return {column_tile * N, min(N, args.matmul.columns - column_tile * N), 0};
}

/// Column of x, out and act for entry `listed` of the sorted list.
__device__ inline std::uint32_t column_at(const tiled_matmul_args& args, std::uint32_t listed) {
  return args.order != nullptr ? static_cast<std::uint32_t>(args.order[listed]) : listed;
}

}  // namespace orcd::kernels
