// Between the QKV product and attention of a prompt chunk: norm and rotation of all heads, keys and values
// into the cache. A warp has two heads, a block up to sixteen of one token. Values in f16, which the cache
// has transposed, have blocks of their own: 32 tokens of a head each, whose values of one dimension lie side
// by side.
#include "kernels/attention/rope_head.cuh"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t block_warps = 8;
constexpr std::uint32_t warp_heads = 2;
constexpr std::uint32_t block_heads = block_warps * warp_heads;

constexpr std::uint32_t tile_tokens = 32;

/// Whether values have blocks of their own.
ORCD_HD constexpr bool has_value_tiles(const rope_store_args& a) {
  return a.cache.value_type == engine::kv_type::f16 && !a.queries_only;
}
/// Heads of a token's blocks: queries and keys, and values without tiles.
ORCD_HD constexpr std::uint32_t token_heads(const rope_store_args& a) {
  return a.heads + (a.queries_only ? 0 : has_value_tiles(a) ? 1 : 2) * a.kv_heads;
}
ORCD_HD constexpr std::uint32_t token_blocks(const rope_store_args& a) {
  return (token_heads(a) + block_heads - 1) / block_heads;
}

template <std::uint32_t Width>
union rope_shared {
  struct {
    float2 cos_sin[Width / 2];
    float heads[block_warps][Width];
  } token;
  __half values[tile_tokens][Width + 2];  ///< an odd number of words, so that a column has no bank conflicts
};

/// Block `part` of a token's heads.
template <std::uint32_t Width>
__device__ __forceinline__ void store_token(const rope_store_args& a, std::uint32_t column,
                                            std::uint32_t part, rope_shared<Width>& shared) {
  const std::uint32_t all_heads = token_heads(a);
  const std::uint32_t first = part * block_heads + threadIdx.x / 32;
  // Both heads are read before the token's step is known, so that all loads are under way together.
  float v[warp_heads][Width / 32];
#pragma unroll
  for (std::uint32_t i = 0; i < warp_heads; ++i) {
    const std::uint32_t index = min(first + i * block_warps, all_heads - 1);
    const float* const row = a.qkv + static_cast<std::uint64_t>(column) * a.stride;
    read_head(row + source_of_head(a, index) * a.width, a.width, v[i]);
  }
  const step_token step = a.steps[column];
  if (step.position < 0) return;
  const std::int32_t page = page_id(a.cache, step);
  for (std::uint32_t pair = threadIdx.x; pair < a.rope_dims / 2; pair += 32 * block_warps)
    shared.token.cos_sin[pair] = rope_cos_sin_of(a, column, step.position, pair);
  __syncthreads();
  float* const head = shared.token.heads[threadIdx.x / 32];
#pragma unroll
  for (std::uint32_t i = 0; i < warp_heads; ++i) {
    const std::uint32_t index = first + i * block_warps;
    if (index >= all_heads) return;
    prepare_head(
        a, [&](std::uint32_t pair) { return shared.token.cos_sin[pair]; }, index, v[i], head);
    if (index >= a.heads) {
      store_head(a, page, step, index, head);
    } else {
      __half* q = a.q + (static_cast<std::uint64_t>(column) * a.heads + index) * a.padded_width;
      for (std::uint32_t d = threadIdx.x % 32; d < a.padded_width; d += 32) q[d] = to_half(head[d]);
    }
    __syncwarp();
  }
}

/// The values of 32 tokens of a head, a lane a token.
template <std::uint32_t Width>
__device__ __forceinline__ void store_values(const rope_store_args& a, std::uint32_t first,
                                             std::uint32_t kv_head, rope_shared<Width>& shared) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const float* const from = a.qkv + source_of_head(a, a.heads + a.kv_heads + kv_head) * a.width;
  for (std::uint32_t token = warp; token < tile_tokens && first + token < a.columns; token += block_warps) {
    float v[Width / 32];
    read_head(from + static_cast<std::uint64_t>(first + token) * a.stride, a.width, v);
    if (a.value_norm) norm_head(v, nullptr, a.width, a.norm_eps);
#pragma unroll
    for (std::uint32_t i = 0; i < Width / 32; ++i) shared.values[token][lane + 32 * i] = to_half(v[i]);
  }
  __syncthreads();
  if (first + lane >= a.columns) return;
  const step_token step = a.steps[first + lane];
  if (step.position < 0) return;
  const std::uint64_t page = static_cast<std::uint64_t>(page_id(a.cache, step)) * a.kv_heads + kv_head;
  auto* const to = reinterpret_cast<__half*>(static_cast<std::byte*>(a.cache.values) +
                                             page * head_page_bytes(engine::kv_type::f16, a.padded_width)) +
                   static_cast<std::uint32_t>(step.position) % engine::kv_page_positions;
  for (std::uint32_t d = warp; d < a.padded_width; d += block_warps)
    to[d * engine::kv_page_positions] = shared.values[lane][d];
}

/// Padded heads are at most Width wide. Blocks: token_blocks() of each column, then those of values.
template <std::uint32_t Width>
__global__ void __launch_bounds__(32 * block_warps)
    rope_store_kernel(const __grid_constant__ rope_store_args a) {
  __shared__ rope_shared<Width> shared;
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t of_tokens = a.columns * token_blocks(a);
  if (blockIdx.x < of_tokens) return store_token(a, blockIdx.x % a.columns, blockIdx.x / a.columns, shared);
  const std::uint32_t tile = blockIdx.x - of_tokens;
  store_values(a, tile / a.kv_heads * tile_tokens, tile % a.kv_heads, shared);
}

}  // namespace

bool valid_rope(const rope_store_args& a) {
  return a.qkv != nullptr && a.steps != nullptr && a.cache.keys != nullptr && a.cache.values != nullptr &&
         a.cache.page_table != nullptr && a.columns > 0 && a.heads > 0 && a.kv_heads > 0 && a.width > 0 &&
         a.width <= a.padded_width && a.padded_width <= head_width_max &&
         a.padded_width % head_width_step == 0 && a.rope_dims <= a.width && a.rope_dims % 2 == 0 &&
         (a.rope_dims == 0 || a.inv_freq != nullptr) && (a.turns == nullptr) == (a.axes == nullptr);
}

int launch_rope_store(const rope_store_args& a, CUstream_st* stream) {
  if (!valid_rope(a) || a.q == nullptr) return cudaErrorInvalidValue;
  const auto kernel = a.padded_width <= narrow_head_max  ? rope_store_kernel<narrow_head_max>
                      : a.padded_width <= wide_head_step ? rope_store_kernel<wide_head_step>
                                                         : rope_store_kernel<head_width_max>;
  const std::uint32_t tiles =
      has_value_tiles(a) ? (a.columns + tile_tokens - 1) / tile_tokens * a.kv_heads : 0;
  return launch_dependent(kernel, dim3(a.columns * token_blocks(a) + tiles), dim3(32 * block_warps), 0,
                          stream, a);
}

}  // namespace orcd::kernels
