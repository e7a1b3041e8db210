// One warp a head, lane l has values l, l + 32, ...; grid: (blocks of a column's heads, columns).
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/layer/head_norm.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps = row_threads / 32;

__global__ void __launch_bounds__(row_threads) norm_heads_kernel(norm_heads_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t index = blockIdx.x * warps + threadIdx.x / 32;
  if (index >= a.heads + a.kv_heads) return;
  const bool is_query = index < a.heads;
  const float* weight = is_query ? a.q_norm : a.k_norm;
  if (weight == nullptr) return;
  weight += static_cast<std::uint64_t>(is_query ? index : index - a.heads) * a.weight_stride;
  float* x = a.qkv + static_cast<std::uint64_t>(blockIdx.y) * a.stride + index * a.width;
  float mean = 0.0F;
  if (a.centred) {
    float sum = 0.0F;
    for (std::uint32_t i = lane; i < a.width; i += 32) sum = __fadd_rn(sum, x[i]);
    mean = __fdiv_rn(warp_sum(sum), static_cast<float>(a.width));
  }
  float squares = 0.0F;
  for (std::uint32_t i = lane; i < a.width; i += 32) {
    const float d = __fsub_rn(x[i], mean);
    squares = __fmaf_rn(d, d, squares);
  }
  const float scale = rms_scale(warp_sum(squares), a.width, a.eps);
  for (std::uint32_t i = lane; i < a.width; i += 32)
    x[i] = __fmul_rn(__fmul_rn(__fsub_rn(x[i], mean), scale), weight[i]);
}

}  // namespace

int launch_norm_heads(const norm_heads_args& a, CUstream_st* stream) {
  if (a.qkv == nullptr || a.columns == 0 || a.heads == 0 || a.kv_heads == 0 || a.width == 0 ||
      a.stride < (a.heads + a.kv_heads) * a.width || (a.weight_stride != 0 && a.weight_stride < a.width))
    return cudaErrorInvalidValue;
  const std::uint32_t blocks = (a.heads + a.kv_heads + warps - 1) / warps;
  return launch_dependent(norm_heads_kernel, dim3(blocks, a.columns), dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
