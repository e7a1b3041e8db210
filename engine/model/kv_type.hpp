// How K and V are kept in the cache; each has a type of its own. The stored value is what attention computes
// with, on every backend that has the type:
//
//   f16   the value rounded to nearest even, limited to +-65504.
//   bf16  the value rounded to nearest even, limited to the largest finite bf16, and used as it is: the
//         range is that of f32.
//   q8_0  blocks of 32 values along the head, the last one filled up with zeros. The values are limited to
//         +-65504; d = max |x| / 127 in f32; q = x * (1 / d) in f32, rounded to nearest, halves away from
//         zero. d is kept in f16, at most 515.5 so that 127 d stays finite; where it rounds to zero, every q
//         is zero. Attention computes with d * q rounded to f16, nearest even.
//   f32   the value, limited to the largest finite f32. The host backend alone has it, for comparisons with
//         implementations that round nothing.
//
// The result for a NaN is undefined.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace orcd::engine {

enum class kv_type : std::uint8_t { f16, bf16, q8_0, f32 };

/// The types of a cache.
struct kv_types {
  kv_type keys = kv_type::f16;
  kv_type values = kv_type::f16;
  friend constexpr bool operator==(const kv_types&, const kv_types&) = default;
};

/// Every type and its word, as options and /health spell it.
inline constexpr std::array<std::pair<const char*, kv_type>, 4> kv_type_words{
    {{"f16", kv_type::f16}, {"bf16", kv_type::bf16}, {"q8_0", kv_type::q8_0}, {"f32", kv_type::f32}}};

[[nodiscard]] constexpr const char* to_string(kv_type type) noexcept {
  for (const auto& [word, named] : kv_type_words) {
    if (named == type) return word;
  }
  return "";
}

/// Positions of a page of the KV cache. Attention folds pages of this many absolute positions, so that a
/// result does not depend on how a prompt was cut into steps.
inline constexpr std::uint32_t kv_page_positions = 256;

inline constexpr std::uint32_t kv_block_values = 32;   ///< of a q8_0 block
inline constexpr std::uint32_t kv_block_bytes = 34;    ///< a scale in f16 and 32 quants
inline constexpr float kv_half_limit = 65504.0F;       ///< of f16 values and q8_0's
inline constexpr float kv_scale_limit = 515.5F;        ///< of q8_0
inline constexpr float kv_bfloat_limit = 0x1.FEp127F;  ///< the largest finite bf16

/// Bytes of one head's K or V at one position. Always inlined: the host kernels are compiled once per x86
/// level and may share no function.
[[nodiscard, gnu::always_inline]] constexpr std::uint64_t kv_row_bytes(kv_type type,
                                                                       std::uint32_t width) noexcept {
  if (type == kv_type::f32) return std::uint64_t{width} * sizeof(float);
  if (type != kv_type::q8_0) return std::uint64_t{width} * 2;
  return (std::uint64_t{width} + kv_block_values - 1) / kv_block_values * kv_block_bytes;
}

}  // namespace orcd::engine
