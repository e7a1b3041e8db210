// The steps of attention that decode and prefill share, bit for bit. The keys or values of 16 or 32 positions
// are operand A of mma.m16n8k16, up to eight query vectors (or their probabilities) operand B.
#pragma once

#include <cuda_fp16.h>

#include <cmath>

#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/kv_page.cuh"
#include "kernels/device/device_math.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t span_positions = 32;  ///< a span: what one warp attends to at a time
inline constexpr std::uint32_t tile_columns = 8;     ///< query vectors of one mma
static_assert(tile_columns == decode_heads);

struct page_place {
  const std::byte* keys;
  const std::byte* values;
};

/// The number of a (page, kv head) in the cache.
__device__ __forceinline__ std::uint32_t page_number(const attention_args_paged& a, std::int32_t slot,
                                                     std::uint32_t page, std::uint32_t kv_head) {
  const std::int32_t id =
      a.cache.page_table[static_cast<std::uint32_t>(slot) * a.cache.pages_per_slot + page];
  return static_cast<std::uint32_t>(id) * a.kv_heads + kv_head;
}
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ __forceinline__ page_place place_of(const attention_args_paged& a, std::uint32_t number) {
  // The addresses are read from shared memory, so the compiler does not know that they are global.
  __builtin_assume(__isGlobal(a.cache.keys) && __isGlobal(a.cache.values));
  return {static_cast<const std::byte*>(a.cache.keys) + number * head_page_bytes(K, W),
          static_cast<const std::byte*>(a.cache.values) + number * head_page_bytes(V, W)};
}
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
__device__ page_place page_of(const attention_args_paged& a, std::int32_t slot, std::uint32_t page,
                              std::uint32_t kv_head) {
  return place_of<W, K, V>(a, page_number(a, slot, page, kv_head));
}

/// What one lane needs of a tile of eight query vectors: as operand B it reads column lane / 4, as
/// accumulator it holds columns 2 (lane % 4) and the next.
struct lane_queries {
  const __half* q = nullptr;   ///< of column lane / 4, padded_width halves, or null
  std::int32_t position[2];    ///< of the tokens of its two accumulator columns; -1: unused
  std::int32_t first_seen[2];  ///< lowest visible positions
};

/// 2^x to within 2^-22 of it; 0 for what is below 2^-126.
__device__ __forceinline__ float exp2_of(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
inline constexpr float log2_e = 1.44269504F;

/// Softmax state of a column: maximum, in units of log2_e, and sum; its weighted values are kept elsewhere.
struct softmax_state {
  float maximum;
  float sum;
};

/// Factors of one fold: state' = old * keep + added * take.
struct fold_factors {
  float keep;
  float take;
};

/// What is subtracted in 2^(x - maximum). If no position was seen, any finite number will do: x is minus
/// infinity, too.
__device__ inline float finite_maximum(float maximum) {
  return maximum == -INFINITY ? 0.0F : maximum;
}

/// Factors for folding a state with maximum `added` into one with maximum `state`. Two empty states give
/// zeros.
__device__ inline fold_factors factors_of(float state, float added) {
  const float maximum = finite_maximum(fmaxf(state, added));
  return {exp2_of(__fsub_rn(state, maximum)), exp2_of(__fsub_rn(added, maximum))};
}
__device__ inline float fold_value(float old, float added, const fold_factors& f) {
  return __fmaf_rn(added, f.take, __fmul_rn(old, f.keep));
}
/// Folds a state to the right of an existing one. Explicit roundings and no branch, so that every caller gets
/// the same bits.
__device__ inline fold_factors fold_state(softmax_state& state, const softmax_state& added) {
  const fold_factors f = factors_of(state.maximum, added.maximum);
  state.maximum = fmaxf(state.maximum, added.maximum);
  state.sum = fold_value(state.sum, added.sum, f);
  return f;
}

/// Shared memory of one page's work: the spans of eight warps, then the page's own result.
template <std::uint32_t W>
struct page_shared {
  alignas(16) __half probabilities[8][tile_columns][span_positions + 8];
  alignas(16) float values[8][tile_columns][W];
  softmax_state state[8][tile_columns];
  fold_factors factors[8][tile_columns];
  softmax_state page[tile_columns];
};

/// One warp: leaves what attend_span() would for positions that no column sees.
template <std::uint32_t W>
__device__ void see_nothing(page_shared<W>& shared) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  if (lane < tile_columns) shared.state[warp][lane] = {-INFINITY, 0.0F};
  for (std::uint32_t i = lane; i < tile_columns * W; i += 32) shared.values[warp][i / W][i % W] = 0.0F;
}

/// Whether one of this lane's columns sees a position of the span that begins there.
__device__ inline bool sees_span(const lane_queries& mine, std::int32_t begin) {
  constexpr auto length = static_cast<std::int32_t>(span_positions);
  return (begin <= mine.position[0] && begin + length > mine.first_seen[0]) ||
         (begin <= mine.position[1] && begin + length > mine.first_seen[1]);
}

/// What becomes of a sum q . k before its softmax, e^(scale * sum) = 2^(factor() * sum). With a cap, the sum
/// is replaced by cap * tanh(scale * sum / cap) first.
struct score_form {
  float scale;
  float cap;  ///< 0 = none

  [[nodiscard]] __device__ __forceinline__ float factor() const {
    return cap == 0.0F ? __fmul_rn(scale, log2_e) : log2_e;
  }
  template <std::uint32_t Count>
  __device__ __forceinline__ void apply(float (&scores)[Count]) const {
    if (cap == 0.0F) return;
    // As 1 - 2 / (e^(2x) + 1), which takes fewer registers than tanhf, to within 1e-6 of the cap.
    const float twice = __fmul_rn(__fdividef(2.0F, cap), log2_e);
#pragma unroll
    for (std::uint32_t i = 0; i < Count; ++i) {
      const float e = exp2_of(__fmul_rn(__fmul_rn(scores[i], scale), twice));
      scores[i] = __fsub_rn(cap, __fdividef(__fadd_rn(cap, cap), __fadd_rn(e, 1.0F)));
    }
  }
};

/// One warp: the softmax of a span of 32 positions from `begin` on. `scores[r]` are the sums of positions 16
/// r + {0..15}. Leaves the probabilities in shared memory, [column][position], not synchronized, and returns
/// the states of the lane's two columns.
struct span_states {
  softmax_state column[2];
};
__device__ inline span_states span_softmax(float (&scores)[2][4], std::int32_t begin, const score_form& form,
                                           const lane_queries& mine,
                                           __half (*probabilities)[span_positions + 8]) {
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  float maximum[2] = {-INFINITY, -INFINITY};
  const float factor = form.factor();
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    form.apply(scores[r]);
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t c = i & 1U;
      const std::int32_t position = begin + static_cast<std::int32_t>(16 * r + g + 8 * (i / 2));
      const bool seen = position <= mine.position[c] && position >= mine.first_seen[c];
      scores[r][i] = seen ? scores[r][i] : -INFINITY;
      maximum[c] = fmaxf(maximum[c], scores[r][i]);
    }
  }
#pragma unroll
  for (std::uint32_t offset = 4; offset < 32; offset *= 2) {
    maximum[0] = fmaxf(maximum[0], __shfl_xor_sync(0xFFFFFFFFU, maximum[0], offset));
    maximum[1] = fmaxf(maximum[1], __shfl_xor_sync(0xFFFFFFFFU, maximum[1], offset));
  }
  maximum[0] = __fmul_rn(maximum[0], factor);
  maximum[1] = __fmul_rn(maximum[1], factor);
  const float finite[2] = {finite_maximum(maximum[0]), finite_maximum(maximum[1])};
  float sum[2] = {0.0F, 0.0F};
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t c = i & 1U;
      const float p = exp2_of(__fmaf_rn(scores[r][i], factor, -finite[c]));
      sum[c] = __fadd_rn(sum[c], p);
      probabilities[2 * t + c][16 * r + g + 8 * (i / 2)] = __float2half_rn(p);
    }
  }
#pragma unroll
  for (std::uint32_t offset = 4; offset < 32; offset *= 2) {
    sum[0] = __fadd_rn(sum[0], __shfl_xor_sync(0xFFFFFFFFU, sum[0], offset));
    sum[1] = __fadd_rn(sum[1], __shfl_xor_sync(0xFFFFFFFFU, sum[1], offset));
  }
  return {{{maximum[0], sum[0]}, {maximum[1], sum[1]}}};
}

/// A span for attend_span() that reads its keys and values from memory when they are needed, as many at a
/// time as there are registers for.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V>
class span_in_memory {
 public:
  /// `span` is its first position in the page.
  __device__ __forceinline__ span_in_memory(const void* keys, const void* values, std::uint32_t span)
      : keys_(keys), values_(values), span_(span) {}

  __device__ __forceinline__ void before_scores() {
    if constexpr (early) load(0);
  }
  /// Positions 16 r + {0..15} of the span, dimensions 32 j + {0..31}.
  [[nodiscard]] __device__ __forceinline__ kv_fragment key(std::uint32_t r, std::uint32_t j) const {
    return key_fragment<K, W>(keys_, span_ + 16 * r, j);
  }
  __device__ __forceinline__ void after_scores() {
    if constexpr (!early) load(0);
  }
  __device__ __forceinline__ void before_values() {}
  /// Dimensions 16 d + {0..15}; call with d = 0, 1, 2, ...
  [[nodiscard]] __device__ __forceinline__ const kv_fragment& value(std::uint32_t d) {
    if (d > 0 && d % at_once == 0) load(d);
    return some_values_[d % at_once];
  }

 private:
  // Narrow heads have registers for keys and values together, and so wait for memory once.
  static constexpr std::uint32_t rows = W / 16;
  static constexpr std::uint32_t at_once = rows <= 4 ? rows : rows <= 16 ? rows / 2 : 8;
  static constexpr bool early = rows <= 4;

  __device__ __forceinline__ void load(std::uint32_t first) {
#pragma unroll
    for (std::uint32_t d = 0; d < at_once; ++d)
      some_values_[d] = value_fragment<V, W>(values_, 16 * (first + d), span_);
  }

  const void* keys_;
  const void* values_;
  std::uint32_t span_;
  kv_fragment some_values_[at_once];
};

/// One warp: a span of the page, whose first position is `begin`, against a tile of query vectors. Leaves the
/// span's state and weighted values in `shared`.
template <std::uint32_t W, engine::kv_type K, engine::kv_type V, class Span>
__device__ __forceinline__ void attend_span(Span& kv, std::int32_t begin, const score_form& form,
                                            const lane_queries& mine, page_shared<W>& shared) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  if (!__any_sync(0xFFFFFFFFU, sees_span(mine, begin))) {
    see_nothing(shared);
    return;
  }
  kv.before_scores();
  float scores[2][4] = {};
#pragma unroll
  for (std::uint32_t j = 0; j < W / 32; ++j) {
    const uint4 q = mine.q != nullptr ? *reinterpret_cast<const uint4*>(mine.q + 32 * j + 8 * t) : uint4{};
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) multiply_fragment<K>(scores[r], kv.key(r, j), q);
  }
  kv.after_scores();
  const span_states states = span_softmax(scores, begin, form, mine, shared.probabilities[warp]);
  if (g == 0) {
    shared.state[warp][2 * t] = states.column[0];
    shared.state[warp][2 * t + 1] = states.column[1];
  }
  __syncwarp();

  const uint4 p = *reinterpret_cast<const uint4*>(&shared.probabilities[warp][g][8 * t]);
  kv.before_values();
#pragma unroll
  for (std::uint32_t d = 0; d < W / 16; ++d) {
    float weighted[4] = {};
    multiply_fragment<V>(weighted, kv.value(d), p);
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i)
      shared.values[warp][2 * t + (i & 1U)][16 * d + g + 8 * (i / 2)] = weighted[i];
  }
}

/// Folds the eight spans of a page left to right: one thread a span and column computes the factors, which
/// page_value() then applies. A prefix maximum gives every span's predecessor at once; only the sums must go
/// from span to span. The row threads are synchronized at the beginning and the end.
template <std::uint32_t W>
__device__ void fold_page(page_shared<W>& shared) {
  constexpr std::uint32_t spans = 8;
  sync_row_threads();
  if (threadIdx.x < tile_columns * spans) {
    const std::uint32_t column = threadIdx.x / spans;
    const std::uint32_t span = threadIdx.x % spans;
    const softmax_state mine = shared.state[span][column];
    float top = mine.maximum;
#pragma unroll
    for (std::uint32_t offset = 1; offset < spans; offset *= 2) {
      const float below = __shfl_up_sync(0xFFFFFFFFU, top, offset, spans);
      if (span >= offset) top = fmaxf(top, below);
    }
    const float before = __shfl_up_sync(0xFFFFFFFFU, top, 1, spans);
    const fold_factors factors = factors_of(span == 0 ? -INFINITY : before, mine.maximum);
    shared.factors[span][column] = factors;
    float sum = 0.0F;
#pragma unroll
    for (std::uint32_t b = 0; b < spans; ++b) {
      const fold_factors f{__shfl_sync(0xFFFFFFFFU, factors.keep, b, spans),
                           __shfl_sync(0xFFFFFFFFU, factors.take, b, spans)};
      sum = fold_value(sum, __shfl_sync(0xFFFFFFFFU, mine.sum, b, spans), f);
    }
    if (span == spans - 1) shared.page[column] = {top, sum};
  }
  sync_row_threads();
}

/// The page's weighted value of a column and a dimension, after fold_page().
template <std::uint32_t W>
__device__ float page_value(const page_shared<W>& shared, std::uint32_t column, std::uint32_t d) {
  float value = 0.0F;
#pragma unroll
  for (std::uint32_t w = 0; w < 8; ++w)
    value = fold_value(value, shared.values[w][column][d], shared.factors[w][column]);
  return value;
}

/// What a head's values are multiplied by at last. A sink is a score without a value: it takes part in the
/// sum only.
__device__ __forceinline__ float output_factor(const softmax_state& state, const float* sinks,
                                               std::uint32_t head) {
  if (sinks == nullptr) return __fdiv_rn(1.0F, state.sum);
  const float sink = __fmul_rn(sinks[head], log2_e);
  const float maximum = fmaxf(state.maximum, sink);
  const float keep = exp2_of(__fsub_rn(state.maximum, maximum));
  return __fdiv_rn(keep, __fmaf_rn(state.sum, keep, exp2_of(__fsub_rn(sink, maximum))));
}

__device__ inline std::int32_t first_seen(std::int32_t position, std::uint32_t window) {
  return window == 0 ? 0 : max(0, position - static_cast<std::int32_t>(window) + 1);
}

}  // namespace orcd::kernels
