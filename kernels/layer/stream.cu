// One block a row where a row is reduced; element-wise kernels a thread a value.
#include <algorithm>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/norm_row.cuh"
#include "kernels/layer/stream.hpp"
#include "kernels/product/packed_matrix.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t layer_input_width_max = 1'024;

/// Sum of squares of `n` values less `mean`, by the whole block.
__device__ float squares_of(const float* x, std::uint32_t n, float mean, float* scratch) {
  float squares = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < n; i += row_threads) {
    const float d = __fsub_rn(x[i], mean);
    squares = __fmaf_rn(d, d, squares);
  }
  return block_sum(squares, scratch);
}

/// The least power of two, 1 at least, by which the block's row has no value above 2^14.
__device__ float power_above(const float* x, std::uint32_t n, float* scratch) {
  float largest = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < n; i += row_threads) largest = fmaxf(largest, fabsf(x[i]));
#pragma unroll
  for (std::uint32_t offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, offset));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = largest;
  __syncthreads();
  for (std::uint32_t w = 0; w < row_threads / 32; ++w) largest = fmaxf(largest, scratch[w]);
  constexpr float most = 16'384.0F;
  if (!(largest > most)) return 1.0F;
  int exponent = 0;
  frexpf(__fdiv_rn(largest, most), &exponent);
  return ldexpf(1.0F, exponent);
}

__global__ void __launch_bounds__(row_threads) state_to_half_kernel(state_to_half_args a) {
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t row = a.rows != nullptr ? static_cast<std::uint32_t>(a.rows[blockIdx.x]) : blockIdx.x;
  const float* x = a.x + static_cast<std::uint64_t>(row) * a.width;
  __half* out = a.out + static_cast<std::uint64_t>(blockIdx.x) * a.out_stride;
  float mean = 0.0F;
  float scale = 1.0F;
  if (a.weight != nullptr) {
    float sum = 0.0F;
    for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) sum = __fadd_rn(sum, x[i]);
    mean = __fdiv_rn(block_sum(sum, scratch), static_cast<float>(a.width));
    scale = rms_scale(squares_of(x, a.width, mean, scratch), a.width, a.eps);
  }
  float shrunk = 1.0F;
  if (a.factors != nullptr) {
    const float factor = power_above(x, a.width, scratch);
    if (threadIdx.x == 0) a.factors[blockIdx.x] = factor;
    shrunk = __fdiv_rn(1.0F, factor);
  }
  const std::uint32_t padded = padded_cols(a.width);
  for (std::uint32_t i = threadIdx.x; i < padded; i += row_threads) {
    float v = i < a.width ? __fmul_rn(x[i], shrunk) : 0.0F;
    if (a.weight != nullptr && i < a.width) v = __fmul_rn(__fmul_rn(__fsub_rn(v, mean), scale), a.weight[i]);
    if (a.bias != nullptr && i < a.width) v = __fadd_rn(v, a.bias[i]);
    out[i] = to_half(v);
  }
}

/// What add_normed leaves: the new row in registers as far as they go, and then its norm in f16.
__device__ void write_next(const add_normed_args& a, const float (&r)[norm_values], const float* x,
                           const norm_weights<norm_values>& weights, float* scratch) {
  constexpr std::uint32_t in_registers = norm_values * row_threads;
  __half* const out = a.next + static_cast<std::uint64_t>(blockIdx.x) * a.next_stride;
  float scale = 1.0F;
  if (a.next_weight != nullptr) {
    float squares = 0.0F;
#pragma unroll
    for (std::uint32_t i = 0; i < norm_values; ++i) squares = fmaf(r[i], r[i], squares);
    for (std::uint32_t at = threadIdx.x + in_registers; at < a.width; at += row_threads)
      squares = fmaf(x[at], x[at], squares);
    scale = rms_scale(block_sum(squares, scratch), a.width, a.next_eps);
  }
  const auto value = [&](float v, float weight) {
    return to_half(a.next_weight != nullptr ? __fmul_rn(__fmul_rn(v, scale), weight) : v);
  };
  const std::uint32_t padded = padded_cols(a.width);
#pragma unroll
  for (std::uint32_t i = 0; i < norm_values; ++i) {
    const std::uint32_t at = threadIdx.x + i * row_threads;
    if (at < padded) out[at] = at < a.width ? value(r[i], weights.w[i]) : to_half(0.0F);
  }
  for (std::uint32_t at = threadIdx.x + in_registers; at < padded; at += row_threads) {
    const float weight = a.next_weight != nullptr && at < a.width ? a.next_weight[at] : 0.0F;
    out[at] = at < a.width ? value(x[at], weight) : to_half(0.0F);
  }
}

/// Both rows are read at once, so that their latencies are one; a thread reads what it wrote itself alone.
__global__ void __launch_bounds__(row_threads) add_normed_kernel(const __grid_constant__ add_normed_args a) {
  constexpr std::uint32_t in_registers = norm_values * row_threads;
  __shared__ float scratch[2][8];
  const norm_weights weights(a.weight, a.width);
  const norm_weights next_weights(a.next_weight, a.width);
  wait_for_previous_kernel();
  allow_next_kernel();
  const float* h = a.h + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  float* x = a.x + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  float v[norm_values];
  float r[norm_values];
#pragma unroll
  for (std::uint32_t i = 0; i < norm_values; ++i) {
    const std::uint32_t at = threadIdx.x + i * row_threads;
    v[i] = at < a.width ? h[at] : 0.0F;
    r[i] = at < a.width ? x[at] : 0.0F;
  }
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t i = 0; i < norm_values; ++i) squares = fmaf(v[i], v[i], squares);
  for (std::uint32_t at = threadIdx.x + in_registers; at < a.width; at += row_threads)
    squares = fmaf(h[at], h[at], squares);
  const float scale = rms_scale(block_sum(squares, scratch[0]), a.width, a.eps);
#pragma unroll
  for (std::uint32_t i = 0; i < norm_values; ++i) {
    const std::uint32_t at = threadIdx.x + i * row_threads;
    r[i] = __fmul_rn(__fadd_rn(r[i], __fmul_rn(__fmul_rn(v[i], scale), weights.w[i])), a.scale);
    if (at < a.width) x[at] = r[i];
  }
  for (std::uint32_t at = threadIdx.x + in_registers; at < a.width; at += row_threads)
    x[at] = __fmul_rn(__fadd_rn(x[at], __fmul_rn(__fmul_rn(h[at], scale), a.weight[at])), a.scale);
  if (a.next != nullptr) write_next(a, r, x, next_weights, scratch[1]);
}

__global__ void __launch_bounds__(row_threads) add_norms_kernel(const __grid_constant__ add_norms_args a) {
  __shared__ float scratch[2][8];
  wait_for_previous_kernel();
  allow_next_kernel();
  float* const x = a.a + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  const float* const y = a.b + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  const float of_x = rms_scale(squares_of(x, a.width, 0.0F, scratch[0]), a.width, a.eps);
  const float of_y = rms_scale(squares_of(y, a.width, 0.0F, scratch[1]), a.width, a.eps);
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) {
    x[i] = __fadd_rn(__fmul_rn(__fmul_rn(x[i], of_x), a.a_weight[i]),
                     __fmul_rn(__fmul_rn(y[i], of_y), a.b_weight[i]));
  }
}

/// grid: (layers, columns).
__global__ void __launch_bounds__(row_threads)
    layer_inputs_kernel(const __grid_constant__ layer_inputs_args a) {
  constexpr std::uint32_t values = layer_input_width_max / row_threads;
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint64_t row = (std::uint64_t{blockIdx.y} * a.layers + blockIdx.x) * a.width;
  float* const table = a.table + row;
  float c[values];
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t k = 0; k < values; ++k) {
    const std::uint32_t i = threadIdx.x + k * row_threads;
    c[k] = i < a.width ? __fmul_rn(a.projected[row + i], a.projected_scale) : 0.0F;
    squares = __fmaf_rn(c[k], c[k], squares);
  }
  const float scale = rms_scale(block_sum(squares, scratch), a.width, a.eps);
#pragma unroll
  for (std::uint32_t k = 0; k < values; ++k) {
    const std::uint32_t i = threadIdx.x + k * row_threads;
    if (i >= a.width) continue;
    const float normed = __fmul_rn(__fmul_rn(c[k], scale), a.weight[i]);
    table[i] = __fmul_rn(__fadd_rn(normed, __fmul_rn(table[i], a.table_scale)), 0.70710678F);
  }
}

__global__ void __launch_bounds__(row_threads) add_gated_kernel(add_gated_args a) {
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  const __half* normed = a.normed + static_cast<std::uint64_t>(blockIdx.x) * a.normed_stride;
  const float* h = a.h + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  float* x = a.x + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  float sum = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads)
    sum = __fmaf_rn(__half2float(normed[i]), a.gate[i], sum);
  const float gate = __fdiv_rn(1.0F, __fadd_rn(1.0F, expf(-block_sum(sum, scratch))));
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) x[i] = __fmaf_rn(gate, h[i], x[i]);
}

/// One block: row[i] = row[i] * by * weight[i] / sqrt(mean(row^2) + eps), without the norm if there is no
/// weight.
__device__ void prepare_part(float* row, std::uint32_t width, const float* weight, float eps, float by,
                             float* scratch) {
  if (weight == nullptr && by == 1.0F) return;
  const float scale = weight == nullptr ? 1.0F : rms_scale(squares_of(row, width, 0.0F, scratch), width, eps);
  for (std::uint32_t i = threadIdx.x; i < width; i += row_threads) {
    const float normed = weight == nullptr ? row[i] : __fmul_rn(__fmul_rn(row[i], scale), weight[i]);
    row[i] = __fmul_rn(normed, by);
  }
}

__global__ void __launch_bounds__(row_threads) prepare_qkv_kernel(prepare_qkv_args a) {
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  float* row = a.qkv + static_cast<std::uint64_t>(blockIdx.x) * a.stride;
  const std::int32_t position = a.steps[blockIdx.x].position;
  float by = 1.0F;
  if (a.scale != 0.0F && position > 0) {
    const std::uint32_t periods = static_cast<std::uint32_t>(position) / a.period;
    by = __fmaf_rn(a.scale, logf(static_cast<float>(1 + periods)), 1.0F);
  }
  prepare_part(row, a.q_width, a.q_norm, a.eps, by, scratch);
  prepare_part(row + a.q_width, a.k_width, a.k_norm, a.eps, 1.0F, scratch);
}

__device__ float gelu_tanh_of(float x) {
  const float u = 0.79788456F * (x + 0.044715F * x * x * x);
  return x / (1.0F + expf(-2.0F * u));
}

/// grid: (blocks of a column's values, columns).
__global__ void __launch_bounds__(row_threads) gelu_tanh_kernel(gelu_tanh_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = blockIdx.x * row_threads + threadIdx.x;
  if (i >= padded_cols(a.width)) return;
  const std::uint64_t column = blockIdx.y;
  const float* x = a.x + column * a.width * (a.gated ? 2 : 1);
  float v = 0.0F;
  if (i < a.width) {
    const float up = a.gated                ? x[a.width + i]  // before the other value is waited for
                     : a.factors != nullptr ? a.factors[column * a.factors_stride + i]
                                            : 1.0F;
    v = gelu_tanh_of(a.factors != nullptr ? __fmul_rn(x[i], a.x_factors[column]) : x[i]);
    if (a.gated || a.factors != nullptr) v *= up;
  }
  a.out[column * a.out_stride + i] = to_half(v);
}

__global__ void __launch_bounds__(row_threads) scale_values_kernel(scale_values_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * row_threads;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * row_threads + threadIdx.x; i < a.count;
       i += step) {
    const float scaled = __fmul_rn(a.scale, a.x[i]);
    a.x[i] = a.cap > 0.0F ? __fmul_rn(a.cap, tanhf(__fdiv_rn(scaled, a.cap))) : scaled;
  }
}

bool fits(const __half* out, std::uint32_t stride, std::uint32_t width, std::uint32_t columns) {
  return out != nullptr && columns > 0 && width > 0 && stride % 8 == 0 && stride >= padded_cols(width);
}

}  // namespace

int launch_state_to_half(const state_to_half_args& a, CUstream_st* stream) {
  if (a.x == nullptr || (a.weight == nullptr && a.bias != nullptr) ||
      (a.weight != nullptr && a.factors != nullptr) || !fits(a.out, a.out_stride, a.width, a.columns))
    return cudaErrorInvalidValue;
  return launch_dependent(state_to_half_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

int launch_add_normed(const add_normed_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.h == nullptr || a.weight == nullptr || a.width == 0 || a.columns == 0 ||
      (a.next != nullptr && !fits(a.next, a.next_stride, a.width, a.columns)) ||
      (a.next == nullptr && a.next_weight != nullptr))
    return cudaErrorInvalidValue;
  return launch_dependent(add_normed_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

int launch_add_gated(const add_gated_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.h == nullptr || a.gate == nullptr || a.normed == nullptr || a.width == 0 ||
      a.normed_stride < a.width || a.columns == 0)
    return cudaErrorInvalidValue;
  return launch_dependent(add_gated_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

int launch_prepare_qkv(const prepare_qkv_args& a, CUstream_st* stream) {
  if (a.qkv == nullptr || a.steps == nullptr || a.columns == 0 || a.q_width == 0 || a.k_width == 0 ||
      a.stride < a.q_width + a.k_width || (a.scale != 0.0F && a.period == 0))
    return cudaErrorInvalidValue;
  return launch_dependent(prepare_qkv_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

int launch_add_norms(const add_norms_args& a, CUstream_st* stream) {
  if (a.a == nullptr || a.b == nullptr || a.a_weight == nullptr || a.b_weight == nullptr || a.width == 0 ||
      a.columns == 0)
    return cudaErrorInvalidValue;
  return launch_dependent(add_norms_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

int launch_layer_inputs(const layer_inputs_args& a, CUstream_st* stream) {
  if (a.projected == nullptr || a.table == nullptr || a.weight == nullptr || a.width == 0 ||
      a.width > layer_input_width_max || a.layers == 0 || a.columns == 0)
    return cudaErrorInvalidValue;
  return launch_dependent(layer_inputs_kernel, dim3(a.layers, a.columns), dim3(row_threads), 0, stream, a);
}

int launch_gelu_tanh(const gelu_tanh_args& a, CUstream_st* stream) {
  if (a.x == nullptr || (a.factors != nullptr && (a.gated || a.x_factors == nullptr)) ||
      !fits(a.out, a.out_stride, a.width, a.columns))
    return cudaErrorInvalidValue;
  const std::uint32_t blocks = (padded_cols(a.width) + row_threads - 1) / row_threads;
  return launch_dependent(gelu_tanh_kernel, dim3(blocks, a.columns), dim3(row_threads), 0, stream, a);
}

int launch_scale_values(const scale_values_args& a, CUstream_st* stream) {
  constexpr std::uint64_t blocks_max = 1024;
  if (a.x == nullptr || a.count == 0) return cudaErrorInvalidValue;
  const std::uint64_t blocks = std::min(blocks_max, (a.count + row_threads - 1) / row_threads);
  return launch_dependent(scale_values_kernel, dim3(static_cast<std::uint32_t>(blocks)), dim3(row_threads), 0,
                          stream, a);
}

}  // namespace orcd::kernels
