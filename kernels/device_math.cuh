// Small device functions that several kernels share, so that a value is computed one way everywhere.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace orcd::kernels {

/// Threads of every block that reduces a row: the order of a reduction depends on this number alone.
inline constexpr std::uint32_t row_threads = 256;

/// Synchronizes the first row_threads threads of a block, which may have more.
__device__ inline void sync_row_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(row_threads) : "memory");
}

/// Sum of a value of each lane, in a fixed tree.
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
/// Sum of the sums of the warps of row_threads threads, left to right.
__device__ __forceinline__ float sum_of_warps(const float* sums) {
  float sum = 0.0F;
#pragma unroll
  for (std::uint32_t w = 0; w < row_threads / 32; ++w) sum += sums[w];
  return sum;
}

/// Sum of one value of each of the block's first row_threads threads, in a fixed tree; every thread gets it.
/// `scratch` [8] is shared memory; ends synchronized.
__device__ inline float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0 && threadIdx.x < row_threads) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const float sum = sum_of_warps(scratch);
  __syncthreads();  // scratch may be written again
  return sum;
}

/// 1 / sqrt(mean(x^2) + eps) of n values with this sum of squares.
__device__ inline float rms_scale(float squares, std::uint32_t n, float eps) {
  return rsqrtf(squares / static_cast<float>(n) + eps);
}

/// f16 with saturation: an activation past the f16 range must not turn the whole row into NaN.
__device__ inline __half to_half(float v) {
  return __float2half_rn(fminf(fmaxf(v, -65504.0F), 65504.0F));
}

__device__ inline float silu(float v) {
  return v / (1.0F + expf(-v));
}

/// gpt-oss: gate clamped from above, up on both sides, both after their biases.
__device__ inline float swiglu_clamped(float gate, float up) {
  const float g = fminf(gate, 7.0F);
  const float u = fminf(fmaxf(up, -7.0F), 7.0F);
  return g / (1.0F + expf(-1.702F * g)) * (u + 1.0F);
}

/// Asks L2 for `bytes` (a multiple of 16) from a 16-byte aligned address; a hint.
__device__ inline void prefetch_l2(const void* p, std::uint64_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(static_cast<std::uint32_t>(bytes))
               : "memory");
}

inline constexpr std::uint32_t l2_sector_bytes = 32;
/// Asks L2 for one sector; each lane for its own, where a bulk prefetch would be one lane after the other.
__device__ inline void prefetch_sector(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory");
}

/// Programmatic dependent launch: what follows waits for the kernels before this one in the stream.
__device__ inline void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
/// The next kernel may start its own prologue now.
__device__ inline void allow_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace orcd::kernels
