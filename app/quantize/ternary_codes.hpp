// Ternary codes: from values, from packed bytes, and into the block formats of GGUF. A code is the value plus
// one: 0, 1, 2 for -1, 0, 1. Pure; any thread; the same bits whatever the machine.
//
// A matrix of values W becomes codes by a = max(mean |W|, 1e-5) and clamp(round(W * (1 / a)), -1, 1), ties to
// even, each operation rounded to f32; a is its scale. The mean is a sum in f64 over a fixed order, rounded
// to f32 at the end. Source: Ma et al. 2402.17764.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "app/quantize/manifest.hpp"
#include "engine/gguf/ggml_type.hpp"

namespace orcd::app {

inline constexpr std::uint8_t code_zero = 1;

/// The sum of |x| of values of a float type; a NaN or an infinity among them makes it one, too.
[[nodiscard]] double sum_of_magnitudes(source_type type, std::span<const std::byte> values) noexcept;

/// The scale of a matrix of `count` values with that sum.
[[nodiscard]] float mean_scale(double sum, std::uint64_t count) noexcept;

/// Codes of values of a float type; `scale` from mean_scale().
class ternary_rounding {
 public:
  ternary_rounding(source_type type, float scale) noexcept;
  void operator()(std::span<const std::byte> values, std::span<std::uint8_t> codes) const noexcept;

 private:
  source_type type_;
  float inverse_;
  std::uint32_t least_;  ///< the least 16-bit magnitude that does not round to 0
};

/// Codes of values of one byte each. The first that is none of -1, 0 and 1, if there is one.
[[nodiscard]] std::optional<std::size_t> codes_of_bytes(std::span<const std::byte> values,
                                                        std::span<std::uint8_t> codes) noexcept;

/// Codes of quarter `group` of packed bytes: bits 2 * group and the one above. The first byte with a 3 there.
[[nodiscard]] std::optional<std::size_t> codes_of_packed(std::span<const std::byte> packed, unsigned group,
                                                         std::span<std::uint8_t> codes) noexcept;

/// Packs codes as I2_S, TQ1_0 or TQ2_0; as many as whole blocks. `d` is the bits of the blocks' f16 scale,
/// which I2_S does not have. `out` has row_bytes() of the codes' number.
void pack_codes(engine::ggml_type type, std::uint16_t d, std::span<const std::uint8_t> codes,
                std::span<std::byte> out) noexcept;

}  // namespace orcd::app
