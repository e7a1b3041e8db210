// out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias, row by row; rows are tokens, or heads of
// tokens for norms of Q and K. Both means are taken like a dot product (matmul.hpp). Source: Ba, Kiros and
// Hinton 1607.06450.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

struct layer_norm_args {
  const float* x = nullptr;       ///< [rows] groups of [heads][width], groups x_stride apart
  float* out = nullptr;           ///< may be x
  const float* weight = nullptr;  ///< [width], or [heads][width]: see weight_stride
  const float* bias = nullptr;    ///< as weight, or null: none
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
void layer_norm(const layer_norm_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
