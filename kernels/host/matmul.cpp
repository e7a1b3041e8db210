#include "kernels/host/matmul.hpp"

#include "kernels/host/kernel_table.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::kernels::host {
namespace {

/// Rows one thread takes at a time: some ten microseconds of work, and at least four so that a tile of
/// rows is full.
std::uint32_t rows_per_piece(const matmul_args& product) {
  const std::uint64_t multiplications = product.ints.values ? 262'144 : 32'768;
  const std::uint64_t per_row = std::uint64_t{product.weights.cols} * product.columns;
  const std::uint64_t rows = per_row == 0 ? 4 : multiplications / per_row;
  return static_cast<std::uint32_t>(rows < 4 ? 4 : rows / 4 * 4);
}

std::uint32_t pieces(const matmul_args& product) {
  if (product.columns == 0) return 0;
  const std::uint32_t rows = rows_per_piece(product);
  return (product.weights.rows + rows - 1) / rows;
}

void run_piece(const matmul_args& product, std::uint32_t piece) {
  const std::uint32_t rows = rows_per_piece(product);
  const std::uint32_t begin = piece * rows;
  const std::uint32_t left = product.weights.rows - begin;
  const kernel_table& table = kernels();
  const auto multiply = product.ints.values ? table.ternary_rows : table.matmul_rows;
  multiply(product, begin, begin + (left < rows ? left : rows));
}

}  // namespace

void matmul(std::span<const matmul_args> products, thread_pool& pool) {
  std::uint32_t count = 0;
  for (const matmul_args& product : products) count += pieces(product);
  pool.run(count, 1, [products](std::uint32_t begin, std::uint32_t end) {
    std::uint32_t first = 0;  // piece number where this product starts
    for (const matmul_args& product : products) {
      const std::uint32_t here = pieces(product);
      for (; begin < end && begin < first + here; ++begin) run_piece(product, begin - first);
      first += here;
    }
  });
}

void dequantize_row(engine::ggml_type type, const std::byte* row, std::uint32_t cols, float* out) {
  kernels().dequantize_row(type, row, cols, out);
}

void dequantize_row(const weight_matrix& matrix, std::uint64_t row, float* out) {
  const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(matrix.type), matrix.cols);
  dequantize_row(matrix.type, matrix.data + row * row_bytes, matrix.cols, out);
  if (matrix.factor == 1.0F) return;
  for (std::uint32_t i = 0; i < matrix.cols; ++i) out[i] *= matrix.factor;
}

}  // namespace orcd::kernels::host
