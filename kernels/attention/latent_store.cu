// Between the products that make queries and latents and those of single heads. A block has the cached row of
// a token, or up to eight of its heads, one a warp.
#include "kernels/attention/latent_attention.hpp"
#include "kernels/attention/rope_head.cuh"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t block_warps = 8;
constexpr std::uint32_t threads = 32 * block_warps;

/// The sum over the block; every thread adds the warps' sums in the same order.
__device__ float block_sum(float v, float* sums) {
#pragma unroll
  for (std::uint32_t offset = 16; offset > 0; offset /= 2)
    v = __fadd_rn(v, __shfl_xor_sync(0xFFFFFFFFU, v, offset));
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = sums[0];
#pragma unroll
  for (std::uint32_t w = 1; w < block_warps; ++w) sum = __fadd_rn(sum, sums[w]);
  return sum;
}

__device__ rope_store_args rotation_of(const latent_store_args& a) {
  rope_store_args rope;
  rope.rope_dims = a.rotated;
  rope.interleaved = a.interleaved;
  rope.inv_freq = a.inv_freq;
  rope.magnitude = a.magnitude;
  return rope;
}

/// One warp: rotates `from` and writes it, with zeros up to `width`.
__device__ void write_rotated(const latent_store_args& a, const float* from, std::int32_t position,
                              float* head, __half* to, std::uint32_t width) {
  const std::uint32_t lane = threadIdx.x % 32;
  const rope_store_args rope = rotation_of(a);
  for (std::uint32_t i = lane; i < a.rotated; i += 32) head[i] = from[i];
  __syncwarp();
  rotate_head(
      rope, [&](std::uint32_t pair) { return rope_cos_sin_of(rope, 0, position, pair); }, head);
  __syncwarp();
  for (std::uint32_t i = lane; i < width; i += 32) to[i] = to_half(i < a.rotated ? head[i] : 0.0F);
}

__device__ void store_row(const latent_store_args& a, const step_token& step, float* head, float* sums) {
  const std::uint32_t width = padded_latent_row(a.rank, a.rotated);
  const auto position = static_cast<std::uint32_t>(step.position);
  const std::int32_t page =
      a.cache.page_table[static_cast<std::uint32_t>(step.slot) * a.cache.pages_per_slot +
                         position / engine::kv_page_positions];
  const float* const from = a.row + static_cast<std::uint64_t>(blockIdx.x) * (a.rank + a.rotated);
  __half* const to = a.cache.rows + (static_cast<std::uint64_t>(page) * engine::kv_page_positions +
                                     position % engine::kv_page_positions) *
                                        width;
  float squares = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < a.rank; i += threads)
    squares = __fmaf_rn(from[i], from[i], squares);
  const float mean = __fdiv_rn(block_sum(squares, sums), static_cast<float>(a.rank));
  const float scale = rsqrtf(__fadd_rn(mean, a.norm_eps));
  for (std::uint32_t i = threadIdx.x; i < a.rank; i += threads)
    to[i] = to_half(__fmul_rn(__fmul_rn(from[i], scale), a.norm[i]));
  if (threadIdx.x < 32) write_rotated(a, from + a.rank, step.position, head, to + a.rank, width - a.rank);
}

/// grid: (columns, 1 + heads / block_warps, rounded up); the first in y has the row.
__global__ void __launch_bounds__(threads) latent_store_kernel(const __grid_constant__ latent_store_args a) {
  __shared__ float rotated[block_warps][latent_rotated_max];
  __shared__ float sums[block_warps];
  const std::uint32_t warp = threadIdx.x / 32;
  wait_for_previous_kernel();
  allow_next_kernel();
  const step_token step = a.steps[blockIdx.x];
  if (step.position < 0) return;
  if (blockIdx.y == 0) {
    store_row(a, step, rotated[0], sums);
    return;
  }
  const std::uint32_t head = (blockIdx.y - 1) * block_warps + warp;
  if (head >= a.heads) return;
  const std::uint64_t pair = static_cast<std::uint64_t>(blockIdx.x) * a.heads + head;
  const float* const from = a.query + pair * (a.unrotated + a.rotated);
  __half* const to = a.unrotated_out + pair * a.unrotated_stride;
  for (std::uint32_t i = threadIdx.x % 32; i < a.unrotated_stride; i += 32)
    to[i] = to_half(i < a.unrotated ? from[i] : 0.0F);
  const std::uint32_t width = padded_latent_row(a.rank, a.rotated) - a.rank;
  write_rotated(a, from + a.unrotated, step.position, rotated[warp], a.rotated_out + pair * width, width);
}

}  // namespace

int launch_latent_store(const latent_store_args& a, CUstream_st* stream) {
  if (a.query == nullptr || a.row == nullptr || a.norm == nullptr || a.steps == nullptr || a.columns == 0 ||
      a.heads == 0 || a.rank == 0 || a.rank % latent_rank_step != 0 || a.rank > latent_rank_max ||
      a.rotated == 0 || a.rotated % 2 != 0 || a.rotated > latent_rotated_max || a.inv_freq == nullptr ||
      a.unrotated_out == nullptr || a.unrotated_stride < a.unrotated || a.rotated_out == nullptr ||
      a.cache.rows == nullptr || a.cache.page_table == nullptr)
    return cudaErrorInvalidValue;
  return launch_dependent(latent_store_kernel, dim3(a.columns, 1 + (a.heads + block_warps - 1) / block_warps),
                          dim3(threads), 0, stream, a);
}

}  // namespace orcd::kernels
