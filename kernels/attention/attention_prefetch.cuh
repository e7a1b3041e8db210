// Loads the keys of a span of positions into registers before the token's query is there, and for narrow
// heads the values, too: what the cache holds already does not depend on the QKV product. The token's own key
// and value, which come with the query and lie in shared memory, replace theirs afterwards. f16 caches only.
#pragma once

#include "kernels/attention/paged_attention.cuh"

namespace orcd::kernels {

/// The key and the value of the token, rounded as in the cache.
template <std::uint32_t W>
struct token_halves {
  alignas(16) __half key[W];
  alignas(16) __half value[W];
};

/// One lane's keys of a span of 32 positions, and its values where there are registers for both.
template <std::uint32_t W>
struct prefetched_keys {
  static constexpr bool with_values = W <= 64;
  static constexpr std::uint32_t value_rows = W / 16;

  kv_fragment keys[2][W / 32] = {};  ///< of positions 16 r + {0..15}, dimensions 32 j + {0..31}
  kv_fragment early_values[with_values ? value_rows : 1] = {};
  const void* values = nullptr;  ///< of the page

  /// `span` is its first position in the page.
  __device__ __forceinline__ void prefetch(const page_place& place, std::uint32_t span) {
    values = place.values;
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) {
#pragma unroll
      for (std::uint32_t j = 0; j < W / 32; ++j)
        keys[r][j] = key_fragment<engine::kv_type::f16, W>(place.keys, span + 16 * r, j);
    }
    if constexpr (with_values) read_values(early_values, span);
  }
  __device__ __forceinline__ void read_values(kv_fragment (&to)[value_rows], std::uint32_t span) const {
    __builtin_assume(__isGlobal(values));
#pragma unroll
    for (std::uint32_t d = 0; d < value_rows; ++d)
      to[d] = value_fragment<engine::kv_type::f16, W>(values, 16 * d, span);
  }
};

/// A span with prefetched keys, for attend_span(). Position `at` of it is the token's own if it is below 32.
template <std::uint32_t W>
class prefetched_span {
 public:
  __device__ __forceinline__ prefetched_span(const prefetched_keys<W>& keys, std::uint32_t span,
                                             const token_halves<W>& token, std::uint32_t at)
      : keys_(keys), token_(token), span_(span), at_(at) {
    if (at < span_positions) take_key();
  }

  __device__ __forceinline__ void before_scores() {}
  [[nodiscard]] __device__ __forceinline__ const kv_fragment& key(std::uint32_t r, std::uint32_t j) const {
    return keys_.keys[r][j];
  }
  /// The keys have been used: their registers can hold values.
  __device__ __forceinline__ void after_scores() {
    if constexpr (prefetched_keys<W>::with_values) {
#pragma unroll
      for (std::uint32_t d = 0; d < rows; ++d) values_[d] = keys_.early_values[d];
    } else {
      keys_.read_values(values_, span_);
    }
  }
  __device__ __forceinline__ void before_values() {
    if (at_ < span_positions) take_value();
  }
  [[nodiscard]] __device__ __forceinline__ const kv_fragment& value(std::uint32_t d) const {
    return values_[d];
  }

 private:
  static constexpr std::uint32_t rows = prefetched_keys<W>::value_rows;

  /// The lane has rows g and g + 8 of 16 positions, dimensions 8 t .. 8 t + 7 of 32.
  __device__ __forceinline__ void take_key() {
    const std::uint32_t g = threadIdx.x % 32 / 4;
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) {
#pragma unroll
      for (std::uint32_t j = 0; j < W / 32; ++j) {
        const uint4 v = *reinterpret_cast<const uint4*>(token_.key + 32 * j + 8 * (threadIdx.x % 4));
        replace_row<0>(keys_.keys[r][j], v, at_ == 16 * r + g);
        replace_row<1>(keys_.keys[r][j], v, at_ == 16 * r + g + 8);
      }
    }
  }
  /// Selects instead of branches: what is assigned under a branch would not stay in registers.
  template <std::uint32_t Upper>
  static __device__ __forceinline__ void replace_row(kv_fragment& k, const uint4& v, bool really) {
    k.first[Upper] = really ? v.x : k.first[Upper];
    k.first[2 + Upper] = really ? v.y : k.first[2 + Upper];
    k.second[Upper] = really ? v.z : k.second[Upper];
    k.second[2 + Upper] = really ? v.w : k.second[2 + Upper];
  }
  /// The lane has positions 8 t .. 8 t + 7, four pairs, of dimensions g and g + 8 of 16.
  __device__ __forceinline__ void take_value() {
    const __half* const own = token_.value + threadIdx.x % 32 / 4;
    const std::uint32_t half = at_ % 2 == 0 ? 0x3254 : 0x5410;
    std::uint32_t which[4];
#pragma unroll
    for (std::uint32_t pair = 0; pair < 4; ++pair)
      which[pair] = at_ / 2 == 4 * (threadIdx.x % 4) + pair ? half : 0x3210;
#pragma unroll
    for (std::uint32_t d = 0; d < rows; ++d) {
#pragma unroll
      for (std::uint32_t upper = 0; upper < 2; ++upper) {
        const std::uint32_t its = __half_as_ushort(own[16 * d + 8 * upper]);
        kv_fragment& v = values_[d];
        v.first[upper] = __byte_perm(v.first[upper], its, which[0]);
        v.first[2 + upper] = __byte_perm(v.first[2 + upper], its, which[1]);
        v.second[upper] = __byte_perm(v.second[upper], its, which[2]);
        v.second[2 + upper] = __byte_perm(v.second[2 + upper], its, which[3]);
      }
    }
  }

  prefetched_keys<W> keys_;
  kv_fragment values_[rows];
  const token_halves<W>& token_;
  std::uint32_t span_;
  std::uint32_t at_;
};

}  // namespace orcd::kernels
