// exp(x) for x in [-80, 0] in single precision from plain multiplies and adds, so that the bits are the same
// on every CPU. libm's expf picks a variant by CPU (with or without fused multiply-add), and the bits
// differ. Needs -ffp-contract=off and round-to-nearest; a GPU gets the same bits from the same
// operations written with __fmul_rn and __fadd_rn. Relative error below 2^-22; exp(0) is exactly 1.
#pragma once

#include <bit>
#include <cstdint>

namespace orcd::engine {

/// The smallest argument of portable_exp; its result is about 2^-115. Raising arguments to it is left
/// to the caller, in a loop of its own: inside the function it would keep g++ from vectorizing.
inline constexpr float portable_exp_lowest = -80.0F;

/// `x` must be in [portable_exp_lowest, 0].
[[nodiscard]] inline float portable_exp(float x) noexcept {
  constexpr float log2_e = 0x1.715476p+0F;
  // ln 2 in two parts; the first has nine significant bits, so that its product with n is exact.
  constexpr float ln2_high = 0x1.63p-1F;
  constexpr float ln2_low = -0x1.bd0106p-13F;
  // Adding and subtracting this rounds to an integer; the low bits of the sum hold that integer.
  constexpr float rounder = 0x1.8p23F;

  const float shifted = x * log2_e + rounder;
  const float n = shifted - rounder;
  const float r = (x - n * ln2_high) - n * ln2_low;
  // Taylor series to the seventh power: |r| <= 0.347, so the rest is below 2^-27.
  float e = 1.0F / 5040.0F;
  e = e * r + 1.0F / 720.0F;
  e = e * r + 1.0F / 120.0F;
  e = e * r + 1.0F / 24.0F;
  e = e * r + 1.0F / 6.0F;
  e = e * r + 0.5F;
  e = e * r + 1.0F;
  e = e * r + 1.0F;
  const std::uint32_t exponent =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(rounder);
  const float scale = std::bit_cast<float>((exponent + 127U) << 23U);
  return e * scale;
}

}  // namespace orcd::engine
