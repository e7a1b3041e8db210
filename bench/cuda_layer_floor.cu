// What a layer of a decode step takes when one kernel does nothing but hand values from phase to phase and
// multiply: the bar for kernels/decode_program.hpp. Shapes are known when this is compiled, all weights are
// Q4_K and zero, and attention is a hand-over without work.
//
//   bench_cuda_layer_floor
//
// Of each model's shape it prints the time of a layer with everything, without products, without copies, and
// with neither, which is that of the hand-overs alone. The kernel's products, norms and flagged words are
// those of kernels/; each warp copies its own chunks ahead, and asks for a phase's input once its block has
// stored what the phase before gave. docs/performance.md holds the figures. Source: issue 4, "the floor".
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "kernels/bulk_copy.cuh"
#include "kernels/flagged.cuh"
#include "kernels/matvec_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t blocks = 132;
constexpr std::uint32_t warps = 16;
constexpr std::uint32_t threads = warps * 32;
constexpr std::uint32_t bringing_warps = row_threads / 32;  ///< that bring a phase's input
constexpr std::uint32_t storing_threads = 128;              ///< the last: one for each output
constexpr std::uint32_t slots = 4;                          ///< of a warp's ring
constexpr packed_format format = packed_format::q4_k;
constexpr std::uint32_t chunk_bytes = layout_of(format).bytes();
constexpr std::uint32_t chunks_max = 32;  ///< of a warp, in a layer
constexpr std::uint32_t sums_max = 128;   ///< chunks of a block, in a phase
constexpr std::uint32_t own_rows_max = 64;
constexpr std::uint32_t phases = 5;

template <std::uint32_t Width, std::uint32_t Ffn, std::uint32_t Heads, std::uint32_t KvHeads,
          std::uint32_t HeadWidth, std::uint32_t Layers>
struct shape {
  static constexpr std::uint32_t width = Width, ffn = Ffn, heads = Heads, head_width = HeadWidth;
  static constexpr std::uint32_t layers = Layers, qkv = (Heads + 2 * KvHeads) * HeadWidth;
};
/// Columns must be a multiple of 256: Qwen's 896 are 1,024 here, which is 14 % more bytes.
using qwen = shape<1024, 4864, 16, 2, 64, 24>;
using phi = shape<3072, 8192, 32, 32, 96, 32>;

/// A product of rows / 16 row tiles; gate and up are two members of one.
template <std::uint32_t Rows, std::uint32_t Cols, std::uint32_t Members, std::uint64_t At>
struct product_shape {
  static constexpr std::uint32_t tiles = Rows / tile_rows, members = Members;
  static constexpr std::uint32_t chunks = Cols / chunk_cols;  ///< of a row tile
  static constexpr std::uint64_t at = At;                     ///< its first byte in a layer
  static constexpr std::uint64_t end = At + std::uint64_t{tiles} * members * chunks * chunk_bytes;
  // Of one block, at most:
  static constexpr std::uint32_t outputs_most = (tiles + blocks - 1) / blocks * tile_rows;
  static constexpr std::uint32_t chunks_most = outputs_most / tile_rows * members * chunks;
  static constexpr std::uint32_t warp_chunks_most = (chunks_most + warps - 1) / warps;
  static_assert(outputs_most <= storing_threads && chunks_most <= sums_max);

  static __device__ __forceinline__ std::uint32_t first_tile() { return tiles * blockIdx.x / blocks; }
  static __device__ __forceinline__ std::uint32_t tiles_here() {
    return tiles * (blockIdx.x + 1) / blocks - first_tile();
  }
};
template <class S>
struct layer_of {
  using qkv = product_shape<S::qkv, S::width, 1, 0>;
  using output = product_shape<S::width, S::heads * S::head_width, 1, qkv::end>;
  using gate_up = product_shape<S::ffn, S::width, 2, output::end>;
  using down = product_shape<S::width, S::ffn, 1, gate_up::end>;
  static constexpr std::uint64_t bytes = down::end;
  static_assert(qkv::warp_chunks_most + output::warp_chunks_most + gate_up::warp_chunks_most +
                    down::warp_chunks_most <=
                chunks_max);
  static_assert(down::outputs_most <= own_rows_max);
};

struct floor_args {
  const std::byte* weights;  ///< device, [layers][bytes]
  const float* norms;        ///< device, [width]
  const float* scales;       ///< device, of rows
  std::uint64_t* words;      ///< device; flagged words of all phases, one after the other
  std::uint32_t first_flag;
};

template <class S>
struct alignas(128) block_memory {
  std::uint64_t full[warps][slots];
  std::uint32_t chunk_at[warps][chunks_max];  ///< where a warp's chunks of a layer lie
  std::uint32_t chunks[warps];
  float scratch[bringing_warps];
  float residual[own_rows_max];
  alignas(128) __half x[std::max(S::ffn, S::heads* S::head_width)];
  float sums[sums_max * tile_rows];
  alignas(128) std::byte ring[warps][slots][chunk_bytes];
};

extern __shared__ __align__(128) std::byte floor_memory[];
template <class S>
__device__ __forceinline__ block_memory<S>& memory() {
  return *reinterpret_cast<block_memory<S>*>(floor_memory);
}

template <std::uint32_t Id, std::uint32_t Threads>
__device__ __forceinline__ void wait_at() {
  asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}
template <std::uint32_t Id, std::uint32_t Threads>
__device__ __forceinline__ void arrive_at() {
  asm volatile("bar.arrive %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}
constexpr std::uint32_t sums_there = 2, input_there = 3, phase_left = 4, outputs_stored = 5;

/// A warp's chunks, copied ahead as far as its ring has room.
template <class S, bool Copies>
class chunk_ring {
 public:
  __device__ __forceinline__ explicit chunk_ring(const std::byte* weights) : layer_(weights) {
    for (std::uint32_t i = 0; i < slots; ++i) start(i);
  }
  __device__ __forceinline__ const std::byte* wait() const {
    auto& m = memory<S>();
    if (Copies) barrier_wait_unbounded(shared_address_of(&m.full[threadIdx.x / 32][slot_]), parity_);
    return m.ring[threadIdx.x / 32][slot_];
  }
  /// The whole warp has read it.
  __device__ __forceinline__ void done() {
    __syncwarp();
    start(slot_);
    if (++slot_ < slots) return;
    slot_ = 0;
    parity_ ^= 1U;
  }

 private:
  __device__ __forceinline__ void start(std::uint32_t slot) {
    if (!Copies || threadIdx.x % 32 != 0 || left_ == 0) return;
    auto& m = memory<S>();
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t barrier = shared_address_of(&m.full[warp][slot]);
    barrier_expect(barrier, chunk_bytes);
    bulk_copy(shared_address_of(m.ring[warp][slot]), layer_ + m.chunk_at[warp][next_], chunk_bytes, barrier);
    if (++next_ < m.chunks[warp]) return;
    next_ = 0;
    layer_ += layer_of<S>::bytes;
    --left_;
  }

  const std::byte* layer_;
  std::uint32_t left_ = S::layers;
  std::uint32_t next_ = 0, slot_ = 0, parity_ = 0;
};

/// The residual stream's norm as a product's input.
template <class S>
__device__ __forceinline__ void bring_norm(const floor_args& a, const std::uint64_t* from,
                                           std::uint32_t flag) {
  constexpr std::uint32_t values = S::width / row_threads;
  auto& m = memory<S>();
  float v[values];
  float weights[values];
#pragma unroll
  for (std::uint32_t k = 0; k < values; ++k) weights[k] = __ldg(a.norms + threadIdx.x + k * row_threads);
  gather_floats<row_threads>(from, S::width, flag, threadIdx.x, v);
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t k = 0; k < values; ++k) squares = fmaf(v[k], v[k], squares);
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) m.scratch[threadIdx.x / 32] = squares;
  sync_row_threads();
  const float scale = rms_scale(sum_of_warps(m.scratch), S::width, 1e-5F);
#pragma unroll
  for (std::uint32_t k = 0; k < values; ++k)
    m.x[threadIdx.x + k * row_threads] = to_half(__fmul_rn(__fmul_rn(v[k], scale), weights[k]));
}
template <class S, std::uint32_t Cols>
__device__ __forceinline__ void bring_halfs(const std::uint64_t* from, std::uint32_t flag) {
  constexpr std::uint32_t at_once = (Cols / 4 + row_threads - 1) / row_threads;
  auto* const to = reinterpret_cast<uint2*>(memory<S>().x);
  gather_pairs<row_threads, at_once>(
      Cols / 4, flag, threadIdx.x, [&](std::uint32_t i) { return from + 2 * i; },
      [&](std::uint32_t i, const flagged_two& v) {
        to[i] = {v.data(0), v.data(1)};
      });
}

/// This thread's output of the product, folded and handed on.
template <class S, class P, bool Adds>
__device__ __forceinline__ void store_output(std::uint32_t o, float first_scale, float second_scale,
                                             std::uint64_t* to, std::uint32_t flag) {
  auto& m = memory<S>();
  const std::uint32_t outputs = P::tiles_here() * tile_rows;
  if (o >= outputs) return;
  const float* const sums = m.sums + o / tile_rows * P::chunks * tile_rows + o % tile_rows;
  const std::uint32_t row = P::first_tile() * tile_rows + o;
  if constexpr (P::members == 2) {
    const float* const members[2] = {sums, sums + outputs * P::chunks};
    float folded[2];
    fold(members, P::chunks, tile_rows, folded);
    const float gate = __fmul_rn(folded[0], first_scale);
    const float up = __fmul_rn(folded[1], second_scale);
    const std::uint32_t half = __half_as_ushort(to_half(silu(gate) * up));
    const std::uint32_t next = __shfl_xor_sync(o / 32 * 32 + 32 <= outputs ? 0xFFFFFFFFU : 0xFFFFU, half, 1);
    if (o % 2 == 0) store_flagged(to + row / 2, half | next << 16U, flag);
  } else {
    float value = __fmul_rn(fold(sums, P::chunks, tile_rows), first_scale);
    if (Adds) value = m.residual[o] = __fadd_rn(m.residual[o], value);
    store_flagged(to + row, __float_as_uint(value), flag);
  }
}

/// A phase: `bring` its input, multiply, store. Warps that bring nothing unpack their first chunk meanwhile.
template <class S, class P, bool Adds, bool Copies, bool Products, class Bring>
__device__ __forceinline__ void multiply(const floor_args& a, chunk_ring<S, Copies>& ring, std::uint64_t* to,
                                         std::uint32_t flag, Bring bring) {
  auto& m = memory<S>();
  const std::uint32_t thread = threadIdx.x;
  const std::uint32_t warp = thread / 32;
  const std::uint32_t lane = thread % 32;
  const std::uint32_t chunks = P::tiles_here() * P::members * P::chunks;
  const std::uint32_t o = thread - (threads - storing_threads);
  const bool stores = thread >= threads - storing_threads;
  float first_scale = 1.0F;
  float second_scale = 1.0F;
  if (stores && o < P::tiles_here() * tile_rows) {
    first_scale = __ldg(a.scales + P::first_tile() * tile_rows + o);
    if (P::members == 2) second_scale = __ldg(a.scales + S::ffn + P::first_tile() * tile_rows + o);
  }
  const __half* const x = m.x + 16 * (lane % 4);
  std::uint32_t c = (warp + warps - bringing_warps) % warps;
  if (warp < bringing_warps) {
    bring();
    arrive_at<input_there, threads>();
    wait_at<phase_left, threads>();
  } else {
    arrive_at<phase_left, threads>();
    if (Products && c < chunks) {
      unpacked_chunk<format> chunk;
      chunk.unpack(ring.wait(), groups_per_chunk, lane);
      ring.done();
      wait_at<input_there, threads>();
      float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
      chunk.multiply(groups_per_chunk, x + c % P::chunks * chunk_cols, acc);
      keep_sums(m.sums + c * tile_rows, 1, lane, acc);
      c += warps;
    } else {
      wait_at<input_there, threads>();
    }
  }
#pragma unroll 1
  for (; c < chunks; c += warps) {
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    const __half* const its = x + c % P::chunks * chunk_cols;
    if (Products || Copies) {
      const std::byte* const bytes = ring.wait();
      if (Products) multiply_chunk_ahead<format>(bytes, groups_per_chunk, its, lane, acc);
      ring.done();
    }
    if (!Products) acc[0] = __half2float(*its);
    keep_sums(m.sums + c * tile_rows, 1, lane, acc);
  }
  wait_at<sums_there, threads>();
  if (stores) {
    store_output<S, P, Adds>(o, first_scale, second_scale, to, flag + 1);
    arrive_at<outputs_stored, storing_threads + row_threads>();
  } else if (warp < bringing_warps) {
    wait_at<outputs_stored, storing_threads + row_threads>();
  }
}

/// Which chunks of a layer this warp has.
template <class S>
__device__ void list_chunks(std::uint32_t warp) {
  auto& m = memory<S>();
  std::uint32_t count = 0;
  const auto add = [&]<class P>(P) {
    const std::uint32_t here = P::tiles_here() * P::chunks;
    for (std::uint32_t c = (warp + warps - bringing_warps) % warps; c < here * P::members; c += warps) {
      const std::uint32_t member = c / here;
      const std::uint64_t chunk = (member * P::tiles + P::first_tile()) * P::chunks + c - member * here;
      m.chunk_at[warp][count++] = static_cast<std::uint32_t>(P::at + chunk * chunk_bytes);
    }
  };
  using layer = layer_of<S>;
  add(typename layer::qkv{});
  add(typename layer::output{});
  add(typename layer::gate_up{});
  add(typename layer::down{});
  m.chunks[warp] = count;
}

template <class S, bool Copies, bool Products>
__global__ void __launch_bounds__(threads, 1) layers_kernel(const __grid_constant__ floor_args a) {
  using layer = layer_of<S>;
  auto& m = memory<S>();
  if (threadIdx.x < warps * slots) barrier_init(shared_address_of(&m.full[0][0] + threadIdx.x), 1);
  barrier_init_done();
  if (threadIdx.x < warps) list_chunks<S>(threadIdx.x);
  for (std::uint32_t i = threadIdx.x; i < sizeof(m.ring) / 4; i += threads)
    reinterpret_cast<std::uint32_t*>(m.ring)[i] = 0;
  if (threadIdx.x < own_rows_max) m.residual[threadIdx.x] = 0.01F * static_cast<float>(threadIdx.x);
  fence_shared_for_async();
  __syncthreads();
  chunk_ring<S, Copies> ring(a.weights);
  std::uint64_t* const state = a.words;
  std::uint64_t* const qkv = state + S::width;
  std::uint64_t* const attended = qkv + S::qkv;
  std::uint64_t* const later_state = attended + S::heads * S::head_width / 2;
  std::uint64_t* const activated = later_state + S::width;
  if (threadIdx.x < layer::down::tiles_here() * tile_rows)
    store_flagged(state + layer::down::first_tile() * tile_rows + threadIdx.x,
                  __float_as_uint(m.residual[threadIdx.x]), a.first_flag);
#pragma unroll 1
  for (std::uint32_t i = 0; i < S::layers; ++i) {
    const std::uint32_t flag = a.first_flag + i * phases;
    multiply<S, typename layer::qkv, false, Copies, Products>(a, ring, qkv, flag,
                                                              [&] { bring_norm<S>(a, state, flag); });
    if (blockIdx.x < S::heads && threadIdx.x < S::head_width / 2) {
      const std::uint32_t at = blockIdx.x * S::head_width / 2 + threadIdx.x;
      store_flagged(attended + at, read_flagged(qkv + 2 * at, flag + 1), flag + 2);
    }
    multiply<S, typename layer::output, true, Copies, Products>(a, ring, later_state, flag + 2, [&] {
      bring_halfs<S, S::heads * S::head_width>(attended, flag + 2);
    });
    multiply<S, typename layer::gate_up, false, Copies, Products>(
        a, ring, activated, flag + 3, [&] { bring_norm<S>(a, later_state, flag + 3); });
    multiply<S, typename layer::down, true, Copies, Products>(
        a, ring, state, flag + 4, [&] { bring_halfs<S, S::ffn>(activated, flag + 4); });
  }
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "bench_cuda_layer_floor: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

/// Microseconds of a layer, the median of some launches.
template <class S, bool Copies, bool Products>
double time_of(floor_args& a) {
  const auto* const kernel = reinterpret_cast<const void*>(layers_kernel<S, Copies, Products>);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(block_memory<S>)),
        "shared memory");
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::array<float, 9> ms;
  for (float& its : ms) {
    void* parameters[] = {&a};
    check(cudaEventRecord(begin), "event");
    check(cudaLaunchCooperativeKernel(kernel, blocks, threads, parameters, sizeof(block_memory<S>), nullptr),
          "launch");
    check(cudaEventRecord(end), "event");
    check(cudaEventSynchronize(end), "the kernel");
    check(cudaEventElapsedTime(&its, begin, end), "event");
    a.first_flag += S::layers * phases + 1;
  }
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2] * 1000.0 / S::layers;
}

template <class S>
void measure(const char* name) {
  constexpr std::uint64_t weight_bytes = layer_of<S>::bytes * S::layers;
  constexpr std::uint64_t words = 3 * std::uint64_t{S::width} + S::qkv + S::width + S::ffn;
  constexpr std::uint64_t float_bytes = (S::width + 2 * std::uint64_t{S::qkv} + 2 * S::ffn) * sizeof(float);
  std::byte* memory = nullptr;
  const std::uint64_t bytes = weight_bytes + float_bytes + words * sizeof(std::uint64_t);
  check(cudaMalloc(&memory, bytes), "memory");
  check(cudaMemset(memory, 0, bytes), "memory");
  floor_args a{};
  a.weights = memory;
  a.norms = reinterpret_cast<const float*>(memory + weight_bytes);
  a.scales = a.norms + S::width;
  a.words = reinterpret_cast<std::uint64_t*>(memory + weight_bytes + float_bytes);
  a.first_flag = 1;
  const double whole = time_of<S, true, true>(a);
  const double copies = time_of<S, true, false>(a);
  const double products = time_of<S, false, true>(a);
  const double neither = time_of<S, false, false>(a);
  std::printf(
      "%-12s %6.1f MB a layer: %6.2f us; without products %6.2f, without copies %6.2f, neither %6.2f\n", name,
      static_cast<double>(layer_of<S>::bytes) / 1e6, whole, copies, products, neither);
  check(cudaFree(memory), "memory");
}

}  // namespace
}  // namespace orcd::kernels

int main() {
  cudaDeviceProp device{};
  orcd::kernels::check(cudaGetDeviceProperties(&device, 0), "device");
  std::printf("%s\n", device.name);
  if (device.multiProcessorCount < static_cast<int>(orcd::kernels::blocks)) {
    std::fprintf(stderr, "bench_cuda_layer_floor: needs %u multiprocessors\n", orcd::kernels::blocks);
    return 2;
  }
  orcd::kernels::measure<orcd::kernels::qwen>("qwen2.5-0.5b");
  orcd::kernels::measure<orcd::kernels::phi>("phi-3-mini");
}
