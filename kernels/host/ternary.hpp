// Exact products of ternary weights with activations in int8.
//
// A row x of activations becomes int8 with one scale: m = max(max |x|, 1e-5), s = 127 / m,
// q = clamp(round(x * s), -128, 127), ties to even, each operation rounded to f32. With codes c of -1, 0 and
// 1 (TQ2_0 has 2 as well) and code_scale w the product is (sum / s) * w, where sum = sum of c * q is an
// integer and exact: the same bits for any batch, order, number of threads, x86 level and device. A row with
// a NaN or an infinity gives an unspecified row, the same everywhere. Source: Ma et al. 2402.17764.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels {

struct round_args {
  const float* x = nullptr;       ///< [rows] of `width`, x_stride apart
  std::int8_t* values = nullptr;  ///< [rows][width]
  float* scales = nullptr;        ///< [rows], s
  std::int32_t* sums = nullptr;   ///< [rows], of the values
  std::size_t x_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
};

namespace host {
class thread_pool;
/// Rounds rows of activations to int8.
void round_to_int8(const round_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
