// How the throughput product divides its work: the shape of a block, its shared memory, and which rows and
// columns an item is. Nothing here changes a bit of the result.
//
// A block has some warpgroups that multiply and some that stage activations and start the copies of weights.
// A warpgroup multiplies 64 rows (four row tiles, one a warp) by N columns; k_sharing says which of k.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device/cluster.cuh"
#include "kernels/device/device_room.hpp"
#include "kernels/product/packed_matmul_args.hpp"
#include "kernels/product/packed_tile.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t warpgroup_threads = 128;
inline constexpr std::uint32_t group_row_tiles = 4;  ///< of a warpgroup

/// Who multiplies the chunks of 256 of k of a set of 64 rows.
enum class k_sharing : std::uint8_t {
  none,        ///< one warpgroup all of them; N = 128, and a block has two sets
  warpgroups,  ///< one, two or four warpgroups of the block, in turns; a block has four, two or one set
  cluster,  ///< the same in a cluster of n blocks that have the item together, each every n-th chunk (split
            ///< k); where few rows would leave multiprocessors idle
  copied,   ///< one warpgroup all of them; activations in packed order, copied; N = 128: two sets, else four
};

/// Groups of 64 columns in a slot of weights of a row tile.
ORCD_HD constexpr std::uint32_t slot_groups_of(packed_format f) {
  return f == packed_format::q8_0 ? 2 : is_float_format(f) ? 1 : 4;
}

ORCD_HD constexpr std::uint32_t smaller(std::uint32_t a, std::uint32_t b) {
  return a < b ? a : b;
}

/// The blocks of a cluster fold outputs by units: two neighbouring row tiles by eight columns. Unit u of an
/// item belongs to block u % blocks.
ORCD_HD constexpr std::uint32_t split_units(std::uint32_t columns, std::uint32_t row_blocks) {
  return row_blocks * columns / 4;
}
inline constexpr std::uint32_t split_unit_bytes = 1024;  ///< of one chunk's sums
ORCD_HD constexpr std::uint32_t split_units_of_block(std::uint32_t columns, std::uint32_t row_blocks,
                                                     std::uint32_t blocks) {
  return (split_units(columns, row_blocks) + blocks - 1) / blocks;
}
/// Memory for the sums of a round: one chunk from every warpgroup that shares rows, in every block.
ORCD_HD constexpr std::uint32_t split_round_bytes_max(std::uint32_t columns) {
  return (columns == 16 ? 24 : 35) * split_unit_bytes;
}

/// An instance: weights of a format, tiles of N columns, and who shares k.
template <packed_format F, std::uint32_t N, k_sharing K>
struct block_plan {
  static constexpr bool wide = N == 128;
  static constexpr bool split = K == k_sharing::cluster;
  /// A warpgroup keeps the running sums of its rows in registers.
  static constexpr bool whole = K == k_sharing::none || K == k_sharing::copied;
  /// Activations in packed order are copied; others come from stagers' registers.
  static constexpr bool copies = K == k_sharing::copied;
  static constexpr half_order order = copies ? half_order::packed : half_order::natural;
  static constexpr std::uint32_t multipliers = wide ? 2 : 4;  ///< warpgroups
  static constexpr std::uint32_t stagers = wide ? 2 : 1;
  static constexpr std::uint32_t threads = (multipliers + stagers) * warpgroup_threads;
  static constexpr std::uint32_t stager_threads = stagers * warpgroup_threads;
  static constexpr std::uint32_t warps = multipliers * 4;
  /// Registers of a thread, where an equal share would be too few for some.
  static constexpr std::uint32_t multiplier_registers = wide ? 200 : N == 64 ? 112 : 104;
  static constexpr std::uint32_t stager_registers = wide ? 56 : N == 64 ? 32 : 64;
  /// Whether a warp unpacks a group of weights while the one before is multiplied, which takes registers for
  /// two. With four warpgroups the work overlaps anyway.
  static constexpr bool ahead = N != 64 && !is_float_format(F);

  /// Activations: one ring for the block, in rows of 128 bytes as operand B needs them.
  static constexpr std::uint32_t ring_chunks = split ? (N == 16 ? 4 : 3) : N == 16 ? 6 : N == 32 ? 4 : 2;
  static constexpr std::uint32_t stage_groups = N == 16 ? 2 : 1;
  static constexpr std::uint32_t chunk_stages = groups_per_chunk / stage_groups;
  static constexpr std::uint32_t stages = ring_chunks * chunk_stages;
  static constexpr std::uint32_t stage_bytes = N * 128 * stage_groups;
  /// Most warpgroups that share rows. What all of them work on at the same time must fit into the ring, or
  /// one would take bytes of the round before for its own.
  static constexpr std::uint32_t parts_max = smaller(multipliers, ring_chunks);
  /// Most sets of 64 rows.
  static constexpr std::uint32_t row_blocks_max = wide ? 2 : N == 64 && !copies ? 2 : 4;
  /// Running sums that warpgroups hand on, [row block][register / 4][thread][4] floats. In a cluster: two
  /// rounds of chunks' sums, for the outputs that the block folds.
  static constexpr std::uint32_t totals_bytes = whole   ? 0
                                                : split ? 2 * split_round_bytes_max(N)
                                                        : row_blocks_max * 64 * N * 4;
  /// A warp's memory for rearranging its outputs. The blocks of a cluster use that of the sums, once they are
  /// folded.
  static constexpr std::uint32_t exchange_bytes = split ? 0 : warps * 1024;
  static constexpr std::uint32_t barrier_bytes = split ? 1024 : 1280;

  /// Weights: slots of each warp, for as many whole chunks as fit, or for a part of one.
  static constexpr std::uint32_t slot_groups = slot_groups_of(F);
  static constexpr std::uint32_t chunk_slots = groups_per_chunk / slot_groups;
  static constexpr std::uint32_t slot_bytes =
      layout_of(F).bytes() * slot_groups * group_cols / layout_of(F).cols;
  static constexpr std::uint32_t slots_that_fit = (multiprocessor_shared_bytes - 1024 - stages * stage_bytes -
                                                   totals_bytes - exchange_bytes - barrier_bytes) /
                                                  (warps * slot_bytes);
  static constexpr std::uint32_t chunks_max = split ? 5 : 6;  ///< for which there are barriers
  static constexpr std::uint32_t slots = slots_that_fit >= chunk_slots
                                             ? smaller(chunks_max, slots_that_fit / chunk_slots) * chunk_slots
                                             : smaller(2, slots_that_fit);
  static constexpr std::uint32_t weight_bytes = warps * slots * slot_bytes;
  /// Whether slots are refilled with every stage that has been used, because few fit; else a chunk at a time.
  static constexpr bool refill_by_stage = slots < 2 * chunk_slots;
  /// Stages of activations that are loaded ahead into stagers' registers.
  static constexpr std::uint32_t stages_ahead = refill_by_stage || wide ? 1 : N == 64 ? 2 : 4;
  /// Whether one copy loads a row tile's chunks for all warpgroups that share the rows: starting a copy is
  /// expensive.
  static constexpr bool together = chunk_slots == 1 && !split;

  static constexpr std::uint32_t weights_at = stages * stage_bytes;  ///< after the ring of activations
  static constexpr std::uint32_t totals_at = weights_at + weight_bytes;
  static constexpr std::uint32_t exchange_at = totals_at + totals_bytes;
  static constexpr std::uint32_t barriers_at = exchange_at + exchange_bytes;
  static constexpr std::uint32_t shared_bytes = barriers_at + barrier_bytes + 1024;
  static_assert(slot_bytes % 16 == 0 && shared_bytes <= multiprocessor_shared_bytes);
  // A warp waits for the slot of a group before it has reported the group before (with `ahead`, the two
  // before), and slots are released in whole stages. So the slots that it still holds must not be all there
  // are.
  static_assert(slots * slot_groups >= stage_groups);
  static_assert(!ahead || slots >= 2 * chunk_slots || (slots >= 2 && slot_groups >= 2 * stage_groups));
  static_assert(stages_ahead % chunk_stages == 0 || chunk_stages % stages_ahead == 0);
  static_assert((2 * stages + warps * slots + 4 * multipliers) * 8 <= barrier_bytes);
  static_assert(copies ? N >= 32 : wide == (K == k_sharing::none));
  static_assert(!split || (N <= 32 && split_units_of_block(N, row_blocks_max, 2) <= warps));
};

/// A cyclic distribution over the blocks of a cluster: of n blocks, block b has elements b, b + n, b + 2 n
/// and so on.
struct cyclic_share {
  std::uint32_t each = 0;  ///< elements that every block has
  std::uint32_t rest = 0;  ///< blocks that have one more

  static cyclic_share of(std::uint32_t count, std::uint32_t blocks) {
    return {count / blocks, count % blocks};
  }
  [[nodiscard]] __device__ std::uint32_t count(std::uint32_t block) const {
    return each + (block < rest ? 1 : 0);
  }
};

/// A launch of clusters, each with one item.
struct split_plan {
  std::uint32_t blocks = 1;  ///< of a cluster
  std::uint32_t rounds = 0;
  std::uint32_t round_chunks = 0;  ///< chunks of a round
  cyclic_share chunks;
  cyclic_share units;
};

/// One launch, of one format.
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
/// blocks. Each family of formats has a source file with its instances.
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
  bool live;              ///< false: past the end; computed like tile 0, never stored
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

/// Which chunks of an item a block multiplies: all of them, or in a cluster its cyclic share.
template <k_sharing K>
struct chunk_share {
  static constexpr bool split = K == k_sharing::cluster;
  static __device__ std::uint32_t first() { return split ? cluster_rank() : 0; }
  static __device__ std::uint32_t step(const matmul_work& work) { return split ? work.split.blocks : 1; }
  static __device__ std::uint32_t count(const matmul_work& work) {
    return split ? work.split.chunks.count(first()) : work.chunks;
  }
  /// The block's n-th chunk.
  static __device__ std::uint32_t chunk(const matmul_work& work, std::uint32_t nth) {
    return split ? nth * work.split.blocks + first() : nth;
  }
};

/// The items of a launch. Block b takes items b, b + grid, b + 2 grid and so on; in a launch of clusters each
/// has one. Items that run at the same time share the weights of `band` column tiles, so that L2 reads them
/// from VRAM once.
template <std::uint32_t N, k_sharing K>
struct item_list {
  static constexpr bool split = K == k_sharing::cluster;
  static constexpr std::uint32_t band = 4;
  std::uint32_t column_tiles;
  std::uint32_t count;

  __device__ explicit item_list(const matmul_work& work) {
    column_tiles = work.args.tiles != nullptr ? static_cast<std::uint32_t>(*work.args.tile_count)
                                              : (work.args.matmul.columns + N - 1) / N;
    count = column_tiles * work.row_groups;
  }
  /// The block's first item, and the distance to its next one.
  static __device__ std::uint32_t first() { return split ? cluster_index() : blockIdx.x; }
  static __device__ std::uint32_t step() { return split ? cluster_count() : gridDim.x; }
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
