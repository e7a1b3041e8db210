// Packed weights for one warp of the throughput kernel: bulk copies run ahead through a ring that is the
// warp's own, across chunks and items; the warp turns them into operand A.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/packed_matmul_shape.cuh"

namespace orcd::kernels {

/// What a warp requests next; in shared memory, for lane 0, because registers are scarce.
struct weight_request {
  const std::byte* tile;  ///< the row tile's first byte
  std::uint32_t item;
  std::uint32_t chunk;
  std::uint32_t group;  ///< within the chunk
  std::uint32_t slot;
};
static_assert(sizeof(weight_request) <= weight_request_bytes);

template <packed_format F, std::uint32_t N>
__device__ void find_tile(const matmul_work& work, const item_list<N>& items, std::uint32_t row_slot,
                          weight_request& next) {
  if (next.item >= items.count) return;
  std::uint32_t row_group = 0;
  std::uint32_t column_tile = 0;
  items.place(work, next.item, row_group, column_tile);
  const row_tile r = row_tile_of(work, row_group, row_slot);
  const packed_matrix& w = work.args.matmul.w[r.matrix];
  next.tile = w.data + r.tile * work.tile_bytes;
  if (work.args.tiles != nullptr) {
    next.tile += columns_of<N>(work.args, column_tile).expert * w.expert_stride;
  }
}

/// Starts the copies of the next `count` pieces of the warp's stream into the slots freed first. The warp
/// multiplies every `step`th chunk. Lane 0 only.
template <packed_format F, std::uint32_t N>
__device__ void request_weights(const matmul_work& work, const item_list<N>& items, std::uint32_t row_slot,
                                std::uint32_t step, std::uint32_t count, weight_request& next,
                                std::uint32_t ring, std::uint32_t barriers) {
  using plan = block_plan<F, N>;
  constexpr std::uint32_t unit_groups = layout_of(F).cols / group_cols;
  constexpr std::uint32_t unit_bytes = layout_of(F).bytes();
  for (; count > 0 && next.item < items.count; --count) {
    const std::uint32_t group = next.chunk * groups_per_chunk + next.group;
    const std::uint32_t units =
        unit_groups == 4 ? 1
                         : min(plan::slot_groups, min(work.groups - group, groups_per_chunk - next.group));
    barrier_expect(barriers + next.slot * 8, units * unit_bytes);
    bulk_copy(ring + next.slot * plan::slot_bytes, next.tile + group / unit_groups * unit_bytes,
              units * unit_bytes, barriers + next.slot * 8);
    if (++next.slot == plan::slots) next.slot = 0;
    next.group += plan::slot_groups;
    if (next.group < groups_per_chunk && group + plan::slot_groups < work.groups) continue;
    next.group = 0;
    next.chunk += step;
    if (next.chunk < work.chunks) continue;
    for (; next.chunk >= work.chunks; next.chunk -= work.chunks) next.item += gridDim.x;
    find_tile<F, N>(work, items, row_slot, next);
  }
}

/// The warp's place in its ring.
template <packed_format F, std::uint32_t N>
struct weight_ring {
  using plan = block_plan<F, N>;
  const std::byte* slots;
  std::uint32_t barriers;
  std::uint32_t slot = 0;
  std::uint32_t parity = 0;
  tile_stage<F, 1> stage{};

  /// Operand A of the four mma steps of group u of the chunk; groups in ascending order. True when the slot
  /// is used up.
  __device__ bool fragments(std::uint32_t u, bool last, std::uint32_t (&a)[4][4]) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t in_slot = u % plan::slot_groups;
    if (in_slot == 0) barrier_wait_unbounded(barriers + slot * 8, parity);
    stage.template load<from_shared>(slots + slot * plan::slot_bytes, in_slot, in_slot + 1, lane);
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) stage.fragment(0, u, s, lane % 4, a[s]);
    if (in_slot + 1 != plan::slot_groups && !last) return false;
    if (++slot == plan::slots) {
      slot = 0;
      parity ^= 1U;
    }
    return true;
  }
};

}  // namespace orcd::kernels
