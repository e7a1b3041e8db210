// Moves one tensor from the file's block order into the packed layout, on the GPU.
// Values are unchanged; see packed_matrix.hpp. Determinism: exact.
#pragma once

#include "kernels/product/packed_matrix.hpp"

struct CUstream_st;

namespace orcd::kernels {

struct repack_args {
  const std::byte* raw = nullptr;  ///< device: rows of file blocks, `raw_row_bytes` apart
  std::uint64_t raw_row_bytes = 0;
  std::uint32_t rows = 0;  ///< rows of this slice; padded rows are written as zeros
  std::uint32_t cols = 0;
  packed_format format = packed_format::f16;
  std::byte* packed = nullptr;  ///< device, packed_bytes(format, rows, cols)
  float* row_scale = nullptr;   ///< device, packed_row_scales(format, rows)
  float factor = 1.0F;          ///< multiplies every value; 1 for formats without row scales
};

/// Returns the cudaError_t of the launch as an int (0 is success); never synchronizes.
[[nodiscard]] int launch_repack(const repack_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
