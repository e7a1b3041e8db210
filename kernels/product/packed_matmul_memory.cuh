// Where things lie in the shared memory of a block of the throughput product.
#pragma once

#include "kernels/device/bulk_copy.cuh"
#include "kernels/product/packed_matmul_shape.cuh"

namespace orcd::kernels {

/// The number of warpgroups that share rows and alternate in chunks.
template <packed_format F, std::uint32_t N, k_sharing K>
__device__ std::uint32_t parts_of(const matmul_work& work) {
  using plan = block_plan<F, N, K>;
  return plan::whole ? 1 : min(plan::multipliers / work.row_blocks, plan::parts_max);
}

template <packed_format F, std::uint32_t N, k_sharing K>
__device__ std::uint32_t multiplying_warps(const matmul_work& work) {
  return work.row_blocks * group_row_tiles * parts_of<F, N, K>(work);
}

/// Addresses of a ring of weights.
struct weight_ring_place {
  std::uint32_t slots;
  std::uint32_t stride;    ///< bytes from slot to slot
  std::uint32_t barriers;  ///< 8 bytes a slot
};

template <packed_format F, std::uint32_t N, k_sharing K>
struct block_memory {
  using plan = block_plan<F, N, K>;
  std::byte* base;  ///< a multiple of 1024

  __device__ explicit block_memory(std::byte* raw)
      : base(raw + (1024 - shared_address_of(raw) % 1024) % 1024) {}
  [[nodiscard]] __device__ std::uint32_t address() const { return shared_address_of(base); }
  [[nodiscard]] __device__ const std::byte* at(std::uint32_t shared_address) const {
    return base + (shared_address - address());
  }

  /// Barriers of the stages of activations: filled, and used by all warps that multiply them.
  [[nodiscard]] __device__ std::uint32_t full(std::uint32_t stage) const {
    return address() + plan::barriers_at + stage * 8;
  }
  [[nodiscard]] __device__ std::uint32_t empty(std::uint32_t stage) const {
    return full(plan::stages + stage);
  }
  /// A row tile's ring; each of its slots holds a chunk for every warpgroup that shares the rows.
  [[nodiscard]] __device__ weight_ring_place shared_ring(std::uint32_t parts, std::uint32_t tile) const {
    const std::uint32_t stride = parts * plan::slot_bytes;
    return {address() + plan::weights_at + tile * plan::slots * stride, stride, weights_full(tile)};
  }
  /// A warp's own ring.
  [[nodiscard]] __device__ weight_ring_place warp_ring(std::uint32_t warp) const {
    return {address() + plan::weights_at + warp * plan::slots * plan::slot_bytes, plan::slot_bytes,
            weights_full(warp)};
  }
  [[nodiscard]] __device__ std::uint32_t turn(std::uint32_t row_block, std::uint32_t part) const {
    return weights_full(plan::warps) + (row_block * 4 + part) * 8;
  }
  /// In a cluster: a round's sums have come from all blocks; all warps have folded theirs.
  [[nodiscard]] __device__ std::uint32_t sums_full(std::uint32_t round) const { return turn(0, round % 2); }
  [[nodiscard]] __device__ std::uint32_t sums_empty(std::uint32_t round) const {
    return turn(0, 2 + round % 2);
  }
  /// Copies arrive for each thread that started them, threads that write themselves once a warp.
  static constexpr std::uint32_t stager_arrivals = plan::stager_threads / (plan::copies ? 1 : 32);

  /// One lane of each warp initialises some: the lanes of one warp would do it one after the other.
  __device__ void init_barriers(const matmul_work& work) const {
    constexpr std::uint32_t weights = 2 * plan::stages;
    constexpr std::uint32_t turns = weights + plan::warps * plan::slots;
    if (threadIdx.x % 32 != 0) return;
    for (std::uint32_t i = threadIdx.x / 32; i < turns + 4 * plan::multipliers; i += plan::threads / 32) {
      const std::uint32_t arrivals = i < plan::stages ? stager_arrivals
                                     : i < weights    ? work.row_blocks * 4
                                     : i < turns      ? 1
                                     : !plan::split   ? 4
                                     : i < turns + 2  ? 1
                                                      : work.split.blocks * multiplying_warps<F, N, K>(work);
      barrier_init(full(i), arrivals);
    }
    barrier_init_done();
  }

 private:
  [[nodiscard]] __device__ std::uint32_t weights_full(std::uint32_t ring) const {
    return full(2 * plan::stages + ring * plan::slots);
  }
};

}  // namespace orcd::kernels
