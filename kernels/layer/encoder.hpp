// What encoder models (learned positions, post-norm) need on the device besides the products and attention:
// positions and token types added to the embedding, LayerNorm with bias on the residual stream, GELU.
// Determinism class: run-to-run, batch-invariant. Bound: latency. Definitions as in
// kernels/host/layer_norm.hpp and gelu.hpp, with the device's own erfc and order of sums.
#pragma once

#include "kernels/device/step_token.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

/// x[m] += types[0 or 1] and then += positions[position of m].
struct add_positions_args {
  float* x = nullptr;                 ///< [columns][width]
  const float* positions = nullptr;   ///< [..][width]; every step's position is a row of it
  const float* types = nullptr;       ///< [1 or more][width]
  const step_token* steps = nullptr;  ///< [columns]
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  std::uint32_t second_segment = 0;  ///< positions from here on have types[1]; 0 = none
};
[[nodiscard]] int launch_add_positions(const add_positions_args& args, CUstream_st* stream);

/// Post-norm: x[m] = (x[m] - mean) / sqrt(mean((x[m] - mean)^2) + eps) * weight + bias, in place, and its f16
/// copy with padding up to the next multiple of 64 written as zeros.
struct post_norm_args {
  float* x = nullptr;             ///< [columns][width]
  const float* weight = nullptr;  ///< [width]
  const float* bias = nullptr;    ///< [width]
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  float eps = 0.0F;
  __half* out = nullptr;  ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
};
[[nodiscard]] int launch_post_norm(const post_norm_args& args, CUstream_st* stream);

/// out[m] = f16(x/2 * erfc(-x / sqrt 2)), padding up to the next multiple of 64 written as zeros.
struct gelu_to_half_args {
  const float* x = nullptr;  ///< [columns][width]
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  __half* out = nullptr;  ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
};
[[nodiscard]] int launch_gelu_to_half(const gelu_to_half_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
