// x = scale * x and then, with a cap c, x = c * tanh(x / c), row by row, in place.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

struct scale_args {
  float* x = nullptr;      ///< [rows] of `width`, stride apart
  std::size_t stride = 0;  ///< in values
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  float scale = 1.0F;
  float cap = 0.0F;  ///< 0 = none
};

namespace host {
class thread_pool;
void scale(const scale_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
