// The arithmetic of engine/sampling on the device, one rounded operation at a time, because contraction into
// fused multiply-adds would change bits. The host's definitions are in engine/sampling/portable_exp.hpp,
// likelihood_cut.hpp and sampling.cpp; test/gpu compares the two.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// x in [-80, 0].
__device__ inline float portable_exp(float x) {
  constexpr float rounder = 0x1.8p23F;
  const float shifted = __fadd_rn(__fmul_rn(x, 0x1.715476p+0F), rounder);
  const float n = __fsub_rn(shifted, rounder);
  const float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0x1.63p-1F)), __fmul_rn(n, -0x1.bd0106p-13F));
  float e = 1.0F / 5040.0F;
  e = __fadd_rn(__fmul_rn(e, r), 1.0F / 720.0F);
  e = __fadd_rn(__fmul_rn(e, r), 1.0F / 120.0F);
  e = __fadd_rn(__fmul_rn(e, r), 1.0F / 24.0F);
  e = __fadd_rn(__fmul_rn(e, r), 1.0F / 6.0F);
  e = __fadd_rn(__fmul_rn(e, r), 0.5F);
  e = __fadd_rn(__fmul_rn(e, r), 1.0F);
  e = __fadd_rn(__fmul_rn(e, r), 1.0F);
  const std::uint32_t exponent = __float_as_uint(shifted) - __float_as_uint(rounder);
  return __fmul_rn(e, __uint_as_float((exponent + 127U) << 23U));
}

/// What weights depend on besides the score.
struct weight_scale {
  float best = 0.0F;
  float temperature = 1.0F;
  float reciprocal = 1.0F;  ///< of the temperature
  float limit = 0.0F;       ///< gaps below it have no weight

  __device__ void set(float highest, float t) {
    best = highest;
    temperature = t;
    reciprocal = __frcp_rn(t);
    limit = -28.5F * t;
  }
};

/// gap / temperature, rounded as one IEEE division, for limit <= gap <= 0. The product with the reciprocal
/// may be off by an ulp or two; each exact remainder corrects it, and nothing can underflow here.
__device__ inline float divided(float gap, const weight_scale& s) {
  if (!(gap < -0x1p-50F && s.temperature > 0x1p-20F)) return __fdiv_rn(gap, s.temperature);
  float q = __fmul_rn(gap, s.reciprocal);
  q = __fmaf_rn(__fmaf_rn(-q, s.temperature, gap), s.reciprocal, q);
  return __fmaf_rn(__fmaf_rn(-q, s.temperature, gap), s.reciprocal, q);
}

/// exp((score - best) / temperature) in units of 2^-40, rounded down; 0 below the limit, as e^-28 < 2^-40.
__device__ inline std::uint64_t weight_of(float score, const weight_scale& s) {
  const float gap = __fsub_rn(score, s.best);
  if (!(gap > s.limit)) return 0;
  const float exponent = divided(gap, s);
  return static_cast<std::uint64_t>(__float2ll_rz(__fmul_rn(portable_exp(exponent), 0x1.0p40F)));
}

/// Ascending in the order "higher score first, then lower id"; not for NaN. -0 counts as 0.
__device__ inline std::uint64_t order_of(float score, std::uint32_t id) {
  const std::uint32_t bits = __float_as_uint(__fadd_rn(score, 0.0F));
  const std::uint32_t key = (bits & 0x8000'0000U) != 0 ? ~bits : bits | 0x8000'0000U;
  return static_cast<std::uint64_t>(~key) << 32U | id;
}

/// The score from which an order value was made.
__device__ inline float score_of(std::uint64_t order) {
  const std::uint32_t key = ~static_cast<std::uint32_t>(order >> 32U);
  return __uint_as_float((key & 0x8000'0000U) != 0 ? key & 0x7FFF'FFFFU : ~key);
}

/// floor(draw * total), where draw = steps / 2^53.
__device__ inline std::uint64_t target_of(std::uint64_t steps, std::uint64_t total) {
  return __umul64hi(steps, total) << 11U | (steps * total) >> 53U;
}

}  // namespace orcd::kernels
