// One block a row, which is read three times: for the sum of squares, for the largest magnitude, and to be
// rounded. The squares are summed in a fixed tree; the rest does not depend on an order.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/layer/norm_to_int8.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels {
namespace {

/// The values before the norm.
struct row_input {
  const norm_to_int8_args& a;
  std::uint64_t at;  ///< of the row's first value

  __device__ __forceinline__ explicit row_input(const norm_to_int8_args& args)
      : a(args), at(static_cast<std::uint64_t>(blockIdx.x) * args.x_stride) {}

  __device__ __forceinline__ float operator()(std::uint32_t i) const {
    if (a.halves != nullptr) return __half2float(a.halves[at + i]);
    if (a.gate_up == nullptr) return a.x[at + i];
    const float gate = a.gate_up[at + i];
    const float up = a.gate_up[at + a.width + i];
    if (!a.squared) return __fmul_rn(silu(gate), up);
    const float positive = gate > 0.0F || isnan(gate) ? gate : 0.0F;
    return __fmul_rn(__fmul_rn(positive, positive), up);
  }
};

__device__ float block_largest(float v, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(0xFFFFFFFFU, v, offset));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float largest = scratch[0];
  for (std::uint32_t w = 1; w < row_threads / 32; ++w) largest = fmaxf(largest, scratch[w]);
  __syncthreads();  // before scratch is written again
  return largest;
}

__device__ std::int32_t block_total(std::int32_t v, std::int32_t* scratch) {
  v = __reduce_add_sync(0xFFFFFFFFU, v);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  std::int32_t total = 0;
  for (std::uint32_t w = 0; w < row_threads / 32; ++w) total += scratch[w];
  return total;
}

__global__ void __launch_bounds__(row_threads) norm_to_int8_kernel(norm_to_int8_args a) {
  __shared__ float scratch[8];
  __shared__ std::int32_t totals[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  const row_input x(a);
  float scale = 1.0F;
  if (a.weight != nullptr) {
    float squares = 0.0F;
    for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) {
      const float v = x(i);
      squares = fmaf(v, v, squares);
    }
    scale = rms_scale(block_sum(squares, scratch), a.width, a.eps);
  }
  const auto normed = [&](std::uint32_t i) {
    return a.weight == nullptr ? x(i) : __fmul_rn(__fmul_rn(x(i), scale), a.weight[i]);
  };
  float largest = int8_least_range;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads)
    largest = fmaxf(largest, fabsf(normed(i)));
  const float to_int = __fdiv_rn(int8_largest, block_largest(largest, scratch));
  std::int8_t* const values = a.out.values + static_cast<std::uint64_t>(blockIdx.x) * a.out.stride;
  std::int32_t sum = 0;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) {
    // The lower bound comes first, so that NaN becomes it.
    const float bounded = fminf(fmaxf(__fmul_rn(normed(i), to_int), -int8_largest - 1.0F), int8_largest);
    const std::int32_t rounded = __float2int_rn(bounded);
    values[i] = static_cast<std::int8_t>(rounded);
    sum += rounded;
  }
  sum = block_total(sum, totals);
  if (threadIdx.x == 0) {
    a.out.scales[blockIdx.x] = to_int;
    a.out.sums[blockIdx.x] = sum;
  }
}

}  // namespace

int launch_norm_to_int8(const norm_to_int8_args& a, CUstream_st* stream) {
  const int inputs = (a.x != nullptr) + (a.halves != nullptr) + (a.gate_up != nullptr);
  const std::uint32_t read = a.gate_up != nullptr ? 2 * a.width : a.width;
  if (inputs != 1 || a.out.values == nullptr || a.out.scales == nullptr || a.out.sums == nullptr ||
      a.width == 0 || a.columns == 0 || a.x_stride < read || a.out.stride < a.width) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(norm_to_int8_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
