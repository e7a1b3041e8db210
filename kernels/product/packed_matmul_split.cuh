// Sums of an item whose k is shared by a cluster of blocks: each warp sends its chunks' sums to the block
// that owns the outputs, by asynchronous stores into that block's shared memory; the owner folds them in the
// order of the chunks, with the bits of an item that one block computes.
#pragma once

#include "kernels/product/packed_matmul_store.cuh"

namespace orcd::kernels {

/// What a multiplying warp does for this. A round is one chunk of every warpgroup that shares the rows, in
/// every block. A warp sends a round's sums to their owners, then folds the sums of the round before for its
/// own unit, if it has one. There is memory for two rounds.
template <packed_format F, std::uint32_t N>
class cluster_sums {
  using plan = block_plan<F, N, k_sharing::cluster>;

 public:
  /// For row tile `slot`, and every `parts`-th of the block's chunks from `part` on.
  __device__ cluster_sums(const matmul_work& work, const block_memory<F, N, k_sharing::cluster>& memory,
                          std::uint32_t slot, std::uint32_t part)
      : work_(work),
        memory_(memory),
        slot_(slot),
        in_round_(part * work.split.blocks + cluster_rank()),
        units_max_(work.split.units.count(0)),
        local_(threadIdx.x / 32) {
    const std::uint32_t unit = slot / 2 * (N / 8);
    to_local_ = unit / work.split.blocks;
    to_owner_ = unit - to_local_ * work.split.blocks;
    for (std::uint32_t round = 0; round < min(2U, work.split.rounds); ++round) expect(round);
  }

  /// The unit of outputs that this warp folds; a number past the item's last if it has none.
  [[nodiscard]] __device__ std::uint32_t unit() const { return local_ * work_.split.blocks + cluster_rank(); }

  /// Sends the sums of the warp's chunk of a round to their owners.
  __device__ void send(std::uint32_t round, const float (&acc)[N / 2]) const {
    if (round >= 2) barrier_wait_unbounded(memory_.sums_empty(round), (round / 2 - 1) & 1U);
    std::uint32_t at = unit_address(round, in_round_, to_local_) + slot_ % 2 * (split_unit_bytes / 2) +
                       threadIdx.x % 32 * static_cast<std::uint32_t>(sizeof(float4));
    std::uint32_t owner = to_owner_;
#pragma unroll
    for (std::uint32_t c = 0; c < N / 8; ++c) {
      const float sums[4] = {acc[4 * c], acc[4 * c + 1], acc[4 * c + 2], acc[4 * c + 3]};
      send_to_block(address_in_block(at, owner), sums, address_in_block(memory_.sums_full(round), owner));
      if (++owner < work_.split.blocks) continue;
      owner = 0;
      at += split_unit_bytes;
    }
  }

  /// Adds a round's sums to the unit's, left to right.
  __device__ void add(std::uint32_t round) {
    // A block without units gets no sums; its barriers would run ahead of its warps.
    if (block_units() != 0) barrier_wait_unbounded(memory_.sums_full(round), (round / 2) & 1U);
    if (has_unit()) {
      const float4* from = unit_of(round, 0) + threadIdx.x % 32;
      const std::uint32_t stride = units_max_ * (split_unit_bytes / sizeof(float4));
#pragma unroll 2
      for (std::uint32_t left = chunks_of(round); left > 0; --left, from += stride) {
        add(total_, from[0]);
        add(total_ + 4, from[split_unit_bytes / 2 / sizeof(float4)]);
      }
    }
    __syncwarp();
    if (round + 2 >= work_.split.rounds) return;
    expect(round + 2);
    // Only if a warp will wait for it: a block without a chunk in the last round may have ended.
    if (threadIdx.x % 32 < min(work_.split.blocks, chunks_of(round + 2)))
      arrive_in_block(address_in_block(memory_.sums_empty(round), threadIdx.x % 32));
  }

  [[nodiscard]] __device__ bool has_unit() const {
    return local_ < block_units();
  }
  /// The unit's folded sums for one of its two row tiles, after the last round.
  [[nodiscard]] __device__ const float* total(std::uint32_t tile) const {
    return total_ + 4 * tile;
  }
  /// This warp's own 1 KiB, free after the last round.
  [[nodiscard]] __device__ float4* exchange() const {
    return unit_of(work_.split.rounds - 1, 0);
  }

 private:
  static __device__ void add(float* total, const float4& sums) {
    total[0] += sums.x;
    total[1] += sums.y;
    total[2] += sums.z;
    total[3] += sums.w;
  }
  /// Address of the sums of a block's unit, for chunk `in_round` of a round.
  [[nodiscard]] __device__ std::uint32_t unit_address(std::uint32_t round, std::uint32_t in_round,
                                                      std::uint32_t local) const {
    return memory_.address() + plan::totals_at + round % 2 * split_round_bytes_max(N) +
           (in_round * units_max_ + local) * split_unit_bytes;
  }
  [[nodiscard]] __device__ float4* unit_of(std::uint32_t round, std::uint32_t in_round) const {
    return reinterpret_cast<float4*>(memory_.base +
                                     (unit_address(round, in_round, local_) - memory_.address()));
  }
  [[nodiscard]] __device__ std::uint32_t chunks_of(std::uint32_t round) const {
    return min(work_.split.round_chunks, work_.chunks - round * work_.split.round_chunks);
  }
  [[nodiscard]] __device__ std::uint32_t block_units() const {
    return work_.split.units.count(cluster_rank());
  }
  /// One thread announces the bytes that the block gets in a round; those of the first two may arrive before.
  __device__ void expect(std::uint32_t round) const {
    if (threadIdx.x == 0 && block_units() != 0)
      barrier_expect(memory_.sums_full(round), chunks_of(round) * block_units() * split_unit_bytes);
  }

  const matmul_work& work_;
  const block_memory<F, N, k_sharing::cluster>& memory_;
  std::uint32_t slot_;
  std::uint32_t in_round_;   ///< the warp's chunk of a round
  std::uint32_t units_max_;  ///< of a block
  std::uint32_t local_;      ///< which of the block's units this warp folds
  std::uint32_t to_owner_;   ///< the owner of the first unit that the warp has sums of
  std::uint32_t to_local_;   ///< which of that block's units it is
  float total_[8] = {-0.0F, -0.0F, -0.0F, -0.0F,
                     -0.0F, -0.0F, -0.0F, -0.0F};  ///< adding to it changes no bit
};

/// Folds the last round and stores a warp's unit. What its outputs are combined with is loaded before.
template <packed_format F, std::uint32_t N>
__device__ void finish_unit(const matmul_work& work, const item_list<N, k_sharing::cluster>& items,
                            cluster_sums<F, N>& sums) {
  const std::uint32_t last = work.split.rounds - 1;
  if (!sums.has_unit()) return sums.add(last);
  std::uint32_t row_group = 0;
  std::uint32_t column_tile = 0;
  items.place(work, items.first(), row_group, column_tile);
  const column_range range = columns_of<N>(work.args, column_tile);
  const std::uint32_t slot = sums.unit() / (N / 8) * 2;
  const row_tile places[2] = {row_tile_of(work, row_group, slot), row_tile_of(work, row_group, slot + 1)};
  const tile_exchange tile{sums.exchange(), threadIdx.x % 32, 0};
  const std::uint32_t column = sums.unit() % (N / 8) * 8 + tile.column();
  const auto fold = [&] {
    sums.add(last);
    tile.put(0, sums.total(0));
    tile.put(1, sums.total(1));
    __syncwarp();
  };
  if (is_paired(work.args.matmul)) {
    const pair_writer<half_order::natural> rows(work.args, range, places[0], tile.row());
    fold();
    rows.write(column, tile.take(0, 0), tile.take(0, 1));
    return;
  }
  const row_writer rows[2] = {{work.args, range, places[0], tile.row()},
                              {work.args, range, places[1], tile.row()}};
  float* const to[2] = {rows[0].target(column), rows[1].target(column)};
  const float4 old[2] = {rows[0].old(to[0]), rows[1].old(to[1])};
  fold();
  rows[0].write(to[0], old[0], tile.take(0, 0));
  rows[1].write(to[1], old[1], tile.take(0, 1));
}

}  // namespace orcd::kernels
