// The router's logits of many columns: a block has a tile of columns by experts, so that a row of the router
// is read once for all columns of the tile. Bit for bit what route_kernel computes (norm_row(), logit_of()).
//
//   16 columns  VRAM --> norm --> shared memory
//   16 experts  VRAM ---------> shared memory
//   16 warps: 4 x 4 logits each, a fixed tree over lanes --> VRAM
#pragma once

#include "kernels/device/device_math.cuh"
#include "kernels/layer/experts_args.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t logit_tile = 16;  ///< columns of a block, and experts
inline constexpr std::uint32_t logit_part = 4;   ///< of these, columns and experts of a warp
inline constexpr std::uint32_t logit_warps = 16;
inline constexpr std::uint32_t logit_slab = 128;  ///< values of a row in shared memory: four a lane
static_assert(logit_warps == logit_tile && logit_warps * logit_part * logit_part == logit_tile * logit_tile);

/// Two slabs: one is multiplied while the next is stored.
struct logit_slabs {
  alignas(16) float columns[2][logit_tile][logit_slab];
  alignas(16) float experts[2][logit_tile][logit_slab];
};

/// One warp: the scale of a row's norm. Each lane has the sums of the threads of norm_row()'s eight warps
/// that have its number there.
__device__ inline float norm_scale_of_row(const float* x, std::uint32_t n, float eps) {
  constexpr std::uint32_t warps = row_threads / 32;
  float squares[warps] = {};
  for (std::uint32_t base = threadIdx.x % 32; base < n; base += row_threads) {
#pragma unroll
    for (std::uint32_t w = 0; w < warps; ++w) {
      const float v = base + 32 * w < n ? x[base + 32 * w] : 0.0F;
      squares[w] = fmaf(v, v, squares[w]);
    }
  }
#pragma unroll
  for (std::uint32_t w = 0; w < warps; ++w) squares[w] = warp_sum(squares[w]);
  return rms_scale(sum_of_warps(squares), n, eps);
}

/// Four values of a row, or zeros past its end.
__device__ __forceinline__ float4 four_of(const float* row, std::uint32_t at, std::uint32_t width) {
  return at < width ? *reinterpret_cast<const float4*>(row + at) : float4{0.0F, 0.0F, 0.0F, 0.0F};
}
__device__ __forceinline__ float4 normed_four(const float4& x, float scale, const float4& w) {
  return {__fmul_rn(__fmul_rn(x.x, scale), w.x), __fmul_rn(__fmul_rn(x.y, scale), w.y),
          __fmul_rn(__fmul_rn(x.z, scale), w.z), __fmul_rn(__fmul_rn(x.w, scale), w.w)};
}
__device__ __forceinline__ float4 with_products(const float4& a, const float4& b, const float4& sum) {
  return {__fmaf_rn(a.x, b.x, sum.x), __fmaf_rn(a.y, b.y, sum.y), __fmaf_rn(a.z, b.z, sum.z),
          __fmaf_rn(a.w, b.w, sum.w)};
}

__device__ __forceinline__ void store_pair(__half* to, float a, float b) {
  *reinterpret_cast<__half2*>(to) = {to_half(a), to_half(b)};
}

/// A warp's products of a slab.
__device__ __forceinline__ void multiply_slab(const float (&columns)[logit_tile][logit_slab],
                                              const float (&experts)[logit_tile][logit_slab],
                                              float4 (&sums)[logit_part][logit_part]) {
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t at = threadIdx.x % 32 * 4;
  float4 w[logit_part];
#pragma unroll
  for (std::uint32_t e = 0; e < logit_part; ++e)
    w[e] = *reinterpret_cast<const float4*>(&experts[warp % logit_part * logit_part + e][at]);
#pragma unroll
  for (std::uint32_t c = 0; c < logit_part; ++c) {
    const float4 x = *reinterpret_cast<const float4*>(&columns[warp / logit_part * logit_part + c][at]);
#pragma unroll
    for (std::uint32_t e = 0; e < logit_part; ++e) sums[c][e] = with_products(w[e], x, sums[c][e]);
  }
}

/// Adds up the lanes' sums; lane 4 c + e gets the logit of the warp's column c and expert e.
__device__ __forceinline__ float logit_of_lane(const float4 (&sums)[logit_part][logit_part]) {
  float mine = 0.0F;
#pragma unroll
  for (std::uint32_t i = 0; i < logit_part * logit_part; ++i) {
    const float4& sum = sums[i / logit_part][i % logit_part];
    float all = __fadd_rn(__fadd_rn(sum.x, sum.y), __fadd_rn(sum.z, sum.w));
#pragma unroll
    for (std::uint32_t offset = 16; offset > 0; offset /= 2)
      all = __fadd_rn(all, __shfl_xor_sync(0xFFFFFFFFU, all, offset));
    if (threadIdx.x % 32 == i) mine = all;
  }
  return mine;
}

/// grid: (tiles of columns, tiles of experts). The blocks of the first experts store the norm.
__global__ void __launch_bounds__(logit_warps * 32, 1) logits_kernel(const __grid_constant__ route_args a) {
  __shared__ logit_slabs shared;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  // What a warp stores for all; past the last column or expert the last one again, of which nothing is kept.
  const std::uint32_t column = min(blockIdx.x * logit_tile + warp, a.columns - 1);
  const std::uint32_t expert = min(blockIdx.y * logit_tile + warp, a.experts - 1);
  const float* const row = a.router + std::uint64_t{expert} * a.width;
  const float* const x = a.x + std::uint64_t{column} * a.width;
  const std::uint32_t padded = padded_cols(a.width);
  __half* const half_row = a.normed + std::uint64_t{column} * padded;
  const bool keeps_half = a.normed != nullptr && blockIdx.y == 0;
  float4 of_router = four_of(row, 4 * lane, a.width);
  float4 of_norm = four_of(a.norm_weight, 4 * lane, a.width);
  wait_for_previous_kernel();
  allow_next_kernel();
  float4 of_x = four_of(x, 4 * lane, a.width);
  const float scale = norm_scale_of_row(x, a.width, a.norm_eps);
  float4 sums[logit_part][logit_part] = {};
  for (std::uint32_t first = 0, buffer = 0; first < padded; first += logit_slab, buffer ^= 1U) {
    const std::uint32_t at = first + 4 * lane;
    const float4 normed = normed_four(of_x, scale, of_norm);
    *reinterpret_cast<float4*>(&shared.columns[buffer][warp][4 * lane]) = normed;
    *reinterpret_cast<float4*>(&shared.experts[buffer][warp][4 * lane]) = of_router;
    if (keeps_half && at < padded) {
      store_pair(half_row + place_of_half(a.normed_order, at), normed.x, normed.y);
      store_pair(half_row + place_of_half(a.normed_order, at + 2), normed.z, normed.w);
    }
    __syncthreads();
    of_router = four_of(row, at + logit_slab, a.width);
    of_norm = four_of(a.norm_weight, at + logit_slab, a.width);
    of_x = four_of(x, at + logit_slab, a.width);
    if (at < a.width) multiply_slab(shared.columns[buffer], shared.experts[buffer], sums);
  }
  const float logit = logit_of_lane(sums);
  const std::uint32_t m = blockIdx.x * logit_tile + warp / logit_part * logit_part + lane / logit_part;
  const std::uint32_t e = blockIdx.y * logit_tile + warp % logit_part * logit_part + lane % logit_part;
  if (lane >= logit_part * logit_part || m >= a.columns || e >= a.experts) return;
  a.logits[std::uint64_t{m} * a.experts + e] = a.bias == nullptr ? logit : __fadd_rn(logit, a.bias[e]);
}

}  // namespace orcd::kernels
