// The two ends of the residual stream: embedding rows out of a packed matrix, and RMS norms into f16.
// Determinism class: run-to-run, batch-invariant. Bound: latency.
#pragma once

#include "kernels/device/step_token.hpp"
#include "kernels/product/packed_matmul_args.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

struct packed_embed_args {
  packed_matrix table;  ///< [vocab][embedding]
  const step_token* steps = nullptr;
  std::uint32_t columns = 0;
  float* out = nullptr;  ///< [columns][table.cols], exact f32 values of the file's blocks
};
[[nodiscard]] int launch_packed_embed(const packed_embed_args& args, CUstream_st* stream);

/// out[m] = f16(x[r] * weight / sqrt(mean(x[r]^2) + eps)) with r = rows[m], or m; the same bits as the norm
/// inside a few-column product. Padding up to the next multiple of 64 is written as zeros.
struct norm_to_half_args {
  const float* x = nullptr;       ///< [..][width]
  const float* weight = nullptr;  ///< [width]
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
  const std::int32_t* rows = nullptr;
  float eps = 0.0F;
  __half* out = nullptr;  ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
  half_order order = half_order::natural;  ///< of out
};
[[nodiscard]] int launch_norm_to_half(const norm_to_half_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
