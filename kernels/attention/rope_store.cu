// Between the QKV product and attention of a prompt chunk: norm and rotation of all heads, keys and values
// into the cache. A warp has two heads, a block up to sixteen of one token.
#include "kernels/attention/rope_head.cuh"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t block_warps = 8;
constexpr std::uint32_t warp_heads = 2;
constexpr std::uint32_t block_heads = block_warps * warp_heads;

/// grid: (columns, (heads + 2 * kv_heads) / block_heads, rounded up). Padded heads are at most Width wide.
template <std::uint32_t Width>
__global__ void __launch_bounds__(32 * block_warps)
    rope_store_kernel(const __grid_constant__ rope_store_args a) {
  __shared__ float2 rope_cos_sin[Width / 2];
  __shared__ float heads[block_warps][Width];
  const std::uint32_t all_heads = a.heads + 2 * a.kv_heads;
  const std::uint32_t first = blockIdx.y * block_heads + threadIdx.x / 32;
  wait_for_previous_kernel();
  allow_next_kernel();
  // Both heads are read before the token's step is known, so that all loads are under way together.
  float v[warp_heads][Width / 32];
#pragma unroll
  for (std::uint32_t i = 0; i < warp_heads; ++i) {
    const std::uint32_t index = min(first + i * block_warps, all_heads - 1);
    read_head(a.qkv + static_cast<std::uint64_t>(blockIdx.x) * a.stride + index * a.width, a.width, v[i]);
  }
  const step_token step = a.steps[blockIdx.x];
  if (step.position < 0) return;
  const std::int32_t page = page_id(a.cache, step);
  for (std::uint32_t pair = threadIdx.x; pair < a.rope_dims / 2; pair += 32 * block_warps)
    rope_cos_sin[pair] = rope_cos_sin_of(a, step.position, pair);
  __syncthreads();
  float* const head = heads[threadIdx.x / 32];
#pragma unroll
  for (std::uint32_t i = 0; i < warp_heads; ++i) {
    const std::uint32_t index = first + i * block_warps;
    if (index >= all_heads) return;
    prepare_head(
        a, [&](std::uint32_t pair) { return rope_cos_sin[pair]; }, index, v[i], head);
    if (index >= a.heads) {
      store_head(a, page, step, index, head);
    } else {
      __half* q = a.q + (static_cast<std::uint64_t>(blockIdx.x) * a.heads + index) * a.padded_width;
      for (std::uint32_t d = threadIdx.x % 32; d < a.padded_width; d += 32) q[d] = to_half(head[d]);
    }
    __syncwarp();
  }
}

}  // namespace

bool valid_rope(const rope_store_args& a) {
  return a.qkv != nullptr && a.steps != nullptr && a.cache.keys != nullptr && a.cache.values != nullptr &&
         a.cache.page_table != nullptr && a.columns > 0 && a.heads > 0 && a.kv_heads > 0 && a.width > 0 &&
         a.width <= a.padded_width && a.padded_width <= head_width_max &&
         a.padded_width % head_width_step == 0 && a.rope_dims <= a.width && a.rope_dims % 2 == 0 &&
         (a.rope_dims == 0 || a.inv_freq != nullptr);
}

int launch_rope_store(const rope_store_args& a, CUstream_st* stream) {
  if (!valid_rope(a) || a.q == nullptr) return cudaErrorInvalidValue;
  const std::uint32_t all_heads = a.heads + 2 * a.kv_heads;
  const auto kernel = a.padded_width <= narrow_head_max ? rope_store_kernel<narrow_head_max>
                                                        : rope_store_kernel<head_width_max>;
  return launch_dependent(kernel, dim3(a.columns, (all_heads + block_heads - 1) / block_heads),
                          dim3(32 * block_warps), 0, stream, a);
}

}  // namespace orcd::kernels
