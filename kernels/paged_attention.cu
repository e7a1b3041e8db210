#include "kernels/decode_attention.cuh"
#include "kernels/launch.cuh"

namespace orcd::kernels {
namespace {

using engine::kv_type;

/// grid: (columns * head tiles, kv heads, page workers); a worker takes every gridDim.z-th page.
template <std::uint32_t W, kv_type K, kv_type V>
__global__ void __launch_bounds__(row_threads, 3)
    decode_kernel(const __grid_constant__ decode_attention_args args) {
  __shared__ decode_shared<W, attention_memory::warps> shared;
  __shared__ float2 turns[head_width_max / 2];
  const decode_tile tile = tile_of(args.attend, blockIdx.x, blockIdx.y);
  const step_column step = args.attend.steps[tile.column];
  prefetch_page<W, K, V>(args.attend, tile, step, blockIdx.z);
  if (threadIdx.x < args.rope.rope_dims / 2)
    turns[threadIdx.x] = turn_of(args.rope, step.position, threadIdx.x);
  __syncthreads();
  wait_for_previous_kernel();
  allow_next_kernel();
  attend_token<W, K, V>(args, tile, step, blockIdx.z, gridDim.z,
                        attention_memory{args, tile.column, turns}, shared);
}

/// Tiles of 8 query vectors that a prefill block works on at once.
constexpr std::uint32_t prefill_tiles = 4;

/// The last position that a token sees.
__device__ inline std::int32_t last_seen(const attention_args_paged& a, std::int32_t position) {
  return a.end == 0 ? position : static_cast<std::int32_t>(a.end) - 1;
}

/// grid: (groups of prefill_tiles tiles over columns * group, kv heads). A query index is token-major.
template <std::uint32_t W, kv_type K, kv_type V>
__global__ void __launch_bounds__(row_threads) prefill_kernel(attention_args_paged a) {
  extern __shared__ uint4 shared_bytes[];
  auto& shared = *reinterpret_cast<page_shared<W>*>(shared_bytes);
  constexpr std::uint32_t own_values =
      tile_columns * W / row_threads == 0 ? 1 : tile_columns * W / row_threads;
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t queries = a.columns * group;
  const std::uint32_t first_query = blockIdx.x * prefill_tiles * tile_columns;
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t last_query = min(first_query + prefill_tiles * tile_columns, queries) - 1;
  const std::int32_t slot = a.steps[0].slot;
  const std::uint32_t first_page =
      static_cast<std::uint32_t>(first_seen(a.steps[first_query / group].position, a.window)) /
      page_positions;
  const std::uint32_t last_page =
      static_cast<std::uint32_t>(last_seen(a, a.steps[last_query / group].position)) / page_positions;
  softmax_state state[prefill_tiles][own_values];
  float value[prefill_tiles][own_values];
#pragma unroll
  for (std::uint32_t n = 0; n < prefill_tiles; ++n) {
#pragma unroll
    for (std::uint32_t i = 0; i < own_values; ++i) {
      state[n][i] = {-INFINITY, 0.0F};
      value[n][i] = 0.0F;
    }
  }
  for (std::uint32_t page = first_page; page <= last_page; ++page) {
    const page_place place = page_of<W, K, V>(a, slot, page, blockIdx.y);
#pragma unroll
    for (std::uint32_t n = 0; n < prefill_tiles; ++n) {
      const std::uint32_t lane = threadIdx.x % 32;
      const std::uint32_t tile_query = first_query + n * tile_columns;
      lane_queries mine;
      if (const std::uint32_t query = tile_query + lane / 4; query < queries) {
        mine.q =
            a.q +
            (static_cast<std::uint64_t>(query / group) * a.heads + blockIdx.y * group + query % group) * W;
      }
#pragma unroll
      for (std::uint32_t c = 0; c < 2; ++c) {
        const std::uint32_t query = tile_query + 2 * (lane % 4) + c;
        mine.position[c] = query < queries ? last_seen(a, a.steps[query / group].position) : -1;
        mine.first_seen[c] = first_seen(max(mine.position[c], 0), a.window);
      }
      attend_block<W, K, V>(place.keys, place.values, static_cast<std::int32_t>(page * page_positions),
                            a.scale, mine, shared);
      fold_page(shared);
#pragma unroll
      for (std::uint32_t i = 0; i < own_values; ++i) {
        const std::uint32_t index = threadIdx.x + i * row_threads;
        const std::uint32_t c = index / W;
        if (c >= tile_columns) continue;
        const fold_factors f = fold_state(state[n][i], shared.page[c]);
        value[n][i] = fold_value(value[n][i], page_value(shared, c, index % W), f);
      }
      __syncthreads();
    }
  }
#pragma unroll
  for (std::uint32_t n = 0; n < prefill_tiles; ++n) {
#pragma unroll
    for (std::uint32_t i = 0; i < own_values; ++i) {
      const std::uint32_t index = threadIdx.x + i * row_threads;
      const std::uint32_t query = first_query + n * tile_columns + index / W;
      const std::uint32_t d = index % W;
      if (index / W >= tile_columns || query >= queries || d >= a.width) continue;
      const std::uint32_t head = blockIdx.y * group + query % group;
      a.out[static_cast<std::uint64_t>(query / group) * a.out_stride + head * a.width + d] =
          to_half(attention_output(state[n][i], value[n][i], a.sinks, head));
    }
  }
}

bool valid(const attention_args_paged& a) {
  return a.out != nullptr && a.steps != nullptr && a.cache.keys != nullptr && a.cache.values != nullptr &&
         a.cache.page_table != nullptr && a.columns > 0 && a.kv_heads > 0 && a.heads % a.kv_heads == 0 &&
         a.width > 0 && a.width % 2 == 0 && a.width <= a.padded_width &&
         a.padded_width % head_width_step == 0 && a.padded_width <= head_width_max;
}

template <std::uint32_t W, kv_type K, kv_type V>
int launch_decode(const decode_attention_args& args, cudaStream_t stream) {
  const attention_args_paged& a = args.attend;
  // Short contexts leave most workers idle.
  const dim3 grid(a.columns * decode_head_tiles(a), a.kv_heads, decode_page_workers(a, 264));
  return launch_dependent(decode_kernel<W, K, V>, grid, dim3(row_threads), 0, stream, args);
}

template <std::uint32_t W, kv_type K, kv_type V>
int launch_prefill(const attention_args_paged& a, cudaStream_t stream) {
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      prefill_kernel<W, K, V>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(page_shared<W>));
  if (opted_in != cudaSuccess) return opted_in;
  const std::uint32_t queries = a.columns * (a.heads / a.kv_heads);
  const std::uint32_t per_block = prefill_tiles * tile_columns;
  return launch_dependent(prefill_kernel<W, K, V>, dim3((queries + per_block - 1) / per_block, a.kv_heads),
                          dim3(row_threads), sizeof(page_shared<W>), stream, a);
}

/// Calls launch.operator()<W, K, V>() with the widths and types of the arguments.
template <kv_type K, kv_type V, class Launch>
int with_width(std::uint32_t padded_width, Launch launch) {
  switch (padded_width) {
    case 32: return launch.template operator()<32, K, V>();
    case 64: return launch.template operator()<64, K, V>();
    case 96: return launch.template operator()<96, K, V>();
    case 128: return launch.template operator()<128, K, V>();
  }
  return cudaErrorInvalidValue;
}
template <kv_type K, class Launch>
int with_values(const attention_args_paged& a, Launch launch) {
  switch (a.cache.value_type) {
    case kv_type::f16: return with_width<K, kv_type::f16>(a.padded_width, launch);
    case kv_type::bf16: return with_width<K, kv_type::bf16>(a.padded_width, launch);
    case kv_type::q8_0: return with_width<K, kv_type::q8_0>(a.padded_width, launch);
  }
  return cudaErrorInvalidValue;
}
template <class Launch>
int with_shape(const attention_args_paged& a, Launch launch) {
  switch (a.cache.key_type) {
    case kv_type::f16: return with_values<kv_type::f16>(a, launch);
    case kv_type::bf16: return with_values<kv_type::bf16>(a, launch);
    case kv_type::q8_0: return with_values<kv_type::q8_0>(a, launch);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

std::uint64_t decode_partial_floats(std::uint32_t columns, std::uint32_t heads, std::uint32_t pages,
                                    std::uint32_t padded_width) {
  return static_cast<std::uint64_t>(columns) * heads * pages * (padded_width + 2);
}

int launch_attention_decode(const decode_attention_args& a, CUstream_st* stream) {
  if (!valid(a.attend) || !valid_rope(a.rope) || a.partial == nullptr || a.arrivals == nullptr ||
      a.rope.columns != a.attend.columns || a.rope.heads != a.attend.heads ||
      a.rope.kv_heads != a.attend.kv_heads || a.rope.padded_width != a.attend.padded_width)
    return cudaErrorInvalidValue;
  return with_shape(
      a.attend, [&]<std::uint32_t W, kv_type K, kv_type V>() { return launch_decode<W, K, V>(a, stream); });
}

int launch_attention_prefill(const attention_args_paged& a, CUstream_st* stream) {
  if (!valid(a) || a.q == nullptr || (a.end != 0 && a.window != 0)) return cudaErrorInvalidValue;
  return with_shape(
      a, [&]<std::uint32_t W, kv_type K, kv_type V>() { return launch_prefill<W, K, V>(a, stream); });
}

}  // namespace orcd::kernels
