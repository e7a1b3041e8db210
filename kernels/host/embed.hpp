// Token embedding: gathers rows of a matrix of any block format as f32.
#pragma once

#include <cstdint>

#include "kernels/host/matmul_args.hpp"

namespace orcd::kernels {

struct embed_args {
  weight_matrix table;                   ///< [vocab][embedding]
  const std::int32_t* tokens = nullptr;  ///< [columns], each in 0 .. table.rows-1
  float* out = nullptr;                  ///< [columns][table.cols]
  std::uint32_t columns = 0;
};

namespace host {
class thread_pool;
void embed(const embed_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
