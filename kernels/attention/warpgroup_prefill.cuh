// Attention of many tokens over f16 keys and values by warpgroups: 64 query vectors of one each, by wgmma.
// The same bits as the warps of prefill_parts.cuh.
//
//   queries --> shared memory, once                   keys, values --> shared memory, a span ahead
//   for each page, for each of its 8 spans:           scores, softmax, weighted values, folded in registers
//   page done:                                        folded into the set's totals, shared memory
//
// The four lanes of a query have all scores of a span, as many positions each as fill operand A of the
// product with the values: probabilities stay where they are computed.
#pragma once

#include "kernels/attention/prefill_parts.cuh"
#include "kernels/attention/staged_span.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t warpgroup_threads = 128;
inline constexpr std::uint32_t warpgroup_warps = warpgroup_threads / 32;
/// Dimensions of the values that are multiplied at a time, as many as there are registers for.
template <std::uint32_t W>
inline constexpr std::uint32_t part_values = W == 96  ? 32
                                             : W < 64 ? W
                                                      : 64;

/// A block: `Sets` sets of 64 queries of `Workers` warpgroups each. A set's workers alternate in pages; those
/// of the same number read the same spans at the same time.
template <std::uint32_t W, std::uint32_t Sets, std::uint32_t Workers>
struct warpgroup_shared {
  static constexpr std::uint32_t width = W;
  static constexpr std::uint32_t workers = Workers;
  static constexpr std::uint32_t threads = Sets * Workers * warpgroup_threads;
  static constexpr std::uint32_t lane_values = W / 2;  ///< weighted values that one thread has

  alignas(matrix_bytes) std::byte spans[Workers][2][span_bytes<W>::whole];
  alignas(matrix_bytes) std::byte queries[Sets][warpgroup_queries * W * 2];
  float totals[Sets][lane_values][warpgroup_threads];
  softmax_state states[Sets][warpgroup_queries];
  std::uint32_t pages[Sets][warpgroup_warps];  ///< of each set and 16 of its queries: pages folded so far
};

/// A warpgroup's place in the launch, and the two queries of a thread: rows g and g + 8 of its warp's 16,
/// where g = lane / 4. Query indices are token-major, from the chunk's first on.
struct warpgroup_place {
  std::uint32_t set;
  std::uint32_t worker;
  std::uint32_t column;           ///< the chunk's first
  std::uint32_t queries;          ///< of the chunk
  std::uint32_t first;            ///< query of the set
  std::int32_t position[2];       ///< the last that a query sees; -1: there is no such query
  std::int32_t all_from, all_to;  ///< what all queries of the set see, or less
  std::int32_t any_from, any_to;  ///< what one of them does, or more

  __device__ __forceinline__ warpgroup_place(const attention_args_paged& a, const chunk_place& chunk,
                                             std::uint32_t sets, std::uint32_t workers)
      : set(threadIdx.x / warpgroup_threads / workers),
        worker(threadIdx.x / warpgroup_threads % workers),
        column(chunk.first_column),
        queries(chunk.columns * (a.heads / a.kv_heads)),
        first((chunk.block * sets + set) * warpgroup_queries) {
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) {
      const std::uint32_t query = first + row() + 8 * r;
      position[r] = query < queries ? seen_by(a, query).last : -1;
    }
    const bool empty = first >= queries;
    all_to = empty ? -1 : seen_by(a, first).last;
    any_to = empty ? -1 : seen_by(a, min(first + warpgroup_queries, queries) - 1).last;
    all_from = first_seen(max(any_to, 0), a.window);
    // A query of a block sees more than one at the last position that it sees.
    any_from = a.blocks == nullptr ? first_seen(max(all_to, 0), a.window) : 0;
  }
  /// The lowest position that a query sees. With blocks it is read again: nobody keeps it in registers.
  [[nodiscard]] __device__ __forceinline__ std::int32_t first_of(const attention_args_paged& a,
                                                                 std::uint32_t r) const {
    const std::uint32_t query = first + row() + 8 * r;
    if (a.blocks == nullptr || query >= queries) return first_seen(max(position[r], 0), a.window);
    return seen_by(a, query).first;
  }
  /// Of its first query in the set.
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t row() {
    return threadIdx.x % warpgroup_threads / 32 * 16 + threadIdx.x % 32 / 4;
  }
  [[nodiscard]] __device__ __forceinline__ seen_positions seen_by(const attention_args_paged& a,
                                                                  std::uint32_t query) const {
    return {a, column + query / (a.heads / a.kv_heads)};
  }
  /// Whether a query of the set sees a position of the span that begins there; whether all see all of it.
  [[nodiscard]] __device__ __forceinline__ bool any_sees(std::int32_t begin) const {
    return begin <= any_to && begin + static_cast<std::int32_t>(span_positions) > any_from;
  }
  [[nodiscard]] __device__ __forceinline__ bool all_see(std::int32_t begin) const {
    return begin + static_cast<std::int32_t>(span_positions) <= all_to + 1 && begin >= all_from;
  }
};

/// Loads a set's queries as operand A, zeros past the last one, and clears its totals.
template <class Shared>
__device__ __forceinline__ void begin_warpgroup_set(const attention_args_paged& a, const warpgroup_place& at,
                                                    Shared& shared) {
  constexpr std::uint32_t W = Shared::width;
  constexpr std::uint32_t blocks = W / block_values;
  constexpr std::uint32_t threads = Shared::workers * warpgroup_threads;
  const std::uint32_t thread = threadIdx.x % threads;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t to = shared_address_of(shared.queries[at.set]);
  for (std::uint32_t unit = thread / 32; unit < warpgroup_queries / 8 * blocks; unit += threads / 32) {
    const std::uint32_t query = at.first + unit / blocks * 8 + lane / 4;
    uint4 q{};
    if (query < at.queries) {
      const std::uint64_t row =
          static_cast<std::uint64_t>(at.column + query / group) * a.heads + blockIdx.x * group;
      q = *reinterpret_cast<const uint4*>(a.q + (row + query % group) * W + unit % blocks * block_values +
                                          8 * (lane % 4));
    }
    store_pieces(
        to + (unit / blocks * row_matrices<W> + unit % blocks * (block_values / piece_values)) * matrix_bytes,
        q);
  }
  fence_shared_for_async();
  float* const totals = shared.totals[at.set][0];
  for (std::uint32_t i = thread; i < Shared::lane_values * warpgroup_threads; i += threads) totals[i] = 0.0F;
  for (std::uint32_t i = thread; i < warpgroup_queries; i += threads)
    shared.states[at.set][i] = {-INFINITY, 0.0F};
  if (thread < warpgroup_warps) shared.pages[at.set][thread] = 0;
}

/// Sums of one page: the states of the thread's two queries, and its weighted values, as the accumulators
/// have them: value 4d + i is dimension 8d + 2 (lane % 4) + i % 2 of query i / 2.
template <std::uint32_t W>
struct warpgroup_sums {
  softmax_state state[2];
  float value[W / 2];

  __device__ __forceinline__ void clear() {
    state[0] = state[1] = {-INFINITY, 0.0F};
#pragma unroll
    for (std::uint32_t v = 0; v < W / 2; ++v) value[v] = 0.0F;
  }
  /// As page_sums::fold_nothing().
  __device__ __forceinline__ void fold_nothing() {
#pragma unroll
    for (std::uint32_t v = 0; v < W / 2; ++v) value[v] = __fadd_rn(value[v], 0.0F);
  }
};

/// The products of a set's queries with a span's keys: score 4n + 2r + c is query r's with the position of
/// row 8n + 2 (lane % 4) + c.
template <class Shared>
__device__ __forceinline__ void score_span_of_set(std::uint32_t queries, std::uint32_t span,
                                                  float (&scores)[16]) {
  constexpr std::uint32_t W = Shared::width;
  const std::uint64_t a = operand_of_matrices(queries, row_matrices<W> * matrix_bytes);
  const std::uint64_t b = keys_of<W>(span);
  pin(scores);
  wgmma_fence();
#pragma unroll
  for (std::uint32_t k = 0; k < W / 16; ++k)
    wgmma_shared(scores, a + 2 * k * matrix_step, b + 2 * k * matrix_step, k != 0);
  wgmma_commit();
  wgmma_wait<0>();
  pin(scores);
}

/// What span_softmax() leaves, for the thread's two queries: their states, and operand A of the product with
/// the values.
struct query_span {
  softmax_state state[2];
  std::uint32_t probabilities[2][4];
};

/// The sum of a query's probabilities, of which each of four lanes has eight, in the order of span_softmax().
/// `p` is [half][which of the span's four eights]: positions lane % 4 and lane % 4 + 4 of each eight.
__device__ __forceinline__ float sum_of_span(const float (&p)[2][4]) {
  float sum[2];
#pragma unroll
  for (std::uint32_t h = 0; h < 2; ++h) {
    sum[h] = __fadd_rn(__fadd_rn(__fadd_rn(p[h][0], p[h][1]), p[h][2]), p[h][3]);
    sum[h] = __fadd_rn(sum[h], __shfl_xor_sync(0xFFFFFFFFU, sum[h], 1));
    sum[h] = __fadd_rn(sum[h], __shfl_xor_sync(0xFFFFFFFFU, sum[h], 2));
  }
  return __fadd_rn(sum[0], sum[1]);
}

template <bool Masked>
__device__ __forceinline__ query_span softmax_of_span(float (&scores)[16], std::int32_t begin,
                                                      const attention_args_paged& a,
                                                      const warpgroup_place& at) {
  query_span out;
  const score_form form{a.scale, a.softcap};
  form.apply(scores);
  const float factor = form.factor();
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    float maximum = -INFINITY;
    const std::int32_t from = Masked ? at.first_of(a, r) : 0;
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i) {
      float& score = scores[4 * (i / 2) + 2 * r + i % 2];
      if constexpr (Masked) {
        const auto row = 8 * (i / 2) + 2 * (threadIdx.x % 4) + i % 2;
        const std::int32_t position = begin + static_cast<std::int32_t>(position_of_row(row));
        if (position > at.position[r] || position < from) score = -INFINITY;
      }
      maximum = fmaxf(maximum, score);
    }
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFFFFFFU, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFFFFFFU, maximum, 2));
    maximum = __fmul_rn(maximum, factor);
    const float finite = finite_maximum(maximum);
    float p[2][4];
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i)
      p[i / 4][i % 4] = exp2_of(__fmaf_rn(scores[4 * (i / 2) + 2 * r + i % 2], factor, -finite));
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const __half2 pair = __floats2half2_rn(p[i / 2][i % 2 * 2], p[i / 2][i % 2 * 2 + 1]);
      out.probabilities[i / 2][i % 2 * 2 + r] = as_bits(pair);
    }
    out.state[r] = {maximum, sum_of_span(p)};
  }
  return out;
}

/// Folds the values of a span, weighted, into its page's sums.
template <class Shared>
__device__ __forceinline__ void fold_values(std::uint32_t span, const query_span& mine,
                                            const fold_factors (&factors)[2],
                                            warpgroup_sums<Shared::width>& sums) {
  constexpr std::uint32_t W = Shared::width;
  constexpr std::uint32_t values = part_values<W>;
#pragma unroll
  for (std::uint32_t part = 0; part < W / values; ++part) {
    const std::uint64_t b = values_of<W>(span, part * values);
    float weighted[values / 2];
#pragma unroll
    for (std::uint32_t i = 0; i < values / 2; ++i) weighted[i] = 0.0F;
    pin(weighted);
    wgmma_fence();
    wgmma<values>(weighted, mine.probabilities[0], b, false);
    wgmma<values>(weighted, mine.probabilities[1], b + 2 * matrix_step, true);
    wgmma_commit();
    wgmma_wait<0>();
    pin(weighted);
#pragma unroll
    for (std::uint32_t i = 0; i < values / 2; ++i) {
      float& sum = sums.value[part * values / 2 + i];
      sum = fold_value(sum, weighted[i], factors[i / 2 % 2]);
    }
  }
}

/// Folds the span that begins at position `begin` into its page's sums.
template <class Shared>
__device__ __forceinline__ void fold_span_of_set(const attention_args_paged& a, const warpgroup_place& at,
                                                 std::uint32_t span, std::int32_t begin, float (&scores)[16],
                                                 warpgroup_sums<Shared::width>& sums) {
  const query_span mine = at.all_see(begin) ? softmax_of_span<false>(scores, begin, a, at)
                                            : softmax_of_span<true>(scores, begin, a, at);
  fold_factors factors[2];
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) factors[r] = fold_state(sums.state[r], mine.state[r]);
  fold_values<Shared>(span, mine, factors, sums);
}

/// Folds a page into the set's totals, behind the pages before it, if any query of the set saw some of it.
template <class Shared>
__device__ __forceinline__ void fold_page_into_set(const warpgroup_place& at, std::uint32_t index, bool seen,
                                                   Shared& shared,
                                                   const warpgroup_sums<Shared::width>& sums) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t thread = threadIdx.x % warpgroup_threads;
  volatile std::uint32_t& pages = shared.pages[at.set][thread / 32];
  if constexpr (Shared::workers > 1) {
    while (pages != index) {
    }
    __threadfence_block();
  }
  if (seen) {
    softmax_state* const states = &shared.states[at.set][at.row()];
    softmax_state state[2] = {states[0], states[8]};
    fold_factors factors[2];
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) factors[r] = fold_state(state[r], sums.state[r]);
#pragma unroll
    for (std::uint32_t v = 0; v < Shared::lane_values; ++v) {
      float& total = shared.totals[at.set][v][thread];
      total = fold_value(total, sums.value[v], factors[v / 2 % 2]);
    }
    __syncwarp();
    if (lane % 4 == 0) {
      states[0] = state[0];
      states[8] = state[1];
    }
    __syncwarp();
  }
  if constexpr (Shared::workers > 1) {
    __threadfence_block();
    __syncwarp();
    if (lane == 0) pages = index + 1;
  }
}

template <class Shared>
__device__ __forceinline__ void store_warpgroup_set(const attention_args_paged& a, const warpgroup_place& at,
                                                    const Shared& shared) {
  const std::uint32_t thread = threadIdx.x % warpgroup_threads;
  const std::uint32_t group = a.heads / a.kv_heads;
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    const std::uint32_t row = at.row() + 8 * r;
    const std::uint32_t query = at.first + row;
    if (query >= at.queries) continue;
    const std::uint32_t head = blockIdx.x * group + query % group;
    const float factor = output_factor(shared.states[at.set][row], a.sinks, head);
    __half* const out =
        a.out + static_cast<std::uint64_t>(at.column + query / group) * a.out_stride + head * a.width;
#pragma unroll 4
    for (std::uint32_t eight = at.worker; eight < Shared::width / 8; eight += Shared::workers) {
      const std::uint32_t d = eight * 8 + thread % 4 * 2;
      const float* const value = &shared.totals[at.set][4 * eight + 2 * r][thread];
      if (d < a.width)
        *reinterpret_cast<__half2*>(out + d) = {to_half(__fmul_rn(value[0], factor)),
                                                to_half(__fmul_rn(value[warpgroup_threads], factor))};
    }
  }
}

}  // namespace orcd::kernels
