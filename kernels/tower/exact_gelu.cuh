// The exact form of GELU: x/2 erfc(-x / sqrt 2), with the device's own erfc.
#pragma once

namespace orcd::kernels {

__device__ __forceinline__ float exact_gelu(float x) {
  constexpr float inverse_root_two = 0.70710678F;
  return __fmul_rn(__fmul_rn(0.5F, x), erfcf(__fmul_rn(-inverse_root_two, x)));
}

}  // namespace orcd::kernels
