// tanh and the form of GELU that is made of it, by the exponential of this x86 level.
#pragma once

#include "kernels/host/gelu.hpp"
#include "kernels/host/isa/exponential.hpp"

namespace orcd::kernels::host::ORCD_ISA {

/// 1 - 2 / (e^(2x) + 1), which is 1 and -1 where the exponential saturates. Near 0, where that would lose
/// digits, the Taylor series to x^9, whose remainder is below 2e-9 of it. On one native part of the lanes.
ORCD_INLINE float_part hyperbolic_tangent(float_part x) {
  constexpr float near = 0.0625F;  // 0.25^2
  const float_part square = x * x;
  float_part series = square * (62.0F / 2835.0F) - (17.0F / 315.0F);
  series = series * square + (2.0F / 15.0F);
  series = series * square - (1.0F / 3.0F);
  series = x + x * square * series;
  const float_part one = float_part{} + 1.0F;
  const float_part far = one - 2.0F / (exponential(2.0F * x) + 1.0F);
  return square < float_part{} + near ? series : far;
}

ORCD_INLINE float_lanes hyperbolic_tangent(float_lanes x) {
  ORCD_EACH_PART x.part[p] = hyperbolic_tangent(x.part[p]);
  return x;
}

/// x/2 * (1 + tanh u) is x / (1 + e^(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3).
ORCD_INLINE float_lanes gelu_tanh(float_lanes x) {
  const float_lanes u = gelu_tanh_root * (x + gelu_tanh_cube * x * x * x);
  return x / (exponential(-2.0F * u) + 1.0F);
}

}  // namespace orcd::kernels::host::ORCD_ISA
