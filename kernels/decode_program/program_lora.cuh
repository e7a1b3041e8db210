// What a block of a decode program of one sequence does for LoRA adapters (program_adapters.hpp), in kernels
// that have code for them. Part of program_kernel.cuh.
//
//   warps 0 .. 3    multiply the block's rows of A, when the input is there, before their own chunks
//   warp 7          has the fewest chunks: takes A x of all rows from other blocks after them
//   warps 8 .. 10   prefetch what the block will read of A and B a few phases later
//   all             add B to their outputs
#pragma once

#include "kernels/decode_program/program_outputs.cuh"
#include "kernels/layer/lora_parts.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t inner_threads = lora_parts::threads;  ///< that multiply a row of A, from thread 0 on
constexpr std::uint32_t taking_warp = row_threads / 32 - 1;   ///< takes A x from other blocks
constexpr std::uint32_t adapters_ahead = 2;                   ///< phases that A and B are prefetched ahead
static_assert(inner_threads <= row_threads && adapters_ahead < phase_slots && program_pairs_max <= 32);

/// The pairs of a phase whose slot holds it.
__device__ __forceinline__ const phase_pairs& pairs_of(std::uint32_t phase) {
  return header().lora.slots[phase % phase_slots];
}
__device__ __forceinline__ const float* values_at(const program_adapters& adapters, std::uint32_t fours) {
  return adapters.values + 4 * static_cast<std::uint64_t>(fours);
}

/// The row of A that gives value `index` of A x, which is below of.values. A whole warp calls it.
__device__ __forceinline__ const float* row_of_value(const program_adapters& adapters, const phase_pairs& of,
                                                     std::uint32_t index) {
  const std::uint32_t lane = threadIdx.x % 32;
  const program_pair& pair = of.pairs[min(lane, program_pairs_max - 1)];
  const bool its = lane < of.count && index >= pair.first && index - pair.first < pair.rank;
  const auto owner = static_cast<std::uint32_t>(__ffs(static_cast<int>(__ballot_sync(0xFFFFFFFFU, its)))) - 1;
  const program_pair& found = of.pairs[owner];
  return values_at(adapters, found.a) + (index - found.first) * lora_stride(of.in);
}

/// What the loading warps have of the block's first row of A before the input is there.
struct lora_work {
  static constexpr std::uint32_t ahead = 2;  ///< loads that do not wait for the input
  const float* row = nullptr;                ///< null: the block has none
  lora_parts::four loaded[ahead];
};

/// The first values of a row.
__device__ __forceinline__ void load_first(lora_work& work, std::uint32_t in) {
#pragma unroll
  for (std::uint32_t i = 0; i < lora_work::ahead; ++i) {
    const std::uint32_t c = 4 * (threadIdx.x + i * inner_threads);
    if (c < in) work.loaded[i] = lora_parts::load_four(work.row + c);
  }
}

__device__ __forceinline__ lora_work begin_rows(const decode_program& program, const walk& w) {
  const phase_pairs& of = pairs_of(w.phase);
  const std::uint32_t turn = slot_of(w.phase).share.adapter_turn;
  lora_work work;
  if (turn >= of.values) return work;
  work.row = row_of_value(program.adapters, of, turn);
  if (threadIdx.x < inner_threads) load_first(work, of.in);
  return work;
}

__device__ __forceinline__ void sync_inner_threads() {
  asm volatile("bar.sync 5, %0;" ::"n"(inner_threads) : "memory");
}

/// A thread's four values of the input from column `c` on.
__device__ __forceinline__ lora_parts::four input_at(const __half* x, std::uint32_t c) {
  const uint2 raw = *reinterpret_cast<const uint2*>(x + c);
  const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&raw.x));
  const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&raw.y));
  return {{low.x, low.y, high.x, high.y}};
}

__device__ __forceinline__ float add_four(float sum, const lora_parts::four& weights,
                                          const lora_parts::four& x) {
#pragma unroll
  for (std::uint32_t v = 0; v < 4; ++v) sum = fmaf(weights.v[v], x.v[v], sum);
  return sum;
}

/// The first inner_threads threads: their part of a row of A times the input, in the order of lora.hpp.
/// `loaded`: the first of the row's values.
__device__ __forceinline__ float multiply_row_part(const float* row, std::uint32_t in, const __half* x,
                                                   const lora_parts::four (&loaded)[lora_work::ahead]) {
  constexpr std::uint32_t step = 4 * inner_threads;
  constexpr std::uint32_t together = 4;  // loads under way
  float sum = 0.0F;
#pragma unroll
  for (std::uint32_t i = 0; i < lora_work::ahead; ++i) {
    const std::uint32_t c = 4 * threadIdx.x + i * step;
    if (c < in) sum = add_four(sum, loaded[i], input_at(x, c));
  }
#pragma unroll 1
  for (std::uint32_t first = 4 * threadIdx.x + lora_work::ahead * step; first < in;
       first += together * step) {
    lora_parts::four weights[together];
#pragma unroll
    for (std::uint32_t i = 0; i < together; ++i) {
      if (first + i * step < in) weights[i] = lora_parts::load_four(row + first + i * step);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < together; ++i) {
      if (first + i * step < in) sum = add_four(sum, weights[i], input_at(x, first + i * step));
    }
  }
  return sum;
}

/// The flagged words of A x of a phase.
__device__ __forceinline__ std::uint64_t* inner_words(const decode_program& program, const walk& w) {
  return program.adapters.inner + (w.phase & 1U) * program_inner_max;
}

/// Loading warps, when the input is there and all have left the phase before: the first inner_threads
/// threads multiply the block's rows of A and hand the values to all blocks.
__device__ __forceinline__ void multiply_rows_of_a(const decode_program& program, const walk& w,
                                                   lora_work& work, const __half* x) {
  if (work.row == nullptr || threadIdx.x >= inner_threads) return;
  const phase_pairs& of = pairs_of(w.phase);
  float(&sums)[2][inner_threads / 32] = header().lora.sums;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (std::uint32_t index = slot_of(w.phase).share.adapter_turn;;) {
    const float sum = warp_sum(multiply_row_part(work.row, of.in, x, work.loaded));
    if (threadIdx.x % 32 == 0) sums[parity][threadIdx.x / 32] = sum;
    sync_inner_threads();
    if (threadIdx.x == 0) {
      float all = 0.0F;
#pragma unroll
      for (std::uint32_t warp = 0; warp < inner_threads / 32; ++warp) all += sums[parity][warp];
      store_flagged(inner_words(program, w) + index, __float_as_uint(all), w.flag() + 1);
    }
    index += program.blocks;
    if (index >= of.values) return;
    parity ^= 1U;
    work.row = row_of_value(program.adapters, of, index);
    load_first(work, of.in);
  }
}

/// The taking warp, after its chunks.
__device__ __forceinline__ void take_inner(const decode_program& program, const walk& w) {
  const std::uint64_t* const words = inner_words(program, w);
  const std::uint32_t values = pairs_of(w.phase).values;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x % 32; i < values; i += 32)
    header().lora.inner[i] = __uint_as_float(read_flagged(words + i, w.flag() + 1));
}

/// Prefetches what with_adapters() reads of a pair for outputs from `out_row` on that share a sector.
__device__ __forceinline__ void prefetch_b(const program_adapters& adapters, const program_pair& pair,
                                           std::uint32_t out_row) {
  const std::uint32_t row = out_row - pair.y_at;  // wraps where the matrix begins later
  if (row >= pair.out) return;
  const float* const b = values_at(adapters, pair.b) + row;
  for (std::uint32_t r = 0; r < pair.rank; ++r) prefetch_sector(b + r * lora_stride(pair.out));
}

/// Idle workers: prefetch what the block will read in a later phase.
__device__ __forceinline__ void prefetch_adapters(const decode_program& program, std::uint32_t phase) {
  constexpr std::uint32_t a_sector = l2_sector_bytes / sizeof(float);
  const std::uint32_t thread = threadIdx.x - row_threads;
  if (thread >= idle_threads || phase >= program.count) return;
  wait_for_phase(phase);
  const phase_pairs& of = pairs_of(phase);
  if (of.count == 0) return;
  const block_share& share = slot_of(phase).share;
  const packed_matmul_args& a = slot_of(phase).phase.matmul;
  if (share.adapter_turn < of.values) {
    const float* const row = row_of_value(program.adapters, of, share.adapter_turn);
    for (std::uint32_t c = a_sector * thread; c < of.in; c += a_sector * idle_threads)
      prefetch_sector(row + c);
  }
  const std::uint32_t sectors = output_tiles(a, share) * tile_rows / a_sector;
  for (std::uint32_t i = thread; i < sectors * of.count; i += idle_threads) {
    const program_pair& pair = of.pairs[i / sectors];
    const std::uint32_t out_row = output_at(a, share, i % sectors * a_sector).out_row;
    prefetch_b(program.adapters, pair, out_row);
    if (is_paired(a)) prefetch_b(program.adapters, pair, a.w[0].rows + out_row);
  }
}

/// An output with what the sequence's adapters add to it.
__device__ __forceinline__ float with_adapters(const program_adapters& adapters, const phase_pairs& of,
                                               std::uint32_t out_row, float y) {
#pragma unroll 1
  for (std::uint32_t i = 0; i < of.count; ++i) {
    const program_pair& pair = of.pairs[i];
    const std::uint32_t row = out_row - pair.y_at;  // wraps where the matrix begins later
    if (row >= pair.out) continue;
    const float* const inner[1] = {header().lora.inner + pair.first};
    float sum[1][1] = {{y}};
    lora_parts::add_ranks<1, 1>(values_at(adapters, pair.b) + row, lora_stride(pair.out), pair.rank,
                                pair.factor, inner, sum);
    y = sum[0][0];
  }
  return y;
}

}  // namespace
}  // namespace orcd::kernels
