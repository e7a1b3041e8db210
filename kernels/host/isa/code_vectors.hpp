// Vectors of ternary codes (0, 1 and 2 for -1, 0 and 1) and of int8 activations, in the widest form that a
// level has, and the exact sum of their products. Beside the levels of lanes.hpp there are two with an
// instruction that adds four such products (VNNI); the others add pairs in sixteen bits, and fold those into
// 32 before they can overflow, whatever the codes and activations are.
#pragma once

#include "kernels/host/isa/lanes.hpp"

namespace orcd::kernels::host::ORCD_ISA {

/// Values that formats pack together, and that are unpacked at a time.
inline constexpr int code_group = 128;

#if defined(__AVX512BW__)

typedef __m512i code_vector;
inline constexpr int vector_codes = 64;

ORCD_INLINE code_vector load_codes(const void* from) {
  return _mm512_loadu_si512(from);
}
ORCD_INLINE code_vector no_codes() {
  return _mm512_setzero_si512();
}
/// By how much each half of two vectors is shifted.
template <int... shifts>
struct shift_counts {
  alignas(64) std::uint16_t by[2][32];
  constexpr shift_counts() : by{} {
    constexpr std::uint16_t s[] = {shifts...};
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 32; ++j) by[i][j] = s[2 * i + j / 16];
  }
};
/// Four codes of a byte: the first 32 lie at bits `shifts[0]`, and so on.
template <int... shifts>
ORCD_INLINE void unpack_quarters(const void* from, code_vector* out) {
  static constexpr shift_counts<shifts...> counts;
  // The zeroing form with a full mask, as in lanes.hpp.
  const __m512i twice =
      _mm512_maskz_broadcast_i64x4(0xff, _mm256_loadu_si256(static_cast<const __m256i*>(from)));
  const __m512i mask = _mm512_set1_epi8(3);
  for (int i = 0; i < 2; ++i)
    out[i] = _mm512_and_si512(_mm512_srlv_epi16(twice, _mm512_load_si512(counts.by[i])), mask);
}
/// Four times 32 codes.
ORCD_INLINE void join(const __m256i* quarters, code_vector* out) {
  for (int i = 0; i < 2; ++i)
    out[i] = _mm512_maskz_inserti64x4(0xff, _mm512_maskz_broadcast_i64x4(0xff, quarters[2 * i]),
                                      quarters[2 * i + 1], 1);
}
ORCD_INLINE std::int32_t fold_sums(code_vector v) {
  std::int32_t lanes[16];
  _mm512_storeu_si512(lanes, v);
  std::int32_t sum = 0;
  for (const std::int32_t lane : lanes) sum += lane;
  return sum;
}

#elif defined(__AVX2__)

typedef __m256i code_vector;
inline constexpr int vector_codes = 32;

ORCD_INLINE code_vector load_codes(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
ORCD_INLINE code_vector no_codes() {
  return _mm256_setzero_si256();
}
template <int... shifts>
ORCD_INLINE void unpack_quarters(const void* from, code_vector* out) {
  const __m256i packed = load_codes(from);
  const __m256i mask = _mm256_set1_epi8(3);
  int i = 0;
  ((out[i++] = _mm256_and_si256(_mm256_srli_epi16(packed, shifts), mask)), ...);
}
ORCD_INLINE void join(const __m256i* quarters, code_vector* out) {
  for (int i = 0; i < 4; ++i) out[i] = quarters[i];
}
ORCD_INLINE std::int32_t fold_sums(code_vector v) {
  std::int32_t lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), v);
  std::int32_t sum = 0;
  for (const std::int32_t lane : lanes) sum += lane;
  return sum;
}

#endif

#if defined(__AVX2__)

/// Sums of products; `add` takes vectors one after the other, `fold` comes at least every fold_groups groups.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
struct product_sums {
  code_vector wide;
  ORCD_INLINE void add(product_sums& s, code_vector codes, code_vector values) {
#if defined(__AVX512VNNI__)
    s.wide = _mm512_dpbusd_epi32(s.wide, codes, values);
#else
    s.wide = _mm256_dpbusd_avx_epi32(s.wide, codes, values);
#endif
  }
  ORCD_INLINE void fold(product_sums&) {}
};
inline constexpr std::uint32_t fold_groups = 64;
#else
struct product_sums {
  code_vector wide, narrow;
  ORCD_INLINE void add(product_sums& s, code_vector codes, code_vector values) {
#if defined(__AVX512BW__)
    s.narrow = _mm512_add_epi16(s.narrow, _mm512_maddubs_epi16(codes, values));
#else
    s.narrow = _mm256_add_epi16(s.narrow, _mm256_maddubs_epi16(codes, values));
#endif
  }
  ORCD_INLINE void fold(product_sums& s) {
#if defined(__AVX512BW__)
    s.wide = _mm512_add_epi32(s.wide, _mm512_madd_epi16(s.narrow, _mm512_set1_epi16(1)));
#else
    s.wide = _mm256_add_epi32(s.wide, _mm256_madd_epi16(s.narrow, _mm256_set1_epi16(1)));
#endif
    s.narrow = no_codes();
  }
};
// A lane takes a pair of products of each vector, at most 2 * 3 * 128 = 768 in magnitude, so that 42 vectors
// stay within sixteen bits.
inline constexpr std::uint32_t fold_groups = 32 * vector_codes / code_group;
#endif

#endif

}  // namespace orcd::kernels::host::ORCD_ISA
