// Packed weights in the throughput product: bulk copies run ahead through rings in shared memory, across
// chunks and items, and warps unpack what has arrived into operand A. The stagers start the copies: when a
// stage of activations has been used, so have the weights that it was multiplied with.
#pragma once

#include "kernels/product/packed_matmul_memory.cuh"

namespace orcd::kernels {

/// A piece of the block's weights.
struct weight_request {
  const std::byte* tile;  ///< the row tile's first byte
  std::uint32_t item;
  std::uint32_t chunk;     ///< counted in the block
  std::uint32_t in_chunk;  ///< which slot of the chunk
  std::uint32_t slot;
};

/// Fills the rings, one a lane: the ring of a row tile, shared by the warpgroups that alternate in its chunks
/// (plan::together), or the ring of one multiplying warp.
template <packed_format F, std::uint32_t N, k_sharing K>
class weight_feeder {
  using plan = block_plan<F, N, K>;
  using share = chunk_share<K>;

 public:
  __device__ weight_feeder(const matmul_work& work, const block_memory<F, N, K>& memory, std::uint32_t thread)
      : work_(work),
        memory_(memory),
        tiles_(work.row_blocks * group_row_tiles),
        parts_(parts_of<F, N, K>(work)),
        ring_(thread / 32 + plan::stager_threads / 32 * (thread % 32)),
        part_(plan::together ? 0 : ring_ / tiles_),
        feeds_(ring_ < (plan::together ? tiles_ : tiles_ * parts_)) {}

  /// Computes the first piece and fills the ring.
  __device__ void start(const item_list<N, K>& items) {
    if (!feeds_) return;
    next_ = {nullptr, items.first(), part_, 0, 0};
    skip_to_chunk(items);
    for (std::uint32_t i = 0; i < plan::slots; ++i) fill(items);
  }
  /// Reports that the block's oldest unreported chunk has been multiplied up to its stage `in_chunk`; only
  /// the last stage of a chunk is reported, unless plan::refill_by_stage.
  __device__ void used(const item_list<N, K>& items, std::uint32_t in_chunk) {
    const bool chunk_ends = in_chunk + 1 == plan::chunk_stages;
    if constexpr (plan::together) {
      if (!chunk_ends || (!plan::whole && ++turn_ < parts_)) return;
      turn_ = 0;
      if (feeds_) fill(items);
      return;
    }
    constexpr std::uint32_t groups = plan::stage_groups;
    const std::uint32_t before = plan::refill_by_stage ? in_chunk * groups / plan::slot_groups : 0;
    const std::uint32_t slots = (in_chunk + 1) * groups / plan::slot_groups - before;
    if (feeds_ && part_ == turn_) {
#pragma unroll 1
      for (std::uint32_t i = 0; i < slots; ++i) fill(items);
    }
    if (chunk_ends && ++turn_ == parts_) turn_ = 0;
  }
  /// Whether a lane of the warp still has something to copy.
  [[nodiscard]] __device__ bool pending(const item_list<N, K>& items) const {
    return __any_sync(~0U, feeds_ && next_.item < items.count) != 0;
  }

 private:
  /// A chunk past an item's last is one of the block's next item.
  __device__ void skip_to_chunk(const item_list<N, K>& items) {
    const std::uint32_t chunks = share::count(work_);
    if (next_.tile != nullptr && next_.chunk < chunks) return;
    for (; next_.chunk >= chunks; next_.chunk -= chunks) next_.item += items.step();
    if (next_.item >= items.count) return;
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items.place(work_, next_.item, row_group, column_tile);
    const row_tile r = row_tile_of(work_, row_group, ring_ - part_ * tiles_);
    const packed_matrix& w = work_.args.matmul.w[r.matrix];
    next_.tile = w.data + r.tile * work_.tile_bytes;
    if (work_.args.tiles != nullptr)
      next_.tile += columns_of<N>(work_.args, column_tile).expert * w.expert_stride;
  }

  /// Copies the ring's next piece; nothing after the end of the block's work.
  __device__ void fill(const item_list<N, K>& items) {
    if (next_.item >= items.count) return;
    const weight_ring_place ring =
        plan::together ? memory_.shared_ring(parts_, ring_) : memory_.warp_ring(ring_);
    const std::uint32_t barrier = ring.barriers + next_.slot * 8;
    const std::uint32_t to = ring.slots + next_.slot * ring.stride;
    if constexpr (plan::together) {
      fetch_chunks(items, to, barrier);
    } else {
      fetch_slot(items, to, barrier);
    }
    barrier_arrive(barrier);
    if (++next_.slot == plan::slots) next_.slot = 0;
  }
  /// Copies the next chunk of every warpgroup that shares the rows.
  __device__ void fetch_chunks(const item_list<N, K>& items, std::uint32_t to, std::uint32_t barrier) {
#pragma unroll 1
    for (std::uint32_t left = parts_; left > 0 && next_.item < items.count;) {
      const std::uint32_t count = min(left, work_.chunks - next_.chunk);
      const std::uint32_t from = next_.chunk * plan::slot_bytes;
      next_.chunk += count;
      const auto end = next_.chunk < work_.chunks ? next_.chunk * plan::slot_bytes
                                                  : static_cast<std::uint32_t>(work_.tile_bytes);
      barrier_expect_more(barrier, end - from);
      bulk_copy(to, next_.tile + from, end - from, barrier);
      to += count * plan::slot_bytes;
      left -= count;
      skip_to_chunk(items);
    }
  }
  /// Copies one slot of a chunk. The last chunk of an item may be shorter and have no such slot, which is
  /// skipped then.
  __device__ void fetch_slot(const item_list<N, K>& items, std::uint32_t to, std::uint32_t barrier) {
    const std::uint32_t group =
        share::chunk(work_, next_.chunk) * groups_per_chunk + next_.in_chunk * plan::slot_groups;
    if (group < work_.groups) {
      const std::uint32_t from = group / plan::slot_groups * plan::slot_bytes;
      const std::uint32_t bytes = min(plan::slot_bytes, static_cast<std::uint32_t>(work_.tile_bytes) - from);
      barrier_expect_more(barrier, bytes);
      bulk_copy(to, next_.tile + from, bytes, barrier);
    }
    if (++next_.in_chunk < plan::chunk_slots) return;
    next_.in_chunk = 0;
    next_.chunk += parts_;
    skip_to_chunk(items);
  }

  const matmul_work& work_;
  const block_memory<F, N, K>& memory_;
  std::uint32_t tiles_;  ///< row tiles of an item
  std::uint32_t parts_;
  std::uint32_t ring_;
  std::uint32_t part_;
  bool feeds_;
  std::uint32_t turn_ = 0;  ///< which warpgroup multiplies the oldest unreported chunk
  weight_request next_{};
};

/// A multiplying warp's place in its ring.
template <packed_format F, std::uint32_t N, k_sharing K>
class weight_ring {
  using plan = block_plan<F, N, K>;

 public:
  __device__ weight_ring(const block_memory<F, N, K>& memory, const weight_ring_place& place)
      : stride_(place.stride), barriers_(place.barriers), first_(memory.at(place.slots)), here_(first_) {}

  /// Operand A of the four mma steps of group u of the chunk; call in ascending order of groups. `last`: of
  /// the chunk.
  __device__ void fragments(std::uint32_t u, bool last, std::uint32_t (&a)[4][4]) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t in_slot = u % plan::slot_groups;
    if (in_slot == 0) wait();
    stage_.template load<from_shared>(here_, in_slot, in_slot + 1, lane);
    const auto scales = stage_.scales_of(0, u);
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) stage_.fragment(0, s, scales, a[s]);
    if (in_slot + 1 == plan::slot_groups || last) next();
  }
  /// Skips a slot that has no groups.
  __device__ void skip() {
    wait();
    next();
  }

 private:
  __device__ void wait() {
    barrier_wait_unbounded(barriers_ + slot_ * 8, parity_);
  }
  __device__ void next() {
    here_ += stride_;
    if (++slot_ < plan::slots) return;
    slot_ = 0;
    here_ = first_;
    parity_ ^= 1U;
  }

  std::uint32_t stride_;
  std::uint32_t barriers_;
  const std::byte* first_;
  const std::byte* here_;
  std::uint32_t slot_ = 0;
  std::uint32_t parity_ = 0;
  tile_stage<F, 1> stage_{};
};

}  // namespace orcd::kernels
