// IEEE half and bfloat16 to f32, exact for every pattern; NaN becomes quiet, as the processors'
// conversion makes it.
#pragma once

#include "kernels/host/isa/lanes.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels::host::ORCD_ISA {

#if defined(__AVX512F__)
ORCD_INLINE float_lanes load_half(const std::uint8_t* from) {
  return {{(float_part)_mm512_maskz_cvtph_ps(every_lane,
                                             _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))}};
}
#elif defined(__F16C__) && defined(__AVX2__)
ORCD_INLINE float_lanes load_half(const std::uint8_t* from) {
  const auto* v = reinterpret_cast<const __m128i*>(from);
  return {
      {(float_part)_mm256_cvtph_ps(_mm_loadu_si128(v)), (float_part)_mm256_cvtph_ps(_mm_loadu_si128(v + 1))}};
}
#else
/// Exponent and fraction move into place and the product with 2^112 corrects the bias; it is exact, and
/// makes normal numbers of subnormal halves.
ORCD_INLINE float_lanes load_half(const std::uint8_t* from) {
  const int_lanes h = widen16(from);
  const int_lanes magnitude = (h & 0x7fff) << 13;
  const int_lanes sign = (h & 0x8000) << 16;
  const int_lanes infinite = mask_above(h & 0x7fff, 0x7bff);
  const int_lanes nan = mask_above(h & 0x7fff, 0x7c00);
  const int_lanes bits = float_bits(0x1p112F * bits_to_float(magnitude));
  return bits_to_float(bits | (infinite & 0x7f800000) | (nan & 0x400000) | sign);
}
#endif

#if defined(__F16C__)
ORCD_INLINE float half_to_float(half_bytes h) {
  return _cvtsh_ss(static_cast<std::uint16_t>(h.b[0] | h.b[1] << 8));
}
#else
ORCD_INLINE float half_to_float(half_bytes h) {
  const std::uint32_t bits = static_cast<std::uint32_t>(h.b[0] | h.b[1] << 8);
  const std::uint32_t magnitude = (bits & 0x7fffU) << 13;
  float scaled;
  __builtin_memcpy(&scaled, &magnitude, sizeof scaled);
  scaled *= 0x1p112F;
  std::uint32_t result;
  __builtin_memcpy(&result, &scaled, sizeof result);
  if ((bits & 0x7c00U) == 0x7c00U) result |= 0x7f800000U;
  if ((bits & 0x7fffU) > 0x7c00U) result |= 0x400000U;
  result |= (bits & 0x8000U) << 16;
  __builtin_memcpy(&scaled, &result, sizeof scaled);
  return scaled;
}
#endif

ORCD_INLINE float_lanes load_bfloat(const std::uint8_t* from) {
  return bits_to_float(widen16(from) << 16);
}

/// Rounded to the nearest half, ties to even, for values below 65520: what a half would hold, as f32.
ORCD_INLINE float_lanes round_to_half(float_lanes v) {
  const int_lanes bits = float_bits(v);
  const int_lanes magnitude = bits & 0x7fffffff;
  const int_lanes rounded = (magnitude + splat_int(0xfff) + ((magnitude >> 13) & 1)) & ~0x1fff;
  // Below 2^-14 halves are 2^-24 apart, as floats are next to 0.5.
  const int_lanes subnormal = float_bits((bits_to_float(magnitude) + 0.5F) - 0.5F);
  const int_lanes normal = mask_above(magnitude, 0x387fffff);
  return bits_to_float((subnormal ^ ((subnormal ^ rounded) & normal)) | (bits & INT32_MIN));
}

}  // namespace orcd::kernels::host::ORCD_ISA
