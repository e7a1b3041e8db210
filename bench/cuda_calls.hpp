// What benches of single kernels share: calls that must succeed, device memory, and what a launch takes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace orcd::bench {

/// Ends the program unless `status`, a cudaError_t, is success.
inline void check(int status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(status)));
  std::exit(1);
}

/// Device memory for `count` values, zero.
template <class T>
[[nodiscard]] T* allocate(std::uint64_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "memory");
  check(cudaMemset(memory, 0, count * sizeof(T)), "memory");
  return static_cast<T*>(memory);
}

/// Of the first device's multiprocessors at their peak clock.
[[nodiscard]] inline double cycles_per_us() {
  int khz = 0;
  check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "clock");
  return khz / 1000.0;
}

/// Milliseconds of what `run` puts on the default stream.
template <class Run>
[[nodiscard]] float ms_of(Run run) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaEventRecord(begin), "event");
  run();
  check(cudaEventRecord(end), "event");
  check(cudaEventSynchronize(end), "what was launched");
  float ms = 0.0F;
  check(cudaEventElapsedTime(&ms, begin, end), "event");
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  return ms;
}

}  // namespace orcd::bench
