// sin(x) in f64 by one formula for every processor, for the small angles that filters of pictures need: the C
// library picks variants by processor, which may differ in the last bit. Error below 1e-15 for |x| <= 16.
#pragma once

#include <cmath>

namespace orcd::engine {

/// Reduces x by multiples of pi held in two parts, then sums the Taylor series on [-pi/2, pi/2].
[[nodiscard]] inline double portable_sine(double x) noexcept {
  constexpr double pi_high = 0x1.921fb54442d18p+1;
  constexpr double pi_low = 0x1.1a62633145c07p-53;
  const double n = std::nearbyint(x * 0x1.45f306dc9c883p-2);
  const double r = (x - n * pi_high) - n * pi_low;
  const double z = r * r;
  double sum = 0.0;
  // 1/23!, 1/21! and so on, with alternating signs, by division: no constant can be mistyped.
  for (int k = 23; k >= 3; k -= 2) sum = (1.0 - sum) * z / (k * (k - 1.0));
  const double sine = r * (1.0 - sum);
  return (static_cast<long long>(n) & 1) != 0 ? -sine : sine;
}

}  // namespace orcd::engine
