// ln(x) in double precision from plain operations, so that the bits are the same on every CPU. Needs
// -ffp-contract=off and round-to-nearest. Relative error below 2^-50.
#pragma once

#include <bit>
#include <cstdint>

namespace orcd::engine {

/// `x` is normal and above 0.
/// ln m = 2 atanh(s) with s = (m - 1) / (m + 1). m is within a factor of sqrt 2 of 1, so that s^2 < 0.0295
/// and the terms after the twelfth sum to less than 2^-53.
[[nodiscard]] inline double portable_log(double x) noexcept {
  constexpr double ln2 = 0x1.62e42fefa39efp-1;
  constexpr std::uint64_t mantissa = (std::uint64_t{1} << 52U) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & mantissa) | std::uint64_t{1023} << 52U);
  if (m > 0x1.6a09e667f3bcdp0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int term = 12; term >= 0; --term) sum = sum * square + 1.0 / (2 * term + 1);
  return static_cast<double>(exponent) * ln2 + 2.0 * s * sum;
}

}  // namespace orcd::engine
