// How a router chooses experts: each logit by one warp, then the choice by one warp.
#pragma once

#include <cmath>

#include "kernels/layer/experts_args.hpp"

namespace orcd::kernels {

/// One warp: an expert's logit. `width` is a multiple of 4, both rows are 16-byte aligned. A lane takes four
/// products of every 128 and adds them up in four sums.
__device__ inline float logit_of(const float* w, const float* normed, std::uint32_t width) {
  float4 sum{0.0F, 0.0F, 0.0F, 0.0F};
#pragma unroll 8
  for (std::uint32_t i = threadIdx.x % 32 * 4; i < width; i += 128) {
    const float4 a = *reinterpret_cast<const float4*>(w + i);
    const float4 b = *reinterpret_cast<const float4*>(normed + i);
    sum = {__fmaf_rn(a.x, b.x, sum.x), __fmaf_rn(a.y, b.y, sum.y), __fmaf_rn(a.z, b.z, sum.z),
           __fmaf_rn(a.w, b.w, sum.w)};
  }
  float all = __fadd_rn(__fadd_rn(sum.x, sum.y), __fadd_rn(sum.z, sum.w));
#pragma unroll
  for (std::uint32_t offset = 16; offset > 0; offset /= 2)
    all = __fadd_rn(all, __shfl_xor_sync(0xFFFFFFFFU, all, offset));
  return all;
}

/// Bits of a logit that order like the logits; NaN is below everything.
__device__ __forceinline__ std::uint32_t rank_of(float logit) {
  if (isnan(logit)) return 0;
  const std::uint32_t bits = __float_as_uint(logit);
  return bits & 0x80000000U ? ~bits : bits | 0x80000000U;
}
/// The logit of a rank; NaN for rank 0.
__device__ __forceinline__ float logit_of_rank(std::uint32_t rank) {
  if (rank == 0) return __uint_as_float(0x7FFFFFFFU);
  return __uint_as_float(rank & 0x80000000U ? rank & 0x7FFFFFFFU : ~rank);
}

/// choose() among up to 32 * Keys experts. Each lane reads its logits once.
template <std::uint32_t Keys, class Logit, class Known>
__device__ __forceinline__ void choose_among(const route_args& a, Logit logit_at, std::int32_t* chosen,
                                             float* weights, Known known) {
  constexpr std::uint32_t all = 0xFFFFFFFFU;
  constexpr std::uint32_t no_expert = 0xFFFFFFFFU;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t ranks[Keys];
  std::uint32_t ids[Keys];
#pragma unroll
  for (std::uint32_t i = 0; i < Keys; ++i) {
    const std::uint32_t e = lane + 32 * i;
    ids[i] = e < a.experts ? e : no_expert;
    ranks[i] = e < a.experts ? rank_of(logit_at(e)) : 0;
  }
  std::uint32_t mine = 0;  // lane i keeps choice i
#pragma unroll 1
  for (std::uint32_t i = 0; i < a.used; ++i) {
    std::uint32_t rank = ranks[0];
#pragma unroll
    for (std::uint32_t k = 1; k < Keys; ++k) rank = max(rank, ranks[k]);
    rank = __reduce_max_sync(all, rank);
    std::uint32_t id = no_expert;
#pragma unroll
    for (std::uint32_t k = 0; k < Keys; ++k) {
      if (ranks[k] == rank) id = min(id, ids[k]);
    }
    id = __reduce_min_sync(all, id);
#pragma unroll
    for (std::uint32_t k = 0; k < Keys; ++k) {
      if (ids[k] != id) continue;
      ids[k] = no_expert;
      ranks[k] = 0;
    }
    if (lane != i) continue;
    mine = rank;
    chosen[i] = static_cast<std::int32_t>(id);
  }
  known();
  const float logit = logit_of_rank(mine);
  const float p = expf(__fsub_rn(logit, __shfl_sync(all, logit, 0)));
  float sum = 0.0F;
#pragma unroll 1
  for (std::uint32_t i = 0; i < a.used; ++i) sum = __fadd_rn(sum, __shfl_sync(all, p, i));
  if (lane < a.used) weights[lane] = __fdiv_rn(p, sum);
}

/// One warp: chooses the `used` highest of the logits logit_at(expert); ties go to the lowest id. Calls
/// known() as soon as the experts are known, before their weights are computed.
template <class Logit, class Known>
__device__ __forceinline__ void choose(const route_args& a, Logit logit_at, std::int32_t* chosen,
                                       float* weights, Known known) {
  // Four keys a lane are as many experts as large mixtures have; what is looked at grows with the keys.
  if (a.experts <= 32)
    choose_among<1>(a, logit_at, chosen, weights, known);
  else if (a.experts <= 128)
    choose_among<4>(a, logit_at, chosen, weights, known);
  else
    choose_among<experts_max / 32>(a, logit_at, chosen, weights, known);
}

/// Adds one expert's output to the weighted sum of the outputs before it.
__device__ __forceinline__ float with_expert_output(float sum, float weight, float part) {
  return __fmaf_rn(weight, part, sum);
}
/// The weighted sum of `used` experts' outputs.
template <class Part>
__device__ __forceinline__ float combined(std::uint32_t used, const float* weights, Part part) {
  float sum = 0.0F;
  for (std::uint32_t i = 0; i < used; ++i) sum = with_expert_output(sum, weights[i], part(i));
  return sum;
}

}  // namespace orcd::kernels
