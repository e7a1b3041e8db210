#include "gpu/cuda/media/tower_products.hpp"

#include <cuda_fp16.h>

#include <algorithm>

#include "gpu/cuda/cuda_error.hpp"
#include "gpu/plan/media/media_layout.hpp"
#include "kernels/images/image_matmul.hpp"
#include "kernels/product/packed_matmul.hpp"

namespace orcd::gpu {
namespace {

/// Products of fewer columns take the throughput product (gpu/cuda/cuda_images.cpp).
constexpr std::uint32_t image_columns_least = 384;

/// Cycles that a multiprocessor waits for an image to be made of rows, of what it reads and writes at 2 TB/s.
std::uint64_t making_cycles(const kernels::packed_matmul_args& args) {
  return 4'000 + std::uint64_t{args.columns} * args.x_stride * 4 / 1'200;
}

}  // namespace

bool tower_products::image_best(const kernels::packed_matmul_args& args) const {
  const std::uint64_t bytes = std::uint64_t{kernels::image_columns(args.columns)} * args.x_stride * 2;
  if (args.columns < image_columns_least || kernels::image_tile_columns(args) == 0 || bytes > image_bytes_)
    return false;
  kernels::tiled_matmul_args rows;
  rows.matmul = args;
  return making_cycles(args) + kernels::image_matmul_cycles(args) < kernels::packed_matmul_cycles(rows);
}

void tower_products::multiply_part(const kernels::packed_matmul_args& args) const {
  if (!image_best(args)) {
    kernels::tiled_matmul_args product;
    product.matmul = args;
    ORCD_CUDA(kernels::launch_packed_matmul(product, stream_));
    return;
  }
  kernels::to_image_args make;
  make.x = args.x;
  make.x_stride = args.x_stride;
  make.columns = args.columns;
  make.image = image_;
  make.image_columns = kernels::image_columns(args.columns);
  ORCD_CUDA(kernels::launch_to_image(make, stream_));
  kernels::image_matmul_args product;
  product.matmul = args;
  product.matmul.x = image_;
  product.matmul.x_stride = make.image_columns;
  ORCD_CUDA(kernels::launch_image_matmul(product, stream_));
}

void tower_products::multiply(const kernels::packed_matmul_args& args, std::uint32_t columns) const {
  for (std::uint32_t first = 0; first < columns; first += tower_part_columns) {
    kernels::packed_matmul_args part = args;
    part.columns = std::min(tower_part_columns, columns - first);
    part.x = args.x + std::uint64_t{first} * args.x_stride;
    part.out = args.out + std::uint64_t{first} * args.out_stride;
    multiply_part(part);
  }
}

}  // namespace orcd::gpu
