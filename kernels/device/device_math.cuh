// Small device functions that several kernels share, so that a value is computed in one way everywhere.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace orcd::kernels {

/// Threads that reduce a row, in every kernel: the order of the reduction depends on this number alone.
inline constexpr std::uint32_t row_threads = 256;

/// Synchronizes the first row_threads threads of a block that may have more.
__device__ inline void sync_row_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(row_threads) : "memory");
}

/// Sum over the lanes of a warp, in a fixed tree.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xFFFFFFFFU, v, offset);
  return v;
}
__device__ inline std::uint64_t warp_min(std::uint64_t v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const std::uint64_t other = __shfl_xor_sync(0xFFFFFFFFU, v, offset);
    v = other < v ? other : v;
  }
  return v;
}
/// Adds the sums of the eight warps that reduce a row, left to right.
__device__ __forceinline__ float sum_of_warps(const float* sums) {
  float sum = 0.0F;
#pragma unroll
  for (std::uint32_t w = 0; w < row_threads / 32; ++w) sum += sums[w];
  return sum;
}

/// Sum over the block's first row_threads threads, in a fixed tree; every thread gets it. `scratch` [8] is in
/// shared memory. All threads of the block call it; synchronized at the end.
__device__ inline float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0 && threadIdx.x < row_threads) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const float sum = sum_of_warps(scratch);
  __syncthreads();  // before scratch is written again
  return sum;
}

/// 1 / sqrt(mean(x^2) + eps) of n values with this sum of squares.
__device__ inline float rms_scale(float squares, std::uint32_t n, float eps) {
  return rsqrtf(squares / static_cast<float>(n) + eps);
}

/// f16 with saturation: an activation past the range of f16 must not become infinite and the row NaN.
__device__ inline __half to_half(float v) {
  return __float2half_rn(fminf(fmaxf(v, -65504.0F), 65504.0F));
}

__device__ inline float silu(float v) {
  return v / (1.0F + expf(-v));
}

/// gpt-oss: the gate is limited from above, up on both sides, both after their biases.
__device__ inline float swiglu_clamped(float gate, float up) {
  const float g = fminf(gate, 7.0F);
  const float u = fminf(fmaxf(up, -7.0F), 7.0F);
  return g / (1.0F + expf(-1.702F * g)) * (u + 1.0F);
}

/// What e is raised to in geglu(); nothing is left to contraction, so that all products give the same bits.
__device__ inline float geglu_exponent(float gate) {
  const float cube = __fmul_rn(__fmul_rn(gate, gate), gate);
  return __fmul_rn(-2.0F * 0.79788456F, __fmaf_rn(0.044715F, cube, gate));
}
/// The tanh form of GELU of the gate (kernels/host/gelu.hpp), times up: x/2 (1 + tanh u) = x / (1 + e^-2u).
__device__ inline float geglu(float gate, float up) {
  return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0F, expf(geglu_exponent(gate)))), up);
}

/// Prefetches `bytes` (a multiple of 16) from a 16-byte aligned address into L2; a hint.
__device__ inline void prefetch_l2(const void* p, std::uint64_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(static_cast<std::uint32_t>(bytes))
               : "memory");
}

inline constexpr std::uint32_t l2_sector_bytes = 32;
/// Prefetches one sector into L2. The lanes of a warp prefetch one each at the same time; bulk prefetches of
/// several lanes would be issued one after the other.
__device__ inline void prefetch_sector(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory");
}

/// Programmatic dependent launch: waits until the kernels before this one in the stream have ended and what
/// they wrote is visible.
__device__ inline void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
/// Lets the next kernel in the stream start its prologue, once all blocks have called this or ended
/// (launch.cuh).
__device__ inline void allow_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace orcd::kernels
