// A product of ternary matrices and int8 in a decode program, for one sequence. The warps take the ways of
// program_product.cuh; what differs is the input (program_int8.cuh) and how chunks are multiplied.
//
// A chunk is four whole rows, which lie in shared memory as in VRAM (ternary_matrix.hpp), so that its sums
// are complete. The lanes of a warp take one word of 128 bytes of each row: four codes of each of four
// quarters, which meet the integers of that quarter at the same byte. Codes are not shifted: those of a
// quarter, masked, are 64, 16, 4 or 1 times their values, and so are the quarter's sums, which are exact.
// dp4a, because tensor cores would multiply seven unused columns. Part of program_kernel.cuh.
#pragma once

#include "kernels/decode_program/program_int8.cuh"
#include "kernels/decode_program/program_outputs.cuh"

namespace orcd::kernels {
namespace {

/// One warp: sums of the rows of the chunk at `rows`. `x` is as round_input() leaves it.
__device__ __forceinline__ void multiply_rows(const std::byte* rows, std::uint32_t row_words,
                                              const std::int8_t* x, std::uint32_t lane, std::int32_t* sums) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(rows) + lane;
  const auto* values = reinterpret_cast<const std::uint32_t*>(x) + lane;
  std::int32_t acc[ternary_tile_rows][4] = {};
#pragma unroll 2
  for (std::uint32_t at = lane; at < row_words; at += 32) {
    std::uint32_t codes[ternary_tile_rows];
#pragma unroll
    for (std::uint32_t r = 0; r < ternary_tile_rows; ++r) codes[r] = words[r * row_words];
#pragma unroll
    for (std::uint32_t q = 0; q < 4; ++q) {
      const std::uint32_t of_quarter = values[32 * q];
#pragma unroll
      for (std::uint32_t r = 0; r < ternary_tile_rows; ++r)
        acc[r][q] = dot_u8_s8(codes[r] & 0xC0C0C0C0U >> (2 * q), of_quarter, acc[r][q]);
    }
    words += 32;
    values += 128;
  }
  __syncwarp();
#pragma unroll
  for (std::uint32_t r = 0; r < ternary_tile_rows; ++r) {
    const std::int32_t sum =
        __reduce_add_sync(0xFFFFFFFFU, acc[r][3] + (acc[r][2] >> 2) + (acc[r][1] >> 4) + (acc[r][0] >> 6));
    if (lane == r) sums[r] = sum;
  }
}

/// Where an output of the block goes and what it is made of.
struct ternary_output {
  std::uint64_t* to;  ///< null: none
  std::uint32_t sums[2];
  float code_scale[2];
};

/// Output i of the block.
__device__ __forceinline__ ternary_output ternary_output_at(const phase_slot& slot, std::uint32_t i,
                                                            std::uint32_t outputs) {
  ternary_output its{};
  if (i >= outputs) return its;
  const packed_matmul_args& a = slot.phase.matmul;
  const result_place place = output_at<ternary_tile_rows>(a, slot.share, i);
  const float* const scales = slot.phase.ternary.code_scale;
  its.to = slot.phase.out + (is_paired(a) ? place.row : place.out_row);
  its.sums[0] = i;
  its.sums[1] = i + outputs;
  its.code_scale[0] = scales[place.matrix];
  its.code_scale[1] = scales[1];
  return its;
}

/// The scale and the sum of a product's input.
struct int8_terms {
  float scale;
  std::int32_t sum;

  __device__ __forceinline__ explicit int8_terms(const int8_scratch& scratch) : scale(scratch.scale), sum(0) {
#pragma unroll
    for (const std::int32_t of_warp : scratch.sums) sum += of_warp;
  }
};

/// Finishes and stores output i of the block.
__device__ __forceinline__ void store_ternary(const phase_slot& slot, const ternary_output& its,
                                              std::uint32_t i, const std::int32_t* sums, const int8_terms& x,
                                              std::uint32_t flag) {
  if (its.to == nullptr) return;
  const auto member = [&](std::uint32_t m) {
    return ternary_value(sums[its.sums[m]], x.sum, x.scale, its.code_scale[m]);
  };
  const matmul_output output = slot.phase.matmul.output;
  float value = member(0);
  if (is_paired(output)) {
    const float up = member(1);
    value = slot.phase.ternary.squared ? relu_squared_gated(value, up) : silu_gated(value, up);
  }
  if (output == matmul_output::add) value = __fadd_rn(header().residual[i], value);
  store_flagged(its.to, __float_as_uint(value), flag);
  if (output == matmul_output::add)
    keep_residual(slot, static_cast<std::uint32_t>(its.to - slot.phase.out), i, value);
}

/// Idle workers: bring the block's part of the next product's norm weights into L2.
__device__ __forceinline__ void prefetch_next_norm(const decode_program& program, const ternary_phase& its) {
  constexpr std::uint32_t a_sector = l2_sector_bytes / sizeof(float);
  const std::uint32_t i = a_sector * (blockIdx.x + program.blocks * (threadIdx.x - row_threads));
  if (its.next_norm != nullptr && i < its.next_cols) prefetch_sector(its.next_norm + i);
}

/// This worker's chunks of the phase.
__device__ __forceinline__ void multiply_ternary_chunks(const decode_program& program, walk& w,
                                                        std::uint32_t thread, std::uint32_t cols,
                                                        const std::int8_t* x, std::int32_t* sums) {
  stream_state& stream = header().stream;
  const std::uint32_t worker = thread / 32;
  const std::byte* const ring = ring_memory(program) + worker * ring_bytes(program);
  const std::uint32_t chunks = slot_of(w.phase).share.chunks;
#pragma unroll 1
  for (std::uint32_t i = first_chunk_of(worker); i < chunks; i += program_warps) {
    const stream_chunk c = w.reader.wait(stream, worker);
    multiply_rows(ring + c.at(), cols / 16, x, thread % 32, sums + i * ternary_tile_rows);
    w.reader.done(stream, thread);
  }
}

/// The product of a phase: input, chunks, outputs.
template <bool Stamps, class Prefetch>
__device__ __forceinline__ void multiply_ternary(const decode_program& program, walk& w,
                                                 Prefetch prefetch_attention) {
  const std::uint32_t thread = thread_here();
  const phase_slot& slot = slot_of(w.phase);
  const ternary_phase& its = slot.phase.ternary;
  const std::uint32_t cols = slot.phase.matmul.w[0].cols;
  const std::uint32_t outputs = output_tiles(slot.phase.matmul, slot.share) * ternary_tile_rows;
  auto* const x = reinterpret_cast<std::int8_t*>(work_memory());
  auto& scratch = *reinterpret_cast<int8_scratch*>(work_memory() + ternary_input_bytes(cols) - 256);
  auto* const sums = reinterpret_cast<std::int32_t*>(work_memory() + slot.phase.sums_at);
  const std::uint32_t first = first_output();
  ternary_output own{};
  if (thread < row_threads) {
    if (outputs > 0) {
      if (its.from_halves)
        round_input<true>(slot.phase.in, its, cols, w.flag(), x, scratch);
      else
        round_input<false>(slot.phase.in, its, cols, w.flag(), x, scratch);
    }
    arrive_at<program_barrier::input_there>();
    wait_at<program_barrier::phase_left>();
  } else {
    arrive_at<program_barrier::phase_left>();
    own = ternary_output_at(slot, first, outputs);
    if (thread - row_threads < idle_threads) {
      if (slot.phase.attention_next) prefetch_attention();
      prefetch_next_norm(program, its);
    }
    wait_at<program_barrier::input_there>();
  }
  stamp<Stamps>(program, w.phase, 1);
  multiply_ternary_chunks(program, w, thread, cols, x, sums);
  if (thread < row_threads) own = ternary_output_at(slot, first, outputs);
  const int8_terms terms(scratch);  // read before the barrier: the next phase's may come after it
  const std::uint32_t flag = w.flag() + 1;
  sync_workers();
  stamp<Stamps>(program, w.phase, 2);
  for (std::uint32_t i = first; i < outputs; i += worker_threads) {
    if (i != first) own = ternary_output_at(slot, i, outputs);
    store_ternary(slot, own, i, sums, terms, flag);
  }
  enter_phase(w.phase);
}

}  // namespace
}  // namespace orcd::kernels
