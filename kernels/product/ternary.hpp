// Exact products of ternary weights with activations in int8, on the device. Definition and bits are those of
// kernels/host/ternary.hpp, for any number of columns and in both kernels: sums of integers are exact.
#pragma once

#include <cstdint>

#include "kernels/product/ternary_matrix.hpp"

struct CUstream_st;

namespace orcd::kernels {

inline constexpr std::uint32_t ternary_matrices_max = 3;

/// Rows of activations in int8.
struct device_int8_rows {
  std::int8_t* values = nullptr;  ///< device, [columns][stride], 16-byte aligned
  float* scales = nullptr;        ///< device, [columns]
  std::int32_t* sums = nullptr;   ///< device, [columns], of the values
  std::uint32_t stride = 0;       ///< a multiple of ternary_block_cols
};

/// The outputs of the matrices lie one after the other in a row of `out`.
struct ternary_matmul_args {
  ternary_matrix w[ternary_matrices_max];
  std::uint32_t matrices = 1;  ///< all of as many columns
  device_int8_rows x;
  std::uint32_t columns = 0;
  float* out = nullptr;  ///< device, [columns][out_stride]
  std::uint32_t out_stride = 0;
  bool add = false;  ///< to what is there
};

/// Up to this many columns the few-column kernel is used.
inline constexpr std::uint32_t ternary_few_columns = 64;

/// Returns the cudaError_t of the launch as an int (0 is success); never synchronizes.
[[nodiscard]] int launch_ternary_matmul(const ternary_matmul_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
