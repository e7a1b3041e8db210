// One block a row where a row is reduced; elsewhere a thread a value, rows being blockIdx.x.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/tower/exact_gelu.cuh"
#include "kernels/tower/tower_rows.hpp"

namespace orcd::kernels {
namespace {

dim3 grid_of(std::uint32_t rows, std::uint32_t values) {
  return {rows, (values + row_threads - 1) / row_threads, 1};
}
__device__ __forceinline__ std::uint32_t value_here() {
  return blockIdx.y * row_threads + threadIdx.x;
}
__device__ __forceinline__ std::uint64_t row_at(std::uint32_t stride) {
  return static_cast<std::uint64_t>(blockIdx.x) * stride;
}

__global__ void __launch_bounds__(row_threads) norm_rows_kernel(const norm_rows_args a) {
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  float* const x = a.x + row_at(a.width);
  float mean = 0.0F;
  if (a.centred) {
    float sum = 0.0F;
    for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) sum = __fadd_rn(sum, x[i]);
    mean = __fdiv_rn(block_sum(sum, scratch), static_cast<float>(a.width));
  }
  float squares = 0.0F;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) {
    const float d = __fsub_rn(x[i], mean);
    squares = __fmaf_rn(d, d, squares);
  }
  const float scale = rms_scale(block_sum(squares, scratch), a.width, a.eps);
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) {
    const float normed = __fmul_rn(__fmul_rn(__fsub_rn(x[i], mean), scale), a.weight[i]);
    x[i] = a.bias == nullptr ? normed : __fadd_rn(normed, a.bias[i]);
  }
}

/// x / (1 + e^-y)
__device__ __forceinline__ float by_sigmoid(float x, float y) {
  return __fdiv_rn(x, __fadd_rn(1.0F, expf(-y)));
}

template <tower_activation Form>
__device__ __forceinline__ float activated(float x) {
  if constexpr (Form == tower_activation::exact) return exact_gelu(x);
  if constexpr (Form == tower_activation::sigmoid) return by_sigmoid(x, __fmul_rn(1.702F, x));
  if constexpr (Form == tower_activation::silu_gate) return by_sigmoid(x, x);
  return geglu(x, 1.0F);
}

/// Values of a row that a thread takes together.
constexpr std::uint32_t activated_together = 4;

/// x[i .. i + 3], zeros from `width` on; `whole`: i and width are multiples of four.
__device__ __forceinline__ float4 four_of(const float* x, std::uint32_t i, std::uint32_t width, bool whole) {
  if (whole) return i < width ? *reinterpret_cast<const float4*>(x + i) : float4{};
  const auto one = [&](std::uint32_t at) { return at < width ? x[at] : 0.0F; };
  return {one(i), one(i + 1), one(i + 2), one(i + 3)};
}

template <tower_activation Form>
__global__ void __launch_bounds__(row_threads) activate_rows_kernel(const activate_rows_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = value_here() * activated_together;
  if (i >= a.out_stride) return;
  const float* const x = a.x + row_at(has_gate(Form) ? 2 * a.width : a.width);
  const bool whole = a.width % activated_together == 0;
  const float4 in = four_of(x, i, a.width, whole);
  float4 out{activated<Form>(in.x), activated<Form>(in.y), activated<Form>(in.z), activated<Form>(in.w)};
  if constexpr (has_gate(Form)) {
    const float4 by = four_of(x + a.width, i, a.width, whole);
    out = {__fmul_rn(out.x, by.x), __fmul_rn(out.y, by.y), __fmul_rn(out.z, by.z), __fmul_rn(out.w, by.w)};
  }
  alignas(8) const __half2 halves[2] = {{to_half(out.x), to_half(out.y)}, {to_half(out.z), to_half(out.w)}};
  *reinterpret_cast<uint2*>(a.out + row_at(a.out_stride) + i) = *reinterpret_cast<const uint2*>(halves);
}

/// As std::clamp() does it.
__device__ __forceinline__ float clipped(float x, float low, float high) {
  return x < low ? low : high < x ? high : x;
}

__global__ void __launch_bounds__(row_threads) clip_rows_kernel(const clip_rows_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = value_here();
  if (i >= a.width) return;
  float& x = a.x[row_at(a.stride) + i];
  const float value = clipped(x, a.low, a.high);
  if (a.to == nullptr) {
    x = value;
    return;
  }
  float& sum = a.to[row_at(a.width) + i];
  sum = __fadd_rn(sum, value);
}

__global__ void __launch_bounds__(row_threads) clip_halves_kernel(const clip_halves_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = value_here();
  if (i >= a.stride) return;
  const __half x = a.x[row_at(a.stride) + i];
  // Padding stays zero, wherever the limits are.
  a.out[row_at(a.stride) + i] = i < a.width ? to_half(clipped(__half2float(x), a.low, a.high)) : x;
}

/// The patch that is the row's `within`-th.
__device__ __forceinline__ std::uint32_t patch_of(const merge_patches_args& a, std::uint32_t within) {
  if (a.patch_at == nullptr) return blockIdx.x * a.side + within;
  const std::uint32_t of_line = a.columns / a.side;
  const std::uint32_t line = blockIdx.x / of_line * a.side + within / a.side;
  return a.patch_at[line * a.columns + blockIdx.x % of_line * a.side + within % a.side];
}

__device__ float mean_of(const merge_patches_args& a, std::uint32_t patches, std::uint32_t c) {
  float sum = 0.0F;
  for (std::uint32_t within = 0; within < patches; ++within)
    sum = __fadd_rn(sum, a.x[static_cast<std::uint64_t>(patch_of(a, within)) * a.width + c]);
  const float mean = __fmul_rn(__fdiv_rn(sum, static_cast<float>(patches)), a.scale);
  return a.factor == nullptr ? mean : __fmul_rn(__fsub_rn(mean, a.bias[c]), a.factor[c]);
}

__device__ float joined_of(const merge_patches_args& a, std::uint32_t patches, std::uint32_t i) {
  const std::uint32_t within = a.by_channel ? i % patches : i / a.width;
  const std::uint32_t c = a.by_channel ? i / patches : i % a.width;
  return a.x[static_cast<std::uint64_t>(patch_of(a, within)) * a.width + c];
}

__global__ void __launch_bounds__(row_threads)
    merge_patches_kernel(const __grid_constant__ merge_patches_args a, std::uint32_t patches,
                         std::uint32_t width) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = value_here();
  if (i >= a.out_stride) return;
  const float value = i >= width ? 0.0F : a.average ? mean_of(a, patches, i) : joined_of(a, patches, i);
  if (a.out_halves != nullptr)
    a.out_halves[row_at(a.out_stride) + i] = to_half(value);
  else
    a.out[row_at(a.out_stride) + i] = value;
}

template <tower_activation Form>
int launch_form(const activate_rows_args& a, cudaStream_t stream) {
  return launch_dependent(activate_rows_kernel<Form>, grid_of(a.rows, a.out_stride / activated_together),
                          dim3(row_threads), 0, stream, a);
}

}  // namespace

int launch_norm_rows(const norm_rows_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.weight == nullptr || a.width == 0 || a.rows == 0) return cudaErrorInvalidValue;
  return launch_dependent(norm_rows_kernel, dim3(a.rows), dim3(row_threads), 0, stream, a);
}

int launch_activate_rows(const activate_rows_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.out == nullptr || a.width == 0 || a.rows == 0 || a.out_stride < a.width ||
      a.out_stride % activated_together != 0)
    return cudaErrorInvalidValue;
  switch (a.form) {
    case tower_activation::exact: return launch_form<tower_activation::exact>(a, stream);
    case tower_activation::tanh: return launch_form<tower_activation::tanh>(a, stream);
    case tower_activation::sigmoid: return launch_form<tower_activation::sigmoid>(a, stream);
    case tower_activation::silu_gate: return launch_form<tower_activation::silu_gate>(a, stream);
    case tower_activation::tanh_gate: return launch_form<tower_activation::tanh_gate>(a, stream);
  }
  return cudaErrorInvalidValue;
}

int launch_clip_rows(const clip_rows_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.width == 0 || a.rows == 0 || a.stride < a.width || !(a.low <= a.high))
    return cudaErrorInvalidValue;
  return launch_dependent(clip_rows_kernel, grid_of(a.rows, a.width), dim3(row_threads), 0, stream, a);
}

int launch_clip_halves(const clip_halves_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.out == nullptr || a.width == 0 || a.rows == 0 || a.stride < a.width ||
      !(a.low <= a.high))
    return cudaErrorInvalidValue;
  return launch_dependent(clip_halves_kernel, grid_of(a.rows, a.stride), dim3(row_threads), 0, stream, a);
}

int launch_merge_patches(const merge_patches_args& a, CUstream_st* stream) {
  const bool one = (a.out == nullptr) != (a.out_halves == nullptr);
  if (a.x == nullptr || !one || a.side == 0 || a.width == 0 || a.rows == 0 || a.out_stride < a.row_width() ||
      (a.patch_at != nullptr && (a.columns == 0 || a.columns % a.side != 0)) ||
      (a.bias == nullptr) != (a.factor == nullptr))
    return cudaErrorInvalidValue;
  return launch_dependent(merge_patches_kernel, grid_of(a.rows, a.out_stride), dim3(row_threads), 0, stream,
                          a, a.patches(), a.row_width());
}

}  // namespace orcd::kernels
