// Positions, post-norm and GELU of encoders; one block a row, its first reduction in a fixed tree.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/layer/encoder.hpp"
#include "kernels/product/packed_matrix.hpp"

namespace orcd::kernels {
namespace {

constexpr float inverse_root_two = 0.70710678F;  // 1 / sqrt(2)

__global__ void __launch_bounds__(row_threads) add_positions_kernel(add_positions_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const auto position = static_cast<std::uint32_t>(a.steps[blockIdx.x].position);
  const bool second = a.second_segment != 0 && position >= a.second_segment;
  const float* type = a.types + (second ? a.width : 0U);
  const float* row = a.positions + static_cast<std::uint64_t>(position) * a.width;
  float* x = a.x + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads)
    x[i] = __fadd_rn(__fadd_rn(x[i], type[i]), row[i]);
}

__global__ void __launch_bounds__(row_threads) post_norm_kernel(post_norm_args a) {
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  float* x = a.x + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  __half* out = a.out + static_cast<std::uint64_t>(blockIdx.x) * a.out_stride;
  float sum = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) sum += x[i];
  const float mean = block_sum(sum, scratch) / static_cast<float>(a.width);
  float squares = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) {
    const float d = x[i] - mean;
    squares = fmaf(d, d, squares);
  }
  const float scale = rms_scale(block_sum(squares, scratch), a.width, a.eps);
  const std::uint32_t padded = padded_cols(a.width);
  for (std::uint32_t i = threadIdx.x; i < padded; i += row_threads) {
    if (i >= a.width) {
      out[i] = __float2half_rn(0.0F);
      continue;
    }
    const float normed = fmaf((x[i] - mean) * scale, a.weight[i], a.bias[i]);
    x[i] = normed;
    out[i] = to_half(normed);
  }
}

__global__ void __launch_bounds__(row_threads) gelu_kernel(gelu_to_half_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const float* x = a.x + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  __half* out = a.out + static_cast<std::uint64_t>(blockIdx.x) * a.out_stride;
  const std::uint32_t padded = padded_cols(a.width);
  for (std::uint32_t i = threadIdx.x; i < padded; i += row_threads) {
    const float v = i < a.width ? x[i] : 0.0F;
    out[i] = to_half(0.5F * v * erfcf(-inverse_root_two * v));
  }
}

bool fits(const __half* out, std::uint32_t stride, std::uint32_t width, std::uint32_t columns) {
  return out != nullptr && columns > 0 && width > 0 && stride % 8 == 0 && stride >= padded_cols(width);
}

}  // namespace

int launch_add_positions(const add_positions_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.positions == nullptr || a.types == nullptr || a.steps == nullptr || a.width == 0 ||
      a.columns == 0)
    return cudaErrorInvalidValue;
  return launch_dependent(add_positions_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

int launch_post_norm(const post_norm_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.weight == nullptr || a.bias == nullptr ||
      !fits(a.out, a.out_stride, a.width, a.columns))
    return cudaErrorInvalidValue;
  return launch_dependent(post_norm_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

int launch_gelu_to_half(const gelu_to_half_args& a, CUstream_st* stream) {
  if (a.x == nullptr || !fits(a.out, a.out_stride, a.width, a.columns)) return cudaErrorInvalidValue;
  return launch_dependent(gelu_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
