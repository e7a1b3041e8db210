// A thread a value; rows are blockIdx.x, parts of a row blockIdx.y.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/tower/given_rows.hpp"

namespace orcd::kernels {
namespace {

dim3 grid_of(std::uint32_t rows, std::uint32_t values) {
  return {rows, (values + row_threads - 1) / row_threads, 1};
}

/// Value `i` of a part of a row that is counted over all blocks.
__device__ __forceinline__ float& value_of(const row_store& store, std::uint64_t row, std::uint32_t part,
                                           std::uint32_t i) {
  return store.rows[row * store.row_width + static_cast<std::uint64_t>(part) * store.part_width + i];
}

__global__ void __launch_bounds__(row_threads) store_rows_kernel(const __grid_constant__ store_rows_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = blockIdx.y * row_threads + threadIdx.x;
  if (i >= a.to.part_width) return;
  const std::uint32_t of_medium = a.first + blockIdx.x;
  const std::uint64_t row =
      static_cast<std::uint64_t>(a.blocks[of_medium / a.to.block_rows]) * a.to.block_rows +
      of_medium % a.to.block_rows;
  value_of(a.to, row, a.part, i) = a.x[static_cast<std::uint64_t>(blockIdx.x) * a.to.part_width + i];
}

__global__ void __launch_bounds__(row_threads) give_rows_kernel(const __grid_constant__ give_rows_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = blockIdx.y * row_threads + threadIdx.x;
  if (i >= a.from.part_width) return;
  const given_row given = a.given[blockIdx.x];
  float& x = a.x[static_cast<std::uint64_t>(given.column) * a.from.part_width + i];
  const float value = __fmul_rn(value_of(a.from, static_cast<std::uint64_t>(given.row), a.part, i), a.scale);
  x = a.adds ? __fadd_rn(x, value) : value;
}

bool valid(const row_store& store, std::uint32_t part) {
  return store.rows != nullptr && store.block_rows > 0 && store.part_width > 0 &&
         store.row_width % store.part_width == 0 && part < store.row_width / store.part_width;
}

}  // namespace

int launch_store_rows(const store_rows_args& a, CUstream_st* stream) {
  if (!valid(a.to, a.part) || a.blocks == nullptr || a.x == nullptr || a.rows == 0)
    return cudaErrorInvalidValue;
  return launch_dependent(store_rows_kernel, grid_of(a.rows, a.to.part_width), dim3(row_threads), 0, stream,
                          a);
}

int launch_give_rows(const give_rows_args& a, CUstream_st* stream) {
  if (!valid(a.from, a.part) || a.given == nullptr || a.count == 0 || a.x == nullptr)
    return cudaErrorInvalidValue;
  return launch_dependent(give_rows_kernel, grid_of(a.count, a.from.part_width), dim3(row_threads), 0, stream,
                          a);
}

}  // namespace orcd::kernels
