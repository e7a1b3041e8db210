// RMS norms whose output is rounded to int8 (kernels/host/ternary.hpp): of the residual stream, of
// attention's output, and of the activated feed-forward, which is never in f16. Determinism: the same bits
// for any batch; squares are summed in a fixed tree. Without a norm the integers are those of the host.
#pragma once

#include <cstdint>

#include "kernels/product/ternary.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

/// One of the three inputs is set.
struct norm_to_int8_args {
  const float* x = nullptr;        ///< device, [columns][x_stride]
  const __half* halves = nullptr;  ///< the same in f16
  const float* gate_up = nullptr;  ///< device, [columns][x_stride]: gate, then up, each of `width`
  bool squared = false;            ///< of gate_up: max(g, 0)^2 u, else g / (1 + e^-g) u
  std::uint32_t x_stride = 0;
  const float* weight = nullptr;  ///< device, [width]; null: no norm, only rounding
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  float eps = 0.0F;
  device_int8_rows out;
  float* floats = nullptr;  ///< device, [columns][width]: the values before they are rounded; null: not kept
};

/// Returns the cudaError_t of the launch as an int (0 is success); never synchronizes.
[[nodiscard]] int launch_norm_to_int8(const norm_to_int8_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
