#include "gpu/plan/tensor_matrix.hpp"

namespace orcd::gpu {

using engine::tensor_view;

kernels::weight_matrix matrix_of(const tensor_view& tensor, std::uint64_t expert) {
  const std::uint64_t matrix_bytes =
      tensor.rows() * engine::row_bytes(engine::traits_of(tensor.type), tensor.cols());
  return {.data = tensor.data + expert * matrix_bytes,
          .type = tensor.type,
          .rows = static_cast<std::uint32_t>(tensor.rows()),
          .cols = static_cast<std::uint32_t>(tensor.cols()),
          .factor = tensor.factor_of(expert),
          .code_scale = tensor.code_scale.value_or(0.0F)};
}

void decode_row(const tensor_view& matrix, std::uint64_t row, float* out) {
  kernels::host::dequantize_row(matrix_of(matrix), row, out);
}

std::vector<float> turned_matrix(const tensor_view& matrix) {
  const std::uint64_t rows = matrix.rows(), cols = matrix.cols();
  std::vector<float> out(rows * cols), row(cols);
  for (std::uint64_t r = 0; r < rows; ++r) {
    decode_row(matrix, r, row.data());
    for (std::uint64_t c = 0; c < cols; ++c) out[c * rows + r] = row[c];
  }
  return out;
}

std::vector<float> summed_matrices(const tensor_view& first, const tensor_view& second) {
  const std::uint64_t cols = first.cols();
  std::vector<float> out(first.rows() * cols), row(cols);
  for (std::uint64_t r = 0; r < first.rows(); ++r) {
    float* const to = out.data() + r * cols;
    decode_row(first, r, to);
    decode_row(second, r, row.data());
    for (std::uint64_t c = 0; c < cols; ++c) to[c] += row[c];
  }
  return out;
}

}  // namespace orcd::gpu
