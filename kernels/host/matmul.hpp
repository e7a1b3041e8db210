// y[m][r] = sum_c W[r][c] * x[m][c] (+ bias[r]) for one or many columns m, straight from the blocks of a GGUF
// tensor. f32 activations, f32 accumulation.
//
// Host definition, the same bits for one column or many, any number of threads and every x86 level: sixteen
// partial sums, the one of column c being c mod 16, each taking its products in ascending c with a separate
// multiply and add, then folded 16 -> 8 -> 4 -> 2 -> 1 by adding lane i + n/2 to lane i. The sum is
// multiplied by the matrix's factor, then the bias is added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/gguf/ggml_type.hpp"
#include "kernels/host/matmul_args.hpp"

namespace orcd::kernels {

namespace host {
class thread_pool;

/// Runs all products, which must not depend on each other, as one parallel region.
void matmul(std::span<const matmul_args> products, thread_pool& pool);

/// The values of a row's blocks as f32; `cols` a multiple of the block size.
void dequantize_row(engine::ggml_type type, const std::byte* row, std::uint32_t cols, float* out);
/// One row of a matrix as f32, its factor included.
void dequantize_row(const weight_matrix& matrix, std::uint64_t row, float* out);
}  // namespace host

}  // namespace orcd::kernels
