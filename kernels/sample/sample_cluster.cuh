// What the blocks of a column's cluster share, and reductions over the cluster. All threads of all blocks of
// the cluster call every function together.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "kernels/device/device_math.cuh"
#include "kernels/sample/sample_args.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t sample_threads = 1024;
inline constexpr std::uint32_t sample_warps = sample_threads / 32;
inline constexpr std::uint32_t bucket_count = 2048;
inline constexpr std::uint32_t buckets_a_block = bucket_count / sample_blocks;
inline constexpr std::uint32_t list_max = 1024;
inline constexpr std::uint32_t window_table = 8192;  ///< twice sample_window_max, so that probing is short

/// Shared memory of a block; the scores of its slice of the vocabulary follow.
struct sample_shared {
  std::uint64_t pushed[2][sample_blocks];  ///< two buffers in alternation, by block
  std::uint64_t warps[sample_warps];
  std::uint64_t list[list_max];           ///< order values; that of the first block is used
  std::uint64_t totals[buckets_a_block];  ///< sums of this block's share of the buckets
  std::uint64_t rows[64];
  std::uint64_t maxima[sample_blocks * sample_warps];  ///< the most likely order value of every warp
  std::uint32_t keys[sample_blocks * sample_warps];    ///< their upper halves
  std::uint32_t threshold;
  std::uint64_t found[2];  ///< a bucket and the sum before it; or the cut
  sample_column asked;
  std::uint32_t listed;  ///< first block: entries of the list, including those that did not fit
  std::int32_t chosen;   ///< first block
  union {
    std::uint32_t parts[3][bucket_count];  ///< sums of the weights' 16-bit parts, or counts
    std::uint32_t window[window_table];    ///< id << 16 | occurrences
  };
};

__device__ inline std::uint64_t warp_sum(std::uint64_t v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xFFFFFFFFU, v, offset);
  return v;
}
__device__ inline std::uint64_t warp_inclusive_sum(std::uint64_t v) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t offset = 1; offset < 32; offset *= 2) {
    const std::uint64_t below = __shfl_up_sync(0xFFFFFFFFU, v, offset);
    if (lane >= offset) v += below;
  }
  return v;
}

class sample_cluster {
 public:
  __device__ explicit sample_cluster(sample_shared& shared)
      : shared_(shared), cluster_(cooperative_groups::this_cluster()), rank_(cluster_.block_rank()) {}

  [[nodiscard]] __device__ std::uint32_t rank() const { return rank_; }
  [[nodiscard]] __device__ sample_shared& own() const { return shared_; }
  [[nodiscard]] __device__ sample_shared& of(std::uint32_t block) const {
    return *cluster_.map_shared_rank(&shared_, block);
  }
  /// Everything that any block wrote before is visible to all blocks after it.
  __device__ void sync() { cluster_.sync(); }
  /// sync() in two halves, for work on the block's own data in between.
  __device__ void arrive() { cluster_.barrier_arrive(); }
  __device__ void wait() { cluster_.barrier_wait(); }

  /// The smallest `order` of all threads; every warp's is in own().maxima until the next call.
  __device__ std::uint64_t least(std::uint64_t order) {
    order = warp_min(order);
    if (threadIdx.x % 32 < sample_blocks) {
      of(threadIdx.x % 32).maxima[rank_ * sample_warps + threadIdx.x / 32] = order;
    }
    cluster_.sync();
    constexpr std::uint32_t each = sample_blocks * sample_warps / 32;
    std::uint64_t best = ~0ULL;
#pragma unroll
    for (std::uint32_t i = 0; i < each; ++i) {
      const std::uint64_t other = shared_.maxima[i * 32 + threadIdx.x % 32];
      best = other < best ? other : best;
    }
    return warp_min(best);
  }
  /// The sum of `v` over each block; the array [sample_blocks] is valid until the second reduction after this
  /// one.
  __device__ const std::uint64_t* block_sums(std::uint64_t v) {
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) shared_.warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
      v = warp_sum(shared_.warps[threadIdx.x]);
      if (threadIdx.x < sample_blocks) of(threadIdx.x).pushed[turn_][rank_] = v;
    }
    return next_turn();
  }
  __device__ std::uint64_t sum(std::uint64_t v) {
    const std::uint64_t* sums = block_sums(v);
    std::uint64_t total = 0;
    for (std::uint32_t b = 0; b < sample_blocks; ++b) total += sums[b];
    return total;
  }
  /// The largest `v` of all threads.
  __device__ std::uint64_t greatest(std::uint64_t v) {
    v = ~warp_min(~v);
    if (threadIdx.x % 32 == 0) shared_.warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
      v = ~warp_min(~shared_.warps[threadIdx.x]);
      if (threadIdx.x < sample_blocks) of(threadIdx.x).pushed[turn_][rank_] = v;
    }
    const std::uint64_t* pushed = next_turn();
    v = pushed[0];
    for (std::uint32_t i = 1; i < sample_blocks; ++i) v = pushed[i] > v ? pushed[i] : v;
    return v;
  }

 private:
  /// Two buffers in alternation: a block may write the next values before a slower one has read these.
  __device__ const std::uint64_t* next_turn() {
    const std::uint64_t* pushed = shared_.pushed[turn_];
    turn_ ^= 1U;
    cluster_.sync();
    return pushed;
  }

  sample_shared& shared_;
  cooperative_groups::cluster_group cluster_;
  std::uint32_t rank_;
  std::uint32_t turn_ = 0;
};

}  // namespace orcd::kernels
