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
  std::uint64_t row_barrier;  ///< of what a phase reads besides its weights
  result_terms terms[terms_ahead];
  float residual[terms_ahead];  ///< the block's own rows
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
  std::uint32_t flag;      ///< of what the phase before wrote
  std::uint32_t rows = 0;  ///< completed rounds of row_barrier
  ring_reader reader;
};

__device__ __forceinline__ void stamp(const decode_program& program, std::uint32_t phase,
                                      std::uint32_t instant) {
  if (program.stamps == nullptr || threadIdx.x != 0) return;
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

/// One thread: announces rows of `bytes` together, then fetches each. They hold what no kernel writes and go
/// to working memory that nobody uses.
__device__ __forceinline__ void expect_rows(std::uint32_t bytes) {
  fence_shared_for_async();
  barrier_expect(shared_address_of(&header().row_barrier), bytes);
}
__device__ __forceinline__ void fetch_row(void* to, const void* from, std::uint32_t bytes) {
  bulk_copy(shared_address_of(to), from, bytes, shared_address_of(&header().row_barrier));
}
__device__ __forceinline__ void wait_for_rows(walk& w) {
  barrier_wait(shared_address_of(&header().row_barrier), w.rows & 1U);
  ++w.rows;
}

/// Working memory of a phase that begins with a norm: the row, the norm's weights, then what `normed` points
/// at.
struct norm_memory {
  float* row;
  float* weights;
  std::byte* rest;

  __device__ __forceinline__ explicit norm_memory(std::uint32_t n)
      : row(reinterpret_cast<float*>(work_memory())),
        weights(row + (n + 3) / 4 * 4),
        rest(reinterpret_cast<std::byte*>(weights + (n + 3) / 4 * 4)) {}
};

/// norm_row() of the residual stream by all workers, bit for bit: the sum of squares in its order. Calls
/// store(i, value) for i < padded. Not synchronized at the end.
template <class Store>
__device__ __forceinline__ void norm_of(const std::uint64_t* x, std::uint32_t n, std::uint32_t padded,
                                        float eps, const norm_memory& memory, walk& w, Store store) {
  gather_flagged<worker_threads>(x, n / 2, w.flag, threadIdx.x, [&](std::uint32_t i, const flagged_two& v) {
    reinterpret_cast<float2*>(memory.row)[i] = {__uint_as_float(v.data(0)), __uint_as_float(v.data(1))};
  });
  sync_workers();
  float squares = 0.0F;
  if (threadIdx.x < row_threads) {
#pragma unroll 4
    for (std::uint32_t i = threadIdx.x; i < n; i += row_threads)
      squares = fmaf(memory.row[i], memory.row[i], squares);
  }
  const float scale = rms_scale(block_sum(squares, header().scratch, [] { sync_workers(); }), n, eps);
  wait_for_rows(w);
#pragma unroll 2
  for (std::uint32_t i = threadIdx.x; i < padded; i += worker_threads)
    store(i, i < n ? __fmul_rn(__fmul_rn(memory.row[i], scale), memory.weights[i]) : 0.0F);
}

/// f16 values of the phase before, and zeros up to `padded`, which is a multiple of 64. Not synchronized at
/// the end.
__device__ __forceinline__ void stage_halfs(const std::uint64_t* from, std::uint32_t n, std::uint32_t padded,
                                            std::uint32_t flag, __half* x) {
  auto* const to = reinterpret_cast<uint2*>(x);
  gather_flagged<worker_threads>(from, n / 4, flag, threadIdx.x, [&](std::uint32_t i, const flagged_two& v) {
    to[i] = {v.data(0), v.data(1)};
  });
  for (std::uint32_t i = n / 4 + threadIdx.x; i < padded / 4; i += worker_threads) to[i] = {0, 0};
}

}  // namespace
}  // namespace orcd::kernels
