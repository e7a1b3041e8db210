// Sine and cosine in f64 by one formula for every processor: the C library picks variants by processor,
// which may differ in the last bit. Error below 1e-15 for |x| up to 2^26 (test/unit/kernels measures it).
#pragma once

#include <cmath>

namespace orcd::kernels::host {

struct sine_cosine {
  double sine, cosine;
};

/// Reduces x by multiples of pi/2 held in three parts, the first two short enough for exact products,
/// then sums Taylor series on [-pi/4, pi/4].
[[nodiscard]] inline sine_cosine sine_and_cosine(double x) noexcept {
  constexpr double half_pi_high = 0x1.921fb54p+0;    // 27 bits, and n has at most 26
  constexpr double half_pi_middle = 0x1.10b461p-30;  // 27 bits of the rest
  constexpr double half_pi_low = 0x1.a62633145c06ep-58;
  const double n = std::nearbyint(x * 0x1.45f306dc9c883p-1);
  const double r = ((x - n * half_pi_high) - n * half_pi_middle) - n * half_pi_low;
  const double z = r * r;
  double sine = -1.0 / 1'307'674'368'000.0;
  sine = sine * z + 1.0 / 6'227'020'800.0;
  sine = sine * z - 1.0 / 39'916'800.0;
  sine = sine * z + 1.0 / 362'880.0;
  sine = sine * z - 1.0 / 5'040.0;
  sine = sine * z + 1.0 / 120.0;
  sine = sine * z - 1.0 / 6.0;
  sine = r + r * z * sine;
  double cosine = 1.0 / 20'922'789'888'000.0;
  cosine = cosine * z - 1.0 / 87'178'291'200.0;
  cosine = cosine * z + 1.0 / 479'001'600.0;
  cosine = cosine * z - 1.0 / 3'628'800.0;
  cosine = cosine * z + 1.0 / 40'320.0;
  cosine = cosine * z - 1.0 / 720.0;
  cosine = cosine * z + 1.0 / 24.0;
  cosine = cosine * z - 0.5;
  cosine = 1.0 + z * cosine;
  switch (static_cast<long long>(n) & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

}  // namespace orcd::kernels::host
