// A product in a decode program: its input from other blocks, this block's chunks of weights, its outputs.
// Part of program_kernel.cuh. In a step of one sequence the warps take different ways through it:
//
//   warps 0 .. 7                     warps 8 .. 14
//   load the input (norm)            11 .. 14: precompute outputs; 8 .. 10: prefetch attention
//   arrive at input_there            arrive at phase_left
//   wait at phase_left               unpack the first chunk, then wait at input_there
//   multiply their chunks            multiply that one and the rest of their chunks
//   ---------------------- all synchronize: the sums are there ----------------------
//   last outputs, if there are       store the first outputs: fold, scale, bias, flagged word
//   go on to the next phase          go on to the next phase
#pragma once

#include "kernels/decode_program/program_experts.cuh"
#include "kernels/decode_program/program_lora.cuh"
#include "kernels/product/packed_dispatch.cuh"

namespace orcd::kernels {
namespace {

/// Up to this width of the residual stream a worker gives up its first chunk's place in the ring as soon as
/// it has unpacked it. For wider ones only when the input is there: the copies that start would delay the
/// input by as much as they gain. Measured on an H200.
constexpr std::uint32_t narrow_width = 2048;

/// Multiplies this worker's first chunk of the phase, chunk `index` of the block: unpacks it into registers,
/// then waits for the input.
template <std::uint32_t Formats>
__device__ __forceinline__ void multiply_first_chunk(walk& w, const std::byte* ring, std::uint32_t index,
                                                     const __half* x, std::uint32_t columns,
                                                     std::uint32_t thread, bool narrow, float* sums) {
  stream_state& stream = header().stream;
  const std::uint32_t lane = thread % 32;
  const stream_chunk c = w.reader.wait(stream, thread / 32);
  with_format_of<Formats>(c.format(), [&](auto format) {
    constexpr packed_format f = decltype(format)::value;
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    if constexpr (is_float_format(f)) {  // unpacked floats need more registers than there are
      wait_at<program_barrier::input_there>();
      multiply_chunk<f>(ring + c.at(), c.groups(), x + c.column(), acc);
      w.reader.done(stream, thread);
    } else {
      unpacked_chunk<f> chunk;
      chunk.unpack(ring + c.at(), c.groups(), lane);
      if (narrow) w.reader.done(stream, thread);
      wait_at<program_barrier::input_there>();
      if (!narrow) w.reader.done(stream, thread);
      chunk.multiply(c.groups(), x + c.column(), acc);
    }
    keep_sums(sums + index * tile_rows * columns, columns, lane, acc);
  });
}

/// Multiplies this worker's chunks of the phase with `columns` columns and keeps the sums of each. `x` is the
/// lane's part of the input. The code for a format is chosen once for a run of chunks that have it.
///
/// With `ahead`, workers that do not load the input unpack their first chunk before it is there. Those that
/// do load it need not wait for it; they wait only until the others have left the phase before, whose sums
/// they may overwrite. Then they call when_there().
template <bool Stamps, std::uint32_t Formats, class WhenThere>
__device__ __forceinline__ void multiply_chunks(const decode_program& program, walk& w, std::uint32_t thread,
                                                const __half* x, std::uint32_t columns, bool ahead,
                                                float* sums, WhenThere when_there) {
  stream_state& stream = header().stream;
  const std::uint32_t worker = thread / 32;
  const std::uint32_t lane = thread % 32;
  const std::byte* const ring = ring_memory(program) + worker * ring_bytes(program);
  const std::uint32_t chunks = slot_of(w.phase).share.chunks;
  std::uint32_t next = first_chunk_of(worker);
  if (!ahead) {
    sync_workers();
  } else if (thread < row_threads) {
    wait_at<program_barrier::phase_left>();
    when_there();
  } else {
    arrive_at<program_barrier::phase_left>();
    if (next < chunks)
      multiply_first_chunk<Formats>(w, ring, next, x, columns, thread, program.width <= narrow_width, sums);
    else
      wait_at<program_barrier::input_there>();
    next += program_warps;
  }
  stamp<Stamps>(program, w.phase, 1);
#pragma unroll 1
  while (next < chunks) {
    stream_chunk c = w.reader.wait(stream, worker);
    with_format_of<Formats>(c.format(), [&](auto format) {
      constexpr packed_format f = decltype(format)::value;
#pragma unroll 1
      for (;;) {
        float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
        multiply_chunk_ahead<f>(ring + c.at(), c.groups(), x + c.column(), lane, acc);
        w.reader.done(stream, thread);
        keep_sums(sums + next * tile_rows * columns, columns, lane, acc);
        next += program_warps;
        if (next >= chunks) break;
        c = w.reader.wait(stream, worker);
        if (c.format() != f) break;
      }
    });
  }
}

/// Leaves the norm of the residual stream as a product's input, `x_stride` halves from column to column.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ void take_norm(const decode_program& program, float eps, const walk& w, __half* x,
                                          std::uint32_t x_stride, float* staged) {
  const std::uint32_t columns = sequences_of<MaxSequences>(program);
  const std::uint32_t padding = padded_cols(program.width) - program.width;
  for (std::uint32_t column = 0; column < columns; ++column) {
    if (threadIdx.x < padding) x[column * x_stride + program.width + threadIdx.x] = __half{};
  }
  norm_of<MaxSequences>(
      program, slot_of(w.phase).phase.in, eps, w, columns, staged,
      [&](std::uint32_t column, std::uint32_t i, float value) { x[column * x_stride + i] = to_half(value); });
}

/// Stores the outputs whose sums are there; `own` and `old` are those of the thread's first output.
template <std::uint32_t MaxSequences, class Adapt>
__device__ __forceinline__ void store_product(const phase_slot& slot, const product_output& own, float old,
                                              std::uint32_t outputs, std::uint32_t columns, const float* sums,
                                              std::uint32_t expert, std::uint32_t flag, Adapt adapt) {
  std::uint32_t first = first_output();
  if (MaxSequences == 1 && first < precompute_threads) {
    store_output(slot, own, sums, tile_rows, old, first, 0xFFFFFFFFU, flag, adapt);
    first += worker_threads;
  }
  store_outputs<MaxSequences>(slot, first, outputs, columns, sums, expert, flag, adapt);
}

/// The product of a phase: input, chunks, outputs.
template <std::uint32_t MaxSequences, bool Stamps, class Code, class Prefetch>
__device__ __forceinline__ void multiply(const decode_program& program, walk& w,
                                         Prefetch prefetch_attention) {
  const std::uint32_t thread = thread_here();
  const phase_slot& slot = slot_of(w.phase);
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t cols = a.w[0].cols;
  const std::uint32_t padded = padded_cols(cols);
  const std::uint32_t outputs = output_tiles(a, slot.share) * tile_rows;
  const bool of_experts = Code::has.experts && a.experts != nullptr;
  const std::uint32_t columns = MaxSequences == 1 || of_experts ? 1 : program.sequences;
  const std::uint32_t x_stride = MaxSequences == 1 ? padded : input_stride(cols, columns);
  auto* const x = reinterpret_cast<__half*>(work_memory());
  auto* const sums = reinterpret_cast<float*>(
      work_memory() + (MaxSequences == 1 ? slot.phase.sums_at : columns * x_stride * 2));
  std::uint32_t expert = 0;
  if constexpr (Code::has.experts) {
    if (slot.phase.chooses) choose_experts<MaxSequences>(program, slot, w);
    if (of_experts) expert = static_cast<std::uint32_t>(header().stream.chosen[slot.share.item]);
  }
  if (MaxSequences == 1 && gives_logits(slot))
    prefetch_scales(slot, outputs);
  else if (threadIdx.x >= first_precompute_thread)
    precompute_output(slot, outputs, columns, expert);
  if (MaxSequences == 1 && slot.phase.attention_next && threadIdx.x - row_threads < idle_threads)
    prefetch_attention();
  const bool awaits = !(Code::has.experts && slot.phase.chooses) && !slot.phase.keeps_input;
  [[maybe_unused]] lora_work adapters;
  if constexpr (Code::adapts) {
    if (thread < row_threads) adapters = begin_rows(program, w);
  }
  if (outputs > 0 || (Code::adapts && adapters.row != nullptr)) {
    std::uint32_t row = 0;
    if (of_experts) row = a.x_divisor == 1 ? slot.share.item : slot.share.item / a.x_divisor;
    if (slot.phase.has_norm)
      take_norm<MaxSequences>(program, a.norm_eps, w, x, x_stride, sums);
    else if (awaits)
      stage_halves<MaxSequences>(slot.phase.in + row * a.x_stride / 2, a.x_stride / 2, cols, padded,
                                 slot.phase.quads, columns, w.flag(), x, x_stride);
  } else if (slot.phase.has_norm) {
    wait_for_row(header().norm_barrier, slot.phase.norm_round);
  }
  if (MaxSequences == 1 && awaits && thread < row_threads) arrive_at<program_barrier::input_there>();
  const std::uint32_t lane = thread % 32;
  const std::uint32_t column = MaxSequences == 1 ? 0 : min(lane / 4, columns - 1);
  multiply_chunks<Stamps, Code::has.formats>(program, w, thread, x + column * x_stride + 16 * (lane % 4),
                                             columns, MaxSequences == 1 && awaits, sums, [&] {
                                               if constexpr (Code::adapts)
                                                 multiply_rows_of_a(program, w, adapters, x);
                                             });
  if constexpr (Code::adapts) {
    if (thread / 32 == taking_warp && outputs > 0) take_inner(program, w);
  }
  copied_floats();
  // Read before the barrier, so that nothing but the sums is waited for after it. Threads that have
  // precomputed no output read another's: to test for it takes longer.
  const std::uint32_t its = (threadIdx.x - first_precompute_thread) % precompute_threads;
  [[maybe_unused]] const product_output own = header().outputs[its];
  [[maybe_unused]] const float old = threadIdx.x >= first_precompute_thread ? header().residual[its] : 0.0F;
  const std::uint32_t flag = w.flag() + 1;
  const bool logits = MaxSequences == 1 && gives_logits(slot);
  sync_workers();
  stamp<Stamps>(program, w.phase, 2);
  if (logits) {
    store_logits(program, slot, outputs, sums);
  } else if (Code::adapts && awaits) {
    store_product<MaxSequences>(slot, own, old, outputs, columns, sums, expert, flag,
                                [&](std::uint32_t out_row, float value) {
                                  return with_adapters(program.adapters, pairs_of(w.phase), out_row, value);
                                });
  } else {
    store_product<MaxSequences>(slot, own, old, outputs, columns, sums, expert, flag, as_it_is{});
  }
  enter_phase(w.phase);
  fetch_next_rows(program, slot.phase);
}

}  // namespace
}  // namespace orcd::kernels
