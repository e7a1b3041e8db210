// Clusters: blocks that run at the same time and write into each other's shared memory.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// This block's number in its cluster.
__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// The number of this cluster in the grid and the number of clusters; for grids of one dimension.
__device__ inline std::uint32_t cluster_index() {
  std::uint32_t index = 0;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return index;
}
__device__ inline std::uint32_t cluster_count() {
  std::uint32_t count = 0;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return count;
}

/// Both are called by all threads of all blocks, in this order, before any block writes into another's shared
/// memory. Barriers that a block initialised before it arrived (barrier_init_done) are seen by all blocks
/// after the wait.
__device__ inline void cluster_arrives() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_begins() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The address in block `rank` of what is at `address` in this block.
__device__ inline std::uint32_t address_in_block(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t there = 0;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
/// Writes 16 bytes into a block's shared memory; `barrier` there counts them. An asynchronous store, because
/// a plain one would need a fence at the scope of the cluster, which acts on the whole device and empties L1.
__device__ inline void send_to_block(std::uint32_t address, const float (&v)[4], std::uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          address),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
      : "memory");
}
/// bulk_copy() to the same address of every block of the cluster; the barrier at that address in each counts
/// it.
__device__ inline void bulk_copy_to_cluster(std::uint32_t to, const void* from, std::uint32_t bytes,
                                            std::uint32_t barrier, std::uint32_t blocks) {
  const auto all = static_cast<std::uint16_t>((1U << blocks) - 1);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
      "[%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(all)
      : "memory");
}
/// Arrives at a barrier in another block.
__device__ inline void arrive_in_block(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

}  // namespace orcd::kernels
