// A thread a value; rows are blockIdx.x, parts of a row blockIdx.y.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/tower/exact_gelu.cuh"
#include "kernels/tower/tower_input.hpp"

namespace orcd::kernels {
namespace {

dim3 grid_of(std::uint32_t rows, std::uint32_t values) {
  return {rows, (values + row_threads - 1) / row_threads, 1};
}
__device__ __forceinline__ std::uint32_t value_here() {
  return blockIdx.y * row_threads + threadIdx.x;
}

__global__ void __launch_bounds__(row_threads) gather_patches_kernel(const gather_patches_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = value_here();
  if (i >= a.out_stride) return;
  const std::uint32_t area = a.side * a.side;
  const std::uint32_t channel = i / area;
  float value = 0.0F;
  if (channel < 3) {
    const view_place place = a.places[blockIdx.x];
    const std::uint32_t y = place.line * a.side + i % area / a.side;
    const std::uint32_t x = place.column * a.side + i % a.side;
    value = a.values[channel * 256 + a.rgb[(static_cast<std::uint64_t>(y) * a.width + x) * 3 + channel]];
  }
  a.out[static_cast<std::uint64_t>(blockIdx.x) * a.out_stride + i] = to_half(value);
}

__global__ void __launch_bounds__(row_threads) spread_places_kernel(const spread_places_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = value_here();
  if (i >= a.out_stride) return;
  const std::uint32_t channel = i / 3;
  // One more than the place, so that the one before the first is no negative number.
  const std::uint32_t behind = blockIdx.x * a.step + i % 3;
  float value = 0.0F;
  if (channel < a.channels && behind > 0 && behind <= a.places)
    value = a.x[static_cast<std::uint64_t>(behind - 1) * a.channels + channel];
  if (a.activate) value = exact_gelu(value);
  a.out[static_cast<std::uint64_t>(blockIdx.x) * a.out_stride + i] = to_half(value);
}

/// A row or column of the grid below a place of the view, the next one, and how much of that there is.
struct between_rows {
  std::uint32_t low, high;
  float share;

  __device__ __forceinline__ between_rows(std::uint32_t index, std::uint32_t count, std::uint32_t side) {
    const double at = count < 2 ? 0.0 : static_cast<double>(index) * (side - 1) / (count - 1);
    low = static_cast<std::uint32_t>(at);
    high = min(low + 1, side - 1);
    share = static_cast<float>(at - low);
  }
};

__device__ float value_between(const add_places_args& a, const view_place& place, std::uint32_t c) {
  const between_rows y(place.line, a.lines, a.side);
  const between_rows x(place.column, a.columns, a.side);
  const auto at = [&](std::uint32_t line, std::uint32_t column) {
    return a.rows[(static_cast<std::uint64_t>(line) * a.side + column) * a.width + c];
  };
  const float above = __fsub_rn(1.0F, y.share);
  const float before = __fsub_rn(1.0F, x.share);
  float sum = __fmul_rn(__fmul_rn(above, before), at(y.low, x.low));
  sum = __fadd_rn(sum, __fmul_rn(__fmul_rn(above, x.share), at(y.low, x.high)));
  sum = __fadd_rn(sum, __fmul_rn(__fmul_rn(y.share, before), at(y.high, x.low)));
  return __fadd_rn(sum, __fmul_rn(__fmul_rn(y.share, x.share), at(y.high, x.high)));
}

__global__ void __launch_bounds__(row_threads) add_places_kernel(const __grid_constant__ add_places_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t c = value_here();
  if (c >= a.width) return;
  const view_place place = a.places[blockIdx.x];
  float& x = a.x[static_cast<std::uint64_t>(blockIdx.x) * a.width + c];
  const float before = a.activate ? exact_gelu(x) : x;
  const auto row = [&](std::uint64_t index) { return a.rows[index * a.width + c]; };
  switch (a.form) {
    case position_rows::each:
      x = __fadd_rn(before, row(static_cast<std::uint64_t>(place.line) * a.columns + place.column));
      return;
    case position_rows::between: x = __fadd_rn(before, value_between(a, place, c)); return;
    case position_rows::by_side:
      x = __fadd_rn(__fadd_rn(before, row(place.column)), row(std::uint64_t{a.side} + place.line));
      return;
  }
}

}  // namespace

int launch_gather_patches(const gather_patches_args& a, CUstream_st* stream) {
  if (a.rgb == nullptr || a.places == nullptr || a.values == nullptr || a.out == nullptr || a.patches == 0 ||
      a.side == 0 || a.width % a.side != 0 || a.out_stride < 3 * a.side * a.side)
    return cudaErrorInvalidValue;
  return launch_dependent(gather_patches_kernel, grid_of(a.patches, a.out_stride), dim3(row_threads), 0,
                          stream, a);
}

int launch_spread_places(const spread_places_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.out == nullptr || a.places == 0 || a.channels == 0 || a.step == 0 ||
      a.out_stride < 3 * a.channels)
    return cudaErrorInvalidValue;
  return launch_dependent(spread_places_kernel, grid_of((a.places + a.step - 1) / a.step, a.out_stride),
                          dim3(row_threads), 0, stream, a);
}

int launch_add_places(const add_places_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.rows == nullptr || a.places == nullptr || a.patches == 0 || a.width == 0 ||
      a.lines == 0 || a.columns == 0 || (a.form != position_rows::each && a.side == 0))
    return cudaErrorInvalidValue;
  return launch_dependent(add_places_kernel, grid_of(a.patches, a.width), dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
