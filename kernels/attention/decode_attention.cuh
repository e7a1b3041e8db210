// Attention of one new token of a sequence, for a tile of up to eight query heads that share a kv head:
//
//   QKV product --> norm and rotation, a warp a head --> queries in shared memory, key and value in the cache
//
//   page of 256 positions = 8 spans of 32, a warp each:
//     keys    VRAM --> registers as operand A; scores = keys * queries; softmax --> probabilities, f16
//     values  VRAM --> registers as operand A; values * probabilities --> shared memory, f32
//   fold_page(): the eight spans left to right --> the page's maximum, sum and weighted values
//
//   one worker:      it folds its pages left to right as they come
//   several workers: worker w (a block) has every workers-th page; all results are folded left to right
//                    (attention_partials.cuh)
//
// The first row_threads threads of a block read pages; more warps may prepare heads.
#pragma once

#include <algorithm>

#include "kernels/attention/attention_partials.cuh"
#include "kernels/attention/attention_prefetch.cuh"
#include "kernels/attention/paged_attention.cuh"
#include "kernels/attention/rope_head.cuh"
#include "kernels/device/arrival.cuh"

namespace orcd::kernels {

/// What a block works on: up to eight query heads of one kv head, for one column's token.
struct decode_tile {
  std::uint32_t column;
  std::uint32_t kv_head;
  std::uint32_t first_head;
  std::uint32_t heads;
};

/// Tile `index` of columns * head tiles, of a kv head.
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
      : first(static_cast<std::uint32_t>(first_seen(position, a.window)) / engine::kv_page_positions),
        last(static_cast<std::uint32_t>(position) / engine::kv_page_positions) {}
};

/// Where in the workspace of all columns and heads the results of a tile's heads lie, from page `first` on.
template <std::uint32_t W, class Value>
__device__ __forceinline__ page_partials<W, Value> partials_from(const attention_args_paged& a,
                                                                 Value* workspace, const decode_tile& tile,
                                                                 std::uint32_t first) {
  const std::uint32_t pages = a.cache.pages_per_slot;
  const std::uint64_t head = static_cast<std::uint64_t>(tile.column) * a.heads + tile.first_head;
  return {workspace + (head * pages + first) * (W + 2), pages};
}

/// Shared memory of a block of `Warps` warps.
template <std::uint32_t W, std::uint32_t Warps>
struct decode_shared {
  page_shared<W> page;
  float heads[Warps][32 * head_values_per_lane<W>];
  alignas(16) __half q[tile_columns][W];
  token_halves<W> token;
  pages_shared pages;
  bool folds;
};

/// Where attention gets the product's values and leaves its results, in a kernel of its own: memory that the
/// kernel before wrote and the next one reads. `Blocks` is how many blocks run on a multiprocessor. With one,
/// it has a warp for each head of a tile and the token's key and value, which is more than read pages; with
/// one or two, there are registers to prefetch keys, so that a warp waits for memory once or twice a page; 0
/// stands for more.
template <std::uint32_t W, std::uint32_t Blocks>
struct attention_memory {
  static constexpr std::uint32_t warps = Blocks == 1 ? tile_columns + 2 : row_threads / 32;
  static constexpr std::uint32_t first_preparer = 0;   ///< the first warp that prepares heads
  static constexpr bool prefetches_keys = Blocks > 0;  ///< in registers, before the queries are there
  static constexpr bool hands_over_partials = false;   ///< between workers, in flagged words
  static constexpr bool keeps_results = true;          ///< of several pages, in registers
  static constexpr bool prefetches_spans = true;       ///< into L2, where pages_asked() is 0
  static constexpr bool caps_scores = true;            ///< where attention_args_paged::softcap is set

  const decode_attention_args& args;
  std::uint32_t column;
  const float2* rope_cos_sin;  ///< of the token's position

  /// Pages of a block that are prefetched into L2 ahead of those that it reads; 0 = none.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t pages_asked() const { return args.pages_asked; }
  __device__ __forceinline__ void await_input() const {
    wait_for_previous_kernel();
    allow_next_kernel();
  }
  __device__ __forceinline__ void sync() const { __syncthreads(); }

  /// Results of a tile's heads, for the pages from `first` on.
  [[nodiscard]] __device__ __forceinline__ stored_partials<W> partials(const decode_tile& tile,
                                                                       std::uint32_t first) const {
    return {partials_from<W>(args.attend, args.partials, tile, first)};
  }

  __device__ __forceinline__ void read(std::uint32_t index, float (&v)[head_values_per_lane<W>]) const {
    const rope_store_args& a = args.rope;
    read_head(a.qkv + static_cast<std::uint64_t>(column) * a.stride + source_of_head(a, index) * a.width,
              a.width, v);
  }
  /// Stores values d and d + 1 (d even) of all heads' output.
  __device__ __forceinline__ void write(std::uint32_t d, __half first, __half second) const {
    *reinterpret_cast<__half2*>(
        args.attend.out + static_cast<std::uint64_t>(column) * args.attend.out_stride + d) = {first, second};
  }
};

/// Prepares the tile's heads, a warp each, by the warps from Memory::first_preparer on: queries into shared
/// memory; the token's key and value there and into the cache, if this block has the token's page (`stores`).
/// If keys are prefetched, the last warps begin, and the cache is written after the barrier, as no warp of
/// this block reads it. All warps are synchronized when shared memory is complete.
template <std::uint32_t W, class Memory>
__device__ void prepare_token(const rope_store_args& a, const decode_tile& tile, const step_token& step,
                              bool stores, const Memory& memory, decode_shared<W, Memory::warps>& shared) {
  constexpr std::uint32_t preparers = Memory::warps - Memory::first_preparer;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::int32_t id = page_id(a.cache, step);
  float* head = shared.heads[warp];
  std::uint32_t own = 0;  // index of the key or value that this warp prepared last, if any
  for (std::uint32_t i = Memory::prefetches_keys ? Memory::warps - 1 - warp : warp;
       i < tile.heads + (stores && !a.queries_only ? 2 : 0); i += preparers) {
    const bool is_q = i < tile.heads;
    const std::uint32_t index =
        is_q ? tile.first_head + i : a.heads + (i - tile.heads) * a.kv_heads + tile.kv_head;
    float v[head_values_per_lane<W>];
    memory.read(index, v);
    prepare_head(
        a, [&](std::uint32_t pair) { return memory.rope_cos_sin[pair]; }, index, v, head);
    __half* const halves = is_q ? shared.q[i] : i == tile.heads ? shared.token.key : shared.token.value;
    for (std::uint32_t d = threadIdx.x % 32; d < W; d += 32) halves[d] = to_half(head[d]);
    if (!is_q) own = index;
    if (!is_q && !Memory::prefetches_keys) store_head(a, id, step, index, head);
    __syncwarp();
  }
  memory.sync();
  if (Memory::prefetches_keys && own != 0) store_head(a, id, step, own, head);
}

/// One warp: prefetches the keys of 32 positions of a page into L2.
template <std::uint32_t W, engine::kv_type K>
__device__ __forceinline__ void prefetch_span_keys(const page_place& place, std::uint32_t span) {
  constexpr std::uint32_t key_bytes = K == engine::kv_type::q8_0 ? 1 : 2;
  constexpr std::uint32_t keys = span_positions * W * key_bytes;
  for (std::uint32_t at = threadIdx.x % 32 * l2_sector_bytes; at < keys; at += 32 * l2_sector_bytes)
    prefetch_sector(place.keys + span * W * key_bytes + at);
}

/// One warp: prefetches the values of 32 positions of a page into L2.
template <std::uint32_t W, engine::kv_type V>
__device__ __forceinline__ void prefetch_span_values(const page_place& place, std::uint32_t span) {
  constexpr std::uint32_t value_bytes = V == engine::kv_type::q8_0 ? 1 : 2;
  // A row holds the values of one dimension, or of two that are interleaved (kv_layout.hpp).
  constexpr bool pairs = V == engine::kv_type::q8_0;
  constexpr std::uint32_t rows = pairs ? W / 2 : W;
  constexpr std::uint32_t stride = (pairs ? 2 : 1) * engine::kv_page_positions * value_bytes;
  constexpr std::uint32_t begin_bytes = (pairs ? 2 : 1) * value_bytes;
  constexpr std::uint32_t sectors = span_positions * begin_bytes / l2_sector_bytes;
  for (std::uint32_t i = threadIdx.x % 32; i < rows * sectors; i += 32)
    prefetch_sector(place.values + i / sectors * stride + span * begin_bytes + i % sectors * l2_sector_bytes);
}

/// Pages of a worker that are prefetched before the ones ahead of them are read. At most 192 KiB a block:
/// with more, L2 would evict them before they are read.
template <std::uint32_t W>
constexpr std::uint32_t pages_ahead = W <= 64    ? 3
                                      : W <= 96  ? 2
                                      : W <= 128 ? 1
                                                 : 0;

/// What pages that were asked for ahead may take of L2, of all blocks that run at once.
inline constexpr std::uint64_t l2_for_pages = 28ULL << 20U;

/// Pages that each of `blocks` blocks asks for ahead, of which `running` run at once. Up to `shared_out`
/// blocks share what pages there are; more have all pages of a tile each, so many that L2 would evict what it
/// was asked for before it is read. Measured: 64 sequences of Phi-3 at 1,088 positions take 16.3 ms with four
/// pages asked for, 13.2 with none.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
std::uint32_t pages_to_ask(std::uint32_t blocks, std::uint32_t shared_out, std::uint32_t running) {
  constexpr std::uint32_t most = pages_ahead<W> + 1;
  if (blocks <= shared_out) return most;
  const std::uint64_t page_bytes = head_page_bytes(K, W) + head_page_bytes(V, W);
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(most, l2_for_pages / (std::min(blocks, running) * page_bytes)));
}

/// Whether the token sees all positions of a page.
__device__ __forceinline__ bool sees_whole(const attention_args_paged& a, std::int32_t position,
                                           std::uint32_t page) {
  const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions);
  return begin >= first_seen(position, a.window) &&
         begin + static_cast<std::int32_t>(engine::kv_page_positions) <= position + 1;
}

/// One thread: prefetches a whole page into L2.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ void prefetch_page(const page_place& place) {
  prefetch_l2(place.keys, head_page_bytes(K, W));
  prefetch_l2(place.values, head_page_bytes(V, W));
}

/// Prefetches what the token sees of a page into L2, by `threads` threads, of which this is `thread`; a span
/// a warp.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ void prefetch_part(const attention_args_paged& a, const decode_tile& tile,
                                              const step_token& step, std::uint32_t page,
                                              std::uint32_t thread, std::uint32_t threads) {
  const page_place place = page_of<W, K, V>(a, step.slot, page, tile.kv_head);
  const auto first = static_cast<std::uint32_t>(first_seen(step.position, a.window));
#pragma unroll 1
  for (std::uint32_t i = thread / 32; i < engine::kv_page_positions / span_positions; i += threads / 32) {
    const std::uint32_t begin = page * engine::kv_page_positions + i * span_positions;
    if (begin > static_cast<std::uint32_t>(step.position) || begin + span_positions <= first) continue;
    prefetch_span_keys<W, K>(place, i * span_positions);
    prefetch_span_values<W, V>(place, i * span_positions);
  }
}

/// The row threads: prefetch what the token sees of a page, by one bulk prefetch if that is all of it.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ void prefetch_next(const attention_args_paged& a, const decode_tile& tile,
                                              const step_token& step, std::uint32_t page) {
  if (!sees_whole(a, step.position, page))
    prefetch_part<W, K, V>(a, tile, step, page, threadIdx.x, row_threads);
  else if (threadIdx.x == 0)
    prefetch_page<W, K, V>(page_of<W, K, V>(a, step.slot, page, tile.kv_head));
}

/// Prefetches the worker's first `count` pages into L2, by `threads` threads, of which this is `thread`.
/// Called before the QKV product has ended; `step` was written by an older kernel, which has (launch.cuh). A
/// lane of the last warp prefetches a whole page; all threads share the pages that are seen in part.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ void prefetch_pages(const attention_args_paged& a, const decode_tile& tile, const step_token& step,
                               std::uint32_t worker, std::uint32_t workers, std::uint32_t count,
                               std::uint32_t thread, std::uint32_t threads) {
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

/// What a warp prefetches where blocks ask for no whole pages ahead (pages_to_ask): its span of a page that
/// it reads next, before the QKV product has ended or while the page before is folded. Of a page that is seen
/// as a whole it is one half, so that what all blocks ask for stays in L2: the values, if the keys are
/// prefetched in registers, else the keys, whose values follow while they are read.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V, bool KeysInRegisters>
__device__ __forceinline__ void prefetch_own_span(const attention_args_paged& a, const decode_tile& tile,
                                                  const step_token& step, std::uint32_t page) {
  const std::uint32_t span = threadIdx.x / 32 * span_positions;
  const std::uint32_t begin = page * engine::kv_page_positions + span;
  const auto first = static_cast<std::uint32_t>(first_seen(step.position, a.window));
  if (span >= engine::kv_page_positions || begin > static_cast<std::uint32_t>(step.position) ||
      begin + span_positions <= first)
    return;
  const page_place place = page_of<W, K, V>(a, step.slot, page, tile.kv_head);
  if constexpr (!KeysInRegisters) prefetch_span_keys<W, K>(place, span);
  if (KeysInRegisters || !sees_whole(a, step.position, page)) prefetch_span_values<W, V>(place, span);
}

/// Stores values d and d + 1 of a head of the tile, all pages folded.
template <class Memory>
__device__ void write_head(const attention_args_paged& a, const decode_tile& tile, const Memory& memory,
                           std::uint32_t head, std::uint32_t d, const softmax_state& state, float2 value) {
  const std::uint32_t of_head = tile.first_head + head;
  const float factor = output_factor(state, a.sinks, of_head);
  memory.write(of_head * a.width + d, to_half(__fmul_rn(value.x, factor)),
               to_half(__fmul_rn(value.y, factor)));
}

/// The result of a tile whose pages one block has, folded page by page: each thread has some pairs of values.
template <std::uint32_t W>
class tile_result {
 public:
  __device__ __forceinline__ tile_result() {
#pragma unroll
    for (std::uint32_t k = 0; k < pairs; ++k) {
      state_[k] = {-INFINITY, 0.0F};
      value_[k] = {0.0F, 0.0F};
    }
  }
  /// Folds a page behind those before it, after fold_page().
  __device__ __forceinline__ void fold(std::uint32_t heads, const page_shared<W>& shared) {
#pragma unroll
    for (std::uint32_t k = 0; k < pairs; ++k) {
      const std::uint32_t i = threadIdx.x + k * row_threads;
      if (i >= heads * W / 2) continue;
      const std::uint32_t head = 2 * i / W;
      const std::uint32_t d = 2 * i % W;
      const fold_factors factors = fold_state(state_[k], shared.page[head]);
      const float2 page{page_value(shared, head, d), page_value(shared, head, d + 1)};
      value_[k] = fold_values(value_[k], page, factors);
    }
  }
  template <class Memory>
  __device__ __forceinline__ void write(const attention_args_paged& a, const decode_tile& tile,
                                        const Memory& memory) const {
#pragma unroll
    for (std::uint32_t k = 0; k < pairs; ++k) {
      const std::uint32_t i = threadIdx.x + k * row_threads;
      if (i < tile.heads * W / 2 && 2 * i % W < a.width)
        write_head(a, tile, memory, 2 * i / W, 2 * i % W, state_[k], value_[k]);
    }
  }

 private:
  static constexpr std::uint32_t pairs = (tile_columns * W / 2 + row_threads - 1) / row_threads;
  softmax_state state_[pairs];
  float2 value_[pairs];
};

/// A tile's token against every `workers`-th of its pages. If Memory prefetches keys, those of the first page
/// are loaded before there are queries, and those of the next page before the current one is folded. Where
/// several workers have pages, the results are folded by all of them, a slice of the values each, as they
/// arrive, or by the worker that finishes last. The decode program, which has no registers to spare, hands
/// over all but a single page.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V, class Memory>
__device__ void attend_token(const decode_attention_args& args, const decode_tile& tile,
                             const step_token& step, std::uint32_t worker, std::uint32_t workers,
                             const Memory& memory, decode_shared<W, Memory::warps>& shared) {
  constexpr bool ahead = Memory::prefetches_keys;
  static_assert(!ahead || (K == engine::kv_type::f16 && V == engine::kv_type::f16));
  const attention_args_paged& a = args.attend;
  if (step.position < 0) return memory.await_input();
  const std::int32_t seen = first_seen(step.position, a.window);
  const page_range range(a, step.position);
  const std::uint32_t pages = range.last - range.first + 1;
  if (worker >= pages) return memory.await_input();
  const bool reads = threadIdx.x < row_threads;
  const std::uint32_t span = threadIdx.x / 32 * span_positions;
  [[maybe_unused]] prefetched_keys<W> next;
  [[maybe_unused]] const auto prefetch_keys = [&](std::uint32_t page) {
    const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions + span);
    if (page <= range.last && begin <= step.position &&
        begin + static_cast<std::int32_t>(span_positions) > seen)
      next.prefetch(page_of<W, K, V>(a, step.slot, page, tile.kv_head), span);
    else
      next = {};
  };
  if (ahead && reads) prefetch_keys(range.first + worker);
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
  const score_form form{a.scale, Memory::caps_scores ? a.softcap : 0.0F};
  const std::uint32_t asked = memory.pages_asked();
  const std::uint32_t sharing = min(workers, pages);
  tile_result<W> result;
  for (std::uint32_t page = range.first + worker; page <= range.last; page += workers) {
    const std::uint32_t later = page + asked * workers;
    if (asked > 0 && later <= range.last) prefetch_next<W, K, V>(a, tile, step, later);
    const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions + span);
    if constexpr (ahead) {
      prefetched_span<W> kv(next, span, shared.token, static_cast<std::uint32_t>(step.position - begin));
      attend_span<W, K, V>(kv, begin, form, mine, shared.page);
      prefetch_keys(page + workers);
      if (Memory::prefetches_spans && asked == 0)
        prefetch_own_span<W, K, V, true>(a, tile, step, page + workers);
    } else {
      const page_place place = page_of<W, K, V>(a, step.slot, page, tile.kv_head);
      if (Memory::prefetches_spans && asked == 0 && sees_whole(a, step.position, page))
        prefetch_span_values<W, V>(place, span);
      span_in_memory<W, K, V> kv(place.keys, place.values, span);
      attend_span<W, K, V>(kv, begin, form, mine, shared.page);
      if (Memory::prefetches_spans && asked == 0)
        prefetch_own_span<W, K, V, false>(a, tile, step, page + workers);
    }
    fold_page(shared.page);
    if (pages == 1) break;
    if (Memory::keeps_results && sharing == 1)
      result.fold(tile.heads, shared.page);
    else
      write_partial(tile.heads, page - range.first, memory.partials(tile, range.first), shared.page);
    sync_row_threads();
  }
  if (pages == 1) result.fold(tile.heads, shared.page);
  if (pages == 1 || (Memory::keeps_results && sharing == 1)) return result.write(a, tile, memory);
  const auto write = [&](std::uint32_t head, std::uint32_t d, const softmax_state& state, float2 value) {
    if (d < a.width) write_head(a, tile, memory, head, d, state, value);
  };
  auto* const free = reinterpret_cast<float2*>(shared.page.values);
  const auto partials = memory.partials(tile, range.first);
  if constexpr (Memory::hands_over_partials) {
    const std::uint32_t pairs = tile.heads * W / 2;
    const std::uint32_t end = pairs * (worker + 1) / sharing;
#pragma unroll 1
    for (std::uint32_t first = pairs * worker / sharing; first < end; first += row_threads)
      fold_slice<W>({first, min(end, first + row_threads)}, pages, partials, free, shared.pages, write);
  } else if (arrives_last(args.arrivals + tile.column * a.heads + tile.first_head, sharing, shared.folds)) {
    fold_pages<W>(tile.heads, pages, partials, free, shared.pages, write);
  }
}

}  // namespace orcd::kernels
