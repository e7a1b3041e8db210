// Attention of many tokens, in pieces: what a warp has of the queries, how it folds a span of positions into
// its page and a page into the whole (prefill_attention.cu).
#pragma once

#include "kernels/attention/paged_attention.cuh"

namespace orcd::kernels {

using engine::kv_type;

inline constexpr std::uint32_t prefill_warps = 8;
inline constexpr std::uint32_t prefill_threads = prefill_warps * 32;
/// Tiles of queries of a warp: the sums of the widest heads leave registers for one.
template <std::uint32_t W>
inline constexpr std::uint32_t warp_tiles = W <= wide_head_step ? 2 : 1;
template <std::uint32_t W>
inline constexpr std::uint32_t warp_queries = warp_tiles<W>* tile_columns;
inline constexpr std::uint32_t page_spans = engine::kv_page_positions / span_positions;

/// A block's shared memory. A set is the queries of one warp, or of the warps that share their pages.
template <std::uint32_t W, std::uint32_t Sets>
struct prefill_shared {
  static constexpr std::uint32_t width = W;
  static constexpr std::uint32_t lane_values = W / 4;  ///< weighted values of a tile that one lane has
  /// Rows of queries are 64 bytes off a multiple of 128, so that reads of 16 bytes have no bank conflicts.
  static constexpr std::uint32_t query_stride = W / 64 * 64 + 32;

  alignas(16) __half queries[Sets][warp_queries<W>][query_stride];
  alignas(16) __half probabilities[prefill_warps][warp_tiles<W>][tile_columns][span_positions + 8];
  float totals[Sets][warp_tiles<W>][lane_values][32];
  softmax_state states[Sets][warp_tiles<W>][tile_columns];
  std::uint32_t pages[Sets];  ///< of each set: pages folded so far
};

/// The first and the last position that a column's token sees. Neither falls from column to column.
struct seen_positions {
  std::int32_t first;
  std::int32_t last;

  __device__ __forceinline__ seen_positions(const attention_args_paged& a, std::uint32_t column)
      : first(first_seen(max(a.steps[column].position, 0), a.window)), last(a.steps[column].position) {
    if (a.end != 0) last = static_cast<std::int32_t>(a.end) - 1;
    if (a.blocks == nullptr || a.blocks[column].end == 0) return;
    first = min(first, a.blocks[column].first);
    last = a.blocks[column].end - 1;
  }
};

inline constexpr std::uint32_t grid_chunks_max = 64;

/// Which blocks of a launch, by blockIdx.y, have which chunk's columns.
struct chunk_grid {
  std::uint32_t count;
  std::uint32_t first_column[grid_chunks_max + 1];  ///< and behind the last chunk
  std::uint32_t first_block[grid_chunks_max + 1];
};

/// A block's chunk, and the block's number in it.
struct chunk_place {
  std::uint32_t first_column;
  std::uint32_t columns;
  std::uint32_t block;

  __device__ __forceinline__ explicit chunk_place(const chunk_grid& grid) {
    std::uint32_t chunk = 0;
#pragma unroll
    for (std::uint32_t step = grid_chunks_max / 2; step > 0; step /= 2) {
      if (chunk + step < grid.count && blockIdx.y >= grid.first_block[chunk + step]) chunk += step;
    }
    first_column = grid.first_column[chunk];
    columns = grid.first_column[chunk + 1] - first_column;
    // The last queries see most positions, so they begin first.
    block = grid.first_block[chunk + 1] - 1 - blockIdx.y;
  }
};

/// A warp's place in the launch and its tiles. Query indices are token-major, from the chunk's first on.
template <std::uint32_t W>
struct warp_place {
  std::uint32_t set;      ///< in the block
  std::uint32_t worker;   ///< has every `workers`-th of the set's pages
  std::uint32_t workers;  ///< that share a set
  std::uint32_t column;   ///< the chunk's first
  std::uint32_t queries;  ///< of the chunk
  std::uint32_t first;    ///< query of the set
  lane_queries mine[warp_tiles<W>];

  __device__ __forceinline__ warp_place(const attention_args_paged& a, const chunk_place& chunk,
                                        std::uint32_t page_workers)
      : set(threadIdx.x / 32 / page_workers),
        worker(threadIdx.x / 32 % page_workers),
        workers(page_workers),
        column(chunk.first_column),
        queries(chunk.columns * (a.heads / a.kv_heads)),
        first((chunk.block * (prefill_warps / page_workers) + set) * warp_queries<W>) {
    const std::uint32_t group = a.heads / a.kv_heads;
#pragma unroll
    for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) {
#pragma unroll
      for (std::uint32_t c = 0; c < 2; ++c) {
        const std::uint32_t query = first + n * tile_columns + 2 * (threadIdx.x % 4) + c;
        mine[n].position[c] = query < queries ? seen_positions(a, column + query / group).last : -1;
        mine[n].first_seen[c] = first_seen(max(mine[n].position[c], 0), a.window);
      }
    }
  }
  /// What the lane's two columns of a tile see, or, where there are blocks, no less than that.
  [[nodiscard]] __device__ __forceinline__ lane_queries about_seen(const attention_args_paged& a,
                                                                   std::uint32_t n) const {
    lane_queries out = mine[n];
    if (a.blocks != nullptr) out.first_seen[0] = out.first_seen[1] = 0;
    return out;
  }
  /// The same exactly. With blocks it is read again, so that nobody keeps it in registers.
  [[nodiscard]] __device__ __forceinline__ lane_queries exactly_seen(const attention_args_paged& a,
                                                                     std::uint32_t n) const {
    lane_queries out = mine[n];
    if (a.blocks == nullptr) return out;
#pragma unroll
    for (std::uint32_t c = 0; c < 2; ++c) {
      const std::uint32_t query = first + n * tile_columns + 2 * (threadIdx.x % 4) + c;
      if (query < queries)
        out.first_seen[c] = seen_positions(a, column + query / (a.heads / a.kv_heads)).first;
    }
    return out;
  }
  /// Synchronizes the warps that read the same pages at the same time.
  __device__ __forceinline__ void sync_readers() const {
    asm volatile("bar.sync %0, %1;" ::"r"(worker + 1), "r"(prefill_threads / workers) : "memory");
  }
};

/// Pages that any of a chunk's queries `begin` to `begin + count - 1` sees, as far as it has so many.
struct seen_pages {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t first_span;  ///< of the first page, that is seen
  std::uint32_t last_span;   ///< of the last page

  __device__ __forceinline__ seen_pages(const attention_args_paged& a, std::uint32_t column,
                                        std::uint32_t queries, std::uint32_t begin, std::uint32_t count) {
    const std::uint32_t group = a.heads / a.kv_heads;
    const std::uint32_t end = min(begin + count, queries) - 1;
    const auto from = static_cast<std::uint32_t>(seen_positions(a, column + begin / group).first);
    const auto to = static_cast<std::uint32_t>(seen_positions(a, column + end / group).last);
    first = from / engine::kv_page_positions;
    last = to / engine::kv_page_positions;
    first_span = from % engine::kv_page_positions / span_positions;
    last_span = to % engine::kv_page_positions / span_positions;
  }
};

/// Sums of one page: the states of the lane's two columns, and its weighted values, as the accumulators have
/// them.
template <std::uint32_t W>
struct page_sums {
  softmax_state state[warp_tiles<W>][2];
  float value[warp_tiles<W>][W / 16][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) {
      state[n][0] = state[n][1] = {-INFINITY, 0.0F};
#pragma unroll
      for (std::uint32_t d = 0; d < W / 16; ++d) {
#pragma unroll
        for (std::uint32_t i = 0; i < 4; ++i) value[n][d][i] = 0.0F;
      }
    }
  }
  /// What folding an unseen span does to the bits: it makes a negative zero positive.
  __device__ __forceinline__ void fold_nothing() {
#pragma unroll
    for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) {
#pragma unroll
      for (std::uint32_t d = 0; d < W / 16; ++d) {
#pragma unroll
        for (std::uint32_t i = 0; i < 4; ++i) value[n][d][i] = __fadd_rn(value[n][d][i], 0.0F);
      }
    }
  }
};

/// Loads the warp's share of its set's queries into shared memory, zeros past the last one, and clears the
/// set's totals.
template <class Shared>
__device__ __forceinline__ void begin_set(const attention_args_paged& a, const warp_place<Shared::width>& at,
                                          Shared& shared) {
  constexpr std::uint32_t W = Shared::width;
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t thread = at.worker * 32 + threadIdx.x % 32;
  const std::uint32_t threads = at.workers * 32;
  for (std::uint32_t i = thread; i < warp_queries<W> * W / 8; i += threads) {
    const std::uint32_t query = at.first + i / (W / 8);
    uint4 q{};
    if (query < at.queries) {
      const std::uint64_t row =
          static_cast<std::uint64_t>(at.column + query / group) * a.heads + blockIdx.x * group;
      q = reinterpret_cast<const uint4*>(a.q + (row + query % group) * W)[i % (W / 8)];
    }
    reinterpret_cast<uint4*>(shared.queries[at.set][i / (W / 8)])[i % (W / 8)] = q;
  }
  float* const totals = shared.totals[at.set][0][0];
  for (std::uint32_t i = thread; i < warp_tiles<W> * shared.lane_values * 32; i += threads) totals[i] = 0.0F;
  for (std::uint32_t i = thread; i < warp_queries<W>; i += threads)
    shared.states[at.set][i / tile_columns][i % tile_columns] = {-INFINITY, 0.0F};
  if (thread == 0) shared.pages[at.set] = 0;
}

/// A span of a page that each warp reads from memory for itself.
template <std::uint32_t W, kv_type K, kv_type V>
struct span_of_page {
  page_place page;
  std::uint32_t span;  ///< its first position in the page

  [[nodiscard]] __device__ __forceinline__ kv_fragment key(std::uint32_t r, std::uint32_t j) const {
    return key_fragment<K, W>(page.keys, span + 16 * r, j);
  }
  [[nodiscard]] __device__ __forceinline__ kv_fragment value(std::uint32_t d) const {
    return value_fragment<V, W>(page.values, 16 * d, span);
  }
};

template <std::uint32_t W>
using span_scores = float[warp_tiles<W>][2][4];

/// One warp: the products of its queries with a span's keys.
template <kv_type K, class Shared, class Span>
__device__ __forceinline__ void score_span(const warp_place<Shared::width>& at, const Span& kv,
                                           const Shared& shared, span_scores<Shared::width>& scores) {
  constexpr std::uint32_t W = Shared::width;
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
#pragma unroll
  for (std::uint32_t i = 0; i < warp_tiles<W> * 8; ++i) scores[i / 8][i / 4 % 2][i % 4] = 0.0F;
#pragma unroll
  for (std::uint32_t j = 0; j < W / 32; ++j) {
    uint4 q[warp_tiles<W>];
#pragma unroll
    for (std::uint32_t n = 0; n < warp_tiles<W>; ++n)
      q[n] = *reinterpret_cast<const uint4*>(&shared.queries[at.set][n * tile_columns + g][32 * j + 8 * t]);
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) {
      const kv_fragment keys = kv.key(r, j);
#pragma unroll
      for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) multiply_fragment<K>(scores[n][r], keys, q[n]);
    }
  }
}

/// One warp: folds the span that begins at position `begin` into its page's sums.
template <kv_type V, class Shared, class Span>
__device__ __forceinline__ void fold_span(const attention_args_paged& a, const warp_place<Shared::width>& at,
                                          const Span& kv, std::int32_t begin,
                                          span_scores<Shared::width>& scores, Shared& shared,
                                          page_sums<Shared::width>& sums) {
  constexpr std::uint32_t W = Shared::width;
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  auto& probabilities = shared.probabilities[threadIdx.x / 32];
  fold_factors factors[warp_tiles<W>][2];
#pragma unroll
  for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) {
    const span_states states = span_softmax(scores[n], begin, score_form{a.scale, a.softcap},
                                            at.exactly_seen(a, n), probabilities[n]);
#pragma unroll
    for (std::uint32_t c = 0; c < 2; ++c) factors[n][c] = fold_state(sums.state[n][c], states.column[c]);
  }
  __syncwarp();
  uint4 p[warp_tiles<W>];
#pragma unroll
  for (std::uint32_t n = 0; n < warp_tiles<W>; ++n)
    p[n] = *reinterpret_cast<const uint4*>(&probabilities[n][g][8 * t]);
#pragma unroll
  for (std::uint32_t d = 0; d < W / 16; ++d) {
    const kv_fragment values = kv.value(d);
#pragma unroll
    for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) {
      float weighted[4] = {};
      multiply_fragment<V>(weighted, values, p[n]);
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)
        sums.value[n][d][i] = fold_value(sums.value[n][d][i], weighted[i], factors[n][i & 1U]);
    }
  }
  __syncwarp();
}

/// One warp: waits until the set's pages before this one are folded, then folds its own, if any query saw
/// some of it.
template <class Shared>
__device__ __forceinline__ void fold_into_set(const warp_place<Shared::width>& at, std::uint32_t index,
                                              bool seen, Shared& shared,
                                              const page_sums<Shared::width>& sums) {
  constexpr std::uint32_t W = Shared::width;
  const std::uint32_t lane = threadIdx.x % 32;
  volatile std::uint32_t& pages = shared.pages[at.set];
  while (pages != index) {
  }
  __threadfence_block();
  if (seen) {
#pragma unroll
    for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) {
      softmax_state* const states = &shared.states[at.set][n][2 * (lane % 4)];
      softmax_state state[2] = {states[0], states[1]};
      fold_factors factors[2];
#pragma unroll
      for (std::uint32_t c = 0; c < 2; ++c) factors[c] = fold_state(state[c], sums.state[n][c]);
#pragma unroll
      for (std::uint32_t v = 0; v < Shared::lane_values; ++v) {
        float& total = shared.totals[at.set][n][v][lane];
        total = fold_value(total, sums.value[n][v / 4][v % 4], factors[v & 1U]);
      }
      __syncwarp();
      if (lane < 4) {
        states[0] = state[0];
        states[1] = state[1];
      }
    }
  }
  __threadfence_block();
  __syncwarp();
  if (lane == 0) pages = index + 1;
}

template <class Shared>
__device__ __forceinline__ void store_set(const attention_args_paged& a, const warp_place<Shared::width>& at,
                                          const Shared& shared) {
  constexpr std::uint32_t W = Shared::width;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t group = a.heads / a.kv_heads;
#pragma unroll 1
  for (std::uint32_t n = 0; n < warp_tiles<W>; ++n) {
    for (std::uint32_t v = at.worker; v < shared.lane_values; v += at.workers) {
      const std::uint32_t column = 2 * (lane % 4) + (v & 1U);
      const std::uint32_t d = v / 4 * 16 + lane / 4 + v % 4 / 2 * 8;
      const std::uint32_t query = at.first + n * tile_columns + column;
      if (query >= at.queries || d >= a.width) continue;
      const std::uint32_t head = blockIdx.x * group + query % group;
      a.out[static_cast<std::uint64_t>(at.column + query / group) * a.out_stride + head * a.width + d] =
          to_half(__fmul_rn(shared.totals[at.set][n][v][lane],
                            output_factor(shared.states[at.set][n][column], a.sinks, head)));
    }
  }
}

}  // namespace orcd::kernels
