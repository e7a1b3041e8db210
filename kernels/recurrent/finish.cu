// What comes after a scan, and around attention and feed-forwards of hybrid models: norms and gates of what
// heads give, queries between their gates, squared ReLUs.
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/product/packed_matrix.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warp_width_max = 512;  ///< of a norm that one warp computes

/// A group of a row, in parts of `lanes` threads that share it.
template <bool Warp>
__device__ void finish_group(const finish_mix_args& a, std::uint32_t group, float* scratch) {
  constexpr std::uint32_t lanes = Warp ? 32 : row_threads;
  const std::uint32_t width = a.width / a.groups;
  const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * a.stride + group * width;
  const float* const x = a.x + at;
  const float* const gate = a.gate + at;
  const float* const weight = a.weight + static_cast<std::uint64_t>(group) * a.weight_stride;
  __half* const out = a.out + static_cast<std::uint64_t>(blockIdx.x) * a.out_stride + group * width;
  const std::uint32_t lane = threadIdx.x % lanes;
  const auto value = [&](std::uint32_t i) { return a.gate_first ? __fmul_rn(x[i], silu(gate[i])) : x[i]; };
  float squares = 0.0F;
  for (std::uint32_t i = lane; i < width; i += lanes) {
    const float v = value(i);
    squares = __fmaf_rn(v, v, squares);
  }
  squares = Warp ? warp_sum(squares) : block_sum(squares, scratch);
  const float scale = rms_scale(squares, width, a.eps);
  for (std::uint32_t i = lane; i < width; i += lanes) {
    const float normed = __fmul_rn(__fmul_rn(value(i), scale), weight[i]);
    out[i] = to_half(a.gate_first ? normed : __fmul_rn(normed, silu(gate[i])));
  }
}

/// grid: (columns, groups or eights of them).
template <bool Warp>
__global__ void __launch_bounds__(row_threads) finish_mix_kernel(const finish_mix_args a) {
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  if (blockIdx.y == 0) {
    for (std::uint32_t i = a.width + threadIdx.x; i < padded_cols(a.width); i += row_threads)
      a.out[static_cast<std::uint64_t>(blockIdx.x) * a.out_stride + i] = to_half(0.0F);
  }
  const std::uint32_t group = Warp ? blockIdx.y * (row_threads / 32) + threadIdx.x / 32 : blockIdx.y;
  if (group < a.groups) finish_group<Warp>(a, group, scratch);
}

/// grid: (blocks of a column's values, columns), as the next two.
__global__ void __launch_bounds__(row_threads) gate_heads_kernel(const gate_heads_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = blockIdx.x * row_threads + threadIdx.x;
  if (i >= a.heads * a.width) return;
  const std::uint32_t head = i / a.width;
  const float gate = a.gates[static_cast<std::uint64_t>(blockIdx.y) * a.gate_stride +
                             static_cast<std::uint64_t>(2 * head + 1) * a.width + i % a.width];
  __half& x = a.x[static_cast<std::uint64_t>(blockIdx.y) * a.x_stride + i];
  x = to_half(__fdiv_rn(__half2float(x), __fadd_rn(1.0F, expf(-gate))));
}

__global__ void __launch_bounds__(row_threads) take_queries_kernel(const take_queries_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = blockIdx.x * row_threads + threadIdx.x;
  if (i >= a.heads * a.width) return;
  const std::uint64_t from = static_cast<std::uint64_t>(blockIdx.y) * 2 * a.heads * a.width +
                             static_cast<std::uint64_t>(2 * (i / a.width)) * a.width + i % a.width;
  a.qkv[static_cast<std::uint64_t>(blockIdx.y) * a.stride + i] = a.gated[from];
}

__global__ void __launch_bounds__(row_threads) squared_relu_kernel(const squared_relu_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = blockIdx.y * row_threads + threadIdx.x;
  if (i >= padded_cols(a.width)) return;
  const float x = i < a.width ? fmaxf(a.x[static_cast<std::uint64_t>(blockIdx.x) * a.width + i], 0.0F) : 0.0F;
  a.out[static_cast<std::uint64_t>(blockIdx.x) * a.out_stride + i] = to_half(__fmul_rn(x, x));
}

std::uint32_t blocks_of(std::uint32_t values) {
  return (values + row_threads - 1) / row_threads;
}

}  // namespace

int launch_finish_mix(const finish_mix_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.gate == nullptr || a.weight == nullptr || a.out == nullptr || a.columns == 0 ||
      a.groups == 0 || a.width % a.groups != 0 || a.out_stride < padded_cols(a.width))
    return cudaErrorInvalidValue;
  if (a.width / a.groups <= warp_width_max) {
    const dim3 grid(a.columns, (a.groups + row_threads / 32 - 1) / (row_threads / 32));
    return launch_dependent(finish_mix_kernel<true>, grid, dim3(row_threads), 0, stream, a);
  }
  return launch_dependent(finish_mix_kernel<false>, dim3(a.columns, a.groups), dim3(row_threads), 0, stream,
                          a);
}

int launch_gate_heads(const gate_heads_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.gates == nullptr || a.columns == 0 || a.columns > 65'535)
    return cudaErrorInvalidValue;
  return launch_dependent(gate_heads_kernel, dim3(blocks_of(a.heads * a.width), a.columns), dim3(row_threads),
                          0, stream, a);
}

int launch_take_queries(const take_queries_args& a, CUstream_st* stream) {
  if (a.gated == nullptr || a.qkv == nullptr || a.columns == 0 || a.columns > 65'535)
    return cudaErrorInvalidValue;
  return launch_dependent(take_queries_kernel, dim3(blocks_of(a.heads * a.width), a.columns),
                          dim3(row_threads), 0, stream, a);
}

int launch_squared_relu(const squared_relu_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.out == nullptr || a.rows == 0 || a.out_stride < padded_cols(a.width))
    return cudaErrorInvalidValue;
  return launch_dependent(squared_relu_kernel, dim3(a.rows, blocks_of(padded_cols(a.width))),
                          dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
