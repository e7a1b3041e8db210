// A weight matrix as it lies in the file, and what a product of it is given. kernels/host/matmul.hpp says
// what is done with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/gguf/ggml_type.hpp"

namespace orcd::kernels {

/// A matrix as it lies in the file: rows of `cols` values, no padding between rows.
struct weight_matrix {
  const std::byte* data = nullptr;
  engine::ggml_type type = engine::ggml_type::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;   ///< a multiple of the type's block size
  float factor = 1.0F;      ///< multiplies every value
  float code_scale = 0.0F;  ///< of products with int8 activations: every value is a code times this
};

/// Rows of activations in int8 (kernels/host/ternary.hpp).
struct int8_rows {
  const std::int8_t* values = nullptr;  ///< [..][x_stride of the product]
  const float* scales = nullptr;        ///< [..]
  const std::int32_t* sums = nullptr;   ///< [..]
};

struct matmul_args {
  weight_matrix weights;
  const float* x = nullptr;  ///< [..][x_stride]
  int8_rows ints{};          ///< instead of x, of matrices with a code_scale
  float* y = nullptr;        ///< [..][y_stride]
  std::size_t x_stride = 0;  ///< floats between rows of x, at least weights.cols
  std::size_t y_stride = 0;  ///< floats between rows of y, at least weights.rows
  std::uint32_t columns = 0;
  const std::uint32_t* x_rows = nullptr;  ///< [columns] row of x each column reads; null = m
  const std::uint32_t* y_rows = nullptr;  ///< [columns] row of y each column writes, distinct; null = m
  const float* bias = nullptr;            ///< [weights.rows] or null
  bool accumulate = false;                ///< y += W x + bias instead of y = W x + bias
};

}  // namespace orcd::kernels
