// f32 to IEEE half and bfloat16, round to nearest even, compiled at the baseline so that every processor
// rounds alike.
#pragma once

#include <bit>
#include <cstdint>

namespace orcd::kernels::host {

/// Overflow gives infinity, NaN gives a quiet NaN.
[[nodiscard]] inline std::uint16_t float_to_half(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to 65536 or more
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the half is subnormal: adding 0.5 puts its last bit, 2^-24, at the last bit of the sum,
    // and the addition rounds to nearest even.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000U));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t rounded = magnitude + 0xfffU + odd;
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

/// Of a finite value; overflow gives infinity.
[[nodiscard]] inline std::uint16_t float_to_bfloat(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace orcd::kernels::host
