// After the QKV product of a prompt chunk: one block of 32 threads a (token, head).
#include "kernels/launch.cuh"
#include "kernels/rope_head.cuh"

namespace orcd::kernels {
namespace {

/// grid: (columns, heads + 2 * kv_heads)
__global__ void __launch_bounds__(32) rope_store_kernel(rope_store_args a) {
  __shared__ float head[head_width_max];
  wait_for_previous_kernel();
  allow_next_kernel();
  const step_column step = a.steps[blockIdx.x];
  if (step.position < 0) return;
  const std::uint32_t index = blockIdx.y;
  float v[head_values_per_lane];
  read_head(a.qkv + static_cast<std::uint64_t>(blockIdx.x) * a.stride + index * a.width, a.width, v);
  prepare_head(
      a, [&](std::uint32_t pair) { return turn_of(a, step.position, pair); }, index, v, head);
  if (index >= a.heads) {
    store_head(a, page_id(a.cache, step), step, index, head);
    return;
  }
  __half* q = a.q + (static_cast<std::uint64_t>(blockIdx.x) * a.heads + index) * a.padded_width;
  for (std::uint32_t d = threadIdx.x; d < a.padded_width; d += 32) q[d] = to_half(head[d]);
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
  return launch_dependent(rope_store_kernel, dim3(a.columns, a.heads + 2 * a.kv_heads), dim3(32), 0, stream,
                          a);
}

}  // namespace orcd::kernels
