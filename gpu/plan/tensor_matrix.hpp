// Matrices of tensors as the host kernels take them, and rows of them in F32 where a backend makes its own.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_spec.hpp"
#include "kernels/host/matmul.hpp"

namespace orcd::gpu {

/// The matrix of a tensor, or of one expert of stacked ones.
[[nodiscard]] kernels::weight_matrix matrix_of(const engine::tensor_view& tensor, std::uint64_t expert = 0);

/// Row `row` of the matrix into `out`: [cols].
void decode_row(const engine::tensor_view& matrix, std::uint64_t row, float* out);

/// [cols][rows].
[[nodiscard]] std::vector<float> turned_matrix(const engine::tensor_view& matrix);

/// [rows][cols], of two matrices of one shape.
[[nodiscard]] std::vector<float> summed_matrices(const engine::tensor_view& first,
                                                 const engine::tensor_view& second);

}  // namespace orcd::gpu
