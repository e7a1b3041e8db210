// The f32 operations around products of int8 (kernels/host/ternary.hpp), so that every kernel rounds a value
// in the same way.
#pragma once

#include <cstdint>

#include "kernels/device/device_math.cuh"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels {

/// What rounds a row with this largest magnitude.
__device__ __forceinline__ float int8_scale_of(float largest) {
  return __fdiv_rn(int8_largest, largest);
}

/// A value as an integer. The lower bound comes first, so that NaN becomes it.
__device__ __forceinline__ std::int32_t to_int8(float v, float scale) {
  return __float2int_rn(fminf(fmaxf(__fmul_rn(v, scale), -int8_largest - 1.0F), int8_largest));
}

/// A product's value: `codes` is the sum of codes from 0 to 2 times the activations, `sum` that of the
/// activations.
__device__ __forceinline__ float ternary_value(std::int32_t codes, std::int32_t sum, float scale,
                                               float code_scale) {
  return __fmul_rn(__fdiv_rn(static_cast<float>(codes - sum), scale), code_scale);
}

/// max(gate, 0)^2 up, in f32: the square exceeds f16 in real models.
__device__ __forceinline__ float relu_squared_gated(float gate, float up) {
  const float positive = gate > 0.0F || isnan(gate) ? gate : 0.0F;
  return __fmul_rn(__fmul_rn(positive, positive), up);
}
__device__ __forceinline__ float silu_gated(float gate, float up) {
  return __fmul_rn(silu(gate), up);
}

/// sum += four unsigned values times four signed ones.
__device__ __forceinline__ std::int32_t dot_u8_s8(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  std::int32_t out;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
  return out;
}

/// c += 16 rows of 32 unsigned values times 32 signed values of 8 columns (mma.m16n8k32).
__device__ __forceinline__ void mma_u8_s8(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace orcd::kernels
