// A tower's products on the GPU: of as many columns as a view has, a part at a time, by the kernel that is
// estimated to be faster. All give the same bits. Its calls enqueue. GPU thread only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/product/packed_matmul_args.hpp"

namespace orcd::gpu {

class tower_products {
 public:
  /// `image` has room for the operands of tower_part_columns columns.
  tower_products(__half* image, std::uint64_t image_bytes, cudaStream_t stream)
      : image_(image), image_bytes_(image_bytes), stream_(stream) {}

  /// Of the first `columns` rows of args.x, to as many of args.out. Throws cuda_failure.
  void multiply(const kernels::packed_matmul_args& args, std::uint32_t columns) const;

 private:
  void multiply_part(const kernels::packed_matmul_args& args) const;
  [[nodiscard]] bool image_best(const kernels::packed_matmul_args& args) const;

  __half* image_;
  std::uint64_t image_bytes_;
  cudaStream_t stream_;
};

}  // namespace orcd::gpu
