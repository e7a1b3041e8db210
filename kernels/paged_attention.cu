#include "kernels/arrival.cuh"
#include "kernels/launch.cuh"
#include "kernels/paged_attention.cuh"
#include "kernels/rope_head.cuh"

namespace orcd::kernels {
namespace {

using engine::kv_type;

struct page_place {
  const std::byte* keys;
  const std::byte* values;
};

template <std::uint32_t W, kv_type K, kv_type V>
__device__ page_place page_of(const attention_args_paged& a, std::int32_t slot, std::uint32_t page,
                              std::uint32_t kv_head) {
  const std::int32_t id =
      a.cache.page_table[static_cast<std::uint32_t>(slot) * a.cache.pages_per_slot + page];
  const std::uint64_t at = static_cast<std::uint64_t>(id) * a.kv_heads + kv_head;
  return {static_cast<const std::byte*>(a.cache.keys) + at * head_page_bytes(K, W),
          static_cast<const std::byte*>(a.cache.values) + at * head_page_bytes(V, W)};
}

/// Partial results of decode: [column][head][page][W + 2], the last two being maximum and sum.
__device__ float* partial_of(const decode_attention_args& a, std::uint32_t column, std::uint32_t head,
                             std::uint32_t page) {
  const attention_args_paged& attend = a.attend;
  return a.partial +
         ((static_cast<std::uint64_t>(column) * attend.heads + head) * attend.cache.pages_per_slot + page) *
             (attend.padded_width + 2);
}

/// What a decode block works on: a tile of the query heads of one kv head, for one token.
struct decode_tile {
  std::uint32_t column;
  std::uint32_t kv_head;
  std::uint32_t first_head;
  std::uint32_t heads;
  std::uint32_t first_page;  ///< of what the token sees
  std::uint32_t last_page;
};

template <std::uint32_t W>
struct decode_shared {
  page_shared<W> page;
  float heads[8][head_width_max];  ///< one a warp
  alignas(16) __half q[tile_columns][W];
  float inv_freq[head_width_max / 2];
  bool folds;
};

/// One warp a head: the queries into shared memory, and the token's key and value into the cache when this
/// block reads them. Ends with the block synchronized.
template <std::uint32_t W>
__device__ void prepare_token(const rope_store_args& a, const decode_tile& tile, const step_column& step,
                              bool stores, decode_shared<W>& shared) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::int32_t id = page_id(a.cache, step);
  float* head = shared.heads[warp];
  for (std::uint32_t i = warp; i < tile.heads + (stores ? 2 : 0); i += row_threads / 32) {
    const bool is_q = i < tile.heads;
    const std::uint32_t index =
        is_q ? tile.first_head + i : a.heads + (i - tile.heads) * a.kv_heads + tile.kv_head;
    prepare_head(a, shared.inv_freq, tile.column, index, step.position, head);
    if (is_q) {
      for (std::uint32_t d = threadIdx.x % 32; d < W; d += 32) shared.q[i][d] = to_half(head[d]);
    } else {
      store_head(a, id, step, index, head);
    }
    __syncwarp();
  }
  __syncthreads();
}

/// Asks L2 for what the block will read, before the QKV product has ended; the kernel that wrote the step has
/// (launch.cuh).
template <std::uint32_t W, kv_type K, kv_type V>
__device__ void prefetch_page(const attention_args_paged& a, const decode_tile& tile) {
  const step_column step = a.steps[tile.column];
  const std::uint32_t first =
      step.position < 0 ? 0 : static_cast<std::uint32_t>(first_seen(step.position, a.window));
  const std::uint32_t page = first / page_positions + blockIdx.z;
  const std::uint32_t begin = page * page_positions + threadIdx.x / 32 * block_positions;
  if (step.position < 0 || begin > static_cast<std::uint32_t>(step.position) ||
      begin + block_positions <= first)
    return;
  const page_place place = page_of<W, K, V>(a, step.slot, page, tile.kv_head);
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t block = threadIdx.x / 32 * block_positions;
  constexpr std::uint32_t key_bytes = K == kv_type::q8_0 ? 1 : 2;
  constexpr std::uint32_t value_bytes = V == kv_type::q8_0 ? 1 : 2;
  if (lane == 0) prefetch_l2(place.keys + block * W * key_bytes, block_positions * W * key_bytes);
  if constexpr (V == kv_type::q8_0) {
    // Rows d and d + 8 lie together (kv_layout.hpp).
    for (std::uint32_t pair = lane; pair < W / 2; pair += 32)
      prefetch_l2(place.values + pair * 2 * page_positions + 2 * block, 2 * block_positions);
  } else {
    for (std::uint32_t d = lane; d < W; d += 32)
      prefetch_l2(place.values + (d * page_positions + block) * value_bytes, block_positions * value_bytes);
  }
}

template <std::uint32_t W>
__device__ void write_partial(const decode_attention_args& a, const decode_tile& tile, std::uint32_t page,
                              const page_shared<W>& shared) {
  for (std::uint32_t i = threadIdx.x; i < tile.heads * W; i += row_threads)
    partial_of(a, tile.column, tile.first_head + i / W, page)[i % W] = page_value(shared, i / W, i % W);
  if (threadIdx.x < tile.heads) {
    float* p = partial_of(a, tile.column, tile.first_head + threadIdx.x, page);
    p[W] = shared.page[threadIdx.x].maximum;
    p[W + 1] = shared.page[threadIdx.x].sum;
  }
}

/// The pages of each head of the tile, folded left to right. `part(page, head, d, state)` is a page's value.
template <class Part>
__device__ void fold_pages(const attention_args_paged& a, const decode_tile& tile, Part part) {
  for (std::uint32_t i = threadIdx.x; i < tile.heads * a.width; i += row_threads) {
    const std::uint32_t head = i / a.width;
    const std::uint32_t d = i % a.width;
    softmax_state state{-INFINITY, 0.0F};
    float value = 0.0F;
    for (std::uint32_t page = tile.first_page; page <= tile.last_page; ++page) {
      softmax_state page_state{};
      const float page_part = part(page, head, d, page_state);
      value = fold_value(value, page_part, fold_state(state, page_state));
    }
    a.out[static_cast<std::uint64_t>(tile.column) * a.out_stride + (tile.first_head + head) * a.width + d] =
        to_half(attention_output(state, value, a.sinks, tile.first_head + head));
  }
}

/// grid: (columns * head tiles, kv heads, page workers); a worker takes every gridDim.z-th page.
template <std::uint32_t W, kv_type K, kv_type V>
__global__ void __launch_bounds__(row_threads, 3)
    decode_kernel(const __grid_constant__ decode_attention_args args) {
  __shared__ decode_shared<W> shared;
  const attention_args_paged& a = args.attend;
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t head_tiles = (group + tile_columns - 1) / tile_columns;
  decode_tile tile{blockIdx.x / head_tiles, blockIdx.y,
                   blockIdx.y * group + blockIdx.x % head_tiles * tile_columns};
  tile.heads = min(tile_columns, (blockIdx.y + 1) * group - tile.first_head);
  prefetch_page<W, K, V>(a, tile);
  if (threadIdx.x < args.rope.rope_dims / 2) shared.inv_freq[threadIdx.x] = args.rope.inv_freq[threadIdx.x];
  __syncthreads();
  wait_for_previous_kernel();
  allow_next_kernel();
  const step_column step = a.steps[tile.column];
  if (step.position < 0) return;
  const std::int32_t seen = first_seen(step.position, a.window);
  tile.first_page = static_cast<std::uint32_t>(seen) / page_positions;
  tile.last_page = static_cast<std::uint32_t>(step.position) / page_positions;
  const std::uint32_t pages = tile.last_page - tile.first_page + 1;
  if (blockIdx.z >= pages) return;
  prepare_token(args.rope, tile, step, (pages - 1) % gridDim.z == blockIdx.z, shared);

  const std::uint32_t lane = threadIdx.x % 32;
  lane_queries mine;
  if (lane / 4 < tile.heads) mine.q = shared.q[lane / 4];
#pragma unroll
  for (std::uint32_t c = 0; c < 2; ++c) {
    mine.position[c] = 2 * (lane % 4) + c < tile.heads ? step.position : -1;
    mine.first_seen[c] = seen;
  }
  for (std::uint32_t page = tile.first_page + blockIdx.z; page <= tile.last_page; page += gridDim.z) {
    const page_place place = page_of<W, K, V>(a, step.slot, page, blockIdx.y);
    attend_block<W, K, V>(place.keys, place.values, static_cast<std::int32_t>(page * page_positions), a.scale,
                          mine, shared.page);
    fold_page(shared.page);
    if (pages == 1) break;
    write_partial(args, tile, page, shared.page);
    __syncthreads();
  }
  if (pages == 1) {
    fold_pages(a, tile, [&](std::uint32_t, std::uint32_t head, std::uint32_t d, softmax_state& state) {
      state = shared.page.page[head];
      return page_value(shared.page, head, d);
    });
    return;
  }
  if (!arrives_last(args.arrivals + tile.column * a.heads + tile.first_head, min(gridDim.z, pages),
                    shared.folds))
    return;
  fold_pages(a, tile, [&](std::uint32_t page, std::uint32_t head, std::uint32_t d, softmax_state& state) {
    const float* p = partial_of(args, tile.column, tile.first_head + head, page);
    state = {__ldcg(p + W), __ldcg(p + W + 1)};
    return __ldcg(p + d);
  });
}

/// Tiles of 8 query vectors that a prefill block works on at once.
constexpr std::uint32_t prefill_tiles = 4;

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
      static_cast<std::uint32_t>(a.steps[last_query / group].position) / page_positions;
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
        mine.position[c] = query < queries ? a.steps[query / group].position : -1;
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
         a.width > 0 && a.width <= a.padded_width && a.padded_width % head_width_step == 0 &&
         a.padded_width <= head_width_max;
}

template <std::uint32_t W, kv_type K, kv_type V>
int launch_decode(const decode_attention_args& args, cudaStream_t stream) {
  const attention_args_paged& a = args.attend;
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t tiles = (group + tile_columns - 1) / tile_columns;
  // Enough workers to spread a long context over the card; short contexts leave most of them idle.
  const std::uint32_t seen_pages =
      a.window == 0 ? a.cache.pages_per_slot
                    : min(a.cache.pages_per_slot, (a.window + page_positions - 2) / page_positions + 1);
  const std::uint32_t wanted = max(1U, 264U / max(1U, a.columns * tiles * a.kv_heads));
  const dim3 grid(a.columns * tiles, a.kv_heads, min(seen_pages, wanted));
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
  if (!valid(a) || a.q == nullptr) return cudaErrorInvalidValue;
  return with_shape(
      a, [&]<std::uint32_t W, kv_type K, kv_type V>() { return launch_prefill<W, K, V>(a, stream); });
}

}  // namespace orcd::kernels
