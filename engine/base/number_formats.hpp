// Numbers as files store them: from bytes at any place, and as f32, which holds each of these formats
// exactly. Pure; any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace orcd::engine {

[[nodiscard]] inline float bfloat_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

/// An IEEE half; exact, a NaN stays one.
[[nodiscard]] inline float half_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16U;
  const std::uint32_t rest = bits & 0x7fffU;
  // Moved up by 13 bits a half has the exponent of a value that is 2^112 times smaller.
  if (rest < 0x7c00U) {
    const float magnitude = std::bit_cast<float>(rest << 13U) * 0x1p112F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | 0x7f800000U | (rest & 0x3ffU) << 13U);
}

/// Of unaligned bytes.
template <class T>
[[nodiscard]] T load_number(const std::byte* from) noexcept {
  T value{};
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace orcd::engine
