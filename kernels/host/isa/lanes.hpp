// Sixteen values at a time, for the sources of this directory, which are compiled once per x86 level
// into a namespace of their own (ORCD_ISA). Each level holds the sixteen lanes in vectors of its native
// width; every operation is lane-wise, so that all levels give the same bits. Intrinsics appear only
// here, for widening loads, which g++ 12 does not make from portable code.
//
// Everything is always_inline or static and nothing of the standard library is used: a function that
// the linker may share between levels would run AVX-512 code on an older processor.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef ORCD_ISA
#error "sources of kernels/host/isa are compiled with ORCD_ISA set to the namespace of their level"
#endif

#define ORCD_INLINE [[gnu::always_inline]] static inline

namespace orcd::kernels::host::ORCD_ISA {

inline constexpr int lane_count = 16;
#if defined(__AVX512F__)
inline constexpr int part_width = 16;
#elif defined(__AVX2__)
inline constexpr int part_width = 8;
#else
inline constexpr int part_width = 4;
#endif
inline constexpr int part_count = lane_count / part_width;

typedef float float_part __attribute__((vector_size(4 * part_width)));
typedef std::int32_t int_part __attribute__((vector_size(4 * part_width)));

// The same vectors at any address of floats or integers. g++ 12 copies by memcpy in pieces of sixteen
// bytes, through the stack; through these types it is one load.
typedef float float_part_in_memory __attribute__((vector_size(4 * part_width), aligned(4), may_alias));
typedef std::int32_t int_part_in_memory __attribute__((vector_size(4 * part_width), aligned(4), may_alias));

struct float_lanes {
  float_part part[part_count];
};
struct int_lanes {
  int_part part[part_count];
};

#define ORCD_EACH_PART for (int p = 0; p < part_count; ++p)

ORCD_INLINE float_part load_part(const float* from) {
  return *reinterpret_cast<const float_part_in_memory*>(from);
}

ORCD_INLINE float_lanes load(const float* from) {
  float_lanes v;
  ORCD_EACH_PART v.part[p] = load_part(from + p * part_width);
  return v;
}
ORCD_INLINE void store(float* to, float_lanes v) {
  ORCD_EACH_PART* reinterpret_cast<float_part_in_memory*>(to + p * part_width) = v.part[p];
}
ORCD_INLINE int_lanes load_int(const std::int32_t* from) {
  int_lanes v;
  ORCD_EACH_PART v.part[p] = *reinterpret_cast<const int_part_in_memory*>(from + p * part_width);
  return v;
}

ORCD_INLINE float_lanes splat(float x) {
  float_lanes v;
  ORCD_EACH_PART v.part[p] = float_part{} + x;
  return v;
}

ORCD_INLINE float_lanes operator+(float_lanes a, float_lanes b) {
  ORCD_EACH_PART a.part[p] += b.part[p];
  return a;
}
ORCD_INLINE float_lanes operator-(float_lanes a, float_lanes b) {
  ORCD_EACH_PART a.part[p] -= b.part[p];
  return a;
}
ORCD_INLINE float_lanes operator*(float_lanes a, float_lanes b) {
  ORCD_EACH_PART a.part[p] *= b.part[p];
  return a;
}
ORCD_INLINE float_lanes operator/(float_lanes a, float_lanes b) {
  ORCD_EACH_PART a.part[p] /= b.part[p];
  return a;
}
ORCD_INLINE float_lanes operator*(float s, float_lanes a) {
  ORCD_EACH_PART a.part[p] = s * a.part[p];
  return a;
}
ORCD_INLINE float_lanes operator+(float_lanes a, float s) {
  ORCD_EACH_PART a.part[p] = a.part[p] + s;
  return a;
}
ORCD_INLINE float_lanes operator-(float_lanes a, float s) {
  ORCD_EACH_PART a.part[p] = a.part[p] - s;
  return a;
}
/// The larger, lane by lane; `a` where a comparison with NaN decides.
ORCD_INLINE float_lanes larger(float_lanes a, float_lanes b) {
  ORCD_EACH_PART a.part[p] = b.part[p] > a.part[p] ? b.part[p] : a.part[p];
  return a;
}
ORCD_INLINE float_lanes smaller(float_lanes a, float_lanes b) {
  ORCD_EACH_PART a.part[p] = b.part[p] < a.part[p] ? b.part[p] : a.part[p];
  return a;
}

ORCD_INLINE int_lanes operator&(int_lanes a, std::int32_t s) {
  ORCD_EACH_PART a.part[p] &= s;
  return a;
}
ORCD_INLINE int_lanes operator&(int_lanes a, int_lanes b) {
  ORCD_EACH_PART a.part[p] &= b.part[p];
  return a;
}
ORCD_INLINE int_lanes operator|(int_lanes a, int_lanes b) {
  ORCD_EACH_PART a.part[p] |= b.part[p];
  return a;
}
ORCD_INLINE int_lanes operator^(int_lanes a, int_lanes b) {
  ORCD_EACH_PART a.part[p] ^= b.part[p];
  return a;
}
ORCD_INLINE int_lanes operator+(int_lanes a, int_lanes b) {
  ORCD_EACH_PART a.part[p] += b.part[p];
  return a;
}
ORCD_INLINE int_lanes operator-(int_lanes a, int_lanes b) {
  ORCD_EACH_PART a.part[p] -= b.part[p];
  return a;
}
ORCD_INLINE int_lanes operator-(int_lanes a, std::int32_t s) {
  ORCD_EACH_PART a.part[p] -= s;
  return a;
}
ORCD_INLINE int_lanes operator<<(int_lanes a, int bits) {
  ORCD_EACH_PART a.part[p] <<= bits;
  return a;
}
ORCD_INLINE int_lanes operator>>(int_lanes a, int bits) {
  ORCD_EACH_PART a.part[p] >>= bits;
  return a;
}
/// All bits set where a lane exceeds `s`, else none.
ORCD_INLINE int_lanes mask_above(int_lanes a, std::int32_t s) {
  ORCD_EACH_PART a.part[p] = a.part[p] > s;
  return a;
}
ORCD_INLINE int_lanes mask_nonzero(int_lanes a) {
  ORCD_EACH_PART a.part[p] = a.part[p] != 0;
  return a;
}
ORCD_INLINE int_lanes splat_int(std::int32_t x) {
  int_lanes v;
  ORCD_EACH_PART v.part[p] = int_part{} + x;
  return v;
}

ORCD_INLINE float_lanes to_float(int_lanes a) {
  float_lanes v;
  ORCD_EACH_PART v.part[p] = __builtin_convertvector(a.part[p], float_part);
  return v;
}
/// The same bits as the other type.
ORCD_INLINE int_lanes float_bits(float_lanes a) {
  int_lanes v;
  ORCD_EACH_PART v.part[p] = (int_part)a.part[p];
  return v;
}
ORCD_INLINE float_lanes bits_to_float(int_lanes a) {
  float_lanes v;
  ORCD_EACH_PART v.part[p] = (float_part)a.part[p];
  return v;
}

#if defined(__AVX512F__)
// The zeroing forms with a full mask: the plain ones start from an undefined register, of which g++ 12
// warns where they are inlined.
constexpr __mmask16 every_lane = 0xffff;
ORCD_INLINE int_lanes widen(const std::uint8_t* from) {
  return {{(int_part)_mm512_maskz_cvtepu8_epi32(every_lane,
                                                _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))}};
}
ORCD_INLINE int_lanes widen_signed(const std::uint8_t* from) {
  return {{(int_part)_mm512_maskz_cvtepi8_epi32(every_lane,
                                                _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))}};
}
ORCD_INLINE int_lanes widen16(const std::uint8_t* from) {
  return {{(int_part)_mm512_maskz_cvtepu16_epi32(
      every_lane, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))}};
}
#elif defined(__AVX2__)
ORCD_INLINE int_lanes widen(const std::uint8_t* from) {
  return {{(int_part)_mm256_cvtepu8_epi32(_mm_loadu_si64(from)),
           (int_part)_mm256_cvtepu8_epi32(_mm_loadu_si64(from + 8))}};
}
ORCD_INLINE int_lanes widen_signed(const std::uint8_t* from) {
  return {{(int_part)_mm256_cvtepi8_epi32(_mm_loadu_si64(from)),
           (int_part)_mm256_cvtepi8_epi32(_mm_loadu_si64(from + 8))}};
}
ORCD_INLINE int_lanes widen16(const std::uint8_t* from) {
  const auto* v = reinterpret_cast<const __m128i*>(from);
  return {{(int_part)_mm256_cvtepu16_epi32(_mm_loadu_si128(v)),
           (int_part)_mm256_cvtepu16_epi32(_mm_loadu_si128(v + 1))}};
}
#elif defined(__SSE2__)
ORCD_INLINE int_lanes widen16(__m128i low, __m128i high) {
  const __m128i zero = _mm_setzero_si128();
  return {{(int_part)_mm_unpacklo_epi16(low, zero), (int_part)_mm_unpackhi_epi16(low, zero),
           (int_part)_mm_unpacklo_epi16(high, zero), (int_part)_mm_unpackhi_epi16(high, zero)}};
}
ORCD_INLINE int_lanes widen(const std::uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m128i zero = _mm_setzero_si128();
  return widen16(_mm_unpacklo_epi8(bytes, zero), _mm_unpackhi_epi8(bytes, zero));
}
ORCD_INLINE int_lanes widen_signed(const std::uint8_t* from) {
  return ((widen(from) << 24) >> 24);
}
ORCD_INLINE int_lanes widen16(const std::uint8_t* from) {
  const auto* v = reinterpret_cast<const __m128i*>(from);
  return widen16(_mm_loadu_si128(v), _mm_loadu_si128(v + 1));
}
#else
ORCD_INLINE int_lanes widen(const std::uint8_t* from) {
  std::int32_t wide[lane_count];
  for (int i = 0; i < lane_count; ++i) wide[i] = from[i];
  return load_int(wide);
}
ORCD_INLINE int_lanes widen_signed(const std::uint8_t* from) {
  return ((widen(from) << 24) >> 24);
}
ORCD_INLINE int_lanes widen16(const std::uint8_t* from) {
  std::int32_t wide[lane_count];
  for (int i = 0; i < lane_count; ++i) wide[i] = from[2 * i] | from[2 * i + 1] << 8;
  return load_int(wide);
}
#endif

/// The low nibbles of sixteen bytes, or with a shift of 4 the high ones, as indices of sixteen signed values.
#if defined(__AVX2__)
ORCD_INLINE int_lanes look_up_nibbles(const std::int8_t* values, const std::uint8_t* from, int shift) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m128i nibbles = _mm_and_si128(_mm_srli_epi16(bytes, shift), _mm_set1_epi8(15));
  std::uint8_t found[lane_count];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(found),
                   _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)), nibbles));
  return widen_signed(found);
}
#else
ORCD_INLINE int_lanes look_up_nibbles(const std::int8_t* values, const std::uint8_t* from, int shift) {
  std::int32_t wide[lane_count];
  for (int i = 0; i < lane_count; ++i) wide[i] = values[from[i] >> shift & 15];
  return load_int(wide);
}
#endif

/// The fixed tree of matmul.hpp: 16 -> 8 -> 4 -> 2 -> 1, lane i + n/2 added to lane i.

ORCD_INLINE float fold(float_lanes v) {
  typedef float quad __attribute__((vector_size(16)));
  quad q[4];
  __builtin_memcpy(q, &v, sizeof q);
  const quad four = (q[0] + q[2]) + (q[1] + q[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

/// Largest lane.
ORCD_INLINE float fold_larger(float_lanes v) {
  float lanes[lane_count];
  store(lanes, v);
  float best = lanes[0];
  for (int i = 1; i < lane_count; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best;
}

}  // namespace orcd::kernels::host::ORCD_ISA
