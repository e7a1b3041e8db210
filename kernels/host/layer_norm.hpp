// out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias, row by row. Both means are taken like a
// dot product (matmul.hpp). Source: Ba, Kiros and Hinton 1607.06450.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

struct layer_norm_args {
  const float* x = nullptr;       ///< [rows][width]
  float* out = nullptr;           ///< [rows][width], may be x
  const float* weight = nullptr;  ///< [width]
  const float* bias = nullptr;    ///< [width], or null: none
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  float eps = 0.0F;
};

namespace host {
class thread_pool;
void layer_norm(const layer_norm_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
