// What a block of a decode program has: its shared memory, its place in the phases, and how it gets what they
// need. Included by decode_program.cu alone.
#pragma once

#include "kernels/decode_program.hpp"
#include "kernels/flagged.cuh"
#include "kernels/matvec_tile.cuh"
#include "kernels/weight_stream.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t worker_threads = program_warps * 32;
constexpr std::uint32_t program_threads = worker_threads + 32;
static_assert(worker_threads >= row_threads);
static_assert(terms_ahead <= worker_threads);

/// At the start of shared memory; a phase's working memory and the rings follow.
struct program_header {
  stream_state stream;
  std::uint64_t norm_barrier;    ///< of the next norm's weights
  std::uint64_t router_barrier;  ///< of the router's row
  step_column step;
  const float* turned;  ///< whose turns these are: the table's inverse frequencies
  float2 turns[head_width_max / 2];
  result_terms terms[terms_ahead];
  std::uint32_t targets[terms_ahead];  ///< of the block's outputs: target_of()
  float residual[terms_ahead];         ///< the block's own rows
  float scratch[row_threads / 32];
  float expert_weights[experts_used_max];
};
static_assert(sizeof(program_header) <= program_header_bytes);

// Found by name and not through pointers kept somewhere: so the compiler knows that it is shared memory.
extern __shared__ __align__(128) std::byte program_memory[];
__device__ __forceinline__ program_header& header() {
  return *reinterpret_cast<program_header*>(program_memory);
}
__device__ __forceinline__ std::byte* work_memory() {
  return program_memory + program_header_bytes;
}
/// The phase that the workers are in, or a later one that has come.
__device__ __forceinline__ const phase_slot& slot_of(std::uint32_t phase) {
  return header().stream.slots[phase % phase_slots];
}

__device__ __forceinline__ void sync_workers() {
  asm volatile("bar.sync 2, %0;" ::"n"(worker_threads) : "memory");
}

/// A worker's walk through the phases, the same in all of a block.
struct walk {
  std::uint32_t phase = 0;
  std::uint32_t flag;  ///< of what the phase before wrote
  ring_reader reader{threadIdx.x / 32};
};

/// One instant of a phase, where `Stamps` are taken.
template <bool Stamps>
__device__ __forceinline__ void stamp(const decode_program& program, std::uint32_t phase,
                                      std::uint32_t instant) {
  if (!Stamps || threadIdx.x != 0) return;
  program.stamps[(static_cast<std::uint64_t>(blockIdx.x) * program.count + phase) * phase_stamps + instant] =
      clock_ns();
}

/// One thread: copies a phase and the block's share to its slot, which is free.
__device__ __forceinline__ void fetch_phase(const decode_program& program, std::uint32_t index) {
  if (index >= program.count) return;
  phase_slot& slot = header().stream.slots[index % phase_slots];
  const std::uint32_t barrier = shared_address_of(&header().stream.slot_barriers[index % phase_slots]);
  barrier_expect(barrier, sizeof(decode_phase) + sizeof(block_share));
  bulk_copy(shared_address_of(&slot.phase), program.phases + index, sizeof(decode_phase), barrier);
  bulk_copy(shared_address_of(&slot.share),
            program.shares + static_cast<std::uint64_t>(index) * program.blocks + blockIdx.x,
            sizeof(block_share), barrier);
}

/// One warp: gives the slot of a phase that the workers have left to a later one, once the loader has left it
/// too: a lane without chunks there is held back by nobody.
__device__ __forceinline__ void replace_phase(const decode_program& program, std::uint32_t phase) {
  if (phase + phase_slots >= program.count) return;
  const std::uint32_t lane = threadIdx.x % 32;
  while (lane < program_warps && read_volatile(header().stream.left[lane]) <= phase) {
  }
  __syncwarp();
  if (lane == 0) fetch_phase(program, phase + phase_slots);
}

__device__ __forceinline__ std::byte* ring_memory(const decode_program& program) {
  return work_memory() + program.work_bytes + program.row_bytes;
}
/// Of one worker.
__device__ __forceinline__ std::uint32_t ring_bytes(const decode_program& program) {
  return stream_bytes(program.work_bytes + program.row_bytes);
}

/// Where rows are that were fetched ahead.
__device__ __forceinline__ float* next_norm(const decode_program& program) {
  return reinterpret_cast<float*>(work_memory() + program.work_bytes);
}
__device__ __forceinline__ float* next_router(const decode_program& program) {
  return reinterpret_cast<float*>(work_memory() + program.work_bytes + row_bytes(program.width));
}

/// One thread: fetches a row that no kernel writes to memory that nobody uses any more.
__device__ __forceinline__ void fetch_row(float* to, const float* from, std::uint32_t width,
                                          std::uint64_t& barrier) {
  const std::uint32_t bytes = width * static_cast<std::uint32_t>(sizeof(float));
  fence_shared_for_async();
  barrier_expect(shared_address_of(&barrier), bytes);
  bulk_copy(shared_address_of(to), from, bytes, shared_address_of(&barrier));
}
/// Waits for the row that is this one (from 0 on) of the barrier's.
__device__ __forceinline__ void wait_for_row(std::uint64_t& barrier, std::uint32_t round) {
  barrier_wait(shared_address_of(&barrier), round & 1U);
}

/// One thread, after a phase but before its slot is given away: the rows of phases to come, into memory of
/// those that have passed.
__device__ __forceinline__ void fetch_next_rows(const decode_program& program, const decode_phase& phase) {
  if (phase.next_norm != nullptr)
    fetch_row(next_norm(program), phase.next_norm, program.width, header().norm_barrier);
  if (phase.next_router != nullptr && blockIdx.x < program.experts)
    fetch_row(next_router(program),
              phase.next_router + static_cast<std::uint64_t>(blockIdx.x) * program.width, program.width,
              header().router_barrier);
}

/// norm_of with `Values` values of a thread in registers: all of them, or a wider row is read twice.
template <std::uint32_t Values, bool All, class Store>
__device__ __forceinline__ void norm_by(const decode_program& program, const std::uint64_t* x, float eps,
                                        const walk& w, Store store) {
  const std::uint32_t n = program.width;
  const auto parts = [&](auto part) {
    if (threadIdx.x >= row_threads) return;
    if constexpr (All) {
      part(threadIdx.x);
    } else {
#pragma unroll 1
      for (std::uint32_t first = threadIdx.x; first < n; first += Values * row_threads) part(first);
    }
  };
  float v[Values];
  float squares = 0.0F;
  parts([&](std::uint32_t first) {
    gather_floats<row_threads>(x, n, w.flag, first, v);
#pragma unroll
    for (std::uint32_t k = 0; k < Values; ++k) squares = fmaf(v[k], v[k], squares);
  });
  const float scale = rms_scale(block_sum(squares, header().scratch, [] { sync_workers(); }), n, eps);
  wait_for_row(header().norm_barrier, slot_of(w.phase).phase.norm_round);
  const float* const weights = next_norm(program);
  parts([&](std::uint32_t first) {
    if constexpr (!All) gather_floats<row_threads>(x, n, w.flag, first, v);
#pragma unroll
    for (std::uint32_t k = 0; k < Values; ++k) {
      const std::uint32_t i = first + k * row_threads;
      if (i < n) store(i, __fmul_rn(__fmul_rn(v[k], scale), weights[i]));
    }
  });
}

/// norm_row() of the residual stream, bit for bit: each of row_threads threads asks for the values that it
/// sums. Calls store(i, value) for i < n. Not synchronized at the end.
template <class Store>
__device__ __forceinline__ void norm_of(const decode_program& program, const std::uint64_t* x, float eps,
                                        const walk& w, Store store) {
  if (program.width <= 4 * row_threads)
    norm_by<4, true>(program, x, eps, w, store);
  else if (program.width <= 12 * row_threads)
    norm_by<12, true>(program, x, eps, w, store);
  else
    norm_by<8, false>(program, x, eps, w, store);
}

/// f16 values of the phase before, and zeros up to `padded`, which is a multiple of 64. Not synchronized at
/// the end.
__device__ __forceinline__ void stage_halfs(const std::uint64_t* from, std::uint32_t n, std::uint32_t padded,
                                            std::uint32_t flag, __half* x) {
  auto* const to = reinterpret_cast<uint2*>(x);
  const auto store = [&](std::uint32_t i, const flagged_two& v) { to[i] = {v.data(0), v.data(1)}; };
  if (n / 4 <= 4 * worker_threads)
    gather_pairs<worker_threads, 4>(from, n / 4, flag, threadIdx.x, store);
  else
    gather_pairs<worker_threads, 5>(from, n / 4, flag, threadIdx.x, store);
  for (std::uint32_t i = n / 4 + threadIdx.x; i < padded / 4; i += worker_threads) to[i] = {0, 0};
}

}  // namespace
}  // namespace orcd::kernels
