// y[m] += strength * scale * B (A x[m]) for columns m that have LoRA adapters, in f32 throughout.
//
// Host definition, the same bits for one column or many, any number of threads and every x86 level: both
// products sum as kernels/host/matmul.hpp says (sixteen partial sums, folded), the second is multiplied by
// factor = strength * scale, rounded once, and added to y. Groups of one call write different rows of y; a
// column with several adapters takes one call after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/host/matmul.hpp"

namespace orcd::kernels {

/// The columns of one adapter and strength.
struct lora_group {
  const float* a = nullptr;  ///< [rank][in]
  const float* b = nullptr;  ///< [out][rank]
  std::uint32_t rank = 0;
  float factor = 1.0F;
  std::uint32_t first = 0;  ///< in x_rows and y_rows
  std::uint32_t count = 0;
};

struct lora_args {
  std::span<const lora_group> groups;
  const float* x = nullptr;               ///< [..][x_stride]; of lora_rows() nothing
  const std::int32_t* tokens = nullptr;   ///< of lora_rows(): the column of A that each row of x_rows takes
  float* y = nullptr;                     ///< [..][y_stride]
  std::size_t x_stride = 0;               ///< floats
  std::size_t y_stride = 0;               ///< floats
  const std::uint32_t* x_rows = nullptr;  ///< row of x of each column
  const std::uint32_t* y_rows = nullptr;  ///< row of y of each column
  std::uint32_t in = 0;
  std::uint32_t out = 0;
  float* inner = nullptr;        ///< scratch: a row for each column of x_rows, at the same index
  std::size_t inner_stride = 0;  ///< floats, at least the highest rank
};

namespace host {

/// `scratch` has room for a product of each group.
void lora(const lora_args& args, std::span<matmul_args> scratch, thread_pool& pool);
/// The same with one column of A in place of A x: what an adapter adds to the row of a token's embedding.
void lora_rows(const lora_args& args, std::span<matmul_args> scratch, thread_pool& pool);

}  // namespace host
}  // namespace orcd::kernels
