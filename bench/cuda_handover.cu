// What it takes to hand a row of values from all blocks to all blocks while weights stream into shared
// memory: what the phases of kernels/decode_program.hpp wait for.
//
//   bench_cuda_handover
//
// One block a multiprocessor. Sixteen warps of each copy chunks through rings as those of the decode kernel,
// at a pace or as fast as there is room; 256 threads store the block's part of 3,072 flagged words and gather
// them all, a thousand times. Prints for each pace what was read and how long a hand-over took, over all
// blocks. docs/performance.md holds the figures. Source: issue 4, "the floor".
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/cuda_calls.hpp"
#include "kernels/bulk_copy.cuh"
#include "kernels/device_math.cuh"
#include "kernels/flagged.cuh"

namespace orcd::kernels {
namespace {

using bench::allocate;
using bench::check;

constexpr std::uint32_t copying_warps = 16;
constexpr std::uint32_t copying_threads = copying_warps * 32;
constexpr std::uint32_t slots = 4;           ///< of a warp's ring
constexpr std::uint32_t chunk_bytes = 2304;  ///< of Q4_K
constexpr std::uint32_t ring_bytes = copying_warps * slots * chunk_bytes;
constexpr std::uint64_t block_bytes = 1024 * std::uint64_t{copying_warps} * chunk_bytes;
constexpr std::uint32_t row = 3072;
constexpr std::uint32_t store_words = 16;  ///< that are of one block
constexpr std::uint32_t rounds = 1000;

struct handover_args {
  const std::byte* weights;   ///< device, [blocks][block_bytes]
  std::uint64_t* words;       ///< device, [row]; flagged, zero
  std::uint32_t* ns;          ///< device, out, [blocks][rounds]
  unsigned long long* bytes;  ///< device, out: copied by all
  bool copies;
  std::uint32_t chunk_cycles;  ///< between two copies of a warp, at least
};

/// What both parts of a block see.
struct block_state {
  std::uint64_t full[copying_warps][slots];
  std::uint32_t ended;
};

extern __shared__ __align__(128) std::byte ring[];

/// One lane of a warp: copies until hand-overs have ended.
__device__ void copy_chunks(const handover_args& a, block_state& state, std::uint32_t warp) {
  const std::byte* const from = a.weights + blockIdx.x * block_bytes;
  std::uint64_t at = warp * chunk_bytes;
  std::uint32_t due = static_cast<std::uint32_t>(clock()) + a.chunk_cycles * warp / copying_warps;
  unsigned long long copied = 0;
  std::uint32_t started = 0;
  const auto start = [&] {
    auto now = static_cast<std::uint32_t>(clock());
    while (static_cast<std::int32_t>(now - due) < 0) now = static_cast<std::uint32_t>(clock());
    const bool far_behind = now - due > slots * a.chunk_cycles;  // which is not made up for
    due = (far_behind ? now : due) + a.chunk_cycles;
    const std::uint32_t barrier = shared_address_of(&state.full[warp][started % slots]);
    barrier_expect(barrier, chunk_bytes);
    bulk_copy(shared_address_of(ring + (warp * slots + started % slots) * chunk_bytes), from + at,
              chunk_bytes, barrier);
    ++started;
    at = (at + copying_warps * chunk_bytes) % block_bytes;
  };
  while (started < slots) start();
  for (std::uint32_t i = 0; i < started; ++i) {
    barrier_wait(shared_address_of(&state.full[warp][i % slots]), i / slots & 1U);
    copied += chunk_bytes;
    if (*static_cast<volatile std::uint32_t*>(&state.ended) == 0) start();
  }
  atomicAdd(a.bytes, copied);
}

/// row_threads threads: rounds of hand-overs.
__device__ void hand_over(const handover_args& a, std::uint32_t thread) {
  constexpr std::uint32_t parts = row / store_words;
  const std::uint32_t first = parts * blockIdx.x / gridDim.x * store_words;
  const std::uint32_t own = parts * (blockIdx.x + 1) / gridDim.x * store_words - first;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    const std::uint64_t begin = clock_ns();
    if (thread < own) store_flagged(a.words + first + thread, i, i + 1);
    float values[row / row_threads];
    gather_floats<row_threads>(a.words, row, i + 1, thread, values);
    named_barrier(1, row_threads);
    if (thread == 0) a.ns[blockIdx.x * rounds + i] = static_cast<std::uint32_t>(clock_ns() - begin);
  }
}

__global__ void __launch_bounds__(copying_threads + row_threads, 1)
    handover_kernel(const __grid_constant__ handover_args a) {
  __shared__ block_state state;
  if (threadIdx.x == 0) state.ended = 0;
  if (threadIdx.x < copying_warps * slots)
    barrier_init(shared_address_of(&state.full[0][0] + threadIdx.x), 1);
  barrier_init_done();
  __syncthreads();
  if (threadIdx.x < copying_threads) {
    if (a.copies && threadIdx.x % 32 == 0) copy_chunks(a, state, threadIdx.x / 32);
    return;
  }
  __nanosleep(20'000);  // copies are under way
  hand_over(a, threadIdx.x - copying_threads);
  named_barrier(1, row_threads);
  *static_cast<volatile std::uint32_t*>(&state.ended) = 1;
}

/// Milliseconds of all rounds.
float launch(handover_args& a, std::uint32_t blocks) {
  check(cudaMemset(a.words, 0, row * sizeof(std::uint64_t)), "memory");
  check(cudaMemset(a.bytes, 0, sizeof(*a.bytes)), "memory");
  void* parameters[] = {&a};
  return bench::ms_of([&] {
    check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(handover_kernel), blocks,
                                      copying_threads + row_threads, parameters, ring_bytes, nullptr),
          "launch");
  });
}

/// One launch; prints a line.
void measure(handover_args a, std::uint32_t blocks, const char* pace) {
  const float ms = launch(a, blocks);
  std::vector<std::uint32_t> ns(std::size_t{blocks} * rounds);
  unsigned long long bytes = 0;
  check(cudaMemcpy(ns.data(), a.ns, ns.size() * sizeof(ns[0]), cudaMemcpyDeviceToHost), "times");
  check(cudaMemcpy(&bytes, a.bytes, sizeof(bytes), cudaMemcpyDeviceToHost), "bytes");
  std::sort(ns.begin(), ns.end());
  const auto us_at = [&](double share) {
    return ns[static_cast<std::size_t>(share * static_cast<double>(ns.size() - 1))] / 1000.0;
  };
  std::printf("%-20s %5.2f TB/s read; a hand-over %6.2f us in the median, 90 %% within %6.2f, 99 %% %6.2f\n",
              pace, static_cast<double>(bytes) / (ms * 1e-3) / 1e12, us_at(0.5), us_at(0.9), us_at(0.99));
}

int run() {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "device");
  const auto blocks = static_cast<std::uint32_t>(device.multiProcessorCount);
  const double cycles_per_us = bench::cycles_per_us();
  std::printf("%s, %u blocks\n", device.name, blocks);
  check(cudaFuncSetAttribute(handover_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ring_bytes),
        "shared memory");
  handover_args a{};
  a.weights = allocate<std::byte>(blocks * block_bytes);
  a.words = allocate<std::uint64_t>(row);
  a.ns = allocate<std::uint32_t>(std::uint64_t{blocks} * rounds);
  a.bytes = allocate<unsigned long long>(1);
  (void)launch(a, blocks);  // warms up
  measure(a, blocks, "no copies");
  a.copies = true;
  for (const double tb_s : {1.0, 1.5, 2.0, 2.4, 2.7, 2.9, 3.2, 3.6, 4.0, 4.2, 4.4}) {
    const double us = static_cast<double>(blocks) * copying_warps * chunk_bytes / (tb_s * 1e6);
    a.chunk_cycles = static_cast<std::uint32_t>(us * cycles_per_us);
    char pace[32];
    std::snprintf(pace, sizeof(pace), "%.1f TB/s asked for", tb_s);
    measure(a, blocks, pace);
  }
  a.chunk_cycles = 0;
  measure(a, blocks, "no pace");
  return 0;
}

}  // namespace
}  // namespace orcd::kernels

int main() {
  return orcd::kernels::run();
}
