#include <cmath>

#include "kernels/device_math.cuh"
#include "kernels/greedy.hpp"
#include "kernels/launch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t blocks_a_column = 64;

__global__ void clear_kernel(greedy_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  if (threadIdx.x < a.columns) a.keys[threadIdx.x] = 0;
}

__global__ void __launch_bounds__(row_threads) highest_kernel(greedy_args a) {
  __shared__ unsigned long long shared[row_threads / 32];
  wait_for_previous_kernel();
  allow_next_kernel();
  const float* logits = a.logits + static_cast<std::uint64_t>(blockIdx.y) * a.vocab;
  unsigned long long best = 0;
  for (std::uint32_t i = blockIdx.x * row_threads + threadIdx.x; i < a.vocab; i += gridDim.x * row_threads) {
    const float v = logits[i];
    if (isnan(v) || v == -INFINITY || (a.banned != nullptr && (a.banned[i / 32] >> i % 32 & 1U) != 0))
      continue;
    const std::uint32_t bits = __float_as_uint(v == 0.0F ? 0.0F : v);  // -0 equals 0
    const std::uint32_t ordered = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
    const unsigned long long key = static_cast<unsigned long long>(ordered) << 32 | (0xFFFFFFFFU - i);
    best = key > best ? key : best;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xFFFFFFFFU, best, offset);
    best = other > best ? other : best;
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (std::uint32_t w = 1; w < row_threads / 32; ++w) best = shared[w] > best ? shared[w] : best;
    atomicMax(&a.keys[blockIdx.y], best);
  }
}

__global__ void token_kernel(greedy_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  if (threadIdx.x >= a.columns) return;
  const unsigned long long key = a.keys[threadIdx.x];
  a.tokens[threadIdx.x] =
      key == 0 ? -1 : static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(key));
}

}  // namespace

int launch_greedy(const greedy_args& a, CUstream_st* stream) {
  if (a.logits == nullptr || a.keys == nullptr || a.tokens == nullptr || a.vocab == 0 || a.columns == 0 ||
      a.columns > 1024) {
    return cudaErrorInvalidValue;
  }
  cudaError_t status =
      launch_dependent(clear_kernel, dim3(1), dim3((a.columns + 31) / 32 * 32), 0, stream, a);
  if (status != cudaSuccess) return status;
  status =
      launch_dependent(highest_kernel, dim3(blocks_a_column, a.columns), dim3(row_threads), 0, stream, a);
  if (status != cudaSuccess) return status;
  return launch_dependent(token_kernel, dim3(1), dim3((a.columns + 31) / 32 * 32), 0, stream, a);
}

}  // namespace orcd::kernels
