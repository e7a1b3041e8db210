#include "kernels/device/launch.cuh"
#include "kernels/device/stream_read.hpp"

namespace orcd::kernels {
namespace {

__global__ void __launch_bounds__(512)
    stream_read_kernel(const uint4* data, std::uint64_t count, float* sink) {
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  std::uint32_t mixed = 0;
  std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const uint4 a = __ldcs(data + i);
    const uint4 b = __ldcs(data + i + stride);
    const uint4 c = __ldcs(data + i + 2 * stride);
    const uint4 d = __ldcs(data + i + 3 * stride);
    mixed ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += stride) mixed ^= __ldcs(data + i).x;
  if (mixed == 0x12345678U) sink[threadIdx.x] = 1.0F;  // keeps the loads alive
}

}  // namespace

int launch_stream_read(const std::byte* data, std::uint64_t bytes, float* sink, CUstream_st* stream) {
  if (data == nullptr || sink == nullptr || bytes % 16 != 0) return cudaErrorInvalidValue;
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  stream_read_kernel<<<4 * multiprocessors, 512, 0, stream>>>(reinterpret_cast<const uint4*>(data),
                                                              bytes / 16, sink);
  return cudaGetLastError();
}

}  // namespace orcd::kernels
