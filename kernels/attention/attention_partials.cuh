// When several workers (blocks) share a token's pages, each leaves a partial result a page: maximum, sum and
// weighted values. This is how they are written and folded into one result, by the first row_threads threads
// of a block. There are two ways; their bits are those of a worker that has all pages (decode_attention.cuh):
//
//  stored_partials   in memory; the last worker to finish folds all of them       (kernels of their own)
//  handed_partials   in flagged words; every worker folds a slice of the values   (decode program)
#pragma once

#include "kernels/attention/paged_attention.cuh"
#include "kernels/device/flagged.cuh"

namespace orcd::kernels {

__device__ inline float2 fold_values(float2 old, float2 added, const fold_factors& f) {
  return {fold_value(old.x, added.x, f), fold_value(old.y, added.y, f)};
}

/// Partial results of the heads of a tile: [head][page][W + 2], pages counted from the first one that the
/// token sees. The last two of W + 2 are maximum and sum.
template <std::uint32_t W, class Value>
struct page_partials {
  Value* first;
  std::uint32_t pages;  ///< from head to head

  [[nodiscard]] __device__ __forceinline__ Value* at(std::uint32_t head, std::uint32_t page,
                                                     std::uint32_t d) const {
    return first + (static_cast<std::uint64_t>(head) * pages + page) * (W + 2) + d;
  }
};

/// In memory, for the block that arrives last.
template <std::uint32_t W>
struct stored_partials : page_partials<W, float> {
  __device__ __forceinline__ void write(std::uint32_t head, std::uint32_t page, std::uint32_t d,
                                        float2 value) const {
    *reinterpret_cast<float2*>(this->at(head, page, d)) = value;
  }
  [[nodiscard]] __device__ __forceinline__ float2 read(std::uint32_t head, std::uint32_t page,
                                                       std::uint32_t d) const {
    return __ldcg(reinterpret_cast<const float2*>(this->at(head, page, d)));
  }
  /// Whether the page is one of the head's.
  [[nodiscard]] static constexpr __device__ bool folds(std::uint32_t, std::uint32_t) { return true; }
};

/// In flagged words, for blocks that are waiting.
template <std::uint32_t W>
struct handed_partials : page_partials<W, std::uint64_t> {
  std::uint32_t flag;

  __device__ __forceinline__ void write(std::uint32_t head, std::uint32_t page, std::uint32_t d,
                                        float2 value) const {
    store_flagged_two(this->at(head, page, d), __float_as_uint(value.x), __float_as_uint(value.y), flag);
  }
  [[nodiscard]] static __device__ __forceinline__ float2 value(const flagged_two& words) {
    return {__uint_as_float(words.data(0)), __uint_as_float(words.data(1))};
  }
};

/// Writes this block's result for the page-th page that the token sees.
template <std::uint32_t W, class Partials>
__device__ __forceinline__ void write_partial(std::uint32_t heads, std::uint32_t page,
                                              const Partials& partials, const page_shared<W>& shared) {
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < heads * W / 2; i += row_threads) {
    const std::uint32_t head = 2 * i / W;
    const std::uint32_t d = 2 * i % W;
    partials.write(head, page, d, {page_value(shared, head, d), page_value(shared, head, d + 1)});
  }
  if (threadIdx.x < heads) {
    const softmax_state& state = shared.page[threadIdx.x];
    partials.write(threadIdx.x, page, W, {state.maximum, state.sum});
  }
}

/// One warp: factors that fold up to 32 pages of a head left to right, a page a lane, and the state after
/// them. A prefix maximum over lanes gives every page's predecessor at once; only the sums must go from page
/// to page.
__device__ inline fold_factors factors_of_pages(softmax_state& state, const softmax_state& page,
                                                std::uint32_t count) {
  const std::uint32_t lane = threadIdx.x % 32;
  float top = fmaxf(state.maximum, page.maximum);
#pragma unroll
  for (std::uint32_t offset = 1; offset < 32; offset *= 2) {
    const float below = __shfl_up_sync(0xFFFFFFFFU, top, offset);
    if (lane >= offset) top = fmaxf(top, below);
  }
  const float before = __shfl_up_sync(0xFFFFFFFFU, top, 1);
  const fold_factors mine = factors_of(lane == 0 ? state.maximum : before, page.maximum);
#pragma unroll 4
  for (std::uint32_t k = 0; k < count; ++k) {
    const fold_factors f{__shfl_sync(0xFFFFFFFFU, mine.keep, k), __shfl_sync(0xFFFFFFFFU, mine.take, k)};
    state.sum = fold_value(state.sum, __shfl_sync(0xFFFFFFFFU, page.sum, k), f);
  }
  state.maximum = __shfl_sync(0xFFFFFFFFU, top, count - 1);
  return mine;
}

/// Shared memory for folding pages, besides that of a page's values.
struct pages_shared {
  fold_factors factors[tile_columns][32];
  softmax_state folded[tile_columns];
};

/// Folds the stored results of all pages of `heads` heads left to right. For 32 pages at a time a warp of
/// each head computes the factors, then each thread folds its values, with eight loads under way. Calls
/// write(head, d, state, value) for values d and d + 1. `values` has room for [heads][W] floats. A page that
/// is not one of a head's has the maximum and sum of one that nobody sees.
template <std::uint32_t W, class Partials, class Write>
__device__ void fold_pages(std::uint32_t heads, std::uint32_t pages, const Partials& partials, float2* values,
                           pages_shared& shared, Write write) {
  constexpr std::uint32_t at_once = 8;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  softmax_state state{-INFINITY, 0.0F};
#pragma unroll 1
  for (std::uint32_t first = 0; first < pages; first += 32) {
    const std::uint32_t count = min(32U, pages - first);
    if (warp < heads) {
      float2 page{-INFINITY, 0.0F};
      if (lane < count) page = partials.read(warp, first + lane, W);
      shared.factors[warp][lane] = factors_of_pages(state, {page.x, page.y}, count);
      if (lane == 0) shared.folded[warp] = state;
    }
    sync_row_threads();
#pragma unroll 1
    for (std::uint32_t i = threadIdx.x; i < heads * W / 2; i += row_threads) {
      const std::uint32_t head = 2 * i / W;
      const std::uint32_t d = 2 * i % W;
      float2 value = first == 0 ? float2{0.0F, 0.0F} : values[i];
#pragma unroll 1
      for (std::uint32_t k = 0; k < count; k += at_once) {
        float2 its[at_once];
#pragma unroll
        for (std::uint32_t j = 0; j < at_once; ++j) {
          if (k + j < count) its[j] = partials.read(head, first + k + j, d);
        }
#pragma unroll
        for (std::uint32_t j = 0; j < at_once; ++j) {
          if (k + j < count && partials.folds(head, first + k + j))
            value = fold_values(value, its[j], shared.factors[head][k + j]);
        }
      }
      values[i] = value;
      if (first + 32 >= pages) write(head, d, shared.folded[head], value);
    }
    sync_row_threads();
  }
}

/// A slice of a tile's pairs of values, head-major; at most row_threads of them.
struct pair_slice {
  std::uint32_t first;
  std::uint32_t end;
};

/// Folds the handed-over results of all pages for one slice, left to right as they arrive. All threads load
/// results into `staged`, of as many pages as it has room for (32 at most), while a warp of each head
/// computes those pages' factors; then one thread a pair folds. Calls write(head, d, state, value). `staged`
/// has room for 32 * W pairs.
///
/// Workers of a tile wait for each other here, so all of them must run at the same time, each in a block of
/// its own (decode_page_workers()).
template <std::uint32_t W, class Write>
__device__ __forceinline__ void fold_slice(const pair_slice& slice, std::uint32_t pages,
                                           const handed_partials<W>& partials, float2* staged,
                                           pages_shared& shared, Write write) {
  constexpr std::uint32_t of_head = W / 2;
  constexpr std::uint32_t at_once = 4;
  constexpr std::uint32_t warps = row_threads / 32;
  const std::uint32_t pairs = slice.end - slice.first;
  const std::uint32_t group = min(32U, 32 * W / pairs);  // pages at a time
  // A thread loads results of one pair; 2^log neighbours load those of one page.
  const std::uint32_t log = 32 - __clz(static_cast<int>(pairs - 1));
  const std::uint32_t apart = row_threads >> log;  // pages between a thread's loads
  const std::uint32_t own = threadIdx.x & ((1U << log) - 1);
  const std::uint32_t row = threadIdx.x >> log;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t first_head = slice.first / of_head;
  const std::uint32_t heads = (slice.end - 1) / of_head - first_head + 1;
  const std::uint32_t nth_head = warps - 1 - threadIdx.x / 32;  // the last warps have the fewest loads
  const std::uint32_t mine = slice.first + threadIdx.x;
  softmax_state state{-INFINITY, 0.0F};
  float2 value{0.0F, 0.0F};
#pragma unroll 1
  for (std::uint32_t first = 0; first < pages; first += group) {
    const std::uint32_t count = min(group, pages - first);
#pragma unroll 1
    for (std::uint32_t begin = 0; begin < count; begin += apart * at_once) {
      const std::uint32_t k = begin + row;
      const std::uint32_t pair = slice.first + own;
      flagged_two its[at_once];
      gather(
          its, own < pairs && k < count ? (count - k + apart - 1) >> (8 - log) : 0, partials.flag,
          [&](std::uint32_t j) {
            return partials.at(pair / of_head, first + k + j * apart, pair % of_head * 2);
          },
          [&] {
            if (begin > 0 || nth_head >= heads) return;
            flagged_two page[1];
            gather(page, lane < count ? 1 : 0, partials.flag,
                   [&](std::uint32_t) { return partials.at(first_head + nth_head, first + lane, W); });
            const float2 its_state = handed_partials<W>::value(page[0]);
            shared.factors[nth_head][lane] = factors_of_pages(
                state,
                lane < count ? softmax_state{its_state.x, its_state.y} : softmax_state{-INFINITY, 0.0F},
                count);
            if (lane == 0) shared.folded[nth_head] = state;
          });
#pragma unroll
      for (std::uint32_t j = 0; j < at_once; ++j) {
        if (own < pairs && k + j * apart < count)
          staged[(k + j * apart) * pairs + own] = handed_partials<W>::value(its[j]);
      }
    }
    sync_row_threads();
    if (threadIdx.x < pairs) {
      const std::uint32_t nth = mine / of_head - first_head;
#pragma unroll 4
      for (std::uint32_t k = 0; k < count; ++k)
        value = fold_values(value, staged[k * pairs + threadIdx.x], shared.factors[nth][k]);
      if (first + group >= pages) write(mine / of_head, mine % of_head * 2, shared.folded[nth], value);
    }
    sync_row_threads();
  }
}

}  // namespace orcd::kernels
