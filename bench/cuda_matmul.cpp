// Packed matmuls at the shapes of the three target models: microseconds, GB/s of weights with a cold
// L2, and the share of the streaming-read ceiling that the same run measures.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/packed_matmul.hpp"
#include "kernels/repack.hpp"
#include "kernels/stream_read.hpp"

namespace {

using namespace orcd::kernels;

void check(int status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(status)));
  std::exit(1);
}

template <class T>
T* allocate(std::uint64_t count) {
  void* p = nullptr;
  check(cudaMalloc(&p, count * sizeof(T)), "malloc");
  return static_cast<T*>(p);
}

/// Median microseconds of `run(i)` over `repeats`, timed with events in batches.
template <class F>
double median_us(int repeats, int batch, F run) {
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int r = 0; r < repeats + 2; ++r) {
    check(cudaEventRecord(begin), "record");
    for (int i = 0; i < batch; ++i) run(r * batch + i);
    check(cudaEventRecord(end), "record");
    check(cudaEventSynchronize(end), "synchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (r >= 2) times.push_back(1000.0 * ms / batch);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct shape {
  const char* name;
  packed_format format;
  std::uint32_t rows, cols;
};

const std::vector<shape> shapes{
    {"qwen qkv", packed_format::q5_0, 1152, 896},
    {"qwen gate_up", packed_format::q5_0, 9728, 896},
    {"qwen down q6_k", packed_format::q6_k, 896, 4864},
    {"qwen down q4_k", packed_format::q4_k, 896, 4864},
    {"qwen o", packed_format::q5_0, 896, 896},
    {"qwen head", packed_format::q8_0, 151936, 896},
    {"phi qkv", packed_format::q5_k, 9216, 3072},
    {"phi o", packed_format::q4_k, 3072, 3072},
    {"phi gate_up", packed_format::q4_k, 16384, 3072},
    {"phi down q4_k", packed_format::q4_k, 3072, 8192},
    {"phi down q6_k", packed_format::q6_k, 3072, 8192},
    {"phi head", packed_format::q6_k, 32064, 3072},
    {"oss qkv", packed_format::q8_0, 5120, 2880},
    {"oss o", packed_format::q8_0, 2880, 4096},
    {"oss experts x4", packed_format::mxfp4, 4 * 2880, 2880},
    {"oss head", packed_format::q8_0, 201088, 2880},
};

}  // namespace

int main() {
  constexpr std::uint64_t pool_bytes = 1ull << 30;
  auto* pool = allocate<std::byte>(pool_bytes);
  std::vector<std::uint32_t> random(pool_bytes / 4);
  std::uint64_t state = 1;
  for (auto& word : random)
    word =
        static_cast<std::uint32_t>((state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33);
  check(cudaMemcpy(pool, random.data(), pool_bytes, cudaMemcpyHostToDevice), "copy");
  auto* sink = allocate<float>(1024);
  const double read_us =
      median_us(7, 1, [&](int) { check(launch_stream_read(pool, pool_bytes, sink, nullptr), "read"); });
  const double ceiling = pool_bytes / read_us / 1e3;
  std::printf("streaming read of 1 GiB: %.0f GB/s\n", ceiling);

  auto* x = allocate<__half>(2048 * 8192);
  check(cudaMemset(x, 0x2C, 2048 * 8192 * sizeof(__half)), "memset");
  auto* out = allocate<float>(2048ull * 32064);
  auto* scales = allocate<float>(1 << 18);
  check(cudaMemset(scales, 0, 1 << 20), "memset");
  std::printf("%-18s %10s %9s %9s %7s | %9s %8s | %9s %8s\n", "matrix", "MB", "us", "GB/s", "share",
              "8 col us", "GB/s", "2048 us", "TFLOP/s");
  for (const shape& s : shapes) {
    const std::uint64_t bytes = packed_bytes(s.format, s.rows, s.cols);
    const std::uint64_t stride = (bytes + 255) / 256 * 256;
    const std::uint64_t copies = std::max<std::uint64_t>(1, pool_bytes / stride);
    auto run = [&](int i, std::uint32_t columns) {
      packed_matmul_args a;
      a.w[0].data = pool + (static_cast<std::uint64_t>(i) % copies) * stride;
      a.w[0].rows = s.rows;
      a.w[0].cols = s.cols;
      a.w[0].format = s.format;
      a.w[0].row_scale = s.format == packed_format::mxfp4 ? scales : nullptr;
      a.columns = columns;
      a.x = x;
      a.x_stride = (s.cols + 63) / 64 * 64;
      a.out = out;
      a.out_stride = s.rows;
      if (columns <= matvec_columns_max) {
        check(launch_packed_matvec(a, nullptr), s.name);
      } else {
        tiled_matmul_args t{};
        t.matmul = a;
        check(launch_packed_matmul(t, nullptr), s.name);
      }
    };
    const double one = median_us(9, 20, [&](int i) { run(i, 1); });
    const double eight = median_us(9, 20, [&](int i) { run(i, 8); });
    const double many = s.rows > 40000 ? 0 : median_us(5, 4, [&](int i) { run(i, 2048); });
    std::printf("%-18s %10.2f %9.2f %9.0f %6.1f%% | %9.2f %8.0f | %9.1f %8.0f\n", s.name, bytes / 1e6, one,
                bytes / one / 1e3, 100 * bytes / one / 1e3 / ceiling, eight, bytes / eight / 1e3, many,
                many > 0 ? 2.0 * s.rows * s.cols * 2048 / many / 1e6 : 0.0);
  }
  return 0;
}
