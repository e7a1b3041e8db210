#include <cmath>

#include "kernels/device_math.cuh"
#include "kernels/experts.hpp"
#include "kernels/launch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t row_warps = row_threads / 32;

/// grid: (columns, groups of eight experts); one warp an expert, lanes take every 32nd product.
__global__ void __launch_bounds__(row_threads) router_kernel(router_args a) {
  extern __shared__ float normed[];
  __shared__ float scratch[8];
  wait_for_previous_kernel();
  allow_next_kernel();
  const float* x = a.x + static_cast<std::uint64_t>(blockIdx.x) * a.width;
  const float scale = row_rms_scale(x, a.width, a.norm_eps, scratch);
  for (std::uint32_t i = threadIdx.x; i < a.width; i += row_threads) {
    normed[i] = __fmul_rn(__fmul_rn(x[i], scale), a.norm_weight[i]);
  }
  __syncthreads();
  const std::uint32_t expert = blockIdx.y * row_warps + threadIdx.x / 32;
  if (expert >= a.experts) return;
  const float* w = a.router + static_cast<std::uint64_t>(expert) * a.width;
  float sum = 0.0F;
  for (std::uint32_t i = threadIdx.x % 32; i < a.width; i += 32) sum = __fmaf_rn(w[i], normed[i], sum);
#pragma unroll
  for (std::uint32_t offset = 16; offset > 0; offset /= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, offset));
  }
  if (threadIdx.x % 32 == 0) {
    if (a.bias != nullptr) sum = __fadd_rn(sum, a.bias[expert]);
    a.logits[static_cast<std::uint64_t>(blockIdx.x) * a.experts + expert] = sum;
  }
}

/// Order-preserving bits of a float above the inverted id: the maximum is the highest logit, then the
/// lowest id. NaN counts as lower than everything.
__device__ std::uint64_t rank_key(float logit, std::uint32_t id) {
  if (isnan(logit)) return ~id;
  const std::uint32_t bits = __float_as_uint(logit);
  const std::uint32_t ordered = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return static_cast<std::uint64_t>(ordered) << 32 | (~id & 0xFFFFFFFFU);
}

/// One warp a column.
__global__ void __launch_bounds__(32) choose_kernel(choose_experts_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const float* logits = a.logits + static_cast<std::uint64_t>(blockIdx.x) * a.experts;
  float picked[experts_used_max];
  std::uint64_t bound = ~0ull;  // keys at or above it are taken already
  for (std::uint32_t i = 0; i < a.used; ++i) {
    std::uint64_t best = 0;
    for (std::uint32_t e = threadIdx.x; e < a.experts; e += 32) {
      const std::uint64_t key = rank_key(logits[e], e);
      if (key < bound && key > best) best = key;
    }
    for (std::uint32_t offset = 16; offset > 0; offset /= 2) {
      const std::uint64_t other = __shfl_xor_sync(0xFFFFFFFFU, best, offset);
      best = other > best ? other : best;
    }
    bound = best;
    const std::uint32_t expert = ~static_cast<std::uint32_t>(best & 0xFFFFFFFFU);
    picked[i] = logits[expert];
    if (threadIdx.x == 0) a.chosen[blockIdx.x * a.used + i] = static_cast<std::int32_t>(expert);
  }
  if (threadIdx.x != 0) return;
  const float highest = picked[0];
  float sum = 0.0F;
  for (std::uint32_t i = 0; i < a.used; ++i) {
    const float p = expf(__fsub_rn(picked[i], highest));
    picked[i] = p;
    sum = __fadd_rn(sum, p);
  }
  for (std::uint32_t i = 0; i < a.used; ++i) a.weights[blockIdx.x * a.used + i] = __fdiv_rn(picked[i], sum);
}

/// One block; one warp an expert at a time, in the order of the pairs.
__global__ void __launch_bounds__(1024) sort_kernel(sort_experts_args a, std::int32_t step) {
  __shared__ std::int32_t counts[experts_max];
  __shared__ std::int32_t starts[experts_max];
  __shared__ std::int32_t first_tiles[experts_max];
  wait_for_previous_kernel();
  allow_next_kernel();
  for (std::uint32_t e = threadIdx.x; e < a.experts; e += blockDim.x) counts[e] = 0;
  __syncthreads();
  for (std::uint32_t i = threadIdx.x; i < a.pairs; i += blockDim.x) atomicAdd(&counts[a.chosen[i]], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    std::int32_t start = 0;
    std::int32_t tile = 0;
    for (std::uint32_t e = 0; e < a.experts; ++e) {
      starts[e] = start;
      first_tiles[e] = tile;
      start += counts[e];
      tile += (counts[e] + step - 1) / step;
    }
    *a.tile_count = tile;
  }
  __syncthreads();
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint32_t e = threadIdx.x / 32; e < a.experts; e += blockDim.x / 32) {
    std::int32_t at = starts[e];
    for (std::uint32_t base = 0; base < a.pairs; base += 32) {
      const bool mine = base + lane < a.pairs && a.chosen[base + lane] == static_cast<std::int32_t>(e);
      const std::uint32_t mask = __ballot_sync(0xFFFFFFFFU, mine);
      if (mine) a.order[at + __popc(mask & ((1U << lane) - 1))] = static_cast<std::int32_t>(base + lane);
      at += __popc(mask);
    }
    for (std::int32_t t = static_cast<std::int32_t>(lane); t * step < counts[e]; t += 32) {
      a.tiles[first_tiles[e] + t] = {static_cast<std::int32_t>(e), starts[e] + t * step,
                                     min(step, counts[e] - t * step)};
    }
  }
}

__global__ void __launch_bounds__(row_threads) combine_kernel(combine_experts_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t c = blockIdx.x * row_threads + threadIdx.x;
  if (c >= a.width) return;
  const std::uint64_t m = blockIdx.y;
  float sum = 0.0F;
  for (std::uint32_t i = 0; i < a.used; ++i) {
    sum = __fmaf_rn(a.weights[m * a.used + i], a.parts[(m * a.used + i) * a.width + c], sum);
  }
  float* out = a.residual + m * a.width + c;
  *out = __fadd_rn(*out, sum);
}

}  // namespace

int launch_router(const router_args& a, CUstream_st* stream) {
  if (a.x == nullptr || a.norm_weight == nullptr || a.router == nullptr || a.logits == nullptr ||
      a.width == 0 || a.width > 11'000 || a.experts == 0 || a.experts > experts_max || a.columns == 0) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(router_kernel, dim3(a.columns, (a.experts + row_warps - 1) / row_warps),
                          dim3(row_threads), a.width * sizeof(float), stream, a);
}

int launch_choose_experts(const choose_experts_args& a, CUstream_st* stream) {
  if (a.logits == nullptr || a.chosen == nullptr || a.weights == nullptr || a.columns == 0 || a.used == 0 ||
      a.used > experts_used_max || a.used > a.experts || a.experts > experts_max) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(choose_kernel, dim3(a.columns), dim3(32), 0, stream, a);
}

int launch_sort_experts(const sort_experts_args& a, CUstream_st* stream) {
  if (a.chosen == nullptr || a.order == nullptr || a.tiles == nullptr || a.tile_count == nullptr ||
      a.pairs == 0 || a.experts == 0 || a.experts > experts_max) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(sort_kernel, dim3(1), dim3(1024), 0, stream, a,
                          static_cast<std::int32_t>(expert_tile_columns(a.pairs, a.experts)));
}

int launch_combine_experts(const combine_experts_args& a, CUstream_st* stream) {
  if (a.parts == nullptr || a.weights == nullptr || a.residual == nullptr || a.width == 0 || a.used == 0 ||
      a.columns == 0) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(combine_kernel, dim3((a.width + row_threads - 1) / row_threads, a.columns),
                          dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
