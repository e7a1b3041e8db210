// Attention of one new token: its rotation, its place in the cache, and the pages it sees, by the first
// row_threads threads of a block for a tile of heads.
#pragma once

#include "kernels/arrival.cuh"
#include "kernels/attention_ahead.cuh"
#include "kernels/attention_parts.cuh"
#include "kernels/paged_attention.cuh"
#include "kernels/rope_head.cuh"

namespace orcd::kernels {

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

/// Of workspace for all columns and heads: the parts of a tile's heads, of the pages from `first` on.
template <std::uint32_t W, class Value>
__device__ __forceinline__ page_parts<W, Value> parts_from(const attention_args_paged& a, Value* workspace,
                                                           const decode_tile& tile, std::uint32_t first) {
  const std::uint32_t pages = a.cache.pages_per_slot;
  const std::uint64_t head = static_cast<std::uint64_t>(tile.column) * a.heads + tile.first_head;
  return {workspace + (head * pages + first) * (W + 2), pages};
}

/// Of a block with so many warps that prepare heads or read pages.
template <std::uint32_t W, std::uint32_t Warps>
struct decode_shared {
  page_shared<W> page;
  float heads[Warps][head_width_max];
  alignas(16) __half q[tile_columns][W];
  token_halfs<W> token;
  pages_shared pages;
  bool folds;
};

/// How attention gets the product's values and gives its own away: through memory that a kernel before has
/// written and one after will read. All warps of the block prepare heads. `Blocks` run on a multiprocessor:
/// one has a warp for each head of a tile, its key and its value, more than read pages; one or two have the
/// registers to ask ahead; 0 stands for more.
template <std::uint32_t W, std::uint32_t Blocks>
struct attention_memory {
  static constexpr std::uint32_t warps = Blocks == 1 ? tile_columns + 2 : row_threads / 32;
  static constexpr std::uint32_t first_preparer = 0;  ///< of the warps
  static constexpr bool asks_ahead = Blocks > 0;      ///< for keys, in attend_token()
  static constexpr bool hands_parts = false;          ///< to the other workers, in flagged words
  static constexpr bool prefetches = true;            ///< pages after the first, in attend_token()

  const decode_attention_args& args;
  std::uint32_t column;
  const float2* turns;  ///< of the token's position

  __device__ __forceinline__ void await_input() const {
    wait_for_previous_kernel();
    allow_next_kernel();
  }
  __device__ __forceinline__ void sync() const { __syncthreads(); }

  /// Of a tile's heads, of the pages from `first` on.
  [[nodiscard]] __device__ __forceinline__ stored_parts<W> parts(const decode_tile& tile,
                                                                 std::uint32_t first) const {
    return {parts_from<W>(args.attend, args.partial, tile, first)};
  }

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

/// Warps from Memory::first_preparer on, the last first if the block asks ahead, one a head: the queries into
/// shared memory, and the token's key and value there and into the cache when this block reads them. All that
/// take part are synchronized when shared memory has them, and the cache too unless the block asks ahead.
template <std::uint32_t W, class Memory>
__device__ void prepare_token(const rope_store_args& a, const decode_tile& tile, const step_column& step,
                              bool stores, const Memory& memory, decode_shared<W, Memory::warps>& shared) {
  constexpr std::uint32_t preparers = Memory::warps - Memory::first_preparer;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::int32_t id = page_id(a.cache, step);
  float* head = shared.heads[warp];
  std::uint32_t own = 0;  // the index of the key or value that is this warp's last head
  for (std::uint32_t i = Memory::asks_ahead ? Memory::warps - 1 - warp : warp;
       i < tile.heads + (stores ? 2 : 0); i += preparers) {
    const bool is_q = i < tile.heads;
    const std::uint32_t index =
        is_q ? tile.first_head + i : a.heads + (i - tile.heads) * a.kv_heads + tile.kv_head;
    float v[head_values_per_lane];
    memory.read(index, v);
    prepare_head(
        a, [&](std::uint32_t pair) { return memory.turns[pair]; }, index, v, head);
    __half* const halfs = is_q ? shared.q[i] : i == tile.heads ? shared.token.key : shared.token.value;
    for (std::uint32_t d = threadIdx.x % 32; d < W; d += 32) halfs[d] = to_half(head[d]);
    if (!is_q) own = index;
    if (!is_q && !Memory::asks_ahead) store_head(a, id, step, index, head);
    __syncwarp();
  }
  memory.sync();
  if (Memory::asks_ahead && own != 0) store_head(a, id, step, own, head);
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

/// Pages of a worker that are asked for before those before them are read: 192 KiB a block at most, or L2
/// would have to drop them again.
template <std::uint32_t W>
constexpr std::uint32_t pages_ahead = W <= 64   ? 3
                                      : W <= 96 ? 2
                                                : 1;

/// Whether the token sees all positions of a page.
__device__ __forceinline__ bool sees_whole(const attention_args_paged& a, std::int32_t position,
                                           std::uint32_t page) {
  const auto begin = static_cast<std::int32_t>(page * page_positions);
  return begin >= first_seen(position, a.window) &&
         begin + static_cast<std::int32_t>(page_positions) <= position + 1;
}

/// One thread: asks L2 for a page, which lies together.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ void prefetch_page(const page_place& place) {
  prefetch_l2(place.keys, head_page_bytes(K, W));
  prefetch_l2(place.values, head_page_bytes(V, W));
}

/// `threads` threads, of which this is `thread`, a block of positions a warp at a time: ask L2 for what the
/// token sees of a page.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ void prefetch_part(const attention_args_paged& a, const decode_tile& tile,
                                              const step_column& step, std::uint32_t page,
                                              std::uint32_t thread, std::uint32_t threads) {
  const page_place place = page_of<W, K, V>(a, step.slot, page, tile.kv_head);
  const auto first = static_cast<std::uint32_t>(first_seen(step.position, a.window));
#pragma unroll 1
  for (std::uint32_t i = thread / 32; i < page_positions / block_positions; i += threads / 32) {
    const std::uint32_t begin = page * page_positions + i * block_positions;
    if (begin <= static_cast<std::uint32_t>(step.position) && begin + block_positions > first)
      prefetch_block<W, K, V>(place, i * block_positions);
  }
}

/// The row threads: the same for whatever the token sees of it.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ void prefetch_next(const attention_args_paged& a, const decode_tile& tile,
                                              const step_column& step, std::uint32_t page) {
  if (!sees_whole(a, step.position, page))
    prefetch_part<W, K, V>(a, tile, step, page, threadIdx.x, row_threads);
  else if (threadIdx.x == 0)
    prefetch_page<W, K, V>(page_of<W, K, V>(a, step.slot, page, tile.kv_head));
}

/// `threads` threads, of which this is `thread`: ask L2 for the worker's first `count` pages, before the QKV
/// product has ended; the kernel that wrote the step has (launch.cuh). Whole pages by a lane of the last warp
/// each, the others by all.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ void prefetch_pages(const attention_args_paged& a, const decode_tile& tile,
                               const step_column& step, std::uint32_t worker, std::uint32_t workers,
                               std::uint32_t count, std::uint32_t thread, std::uint32_t threads) {
  if (step.position < 0) return;
  if (a.sinks != nullptr && thread == 0) prefetch_sector(a.sinks + tile.first_head);
  const page_range range(a, step.position);
#pragma unroll 1
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t page = range.first + worker + i * workers;
    if (page > range.last) return;
    if (!sees_whole(a, step.position, page))
      prefetch_part<W, K, V>(a, tile, step, page, thread, threads);
    else if (thread == threads - 32 + i)
      prefetch_page<W, K, V>(page_of<W, K, V>(a, step.slot, page, tile.kv_head));
  }
}

/// Values d and d + 1 of a head (of the tile), with all its pages folded, to where they go.
template <class Memory>
__device__ void write_head(const attention_args_paged& a, const decode_tile& tile, const Memory& memory,
                           std::uint32_t head, std::uint32_t d, const softmax_state& state, float2 value) {
  const std::uint32_t of_head = tile.first_head + head;
  memory.write(of_head * a.width + d, to_half(attention_output(state, value.x, a.sinks, of_head)),
               to_half(attention_output(state, value.y, a.sinks, of_head)));
}

/// Of the one page that there is, which this block has.
template <std::uint32_t W, class Memory>
__device__ void write_page(const attention_args_paged& a, const decode_tile& tile, const Memory& memory,
                           const page_shared<W>& shared) {
  for (std::uint32_t i = threadIdx.x; i < tile.heads * W / 2; i += row_threads) {
    const std::uint32_t head = 2 * i / W;
    const std::uint32_t d = 2 * i % W;
    if (d >= a.width) continue;
    softmax_state state{-INFINITY, 0.0F};
    const fold_factors factors = fold_state(state, shared.page[head]);
    const float2 page{page_value(shared, head, d), page_value(shared, head, d + 1)};
    write_head(a, tile, memory, head, d, state, fold_values({0.0F, 0.0F}, page, factors));
  }
}

/// A tile's token against every `workers`-th of its pages. Who asks ahead asks for the keys of the first
/// before there are queries (of narrow heads for the values, too), and for those of each one before the last
/// is folded. The parts of several pages are folded by all workers, a slice of the values each, as they come;
/// or by the one that finishes last.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V, class Memory>
__device__ void attend_token(const decode_attention_args& args, const decode_tile& tile,
                             const step_column& step, std::uint32_t worker, std::uint32_t workers,
                             const Memory& memory, decode_shared<W, Memory::warps>& shared) {
  constexpr bool ahead = Memory::asks_ahead;
  static_assert(!ahead || (K == engine::kv_type::f16 && V == engine::kv_type::f16));
  const attention_args_paged& a = args.attend;
  if (step.position < 0) return memory.await_input();
  const std::int32_t seen = first_seen(step.position, a.window);
  const page_range range(a, step.position);
  const std::uint32_t pages = range.last - range.first + 1;
  if (worker >= pages) return memory.await_input();
  const bool reads = threadIdx.x < row_threads;
  const std::uint32_t block = threadIdx.x / 32 * block_positions;
  [[maybe_unused]] keys_asked<W> next;
  [[maybe_unused]] const auto ask = [&](std::uint32_t page) {
    const auto begin = static_cast<std::int32_t>(page * page_positions + block);
    if (page <= range.last && begin <= step.position &&
        begin + static_cast<std::int32_t>(block_positions) > seen)
      next.ask(page_of<W, K, V>(a, step.slot, page, tile.kv_head), block);
    else
      next = {};
  };
  if (ahead && reads) ask(range.first + worker);
  memory.await_input();
  if (Memory::first_preparer > 0 && reads)
    memory.sync();
  else
    prepare_token(args.rope, tile, step, (pages - 1) % workers == worker, memory, shared);
  if (!reads) return;
  const std::uint32_t lane = threadIdx.x % 32;
  lane_queries mine;
  if (lane / 4 < tile.heads) mine.q = shared.q[lane / 4];
#pragma unroll
  for (std::uint32_t c = 0; c < 2; ++c) {
    mine.position[c] = 2 * (lane % 4) + c < tile.heads ? step.position : -1;
    mine.first_seen[c] = seen;
  }
  for (std::uint32_t page = range.first + worker; page <= range.last; page += workers) {
    const std::uint32_t later = page + (1 + pages_ahead<W>)*workers;
    if (Memory::prefetches && later <= range.last) prefetch_next<W, K, V>(a, tile, step, later);
    const auto begin = static_cast<std::int32_t>(page * page_positions + block);
    if constexpr (ahead) {
      block_asked<W> kv(next, block, shared.token, static_cast<std::uint32_t>(step.position - begin));
      attend_block<W, K, V>(kv, begin, a.scale, mine, shared.page);
      ask(page + workers);
    } else {
      const page_place place = page_of<W, K, V>(a, step.slot, page, tile.kv_head);
      block_in_memory<W, K, V> kv(place.keys, place.values, block);
      attend_block<W, K, V>(kv, begin, a.scale, mine, shared.page);
    }
    fold_page(shared.page);
    if (pages == 1) break;
    write_part(tile.heads, page - range.first, memory.parts(tile, range.first), shared.page);
    sync_row_threads();
  }
  if (pages == 1) return write_page(a, tile, memory, shared.page);
  const auto write = [&](std::uint32_t head, std::uint32_t d, const softmax_state& state, float2 value) {
    if (d < a.width) write_head(a, tile, memory, head, d, state, value);
  };
  auto* const free = reinterpret_cast<float2*>(shared.page.values);
  const std::uint32_t sharing = min(workers, pages);
  const auto parts = memory.parts(tile, range.first);
  if constexpr (Memory::hands_parts) {
    const std::uint32_t pairs = tile.heads * W / 2;
    const std::uint32_t end = pairs * (worker + 1) / sharing;
#pragma unroll 1
    for (std::uint32_t first = pairs * worker / sharing; first < end; first += row_threads)
      fold_slice<W>({first, min(end, first + row_threads)}, pages, parts, free, shared.pages, write);
  } else if (arrives_last(args.arrivals + tile.column * a.heads + tile.first_head, sharing, shared.folds)) {
    fold_pages<W>(tile.heads, pages, parts, free, shared.pages, write);
  }
}

}  // namespace orcd::kernels
