// The common case of the filters: what they keep is among a few hundred of the most likely tokens. A
// threshold computed from the maxima of the warps sends those to the first block, which sorts them and draws
// alone. If they are not enough, the caller continues with sample_select.cuh.
#pragma once

#include "kernels/sample/sample_slice.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t short_list_max = sample_blocks * sample_warps;
/// Candidates that top_p considers first, at least.
inline constexpr std::uint32_t short_list_top_p = 96;

/// An upper half of order values that at least `rank` tokens of the vocabulary (or all of them) do not
/// exceed; few of those are not their warp's most likely one. `maxima` are those of cluster_.least().
__device__ inline std::uint32_t list_threshold(sample_shared& own, std::uint32_t rank) {
  if (threadIdx.x < short_list_max)
    own.keys[threadIdx.x] = static_cast<std::uint32_t>(own.maxima[threadIdx.x] >> 32U);
  if (threadIdx.x == 0) own.threshold = 0;
  __syncthreads();
  const std::uint32_t mine = own.keys[threadIdx.x / 4];
  const uint4* keys = reinterpret_cast<const uint4*>(own.keys);
  std::uint32_t less = 0;
#pragma unroll
  for (std::uint32_t i = 0; i < short_list_max / 16; ++i) {
    const uint4 others = keys[i * 4 + threadIdx.x % 4];
    less += (others.x < mine) + (others.y < mine) + (others.z < mine) + (others.w < mine);
  }
  less += __shfl_xor_sync(0xFFFFFFFFU, less, 1);
  less += __shfl_xor_sync(0xFFFFFFFFU, less, 2);
  if (threadIdx.x % 4 == 0 && less < rank) atomicMax(&own.threshold, mine);
  __syncthreads();
  return own.threshold;
}

/// The filters as they apply to the first block's list.
struct list_filter {
  std::uint32_t listed = 0;  ///< most likely entries to consider
  float top_p = 1.0F;
  std::uint64_t total = 0;  ///< of the weights that top_p is a fraction of; 0: of the listed ones
  std::uint64_t least = 1;  ///< smallest weight that is kept
  std::uint64_t draw = 0;   ///< floor(draw * 2^53)
};

/// Marks the entries of the sorted list that are kept, as id << 41 | weight (41 bits of weight, 19 of id).
/// False if top_p needs more than the list. First block, all threads.
__device__ inline bool filter_list(sample_shared& own, const score_slice& slice, const list_filter& f) {
  const bool inside = threadIdx.x < f.listed;
  const std::uint64_t order = own.list[threadIdx.x];
  const std::uint64_t weight = inside ? slice.weight(score_of(order)) : 0;
  std::uint64_t sum = 0;
  const std::uint64_t inclusive = block_inclusive_sum(own, weight, sum);
  bool keep = inside && weight >= f.least;
  bool enough = true;
  if (f.top_p < 1.0F) {
    const double need = static_cast<double>(f.top_p) * static_cast<double>(f.total != 0 ? f.total : sum);
    keep = keep && !(static_cast<double>(inclusive - weight) >= need);
    enough = static_cast<double>(sum) >= need;
  }
  if (enough) own.list[threadIdx.x] = keep ? (order & 0xFFFFFFFFU) << 41U | weight : no_cut;
  if (threadIdx.x == 0 && enough) own.listed = f.listed;
  __syncthreads();
  return enough;
}

/// The token that a draw over the marked list gives: by id, as over the whole vocabulary.
__device__ inline std::int32_t draw_from_list(sample_shared& own, const list_filter& f) {
  constexpr std::uint64_t weight_mask = (1ULL << 41U) - 1;
  sort_list(own);
  const std::uint64_t entry = own.list[threadIdx.x];
  const std::uint64_t weight = entry == no_cut ? 0 : entry & weight_mask;
  std::uint64_t total = 0;
  const std::uint64_t inclusive = block_inclusive_sum(own, weight, total);
  const std::uint64_t target = target_of(f.draw, total);
  if (inclusive > target && inclusive - weight <= target)
    own.chosen = static_cast<std::int32_t>(entry >> 41U);
  __syncthreads();
  return own.chosen;
}

}  // namespace orcd::kernels
