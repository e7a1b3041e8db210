// The other ways in which a router's logits become experts and weights: softmax over all experts, and
// sigmoids with a bias for the choice. One warp, as in expert_choice.cuh; these are for launches alone.
#pragma once

#include "kernels/device/device_math.cuh"
#include "kernels/layer/expert_choice.cuh"

namespace orcd::kernels {

__device__ __forceinline__ float sigmoid_of(float v) {
  return __fdiv_rn(1.0F, __fadd_rn(1.0F, expf(-v)));
}

/// What experts are chosen by.
template <class Logit>
__device__ __forceinline__ float score_of(const route_args& a, Logit logit_at, std::uint32_t e) {
  if (a.weighting == route_weighting::all) return logit_at(e);
  const float score = sigmoid_of(logit_at(e));
  return a.choice_bias == nullptr ? score : __fadd_rn(score, a.choice_bias[e]);
}

/// One warp: e^(logit - largest) summed over all experts, a lane's own first, then in a fixed tree.
template <class Logit>
__device__ __forceinline__ float softmax_sum(const route_args& a, Logit logit_at, float largest) {
  float sum = 0.0F;
  for (std::uint32_t e = threadIdx.x % 32; e < a.experts; e += 32)
    sum = __fadd_rn(sum, expf(__fsub_rn(logit_at(e), largest)));
  return warp_sum(sum);
}

/// One warp: the `used` experts of the highest scores, highest first, ties to the lowest id, and their
/// weights.
template <class Logit>
__device__ void choose_and_weigh(const route_args& a, Logit logit_at, std::int32_t* chosen, float* weights) {
  constexpr std::uint32_t all = 0xFFFFFFFFU;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t taken = 0;  // bit i: expert lane + 32 i
  float mine = 0.0F;        // lane i keeps the logit of choice i
  for (std::uint32_t i = 0; i < a.used; ++i) {
    std::uint32_t rank = 0;
    std::uint32_t id = all;
    for (std::uint32_t k = 0; lane + 32 * k < a.experts; ++k) {
      if (taken >> k & 1U) continue;
      const std::uint32_t its = rank_of(score_of(a, logit_at, lane + 32 * k));
      if (id == all || its > rank) {
        rank = its;
        id = lane + 32 * k;
      }
    }
    // A lane without an expert left must not win with a rank of 0.
    const std::uint32_t best = __reduce_max_sync(all, id == all ? 0U : rank);
    const std::uint32_t winner = __reduce_min_sync(all, id != all && rank == best ? id : all);
    if (winner % 32 == lane) taken |= 1U << winner / 32;
    if (lane != i) continue;
    mine = logit_at(winner);
    chosen[i] = static_cast<std::int32_t>(winner);
  }
  float weight = 0.0F;
  if (a.weighting == route_weighting::all) {
    const float largest = __shfl_sync(all, mine, 0);
    const float sum = softmax_sum(a, logit_at, largest);
    weight = __fdiv_rn(expf(__fsub_rn(mine, largest)), sum);
  } else {
    weight = sigmoid_of(mine);
  }
  float sum = 0.0F;
  for (std::uint32_t i = 0; i < a.used; ++i) sum = __fadd_rn(sum, __shfl_sync(all, weight, i));
  if (a.weighting == route_weighting::sigmoid_renormalised && sum > 0.0F) weight = __fdiv_rn(weight, sum);
  if (lane < a.used) weights[lane] = __fmul_rn(weight, a.scale);
}

}  // namespace orcd::kernels
