// The RMS norm of one row inside a kernel that has it as input, by the first row_threads threads of a block;
// bit for bit as launch_norm_to_half() computes it.
#pragma once

#include "kernels/device/device_math.cuh"

namespace orcd::kernels {

/// Values that a thread keeps in registers, if it does not know that there are fewer; wider rows are read
/// twice.
inline constexpr std::uint32_t norm_values = 16;

/// The weights of a norm. Constants, so read them before the wait for the kernel that writes the row.
template <std::uint32_t Values = norm_values>
struct norm_weights {
  const float* weight;
  float w[Values];

  __device__ __forceinline__ norm_weights(const float* norm_weight, std::uint32_t n) : weight(norm_weight) {
#pragma unroll
    for (std::uint32_t i = 0; i < Values; ++i) {
      const std::uint32_t at = threadIdx.x + i * row_threads;
      w[i] = weight != nullptr && threadIdx.x < row_threads && at < n ? __ldg(weight + at) : 0.0F;
    }
  }
};

/// Calls store(i, x[i] * scale * weight[i]) for i < n and store(i, 0) for n <= i < padded, which is less than
/// n + row_threads. Not synchronized at the end.
template <std::uint32_t Values, class Store>
__device__ __forceinline__ void norm_row(const float* x, std::uint32_t n, std::uint32_t padded,
                                         const norm_weights<Values>& weights, float eps, float* scratch,
                                         Store store) {
  const bool working = threadIdx.x < row_threads;
  float v[Values];
#pragma unroll
  for (std::uint32_t i = 0; i < Values; ++i) {
    const std::uint32_t at = threadIdx.x + i * row_threads;
    v[i] = working && at < n ? x[at] : 0.0F;
  }
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t i = 0; i < Values; ++i) squares = fmaf(v[i], v[i], squares);
  constexpr std::uint32_t in_registers = Values * row_threads;
  if (working) {
    for (std::uint32_t at = threadIdx.x + in_registers; at < n; at += row_threads)
      squares = fmaf(x[at], x[at], squares);
  }
  const float scale = rms_scale(block_sum(squares, scratch), n, eps);
  if (!working) return;
#pragma unroll
  for (std::uint32_t i = 0; i < Values; ++i) {
    const std::uint32_t at = threadIdx.x + i * row_threads;
    if (at < padded) store(at, at < n ? __fmul_rn(__fmul_rn(v[i], scale), weights.w[i]) : 0.0F);
  }
  for (std::uint32_t at = threadIdx.x + in_registers; at < padded; at += row_threads)
    store(at, at < n ? __fmul_rn(__fmul_rn(x[at], scale), weights.weight[at]) : 0.0F);
}

}  // namespace orcd::kernels
