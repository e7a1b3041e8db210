// A block's slice of a column's scores, and lists of a few candidates from all slices of the cluster.
#pragma once

#include "kernels/sample/sample_cluster.cuh"
#include "kernels/sample/sample_math.cuh"

namespace orcd::kernels {

/// This block's scores, and the numbers that turn a score into a weight or a bucket.
struct score_slice {
  float* scores;        ///< in shared memory
  std::uint32_t first;  ///< id of scores[0]
  std::uint32_t count;
  std::uint32_t segment;  ///< scores of a warp, a multiple of 32
  weight_scale weights;
  float scale;  ///< buckets per unit of score
  bool
      weightless;  ///< whether nothing in the last bucket has weight, so that a cut there makes no difference

  /// Calls visit(index, score) for every score of this thread.
  template <class Visit>
  __device__ void each(const Visit& visit) const {
    const std::uint32_t begin = threadIdx.x / 32 * segment;
    const std::uint32_t end = begin + segment < count ? begin + segment : count;
#pragma unroll 4
    for (std::uint32_t i = begin + threadIdx.x % 32; i < end; i += 32) visit(i, scores[i]);
  }
  [[nodiscard]] __device__ std::uint64_t order(std::uint32_t i) const {
    return order_of(scores[i], first + i);
  }
  [[nodiscard]] __device__ std::uint64_t weight(float score) const {
    return weight_of(score, weights);
  }
  /// Never falls as scores fall; NaN (from infinities) and everything far away go to the last one.
  [[nodiscard]] __device__ std::uint32_t bucket(float score) const {
    const float place = (weights.best - score) * scale;
    return place < static_cast<float>(bucket_count - 1) ? static_cast<std::uint32_t>(place)
                                                        : bucket_count - 1;
  }
};

/// A cut that keeps everything.
inline constexpr std::uint64_t no_cut = ~0ULL;

__device__ inline void add_to_list(sample_shared& first, std::uint64_t order) {
  const std::uint32_t place = atomicAdd(&first.listed, 1U);
  if (place < list_max) first.list[place] = order;
}

/// Lists the order values of all scores of the cluster for which wanted(index, order) is true. `listed` must
/// be 0.
template <class Wanted>
__device__ inline void gather(sample_cluster& cluster, const score_slice& slice, const Wanted& wanted) {
  sample_shared& first = cluster.of(0);
  slice.each([&](std::uint32_t i, float) {
    const std::uint64_t order = slice.order(i);
    if (wanted(i, order)) add_to_list(first, order);
  });
  cluster.sync();
}

/// Bitonic sort, by the first block alone. Returns the number of entries, at most list_max; the rest of the
/// list becomes no_cut.
__device__ inline std::uint32_t sort_list(sample_shared& own) {
  const std::uint32_t listed = own.listed < list_max ? own.listed : list_max;
  if (threadIdx.x >= listed) own.list[threadIdx.x] = no_cut;
  __syncthreads();
  for (std::uint32_t size = 2; size < 2 * listed; size *= 2) {
    for (std::uint32_t stride = size / 2; stride > 0; stride /= 2) {
      const std::uint32_t other = threadIdx.x ^ stride;
      if (other > threadIdx.x) {
        const std::uint64_t a = own.list[threadIdx.x];
        const std::uint64_t b = own.list[other];
        if ((a > b) == ((threadIdx.x & size) == 0)) {
          own.list[threadIdx.x] = b;
          own.list[other] = a;
        }
      }
      __syncthreads();
    }
  }
  return listed;
}

/// Inclusive sum over the threads of one block; `total` is that of all.
__device__ inline std::uint64_t block_inclusive_sum(sample_shared& own, std::uint64_t v,
                                                    std::uint64_t& total) {
  const std::uint64_t inclusive = warp_inclusive_sum(v);
  if (threadIdx.x % 32 == 31) own.warps[threadIdx.x / 32] = inclusive;
  __syncthreads();
  const std::uint64_t sums = warp_inclusive_sum(own.warps[threadIdx.x % 32]);
  total = __shfl_sync(0xFFFFFFFFU, sums, 31);
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint64_t before = __shfl_sync(0xFFFFFFFFU, sums, warp == 0 ? 0 : warp - 1);
  return inclusive + (warp == 0 ? 0 : before);
}

}  // namespace orcd::kernels
