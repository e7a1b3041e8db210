// e^x by one polynomial for every level: the C library's expf is chosen by processor and may differ in
// the last bit. Relative error below 2e-7 (test/unit/kernels measures it); exactly 1 at 0, exactly 0
// below -87.3, saturates above 88. NaN stays NaN.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r is its Taylor series to r^7, whose remainder is below 6e-9.
#pragma once

#include "kernels/host/isa/lanes.hpp"

namespace orcd::kernels::host::ORCD_ISA {

/// On one native part of the lanes.
ORCD_INLINE float_part exponential(float_part x) {
  constexpr float lowest = -87.3F;
  constexpr float highest = 88.0F;
  constexpr float round_to_integer =
      12'582'912.0F;                        // 1.5 * 2^23: adding it leaves the integer in the low bits
  constexpr float ln2_high = 0.693359375F;  // few bits, so that n * ln2_high is exact
  constexpr float ln2_low = -2.12194440e-4F;
  const float_part zero{};
  const float_part bounded = x > zero + highest ? zero + highest : x;
  const float_part shifted = bounded * 1.44269504F + round_to_integer;
  const float_part n = shifted - round_to_integer;
  const float_part r = (bounded - n * ln2_high) - n * ln2_low;
  float_part sum = r * (1.0F / 5040.0F) + (1.0F / 720.0F);
  sum = sum * r + (1.0F / 120.0F);
  sum = sum * r + (1.0F / 24.0F);
  sum = sum * r + (1.0F / 6.0F);
  sum = sum * r + 0.5F;
  sum = sum * r + 1.0F;
  sum = sum * r + 1.0F;
  const int_part power_bits = ((int_part)shifted - 0x4b400000 + 127) << 23;
  return x < zero + lowest ? zero : sum * (float_part)power_bits;
}

ORCD_INLINE float_lanes exponential(float_lanes x) {
  ORCD_EACH_PART x.part[p] = exponential(x.part[p]);
  return x;
}

ORCD_INLINE float exponential(float x) {
  return exponential(float_part{} + x)[0];
}

}  // namespace orcd::kernels::host::ORCD_ISA
