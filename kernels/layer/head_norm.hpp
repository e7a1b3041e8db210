// Norms of single heads that the kernels of rotation do not have: LayerNorms, and norms with a row of weights
// for each head. Source: use_qk_norm of Cohere's Command R+.
// Determinism class: run-to-run, batch-invariant; one warp reduces a head, in a fixed tree. Bound: latency.
// Error: that of f32 sums.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace orcd::kernels {

/// Between the QKV product and rotation, in place: each head of Q and of K becomes
/// (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight, with a mean of 0 unless `centred`.
struct norm_heads_args {
  float* qkv = nullptr;  ///< [columns][stride]: heads * width, then kv_heads * width, then more
  std::uint32_t stride = 0;
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t width = 0;
  const float* q_norm = nullptr;    ///< [width] or [heads][width]; null: no norm of Q
  const float* k_norm = nullptr;    ///< [width] or [kv_heads][width]; null: no norm of K
  std::uint32_t weight_stride = 0;  ///< between the weights of neighbouring heads; 0: all have the same
  bool centred = false;             ///< LayerNorm; else RMS
  float eps = 0.0F;
};
[[nodiscard]] int launch_norm_heads(const norm_heads_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
