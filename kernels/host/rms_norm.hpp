// out = x / sqrt(mean(x^2) + eps) * weight, row by row; rows are tokens, or heads of tokens for the
// per-head norms of Q and K. The mean is taken like a dot product (matmul.hpp).
// Source: Zhang and Sennrich 1910.07467.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

struct rms_norm_args {
  const float* x = nullptr;       ///< [rows] groups of [heads][width], groups x_stride apart
  float* out = nullptr;           ///< may be x
  const float* weight = nullptr;  ///< [width], or [heads][width]: see weight_stride; null: none
  std::size_t x_stride = 0;
  std::size_t out_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t heads = 1;  ///< vectors of `width` in a row, one after another
  std::uint32_t width = 0;
  std::uint32_t weight_stride = 0;  ///< between the weights of a row's vectors; 0: all have the same
  float eps = 0.0F;
};

namespace host {
class thread_pool;
void rms_norm(const rms_norm_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
