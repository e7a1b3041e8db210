// What families whose layers differ from Llama's do to the residual stream, to queries and to activations, in
// kernels of their own beside the products: LayerNorm, norms of what is added, gates, multipliers and caps.
// Determinism class: run-to-run, batch-invariant; one block reduces a row, in a fixed tree. Bound: latency.
// Error: that of f32 sums, and of f16 where the output is f16.
#pragma once

#include <cstdint>

#include "kernels/device/step_token.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

/// out[m] = f16 of row rows[m], or m, of x: its LayerNorm, or itself if `weight` is null. Padding up to the
/// next multiple of 64 is written as zeros. With `factors` and no weight, a row whose values exceed 2^14 is
/// divided by a power of two that brings them below it, which is its factor.
struct state_to_half_args {
  const float* x = nullptr;       ///< [..][width]
  const float* weight = nullptr;  ///< [width] or null
  const float* bias = nullptr;    ///< [width] or null
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  const std::int32_t* rows = nullptr;
  float eps = 0.0F;
  __half* out = nullptr;  ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
  float* factors = nullptr;  ///< out, [columns] or null
};
[[nodiscard]] int launch_state_to_half(const state_to_half_args& args, CUstream_st* stream);

/// x[m] = (x[m] + h[m] * weight / sqrt(mean(h[m]^2) + eps)) * scale. With `next`, its rows are f16 of the new
/// x: with `next_weight` of its RMS norm, as launch_norm_to_half() would give it; padding up to the next
/// multiple of 64 is zeros.
struct add_normed_args {
  float* x = nullptr;             ///< [columns][width]
  const float* h = nullptr;       ///< [columns][width]
  const float* weight = nullptr;  ///< [width]
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  float eps = 0.0F;
  float scale = 1.0F;
  const float* next_weight = nullptr;  ///< [width] or null
  float next_eps = 0.0F;
  __half* next = nullptr;  ///< [columns][next_stride] or null
  std::uint32_t next_stride = 0;
};
[[nodiscard]] int launch_add_normed(const add_normed_args& args, CUstream_st* stream);

/// a[m] = norm(a[m]) + norm(b[m]), RMS norms with weights of their own.
struct add_norms_args {
  float* a = nullptr;               ///< [columns][width]
  const float* b = nullptr;         ///< [columns][width]
  const float* a_weight = nullptr;  ///< [width]
  const float* b_weight = nullptr;  ///< [width]
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  float eps = 0.0F;
};
[[nodiscard]] int launch_add_norms(const add_norms_args& args, CUstream_st* stream);

/// The inputs that each layer has of its own, of a token: a layer's values are (norm(projected *
/// projected_scale) + table * table_scale) / sqrt 2, the RMS norm of those of one layer, with weights that
/// all layers share.
struct layer_inputs_args {
  const float* projected = nullptr;  ///< [columns][layers * width]
  float* table = nullptr;            ///< [columns][layers * width]: rows of the table, and then the result
  const float* weight = nullptr;     ///< [width]
  std::uint32_t width = 0;           ///< at most 1,024
  std::uint32_t layers = 0;
  std::uint32_t columns = 0;
  float projected_scale = 1.0F;
  float table_scale = 1.0F;
  float eps = 0.0F;
};
[[nodiscard]] int launch_layer_inputs(const layer_inputs_args& args, CUstream_st* stream);

/// x[m] += h[m] * sigmoid(gate . normed[m]).
struct add_gated_args {
  float* x = nullptr;              ///< [columns][width]
  const float* h = nullptr;        ///< [columns][width]
  const float* gate = nullptr;     ///< [width]
  const __half* normed = nullptr;  ///< [columns][normed_stride]
  std::uint32_t normed_stride = 0;
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
};
[[nodiscard]] int launch_add_gated(const add_gated_args& args, CUstream_st* stream);

/// Between the QKV product and attention, in place: norms over all queries and over all keys of a token,
/// where there are weights, and queries times 1 + scale * ln(1 + floor(position / period)).
struct prepare_qkv_args {
  float* qkv = nullptr;  ///< [columns][stride]
  std::uint32_t stride = 0;
  std::uint32_t columns = 0;
  std::uint32_t q_width = 0;  ///< of all heads
  std::uint32_t k_width = 0;
  const float* q_norm = nullptr;  ///< [q_width] or null
  const float* k_norm = nullptr;  ///< [k_width] or null
  float eps = 0.0F;
  const step_token* steps = nullptr;  ///< [columns]
  float scale = 0.0F;
  std::uint32_t period = 0;  ///< at least 1 where scale is not 0
};
[[nodiscard]] int launch_prepare_qkv(const prepare_qkv_args& args, CUstream_st* stream);

/// out[m][i] = f16(G(x[m][i]) * x[m][width + i]), or f16(G(x[m][i])) without a gate, with the tanh form G of
/// GELU (kernels/host/gelu.hpp); with `factors`, instead f16(G(x[m][i] * x_factors[m]) * factors[m][i]).
/// Padding up to the next multiple of 64 is written as zeros.
struct gelu_tanh_args {
  const float* x = nullptr;  ///< [columns][width or 2 * width]
  bool gated = false;
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  __half* out = nullptr;  ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
  const float* factors = nullptr;    ///< [columns][factors_stride] or null, without a gate
  const float* x_factors = nullptr;  ///< [columns], with `factors`
  std::uint32_t factors_stride = 0;
};
[[nodiscard]] int launch_gelu_tanh(const gelu_tanh_args& args, CUstream_st* stream);

/// x = scale * x and then, with a cap c, c * tanh(x / c), in place.
struct scale_values_args {
  float* x = nullptr;
  std::uint64_t count = 0;
  float scale = 1.0F;
  float cap = 0.0F;  ///< 0 = none
};
[[nodiscard]] int launch_scale_values(const scale_values_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
