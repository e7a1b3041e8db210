// y[m][r] = sum_c W[r][c] * x[m][c] (+ bias[r]) for one or many columns m, straight from the blocks of a
// GGUF tensor. f32 activations, f32 accumulation.
//
// Host definition, the same bits for one column or many, any number of threads and every x86 level:
// sixteen partial sums, the one of column c being c mod 16, each taking its products in ascending c with
// a separate multiply and add, then folded 16 -> 8 -> 4 -> 2 -> 1 by adding lane i + n/2 to lane i.
// Source: design 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/gguf/ggml_type.hpp"

namespace orcd::kernels {

/// A matrix as it lies in the file: rows of `cols` values, no padding between rows.
struct weight_matrix {
  const std::byte* data = nullptr;
  engine::ggml_type type = engine::ggml_type::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;  ///< a multiple of the type's block size
};

struct matmul_args {
  weight_matrix weights;
  const float* x = nullptr;  ///< [..][x_stride]
  float* y = nullptr;        ///< [..][y_stride]
  std::size_t x_stride = 0;  ///< floats between rows of x, at least weights.cols
  std::size_t y_stride = 0;  ///< floats between rows of y, at least weights.rows
  std::uint32_t columns = 0;
  const std::uint32_t* x_rows = nullptr;  ///< [columns] row of x each column reads; null = m
  const std::uint32_t* y_rows = nullptr;  ///< [columns] row of y each column writes, distinct; null = m
  const float* bias = nullptr;            ///< [weights.rows] or null
  bool accumulate = false;                ///< y += W x + bias instead of y = W x + bias
};

namespace host {
class thread_pool;

/// Runs all products, which must not depend on each other, as one parallel region.
void matmul(std::span<const matmul_args> products, thread_pool& pool);

/// One row of a tensor as f32; `cols` a multiple of the block size.
void dequantize_row(engine::ggml_type type, const std::byte* row, std::uint32_t cols, float* out);
}  // namespace host

}  // namespace orcd::kernels
