// What a block of the latency kernel reads: chunks of 256 columns of its row tiles, copied into slots of
// shared memory ahead of use. All warps take turns at the chunks; chunk v of the block lies in slot v modulo
// the number of slots, so that most products fit whole.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/divider.hpp"
#include "kernels/packed_matmul.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t matvec_warps = 32;
inline constexpr std::uint32_t matvec_threads = matvec_warps * 32;
inline constexpr std::uint32_t slots_max = 128;

/// What a launch decides. Nothing in it changes a bit.
struct matvec_plan {
  std::uint32_t tiles;    ///< row tiles of all matrices; gate and up tiles of the same rows count as one
  std::uint32_t members;  ///< row tiles in one of them: 2 for gate and up
  bool own_tiles;         ///< each warp folds tiles of its own; otherwise the warps share each tile's chunks
  divider chunks;         ///< of a row tile
  divider in_tile;        ///< chunks of a tile with its members
  divider warps;          ///< that multiply
  divider slots;          ///< a multiple of the warps where these own tiles
  std::uint32_t slot_bytes;
  std::uint32_t x_stride;                    ///< halfs
  std::uint32_t x_at, partial_at, slots_at;  ///< offsets in shared memory
  std::uint32_t next_part;                   ///< bytes a block of what the next product reads
  std::uint32_t chunk_bytes[3];
  std::uint32_t tile_bytes[3];
};

/// Where in the stacked matrices a row tile lies.
struct tile_place {
  std::uint32_t matrix;
  std::uint32_t tile;
  std::uint32_t out_row;  ///< first row of the matrix in the stacked output
};

__device__ __forceinline__ tile_place place_of(const packed_matmul_args& a, const matvec_plan& plan,
                                               std::uint32_t tile, std::uint32_t member) {
  if (plan.members == 2) return {member, tile, 0};
  tile_place p{0, tile, 0};
  while (p.matrix + 1 < a.matrices && p.tile >= a.w[p.matrix].row_tiles()) {
    p.tile -= a.w[p.matrix].row_tiles();
    p.out_row += a.w[p.matrix].rows;
    ++p.matrix;
  }
  return p;
}

/// Chunk v of a block: chunk `chunk` of row tile `row` (members counted) of the block's own.
struct chunk_place {
  std::uint32_t row;
  std::uint32_t chunk;

  __device__ __forceinline__ chunk_place(const matvec_plan& plan, std::uint32_t v) {
    std::uint32_t at = v;
    if (plan.own_tiles) {
      // Warp v % warps, step v / warps: its tiles are every warps-th, their chunks in order.
      const std::uint32_t step = plan.warps.quotient(v);
      const std::uint32_t warp = v - step * plan.warps.d;
      const std::uint32_t turn = plan.in_tile.quotient(step);
      at = (warp + turn * plan.warps.d) * plan.in_tile.d + step - turn * plan.in_tile.d;
    }
    row = plan.chunks.quotient(at);
    chunk = at - row * plan.chunks.d;
  }
};

/// What a block of the launch works on.
struct block_work {
  std::uint32_t first_column;
  std::uint32_t columns;
  std::uint32_t first_tile;
  std::uint32_t tiles;

  __device__ __forceinline__ block_work(const packed_matmul_args& a, const matvec_plan& plan) {
    first_column = a.experts != nullptr ? blockIdx.y : 0;
    columns = a.experts != nullptr ? 1 : a.columns;
    first_tile = plan.tiles * blockIdx.x / gridDim.x;
    tiles = plan.tiles * (blockIdx.x + 1) / gridDim.x - first_tile;
  }
  /// Numbers of chunks run from 0 to here; with tiles of their own, some are of tiles past the last.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t chunks(const matvec_plan& plan) const {
    const std::uint32_t turns = plan.warps.quotient(tiles + plan.warps.d - 1);
    return (plan.own_tiles ? turns * plan.warps.d : tiles) * plan.in_tile.d;
  }
  [[nodiscard]] __device__ __forceinline__ bool has(const matvec_plan& plan, const chunk_place& p) const {
    return p.row < tiles * plan.members;
  }
  [[nodiscard]] __device__ __forceinline__ tile_place tile(const packed_matmul_args& a,
                                                           const matvec_plan& plan, std::uint32_t row) const {
    return plan.members == 2 ? place_of(a, plan, first_tile + row / 2, row % 2)
                             : place_of(a, plan, first_tile + row, 0);
  }
};

/// The slots of a block.
struct chunk_slots {
  const packed_matmul_args& a;
  const matvec_plan& plan;
  const block_work& work;
  std::uint32_t count;     ///< chunks of the block
  std::uint32_t barriers;  ///< one a slot
  std::byte* slots;

  /// One thread starts the copy of chunk v; its slot is free.
  __device__ __forceinline__ void copy(std::uint32_t v, std::uint32_t slot, std::uint32_t expert) const {
    const chunk_place p(plan, v);
    if (!work.has(plan, p)) return;
    const tile_place place = work.tile(a, plan, p.row);
    const packed_matrix& w = a.w[place.matrix];
    const std::uint32_t skipped = p.chunk * plan.chunk_bytes[place.matrix];
    const std::uint32_t bytes = min(plan.chunk_bytes[place.matrix], plan.tile_bytes[place.matrix] - skipped);
    const std::byte* from = w.data + expert * w.expert_stride +
                            static_cast<std::uint64_t>(place.tile) * plan.tile_bytes[place.matrix] + skipped;
    barrier_expect(barriers + 8 * slot, bytes);
    bulk_copy(shared_address_of(slots + slot * plan.slot_bytes), from, bytes, barriers + 8 * slot);
  }

  /// All threads: the first copies. The block must synchronize before it waits for one.
  __device__ __forceinline__ void fill(std::uint32_t expert) const {
    if (threadIdx.x >= min(count, plan.slots.d)) return;
    barrier_init(barriers + 8 * threadIdx.x, 1);
    barrier_init_done();
    copy(threadIdx.x, threadIdx.x, expert);
  }

  /// One warp: waits for the slot's chunk of this round and says where it lies.
  __device__ __forceinline__ const std::byte* wait(std::uint32_t slot, std::uint32_t round) const {
    barrier_wait(barriers + 8 * slot, round & 1U);
    return slots + slot * plan.slot_bytes;
  }

  /// One warp that has read chunk v: the next one of its slot.
  __device__ __forceinline__ void release(std::uint32_t v, std::uint32_t slot, std::uint32_t expert) const {
    if (v + plan.slots.d >= count) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0) copy(v + plan.slots.d, slot, expert);
  }
};

}  // namespace orcd::kernels
