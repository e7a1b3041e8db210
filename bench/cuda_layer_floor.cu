// What a layer of a decode step takes when one kernel does nothing but hand values from phase to phase and
// multiply: the bar for kernels/decode_program.hpp. Shapes are known when this is compiled, weights are
// Q4_K, those of experts MXFP4, all zero, and attention is a hand-over without work.
//
//   bench_cuda_layer_floor
//
// Of each model's shape it prints the time of a layer with everything, without products, without copies, and
// with neither, which is that of the hand-overs alone. Products, norms, the choice of experts and flagged
// words are those of kernels/; an input is asked for once the block has stored what the phase before gave.
// Weights are copied ahead by each warp for itself or by a loader, as fast as there is room or at a pace, of
// which the best of some is printed. docs/performance.md holds the figures. Source: issue 4, "the floor".
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "bench/cuda_calls.hpp"
#include "bench/floor/layer_phases.cuh"

namespace orcd::kernels {
namespace {

using bench::check;

/// Where the words of each phase lie.
template <class S>
struct phase_words {
  static constexpr std::uint32_t attended_words = S::heads * S::head_width / 2;
  static constexpr std::uint32_t activated_words = S::items * S::ffn / 2;
  static constexpr std::uint32_t parts_words = S::mixture ? used * S::width : 0;
  static constexpr std::uint64_t count =
      2 * S::width + S::qkv + attended_words + activated_words + parts_words + experts;

  std::uint64_t *state, *qkv, *attended, *later_state, *activated, *logits, *parts;

  __device__ __forceinline__ explicit phase_words(std::uint64_t* words)
      : state(words),
        qkv(state + S::width),
        attended(qkv + S::qkv),
        later_state(attended + attended_words),
        activated(later_state + S::width),
        logits(activated + activated_words),
        parts(logits + experts) {}
};

template <class S>
__device__ void set_up() {
  auto& m = memory<S>();
  if (threadIdx.x < warps * slots) barrier_init(shared_address_of(&m.full[0][0] + threadIdx.x), 1);
  barrier_init_done();
  if (threadIdx.x < warps) {
    list_chunks<S>(threadIdx.x);
    m.read[threadIdx.x] = 0;
  }
  if (threadIdx.x == 0) m.known = 0;
  for (std::uint32_t i = threadIdx.x; i < sizeof(m.ring) / 4; i += blockDim.x)
    reinterpret_cast<std::uint32_t*>(m.ring)[i] = 0;
  if (threadIdx.x < own_rows_max) m.residual[threadIdx.x] = 0.01F * static_cast<float>(threadIdx.x);
  fence_shared_for_async();
  __syncthreads();
}

/// What follows attention in a layer whose first words carry `flag`; the next layer's carry flag + phases.
template <class F>
__device__ __forceinline__ void feed_forward(const floor_args& a, typename F::ring& ring,
                                             const phase_words<typename F::shape>& w, std::uint32_t i,
                                             std::uint32_t flag) {
  using S = typename F::shape;
  using layer = layer_of<S>;
  if constexpr (S::mixture) {
    if (threadIdx.x < row_threads)
      route<S>(a, w.later_state, w.logits, flag + 3);
    else if (threadIdx.x >= threads - 32)
      choose_experts<S>(w.logits, i, flag + 4);
    wait_at<routed, threads>();
    multiply<F, typename layer::gate_up, false>(a, ring, w.activated, flag + 4, no_input{});
    multiply<F, typename layer::down, false>(a, ring, w.parts, flag + 5, [&] {
      bring_halfs<S, S::ffn>(w.activated + layer::down::item() * (S::ffn / 2), flag + 5);
    });
    if (threadIdx.x >= threads - storing_threads) combine<S>(w.parts, w.state, flag + 6);
  } else {
    multiply<F, typename layer::gate_up, false>(a, ring, w.activated, flag + 3,
                                                [&] { bring_norm<S>(a, w.later_state, flag + 3); });
    multiply<F, typename layer::down, true>(a, ring, w.state, flag + 4,
                                            [&] { bring_halfs<S, S::ffn>(w.activated, flag + 4); });
  }
}

template <class F>
__global__ void __launch_bounds__(F::block_threads, 1) layers_kernel(const __grid_constant__ floor_args a) {
  using S = typename F::shape;
  using layer = layer_of<S>;
  set_up<S>();
  if (threadIdx.x >= threads) {
    if (F::copies) load<S>(a);
    return;
  }
  typename F::ring ring(a.weights);
  const phase_words<S> w(a.words);
  const std::uint32_t o = own_output();
  if (o < layer::output::tiles_here() * tile_rows)
    store_flagged(w.state + layer::output::first_tile() * tile_rows + o,
                  __float_as_uint(memory<S>().residual[o]), a.first_flag);
#pragma unroll 1
  for (std::uint32_t i = 0; i < S::layers; ++i) {
    const std::uint32_t flag = a.first_flag + i * S::phases;
    multiply<F, typename layer::qkv, false>(a, ring, w.qkv, flag, [&] { bring_norm<S>(a, w.state, flag); });
    if (blockIdx.x < S::heads && threadIdx.x < S::head_width / 2) {
      const std::uint32_t at = blockIdx.x * S::head_width / 2 + threadIdx.x;
      store_flagged(w.attended + at, read_flagged(w.qkv + 2 * at, flag + 1), flag + 2);
    }
    multiply<F, typename layer::output, true>(a, ring, w.later_state, flag + 2, [&] {
      bring_halfs<S, S::heads * S::head_width>(w.attended, flag + 2);
    });
    feed_forward<F>(a, ring, w, i, flag);
  }
}

/// Microseconds of a layer, the median of some launches.
template <class F>
double time_of(floor_args& a) {
  using S = typename F::shape;
  const auto* const kernel = reinterpret_cast<const void*>(layers_kernel<F>);
  constexpr std::size_t shared = sizeof(block_memory<S>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  std::array<float, 9> ms;
  for (float& its : ms) {
    void* parameters[] = {&a};
    its = bench::ms_of([&] {
      check(cudaLaunchCooperativeKernel(kernel, blocks, F::block_threads, parameters, shared, nullptr),
            "launch");
    });
    a.first_flag += S::layers * S::phases + 1;
  }
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2] * 1000.0 / S::layers;
}

/// What each part takes, of copies by warps or by a loader.
template <class S, bool Loader>
double print_parts(floor_args& a) {
  a.layer_cycles = a.burst_cycles = 0;
  const double whole = time_of<form<S, true, true, Loader>>(a);
  std::printf("  copies by %-8s %6.2f us; without products %6.2f, without copies %6.2f, neither %6.2f\n",
              Loader ? "loader" : "warps", whole, time_of<form<S, true, false, Loader>>(a),
              time_of<form<S, false, true, Loader>>(a), time_of<form<S, false, false, Loader>>(a));
  return whole;
}

/// A loader that starts the copies of a layer in about the time that the layer takes.
template <class S>
void print_best_pace(floor_args& a, double layer_us, double cycles_per_us) {
  double best = 1e9;
  double best_us = 0.0;
  std::uint32_t best_burst = 0;
  for (const double share : {0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0}) {
    for (const std::uint32_t burst : {0U, 2500U, 8000U}) {
      a.layer_cycles = static_cast<std::uint32_t>(share * layer_us * cycles_per_us);
      a.burst_cycles = burst;
      const double us = time_of<form<S, true, true, true>>(a);
      if (us >= best) continue;
      best = us;
      best_us = share * layer_us;
      best_burst = burst;
    }
  }
  std::printf("  at the best pace  %6.2f us; a layer's copies asked for in %.1f us, %u cycles made up for\n",
              best, best_us, best_burst);
}

template <class S>
void measure(const char* name, double cycles_per_us) {
  constexpr std::uint64_t weight_bytes = layer_of<S>::bytes * S::layers;
  constexpr std::uint64_t scales = 2 * std::uint64_t{S::items} * (S::qkv + S::ffn + S::width);
  constexpr std::uint64_t floats = S::width + scales + std::uint64_t{experts} * S::width;
  auto* const memory = bench::allocate<std::byte>(weight_bytes + floats * sizeof(float) +
                                                  phase_words<S>::count * sizeof(std::uint64_t));
  floor_args a{};
  a.weights = memory;
  a.norms = reinterpret_cast<const float*>(memory + weight_bytes);
  a.scales = a.norms + S::width;
  a.router = a.scales + scales;
  a.words = reinterpret_cast<std::uint64_t*>(memory + weight_bytes + floats * sizeof(float));
  a.first_flag = 1;
  std::printf("%s, %.1f MB a layer:\n", name, static_cast<double>(layer_of<S>::read) / 1e6);
  if constexpr (!S::mixture) print_parts<S, false>(a);
  const double layer_us = print_parts<S, true>(a);
  print_best_pace<S>(a, layer_us, cycles_per_us);
  check(cudaFree(memory), "memory");
}

}  // namespace
}  // namespace orcd::kernels

int main() {
  cudaDeviceProp device{};
  orcd::bench::check(cudaGetDeviceProperties(&device, 0), "device");
  std::printf("%s\n", device.name);
  if (device.multiProcessorCount < static_cast<int>(orcd::kernels::blocks)) {
    std::fprintf(stderr, "bench_cuda_layer_floor: needs %u multiprocessors\n", orcd::kernels::blocks);
    return 2;
  }
  const double cycles_per_us = orcd::bench::cycles_per_us();
  orcd::kernels::measure<orcd::kernels::qwen>("qwen2.5-0.5b", cycles_per_us);
  orcd::kernels::measure<orcd::kernels::phi>("phi-3-mini", cycles_per_us);
  orcd::kernels::measure<orcd::kernels::gpt_oss>("gpt-oss-20b", cycles_per_us);
}
