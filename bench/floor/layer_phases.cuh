// The phases of bench_cuda_layer_floor: inputs, products and outputs, and how experts are chosen.
#pragma once

#include <type_traits>

#include "bench/floor/weight_ring.cuh"
#include "kernels/expert_choice.cuh"
#include "kernels/flagged.cuh"
#include "kernels/matvec_tile.cuh"

namespace orcd::kernels {
namespace {

template <std::uint32_t Id, std::uint32_t Threads>
__device__ __forceinline__ void wait_at() {
  asm volatile("bar.sync %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}
template <std::uint32_t Id, std::uint32_t Threads>
__device__ __forceinline__ void arrive_at() {
  asm volatile("bar.arrive %0, %1;" ::"n"(Id), "n"(Threads) : "memory");
}
constexpr std::uint32_t sums_there = 2, input_there = 3, phase_left = 4, outputs_stored = 5, routed = 6;

/// The values of a row that one of those who bring it has.
template <class S>
constexpr std::uint32_t row_values = (S::width + row_threads - 1) / row_threads;

/// Calls with_value(k, i) for each of them.
template <class S, class WithValue>
__device__ __forceinline__ void each_value(WithValue with_value) {
#pragma unroll
  for (std::uint32_t k = 0; k < row_values<S>; ++k) {
    const std::uint32_t i = threadIdx.x + k * row_threads;
    if (S::width % row_threads == 0 || i < S::width) with_value(k, i);
  }
}

/// The residual stream's norm as a product's input; `v` is it in f32.
template <class S>
__device__ __forceinline__ void bring_norm(const floor_args& a, const std::uint64_t* from, std::uint32_t flag,
                                           float (&v)[row_values<S>]) {
  auto& m = memory<S>();
  float weights[row_values<S>];
  each_value<S>([&](std::uint32_t k, std::uint32_t i) { weights[k] = __ldg(a.norms + i); });
  gather_floats<row_threads>(from, S::width, flag, threadIdx.x, v);
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t k = 0; k < row_values<S>; ++k) squares = fmaf(v[k], v[k], squares);
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) m.scratch[threadIdx.x / 32] = squares;
  sync_row_threads();
  const float scale = rms_scale(sum_of_warps(m.scratch), S::width, 1e-5F);
  each_value<S>([&](std::uint32_t k, std::uint32_t i) {
    v[k] = __fmul_rn(__fmul_rn(v[k], scale), weights[k]);
    m.x[i] = to_half(v[k]);
  });
}
template <class S>
__device__ __forceinline__ void bring_norm(const floor_args& a, const std::uint64_t* from,
                                           std::uint32_t flag) {
  float v[row_values<S>];
  bring_norm<S>(a, from, flag, v);
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

/// Which output of a phase this thread stores; none if it is not less than their number.
__device__ __forceinline__ std::uint32_t own_output() {
  return threadIdx.x - (threads - storing_threads);
}

/// What a kernel leaves out.
template <class Shape, bool HasCopies, bool HasProducts, bool HasLoader>
struct form {
  using shape = Shape;
  static constexpr bool copies = HasCopies, products = HasProducts, loader = HasLoader;
  static constexpr std::uint32_t block_threads = threads + (HasLoader ? 32 : 0);
  using ring = chunk_ring<Shape, HasCopies, HasLoader>;
};

/// The sums of this warp's chunks from `c` on.
template <class F, class P>
__device__ __forceinline__ void multiply_chunks(typename F::ring& ring, std::uint32_t c, const __half* x) {
  auto& m = memory<typename F::shape>();
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t chunks = P::chunks_here();
#pragma unroll 1
  for (; c < chunks; c += warps) {
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    const std::uint32_t in_row = c % P::chunks;
    const __half* const its = x + in_row * chunk_cols;
    if (F::products || F::copies) {
      const std::byte* const bytes = ring.wait();
      if (F::products) multiply_chunk_ahead<P::format>(bytes, P::groups(in_row), its, lane, acc);
      ring.done();
    }
    if (!F::products) acc[0] = __half2float(*its);
    keep_sums(m.sums + c * tile_rows, 1, lane, acc);
  }
}

/// Where the input of a phase is there already.
struct no_input {};

/// A phase: `bring` its input, multiply, store. Warps that bring nothing unpack their first chunk meanwhile.
template <class F, class P, bool Adds, class Bring>
__device__ __forceinline__ void multiply(const floor_args& a, typename F::ring& ring, std::uint64_t* to,
                                         std::uint32_t flag, Bring bring) {
  using S = typename F::shape;
  auto& m = memory<S>();
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t o = own_output();
  const bool stores = threadIdx.x >= threads - storing_threads;
  float first_scale = 1.0F;
  float second_scale = 1.0F;
  if (stores && o < P::tiles_here() * tile_rows) {
    const float* const scales = a.scales + P::first_tile() * tile_rows + o;
    first_scale = __ldg(scales);
    if (P::members == 2) second_scale = __ldg(scales + P::tiles * tile_rows);
  }
  const __half* const x = m.x + 16 * (lane % 4);
  std::uint32_t c = first_chunk(warp);
  if constexpr (!std::is_same_v<Bring, no_input>) {
    if (warp < bringing_warps) {
      bring();
      arrive_at<input_there, threads>();
      wait_at<phase_left, threads>();
    } else {
      arrive_at<phase_left, threads>();
      if (F::products && c < P::chunks_here()) {
        unpacked_chunk<P::format> chunk;
        const std::uint32_t in_row = c % P::chunks;
        chunk.unpack(ring.wait(), P::groups(in_row), lane);
        ring.done();
        wait_at<input_there, threads>();
        float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
        chunk.multiply(P::groups(in_row), x + in_row * chunk_cols, acc);
        keep_sums(m.sums + c * tile_rows, 1, lane, acc);
        c += warps;
      } else {
        wait_at<input_there, threads>();
      }
    }
  }
  multiply_chunks<F, P>(ring, c, x);
  wait_at<sums_there, threads>();
  if (stores) {
    store_output<S, P, Adds>(o, first_scale, second_scale, to, flag + 1);
    arrive_at<outputs_stored, storing_threads + row_threads>();
  } else if (warp < bringing_warps) {
    wait_at<outputs_stored, storing_threads + row_threads>();
  }
}

/// The norm, and in blocks that have an expert its logit.
template <class S>
__device__ __forceinline__ void route(const floor_args& a, const std::uint64_t* from, std::uint64_t* logits,
                                      std::uint32_t flag) {
  auto& m = memory<S>();
  float v[row_values<S>];
  bring_norm<S>(a, from, flag, v);
  if (blockIdx.x >= experts) return;
  float logit = 0.0F;
  each_value<S>([&](std::uint32_t k, std::uint32_t i) {
    logit = fmaf(v[k], __ldg(a.router + blockIdx.x * S::width + i), logit);
  });
  logit = warp_sum(logit);
  if (threadIdx.x % 32 == 0) m.scratch[bringing_warps + threadIdx.x / 32] = logit;
  sync_row_threads();
  if (threadIdx.x == 0)
    store_flagged(logits + blockIdx.x, __float_as_uint(sum_of_warps(m.scratch + bringing_warps)), flag + 1);
}

/// One warp: the experts of layer `i`, others in each: all logits are zero, so the first would be chosen.
template <class S>
__device__ __forceinline__ void choose_experts(const std::uint64_t* logits, std::uint32_t i,
                                               std::uint32_t flag) {
  auto& m = memory<S>();
  const std::uint32_t lane = threadIdx.x % 32;
  route_args args;
  args.experts = experts;
  args.used = used;
  choose_among<1>(
      args, [&](std::uint32_t e) { return __uint_as_float(read_flagged(logits + e, flag)); }, m.chosen,
      m.expert_weight,
      [&] {
        __syncwarp();
        if (lane < used) m.chosen[lane] = static_cast<std::int32_t>((i + 7 * lane) % experts);
        __syncwarp();
        if (lane == 0) write_volatile(m.known, i + 1);
      });
}

/// What the experts give, added to the block's own rows.
template <class S>
__device__ __forceinline__ void combine(const std::uint64_t* parts, std::uint64_t* state,
                                        std::uint32_t flag) {
  using output = typename layer_of<S>::output;
  auto& m = memory<S>();
  const std::uint32_t o = own_output();
  if (o >= output::tiles_here() * tile_rows) return;
  const std::uint32_t row = output::first_tile() * tile_rows + o;
  flagged_one part[used];
  gather(part, used, flag, [&](std::uint32_t k) { return parts + k * S::width + row; });
  float sum = 0.0F;
#pragma unroll
  for (std::uint32_t k = 0; k < used; ++k)
    sum = with_part(sum, m.expert_weight[k], __uint_as_float(part[k].data()));
  m.residual[o] = __fadd_rn(m.residual[o], sum);
  store_flagged(state + row, __float_as_uint(m.residual[o]), flag + 1);
}

}  // namespace
}  // namespace orcd::kernels
