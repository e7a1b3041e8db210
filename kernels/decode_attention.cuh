// Attention of one new token: its rotation, its place in the cache, and the pages it sees, by the first
// row_threads threads of a block for a tile of heads.
#pragma once

#include "kernels/arrival.cuh"
#include "kernels/paged_attention.cuh"
#include "kernels/rope_head.cuh"

namespace orcd::kernels {

/// Partial results of decode: [column][head][page][W + 2], the last two being maximum and sum.
__device__ inline float* partial_of(const decode_attention_args& a, std::uint32_t column, std::uint32_t head,
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
};

/// Tile `index` in columns * head tiles of a kv head.
__device__ inline decode_tile tile_of(const attention_args_paged& a, std::uint32_t index,
                                      std::uint32_t kv_head) {
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t head_tiles = decode_head_tiles(a);
  const std::uint32_t first_head = kv_head * group + index % head_tiles * tile_columns;
  return {index / head_tiles, kv_head, first_head, min(tile_columns, (kv_head + 1) * group - first_head)};
}

/// Pages that a token sees.
struct page_range {
  std::uint32_t first;
  std::uint32_t last;

  __device__ __forceinline__ page_range(const attention_args_paged& a, std::int32_t position)
      : first(static_cast<std::uint32_t>(first_seen(position, a.window)) / page_positions),
        last(static_cast<std::uint32_t>(position) / page_positions) {}
};

/// Of a block that prepares heads with so many warps.
template <std::uint32_t W, std::uint32_t Warps>
struct decode_shared {
  page_shared<W> page;
  float heads[Warps][head_width_max];
  alignas(16) __half q[tile_columns][W];
  bool folds;
};

/// How attention gets the product's values and gives its own away: through memory that a kernel before has
/// written and one after will read. The block has row_threads threads; all of them prepare heads.
struct attention_memory {
  static constexpr std::uint32_t warps = row_threads / 32;

  const decode_attention_args& args;
  std::uint32_t column;
  const float2* turns;  ///< of the token's position

  __device__ __forceinline__ void sync() const { sync_row_threads(); }

  __device__ __forceinline__ void read(std::uint32_t index, float (&v)[head_values_per_lane]) const {
    const rope_store_args& a = args.rope;
    read_head(a.qkv + static_cast<std::uint64_t>(column) * a.stride + index * a.width, a.width, v);
  }
  /// Values d and d + 1 (d even) of all heads' output.
  __device__ __forceinline__ void write(std::uint32_t d, __half first, __half second) const {
    *reinterpret_cast<__half2*>(
        args.attend.out + static_cast<std::uint64_t>(column) * args.attend.out_stride + d) = {first, second};
  }
};

/// One warp a head: the queries into shared memory, and the token's key and value into the cache when this
/// block reads them. Ends with the preparing warps synchronized.
template <std::uint32_t W, class Memory>
__device__ void prepare_token(const rope_store_args& a, const decode_tile& tile, const step_column& step,
                              bool stores, const Memory& memory, decode_shared<W, Memory::warps>& shared) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::int32_t id = page_id(a.cache, step);
  float* head = shared.heads[warp];
  for (std::uint32_t i = warp; i < tile.heads + (stores ? 2 : 0); i += Memory::warps) {
    const bool is_q = i < tile.heads;
    const std::uint32_t index =
        is_q ? tile.first_head + i : a.heads + (i - tile.heads) * a.kv_heads + tile.kv_head;
    float v[head_values_per_lane];
    memory.read(index, v);
    prepare_head(
        a, [&](std::uint32_t pair) { return memory.turns[pair]; }, index, v, head);
    if (is_q) {
      for (std::uint32_t d = threadIdx.x % 32; d < W; d += 32) shared.q[i][d] = to_half(head[d]);
    } else {
      store_head(a, id, step, index, head);
    }
    __syncwarp();
  }
  memory.sync();
}

/// One warp: asks L2 for 32 positions of a page.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ void prefetch_block(const page_place& place, std::uint32_t block) {
  const std::uint32_t lane = threadIdx.x % 32;
  constexpr std::uint32_t key_bytes = K == engine::kv_type::q8_0 ? 1 : 2;
  constexpr std::uint32_t value_bytes = V == engine::kv_type::q8_0 ? 1 : 2;
  constexpr std::uint32_t keys = block_positions * W * key_bytes;
  for (std::uint32_t at = lane * l2_sector_bytes; at < keys; at += 32 * l2_sector_bytes)
    prefetch_sector(place.keys + block * W * key_bytes + at);
  // A row has the values of one dimension, or of two that lie together (kv_layout.hpp).
  constexpr bool pairs = V == engine::kv_type::q8_0;
  constexpr std::uint32_t rows = pairs ? W / 2 : W;
  constexpr std::uint32_t stride = (pairs ? 2 : 1) * page_positions * value_bytes;
  constexpr std::uint32_t begin_bytes = (pairs ? 2 : 1) * value_bytes;
  constexpr std::uint32_t sectors = block_positions * begin_bytes / l2_sector_bytes;
  for (std::uint32_t i = lane; i < rows * sectors; i += 32)
    prefetch_sector(place.values + i / sectors * stride + block * begin_bytes +
                    i % sectors * l2_sector_bytes);
}

/// All threads: ask L2 for what the block will read, before the QKV product has ended; the kernel that wrote
/// the step has (launch.cuh). The row threads ask for the first page, the others for those after it.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ void prefetch_pages(const attention_args_paged& a, const decode_tile& tile,
                               const step_column& step, std::uint32_t worker, std::uint32_t workers,
                               std::uint32_t threads) {
  if (step.position < 0) return;
  if (a.sinks != nullptr && threadIdx.x == 0) prefetch_sector(a.sinks + tile.first_head);
  const page_range range(a, step.position);
  const auto first = static_cast<std::uint32_t>(first_seen(step.position, a.window));
  constexpr std::uint32_t blocks = page_positions / block_positions;
  const std::uint32_t warp = threadIdx.x / 32;
  // Block i is of the worker's page i / blocks.
#pragma unroll 1
  for (std::uint32_t i = warp;; i += threads / 32 - blocks) {
    const std::uint32_t page = range.first + worker + i / blocks * workers;
    if (page > range.last) return;
    const std::uint32_t block = i % blocks * block_positions;
    const std::uint32_t begin = page * page_positions + block;
    if (begin <= static_cast<std::uint32_t>(step.position) && begin + block_positions > first)
      prefetch_block<W, K, V>(page_of<W, K, V>(a, step.slot, page, tile.kv_head), block);
    if (warp < blocks) return;
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

/// The pages of each head of the tile, folded left to right. `part(page, head, d, state)` is the page's
/// values d and d + 1; it is asked for `AtOnce` pages before the first of them is folded.
template <std::uint32_t W, std::uint32_t AtOnce, class Memory, class Part>
__device__ void fold_pages(const attention_args_paged& a, const decode_tile& tile, const page_range& pages,
                           const Memory& memory, Part part) {
  for (std::uint32_t i = threadIdx.x; i < tile.heads * W / 2; i += row_threads) {
    const std::uint32_t head = 2 * i / W;
    const std::uint32_t d = 2 * i % W;
    if (d >= a.width) continue;
    softmax_state state{-INFINITY, 0.0F};
    float2 value{0.0F, 0.0F};
#pragma unroll 1
    for (std::uint32_t first = pages.first; first <= pages.last; first += AtOnce) {
      softmax_state states[AtOnce];
      float2 parts[AtOnce];
#pragma unroll
      for (std::uint32_t k = 0; k < AtOnce; ++k) {
        if (first + k <= pages.last) parts[k] = part(first + k, head, d, states[k]);
      }
#pragma unroll
      for (std::uint32_t k = 0; k < AtOnce; ++k) {
        if (first + k > pages.last) break;
        const fold_factors factors = fold_state(state, states[k]);
        value = {fold_value(value.x, parts[k].x, factors), fold_value(value.y, parts[k].y, factors)};
      }
    }
    const std::uint32_t of_head = tile.first_head + head;
    memory.write(of_head * a.width + d, to_half(attention_output(state, value.x, a.sinks, of_head)),
                 to_half(attention_output(state, value.y, a.sinks, of_head)));
  }
}

/// A tile's token against every `workers`-th of its pages. The last worker to finish folds them.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V, class Memory>
__device__ void attend_token(const decode_attention_args& args, const decode_tile& tile,
                             const step_column& step, std::uint32_t worker, std::uint32_t workers,
                             const Memory& memory, decode_shared<W, Memory::warps>& shared) {
  const attention_args_paged& a = args.attend;
  if (step.position < 0) return;
  const std::int32_t seen = first_seen(step.position, a.window);
  const page_range range(a, step.position);
  const std::uint32_t pages = range.last - range.first + 1;
  if (worker >= pages) return;
  prepare_token(args.rope, tile, step, (pages - 1) % workers == worker, memory, shared);
  if (threadIdx.x >= row_threads) return;
  const std::uint32_t lane = threadIdx.x % 32;
  lane_queries mine;
  if (lane / 4 < tile.heads) mine.q = shared.q[lane / 4];
#pragma unroll
  for (std::uint32_t c = 0; c < 2; ++c) {
    mine.position[c] = 2 * (lane % 4) + c < tile.heads ? step.position : -1;
    mine.first_seen[c] = seen;
  }
  for (std::uint32_t page = range.first + worker; page <= range.last; page += workers) {
    const page_place place = page_of<W, K, V>(a, step.slot, page, tile.kv_head);
    attend_block<W, K, V>(place.keys, place.values, static_cast<std::int32_t>(page * page_positions), a.scale,
                          mine, shared.page);
    fold_page(shared.page);
    if (pages == 1) break;
    write_partial(args, tile, page, shared.page);
    sync_row_threads();
  }
  if (pages == 1) {
    fold_pages<W, 1>(a, tile, range, memory,
                     [&](std::uint32_t, std::uint32_t head, std::uint32_t d, softmax_state& state) -> float2 {
                       state = shared.page.page[head];
                       return {page_value(shared.page, head, d), page_value(shared.page, head, d + 1)};
                     });
    return;
  }
  if (!arrives_last(args.arrivals + tile.column * a.heads + tile.first_head, min(workers, pages),
                    shared.folds))
    return;
  fold_pages<W, 4>(
      a, tile, range, memory,
      [&](std::uint32_t page, std::uint32_t head, std::uint32_t d, softmax_state& state) -> float2 {
        const float* p = partial_of(args, tile.column, tile.first_head + head, page);
        const float2 of_page = __ldcg(reinterpret_cast<const float2*>(p + W));
        state = {of_page.x, of_page.y};
        return __ldcg(reinterpret_cast<const float2*>(p + d));
      });
}

}  // namespace orcd::kernels
