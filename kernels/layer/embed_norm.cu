// Embedding rows and RMS norms of the residual stream.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/norm_row.cuh"
#include "kernels/layer/embed_norm.hpp"
#include "kernels/product/packed_dispatch.cuh"
#include "kernels/product/packed_value.cuh"

namespace orcd::kernels {
namespace {

/// grid: (columns, row_threads values of a row)
template <packed_format F>
__global__ void __launch_bounds__(row_threads) embed_kernel(packed_embed_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::int32_t token = a.steps[blockIdx.x].token;
  const std::uint32_t c = blockIdx.y * row_threads + threadIdx.x;
  if (token < 0 || static_cast<std::uint32_t>(token) >= a.table.rows || c >= a.table.cols) return;
  a.out[static_cast<std::uint64_t>(blockIdx.x) * a.table.cols + c] =
      packed_value<F>(a.table, static_cast<std::uint32_t>(token), c);
}

template <std::uint32_t Values>
__global__ void __launch_bounds__(row_threads) norm_kernel(norm_to_half_args a) {
  __shared__ float scratch[8];
  const norm_weights<Values> weights(a.weight, a.width);
  allow_next_kernel();  // a product follows, which reads only constants before its wait (launch.cuh)
  wait_for_previous_kernel();
  const std::uint32_t row = a.rows != nullptr ? static_cast<std::uint32_t>(a.rows[blockIdx.x]) : blockIdx.x;
  __half* out = a.out + static_cast<std::uint64_t>(blockIdx.x) * a.out_stride;
  norm_row(a.x + static_cast<std::uint64_t>(row) * a.width, a.width, padded_cols(a.width), weights, a.eps,
           scratch, [&](std::uint32_t i, float value) { out[place_of_half(a.order, i)] = to_half(value); });
}

}  // namespace

int launch_packed_embed(const packed_embed_args& a, CUstream_st* stream) {
  if (a.table.data == nullptr || a.steps == nullptr || a.out == nullptr || a.columns == 0)
    return cudaErrorInvalidValue;
  return with_format(a.table.format, static_cast<int>(cudaErrorInvalidValue), [&](auto format) -> int {
    return launch_dependent(embed_kernel<decltype(format)::value>,
                            dim3(a.columns, (a.table.cols + row_threads - 1) / row_threads),
                            dim3(row_threads), 0, stream, a);
  });
}

int launch_norm_to_half(const norm_to_half_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.weight == nullptr || a.out == nullptr || a.columns == 0 || a.width == 0 ||
      a.out_stride % 8 != 0 || a.out_stride < padded_cols(a.width)) {
    return cudaErrorInvalidValue;
  }
  const auto kernel = a.width <= 4 * row_threads    ? norm_kernel<4>
                      : a.width <= 12 * row_threads ? norm_kernel<12>
                                                    : norm_kernel<norm_values>;
  return launch_dependent(kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
