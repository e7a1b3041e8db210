// After the QKV product: per-head norms where the model has them, rotation, q as f16, K and V into the
// cache as their types say. One block of 32 threads a (token, head); everything about a head stays in its
// warp.
#include "kernels/device_math.cuh"
#include "kernels/kv_page.cuh"
#include "kernels/launch.cuh"
#include "kernels/paged_attention.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t values_per_lane = head_width_max / 32;

/// RMS norm over one head by one warp: a fixed tree over lanes, each summing d = lane, lane + 32, ...
__device__ void norm_head(float (&v)[values_per_lane], const float* weight, std::uint32_t width, float eps) {
  const std::uint32_t lane = threadIdx.x;
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t i = 0; i < values_per_lane; ++i) squares = __fmaf_rn(v[i], v[i], squares);
#pragma unroll
  for (std::uint32_t offset = 16; offset > 0; offset /= 2) {
    squares = __fadd_rn(squares, __shfl_xor_sync(0xFFFFFFFFU, squares, offset));
  }
  const float scale = rsqrtf(__fadd_rn(__fdiv_rn(squares, static_cast<float>(width)), eps));
#pragma unroll
  for (std::uint32_t i = 0; i < values_per_lane; ++i) {
    const std::uint32_t d = lane + 32 * i;
    v[i] = d < width ? __fmul_rn(__fmul_rn(v[i], scale), weight[d]) : 0.0F;
  }
}

/// grid: (columns, heads + 2 * kv_heads)
__global__ void __launch_bounds__(32) rope_store_kernel(rope_store_args a) {
  __shared__ float head[head_width_max];
  wait_for_previous_kernel();
  allow_next_kernel();
  const step_column step = a.steps[blockIdx.x];
  if (step.position < 0) return;
  const std::uint32_t lane = threadIdx.x;
  const std::uint32_t index = blockIdx.y;
  const bool is_q = index < a.heads;
  const bool is_v = index >= a.heads + a.kv_heads;
  const float* from = a.qkv + static_cast<std::uint64_t>(blockIdx.x) * a.stride + index * a.width;
  float v[values_per_lane];
#pragma unroll
  for (std::uint32_t i = 0; i < values_per_lane; ++i)
    v[i] = lane + 32 * i < a.width ? from[lane + 32 * i] : 0.0F;
  const float* norm = is_q ? a.q_norm : a.k_norm;
  if (!is_v && norm != nullptr) norm_head(v, norm, a.width, a.norm_eps);
#pragma unroll
  for (std::uint32_t i = 0; i < values_per_lane; ++i) {
    if (lane + 32 * i < head_width_max) head[lane + 32 * i] = v[i];
  }
  __syncwarp();
  if (!is_v) {
    for (std::uint32_t pair = lane; pair < a.rope_dims / 2; pair += 32) {
      const std::uint32_t d0 = a.interleaved ? 2 * pair : pair;
      const std::uint32_t d1 = a.interleaved ? 2 * pair + 1 : pair + a.rope_dims / 2;
      float sine;
      float cosine;
      sincosf(__fmul_rn(static_cast<float>(step.position), a.inv_freq[pair]), &sine, &cosine);
      sine = __fmul_rn(sine, a.magnitude);
      cosine = __fmul_rn(cosine, a.magnitude);
      const float x0 = head[d0];
      const float x1 = head[d1];
      head[d0] = __fmaf_rn(x0, cosine, -__fmul_rn(x1, sine));
      head[d1] = __fmaf_rn(x0, sine, __fmul_rn(x1, cosine));
    }
    __syncwarp();
  }
  const auto place = static_cast<std::uint32_t>(step.position) % page_positions;
  const auto page = static_cast<std::uint32_t>(step.position) / page_positions;
  if (is_q) {
    __half* q = a.q + (static_cast<std::uint64_t>(blockIdx.x) * a.heads + index) * a.padded_width;
    for (std::uint32_t d = lane; d < a.padded_width; d += 32) q[d] = to_half(head[d]);
    return;
  }
  const std::int32_t id =
      a.cache.page_table[static_cast<std::uint32_t>(step.slot) * a.cache.pages_per_slot + page];
  const std::uint32_t kv_head = index - a.heads - (is_v ? a.kv_heads : 0);
  const engine::kv_type type = is_v ? a.cache.value_type : a.cache.key_type;
  auto* pages = static_cast<std::byte*>(is_v ? a.cache.values : a.cache.keys);
  store_kv_row(
      type, is_v,
      pages + (static_cast<std::uint64_t>(id) * a.kv_heads + kv_head) * head_page_bytes(type, a.padded_width),
      place, a.padded_width, head);
}

}  // namespace

int launch_rope_store(const rope_store_args& a, CUstream_st* stream) {
  if (a.qkv == nullptr || a.steps == nullptr || a.q == nullptr || a.cache.keys == nullptr ||
      a.cache.values == nullptr || a.cache.page_table == nullptr || a.columns == 0 || a.heads == 0 ||
      a.kv_heads == 0 || a.width == 0 || a.width > a.padded_width || a.padded_width > head_width_max ||
      a.padded_width % head_width_step != 0 || a.rope_dims > a.width || a.rope_dims % 2 != 0 ||
      (a.rope_dims > 0 && a.inv_freq == nullptr)) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(rope_store_kernel, dim3(a.columns, a.heads + 2 * a.kv_heads), dim3(32), 0, stream,
                          a);
}

}  // namespace orcd::kernels
