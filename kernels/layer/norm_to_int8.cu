// One block a row, which is needed three times: for the sum of squares, for the largest magnitude, and to be
// rounded. Rows that are not very wide stay in registers meanwhile, and the norm's weights are there before
// the row is: a decode step waits four times a layer for this. The squares are summed in a fixed tree, which
// kernels/decode_program/program_int8.cuh repeats; the rest does not depend on an order.
#include "kernels/device/launch.cuh"
#include "kernels/layer/norm_to_int8.hpp"
#include "kernels/product/int8_math.cuh"

namespace orcd::kernels {
namespace {

enum class input { floats, halves, silu, squared };

/// The values before the norm. What they come from is known when this is compiled: between two loads with a
/// branch the second one waits for the first.
template <input From>
struct row_input {
  const norm_to_int8_args& a;
  std::uint64_t at;  ///< of the row's first value

  __device__ __forceinline__ explicit row_input(const norm_to_int8_args& args)
      : a(args), at(static_cast<std::uint64_t>(blockIdx.x) * args.x_stride) {}

  __device__ __forceinline__ float operator()(std::uint32_t i) const {
    if constexpr (From == input::halves) return __half2float(a.halves[at + i]);
    if constexpr (From == input::floats) return a.x[at + i];
    const float gate = a.gate_up[at + i];
    const float up = a.gate_up[at + a.width + i];
    return From == input::silu ? silu_gated(gate, up) : relu_squared_gated(gate, up);
  }
};

constexpr std::uint32_t threads = 1024;
constexpr std::uint32_t warps = threads / 32;

/// Of all threads, for every thread; `scratch` [warps] is used once.
template <class T, class Operation>
__device__ __forceinline__ T reduce_block(T v, T* scratch, const Operation& operation) {
  for (int offset = 16; offset > 0; offset /= 2) v = operation(v, __shfl_xor_sync(0xFFFFFFFFU, v, offset));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = scratch[threadIdx.x % warps];
  for (int offset = 16; offset > 0; offset /= 2) v = operation(v, __shfl_xor_sync(0xFFFFFFFFU, v, offset));
  return v;
}

struct block_scratch {
  float squares[warps], largest[warps];
  std::int32_t sums[warps];
};

__device__ __forceinline__ float norm_scale(const norm_to_int8_args& a, float squares,
                                            block_scratch& scratch) {
  if (a.weight == nullptr) return 1.0F;
  squares = reduce_block(squares, scratch.squares, [](float x, float y) { return __fadd_rn(x, y); });
  return rms_scale(squares, a.width, a.eps);
}

__device__ __forceinline__ float normed(const norm_to_int8_args& a, float v, float scale, float weight) {
  return a.weight == nullptr ? v : __fmul_rn(__fmul_rn(v, scale), weight);
}

/// What rounds a row with this largest magnitude.
__device__ __forceinline__ float int8_scale(float largest, block_scratch& scratch) {
  largest = reduce_block(largest, scratch.largest, [](float x, float y) { return fmaxf(x, y); });
  return int8_scale_of(largest);
}

/// Stores a value and returns it.
__device__ __forceinline__ std::int32_t store(const norm_to_int8_args& a, std::uint32_t i, float v,
                                              float scale) {
  const std::int32_t rounded = to_int8(v, scale);
  a.out.values[static_cast<std::uint64_t>(blockIdx.x) * a.out.stride + i] = static_cast<std::int8_t>(rounded);
  if (a.floats != nullptr) a.floats[static_cast<std::uint64_t>(blockIdx.x) * a.width + i] = v;
  return rounded;
}

__device__ __forceinline__ void store_sum(const norm_to_int8_args& a, std::int32_t sum, float scale,
                                          block_scratch& scratch) {
  sum = reduce_block(sum, scratch.sums, [](std::int32_t x, std::int32_t y) { return x + y; });
  if (threadIdx.x != 0) return;
  a.out.scales[blockIdx.x] = scale;
  a.out.sums[blockIdx.x] = sum;
}

/// Rows of up to Values * threads values.
template <input From, std::uint32_t Values>
__global__ void __launch_bounds__(threads) norm_to_int8_kernel(norm_to_int8_args a) {
  __shared__ block_scratch scratch;
  float weights[Values], v[Values];
  const auto place = [](std::uint32_t k) { return threadIdx.x + k * threads; };
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k)
    weights[k] = a.weight != nullptr && place(k) < a.width ? a.weight[place(k)] : 1.0F;
  wait_for_previous_kernel();
  allow_next_kernel();
  const row_input<From> x(a);
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k) v[k] = place(k) < a.width ? x(place(k)) : 0.0F;
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k) squares = fmaf(v[k], v[k], squares);
  const float scale = norm_scale(a, squares, scratch);
  float largest = int8_least_range;
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k) {
    v[k] = normed(a, v[k], scale, weights[k]);
    largest = fmaxf(largest, fabsf(v[k]));
  }
  const float to_int = int8_scale(largest, scratch);
  std::int32_t sum = 0;
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k)
    if (place(k) < a.width) sum += store(a, place(k), v[k], to_int);
  store_sum(a, sum, to_int, scratch);
}

/// Rows of any width, read three times.
template <input From>
__global__ void __launch_bounds__(threads) wide_norm_to_int8_kernel(norm_to_int8_args a) {
  __shared__ block_scratch scratch;
  wait_for_previous_kernel();
  allow_next_kernel();
  const row_input<From> x(a);
  float squares = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += threads) {
    const float v = x(i);
    squares = fmaf(v, v, squares);
  }
  const float scale = norm_scale(a, squares, scratch);
  const auto value = [&](std::uint32_t i) {
    return normed(a, x(i), scale, a.weight != nullptr ? a.weight[i] : 1.0F);
  };
  float largest = int8_least_range;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += threads) largest = fmaxf(largest, fabsf(value(i)));
  const float to_int = int8_scale(largest, scratch);
  std::int32_t sum = 0;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += threads) sum += store(a, i, value(i), to_int);
  store_sum(a, sum, to_int, scratch);
}

template <input From>
cudaError_t launch(const norm_to_int8_args& a, CUstream_st* stream) {
  const auto run = [&](void (*kernel)(norm_to_int8_args)) {
    return launch_dependent(kernel, dim3(a.columns), dim3(threads), 0, stream, a);
  };
  if (a.width <= 4 * threads) return run(norm_to_int8_kernel<From, 4>);
  if (a.width <= 8 * threads) return run(norm_to_int8_kernel<From, 8>);
  if (a.width <= 16 * threads) return run(norm_to_int8_kernel<From, 16>);
  return run(wide_norm_to_int8_kernel<From>);
}

}  // namespace

int launch_norm_to_int8(const norm_to_int8_args& a, CUstream_st* stream) {
  const int inputs = (a.x != nullptr) + (a.halves != nullptr) + (a.gate_up != nullptr);
  const std::uint32_t read = a.gate_up != nullptr ? 2 * a.width : a.width;
  if (inputs != 1 || a.out.values == nullptr || a.out.scales == nullptr || a.out.sums == nullptr ||
      a.width == 0 || a.columns == 0 || a.x_stride < read || a.out.stride < a.width) {
    return cudaErrorInvalidValue;
  }
  if (a.halves != nullptr) return launch<input::halves>(a, stream);
  if (a.gate_up == nullptr) return launch<input::floats>(a, stream);
  return a.squared ? launch<input::squared>(a, stream) : launch<input::silu>(a, stream);
}

}  // namespace orcd::kernels
