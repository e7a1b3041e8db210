// What a block of a decode program has: its shared memory, its place in the phases, and how it gets what they
// need. Part of program_kernel.cuh.
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

/// The last workers find an output each before a product, and store it first if it is of one column.
constexpr std::uint32_t finding_threads = 128;
constexpr std::uint32_t first_finder = worker_threads - finding_threads;
/// Between those who bring a product's input and those.
constexpr std::uint32_t idle_threads = first_finder - row_threads;
/// The worker that fetches rows, and then says that a phase has been left.
constexpr std::uint32_t phase_keeper = worker_threads - 1;

/// threadIdx.x, read here: what follows from it is not kept, and moved out to memory, through all phases.
__device__ __forceinline__ std::uint32_t thread_here() {
  std::uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
/// Which outputs of a block this worker stores: every worker_threads-th from here on. The first are those of
/// who finds them, the last of who brings input: unless outputs are many, these can begin the next phase at
/// once.
__device__ __forceinline__ std::uint32_t first_output() {
  if (threadIdx.x >= first_finder) return threadIdx.x - first_finder;
  return threadIdx.x >= row_threads ? threadIdx.x - row_threads + finding_threads
                                    : threadIdx.x + (worker_threads - row_threads);
}

/// What it takes to store an output of a block's product: found before the product where it can be.
struct alignas(16) product_output {
  float scale[2];
  float bias[2];
  std::uint64_t* to;      ///< target_of(), in the first column
  std::uint16_t sums[2];  ///< where each member's partial sums begin, of the first column
  std::uint16_t chunks;   ///< how many they are
  matmul_output output;
};
static_assert(sizeof(product_output) == 32);
static_assert(multiprocessor_shared_bytes / sizeof(float) <= 0xFFFF);  // where sums begin

/// At the start of shared memory; a phase's working memory and the rings follow.
struct program_header {
  stream_state stream;
  std::uint64_t norm_barrier;    ///< of the next norm's weights
  std::uint64_t router_barrier;  ///< of the router's row
  step_column steps[program_columns_max];
  std::uint32_t first_flag;                 ///< of what is there before the first phase
  const float* turned;                      ///< whose turns are known: the table's inverse frequencies
  float2 turns[head_width_max / 2];         ///< of the only column
  product_output outputs[finding_threads];  ///< the first of the block
  float residual[own_rows_max];             ///< the block's own rows, of one column after the other
  float scratch[program_columns_max * row_threads / 32];
  float expert_weights[program_columns_max * experts_used_max];
  unsigned long long key;  ///< of the block's logits, as decode_program::key
  bool clears;             ///< the block clears all words
};
static_assert(sizeof(program_header) <= program_header_bytes);

extern __shared__ __align__(128) std::byte program_memory[];
/// Where shared memory begins, past what the device keeps for itself. To ask for the address of a name takes
/// an instruction that waits, and a register, at every place that needs one.
constexpr std::uint32_t program_shared_at = program_reserved_bytes;
__device__ __forceinline__ std::byte* memory_start() {
  return static_cast<std::byte*>(__cvta_shared_to_generic(program_shared_at));
}
/// Before anything uses memory_start().
__device__ __forceinline__ void check_memory_start() {
  if (shared_address_of(program_memory) != program_shared_at) __trap();
}
__device__ __forceinline__ program_header& header() {
  return *reinterpret_cast<program_header*>(memory_start());
}
__device__ __forceinline__ std::byte* work_memory() {
  return memory_start() + program_header_bytes;
}
/// The phase that this worker is in, the one before while others are, or a later one that has come.
__device__ __forceinline__ const phase_slot& slot_of(std::uint32_t phase) {
  return header().stream.slots[phase % phase_slots];
}

__device__ __forceinline__ void sync_workers() {
  asm volatile("bar.sync 2, %0;" ::"n"(worker_threads) : "memory");
}

/// Barriers of the workers where some only say that they are there. `memory` is ordered from who arrives to
/// who waits.
enum class program_barrier : std::uint32_t { input_there = 3, phase_left = 4 };

template <program_barrier Barrier>
__device__ __forceinline__ void arrive_at() {
  asm volatile("bar.arrive %0, %1;" ::"n"(static_cast<int>(Barrier)), "n"(worker_threads) : "memory");
}
template <program_barrier Barrier>
__device__ __forceinline__ void wait_at() {
  asm volatile("bar.sync %0, %1;" ::"n"(static_cast<int>(Barrier)), "n"(worker_threads) : "memory");
}

/// A worker's walk through the phases, the same in all of a warp. As few registers as can be: the widest
/// heads' attention leaves none, and what it displaces comes back from far away.
struct walk {
  std::uint32_t phase = 0;
  ring_reader reader;

  /// Of what the phase before wrote.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t flag() const { return header().first_flag + phase; }
};

/// One instant of a phase, where `Stamps` are taken if there is a place for them; the last one by the worker
/// that stores the first output.
template <bool Stamps>
__device__ __forceinline__ void stamp(const decode_program& program, std::uint32_t phase,
                                      std::uint32_t instant) {
  const std::uint32_t by = instant + 1 == phase_stamps ? first_finder : 0;
  if (!Stamps || threadIdx.x != by || program.stamps == nullptr) return;
  program.stamps[(static_cast<std::uint64_t>(blockIdx.x) * program.count + phase) * phase_stamps + instant] =
      clock_ns();
}

/// Columns of the step, of which this kernel takes at most `Most`.
template <std::uint32_t Most>
__device__ __forceinline__ std::uint32_t columns_of(const decode_program& program) {
  return Most == 1 ? 1 : program.columns;
}

/// One thread: copies a phase and the block's share to its slot, which is free. Reads of the slot must have
/// ended by then, and a bulk copy waits for none by itself: those of the workers, those of the loader's
/// lanes, whose last copies needed what they have read, and that of `row`, which the loader has just read
/// there. So it is fenced, and the share, whose place follows from `row`, comes first.
__device__ __forceinline__ void fetch_phase(const decode_program& program, std::uint32_t index,
                                            share_row row) {
  if (index >= program.count) return;
  phase_slot& slot = header().stream.slots[index % phase_slots];
  const std::uint32_t barrier = shared_address_of(&header().stream.slot_barriers[index % phase_slots]);
  const block_share* const share = program.shares + row.of(program.columns) * program.blocks + blockIdx.x;
  fence_shared_for_async();
  barrier_expect(barrier, sizeof(decode_phase) + sizeof(block_share));
  bulk_copy(shared_address_of(&slot.share), share, sizeof(block_share), barrier);
  bulk_copy(shared_address_of(&slot.phase), program.phases + index, sizeof(decode_phase), barrier);
}

/// Waits until a phase is in its slot.
__device__ __forceinline__ void wait_for_phase(std::uint32_t phase) {
  barrier_wait(shared_address_of(&header().stream.slot_barriers[phase % phase_slots]),
               phase / phase_slots & 1U);
}

/// After the workers have synchronized: they have left all phases before this one.
__device__ __forceinline__ void enter_phase(std::uint32_t phase) {
  if (threadIdx.x == phase_keeper) write_volatile(header().stream.current, phase);
}

__device__ __forceinline__ std::byte* ring_memory(const decode_program& program) {
  return work_memory() + program.work_bytes + program.kept_bytes;
}
/// Of one worker.
__device__ __forceinline__ std::uint32_t ring_bytes(const decode_program& program) {
  return stream_bytes(program.work_bytes + program.kept_bytes);
}

/// Where rows are that were fetched ahead.
__device__ __forceinline__ float* next_norm(const decode_program& program) {
  return reinterpret_cast<float*>(work_memory() + program.work_bytes);
}
__device__ __forceinline__ float* next_router(const decode_program& program) {
  return reinterpret_cast<float*>(work_memory() + program.work_bytes + row_bytes(program.width));
}
/// How far a column's pairs are turned.
template <std::uint32_t Most>
__device__ __forceinline__ float2* turns_of(const decode_program& program, std::uint32_t column) {
  if constexpr (Most == 1) return header().turns;
  auto* const all = reinterpret_cast<float2*>(reinterpret_cast<std::byte*>(next_norm(program)) +
                                              (program.experts > 0 ? 2 : 1) * row_bytes(program.width));
  return all + column * (head_width_max / 2);
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

/// After the norm or the router's rows of a phase have been used: those of phases to come, into their memory.
__device__ __forceinline__ void fetch_next_rows(const decode_program& program, const decode_phase& phase) {
  if (threadIdx.x != phase_keeper) return;
  if (phase.next_norm != nullptr && phase.next_norm_at < program.count)
    fetch_row(next_norm(program), phase.next_norm, program.width, header().norm_barrier);
  if (phase.next_router != nullptr && blockIdx.x < program.experts)
    fetch_row(next_router(program),
              phase.next_router + static_cast<std::uint64_t>(blockIdx.x) * program.width, program.width,
              header().router_barrier);
}

/// One warp: the sum of its lanes' squares, where the scale of its row is found, if it is one of `units`.
__device__ __forceinline__ void keep_sum(float squares, std::uint32_t unit, std::uint32_t units) {
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0 && unit < units) header().scratch[unit] = squares;
}

/// norm_of_one of rows that a thread has `Values` values of, at most. What needs none of the row comes before
/// it: the compiler cannot tell that weights and what is stored lie apart.
template <std::uint32_t Values, class Store>
__device__ __forceinline__ void norm_at_once(const decode_program& program, const std::uint64_t* x, float eps,
                                             const walk& w, Store store) {
  const std::uint32_t n = program.width;
  const std::uint32_t thread = thread_here();
  float v[Values];
  float weights[Values];
  gather_floats<row_threads>(x, n, w.flag(), thread, v, [&] {
    wait_for_row(header().norm_barrier, slot_of(w.phase).phase.norm_round);
#pragma unroll
    for (std::uint32_t k = 0; k < Values; ++k) {
      const std::uint32_t i = thread + k * row_threads;
      weights[k] = i < n ? next_norm(program)[i] : 0.0F;
    }
  });
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k) squares = fmaf(v[k], v[k], squares);
  keep_sum(squares, thread / 32, norm_units);
  sync_row_threads();
  const float scale = rms_scale(sum_of_warps(header().scratch), n, eps);
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k) {
    const std::uint32_t i = thread + k * row_threads;
    if (i < n) store(0, i, __fmul_rn(__fmul_rn(v[k], scale), weights[k]));
  }
}

/// The same of any row, which is read twice, `Values` values at a time.
template <std::uint32_t Values, class Store>
__device__ __forceinline__ void norm_in_parts(const decode_program& program, const std::uint64_t* x,
                                              float eps, const walk& w, Store store) {
  const std::uint32_t n = program.width;
  const auto parts = [&](auto part) {
#pragma unroll 1
    for (std::uint32_t first = threadIdx.x; first < n; first += Values * row_threads) {
      float v[Values];
      gather_floats<row_threads>(x, n, w.flag(), first, v);
      part(first, v);
    }
  };
  float squares = 0.0F;
  parts([&](std::uint32_t, const float(&v)[Values]) {
#pragma unroll
    for (std::uint32_t k = 0; k < Values; ++k) squares = fmaf(v[k], v[k], squares);
  });
  keep_sum(squares, threadIdx.x / 32, norm_units);
  sync_row_threads();
  const float scale = rms_scale(sum_of_warps(header().scratch), n, eps);
  wait_for_row(header().norm_barrier, slot_of(w.phase).phase.norm_round);
  const float* const weights = next_norm(program);
  parts([&](std::uint32_t first, const float(&v)[Values]) {
#pragma unroll
    for (std::uint32_t k = 0; k < Values; ++k) {
      const std::uint32_t i = first + k * row_threads;
      if (i < n) store(0, i, __fmul_rn(__fmul_rn(v[k], scale), weights[i]));
    }
  });
}

/// Of one column, by row_threads threads: each asks for the values that it sums.
template <class Store>
__device__ __forceinline__ void norm_of_one(const decode_program& program, const std::uint64_t* x, float eps,
                                            const walk& w, Store store) {
  if (program.width <= 4 * row_threads)
    norm_at_once<4>(program, x, eps, w, store);
  else if (program.width <= 12 * row_threads)
    norm_at_once<12>(program, x, eps, w, store);
  else
    norm_in_parts<8>(program, x, eps, w, store);
}

/// norm_row() of `columns` columns of the residual stream from `x` on, bit for bit. Calls
/// store(column, i, value) for i < width; `staged` has room for a row of each. Not synchronized at the end,
/// which must come before the next.
template <std::uint32_t Most, class Store>
__device__ __forceinline__ void norm_of(const decode_program& program, const std::uint64_t* x, float eps,
                                        const walk& w, std::uint32_t columns, float* staged, Store store) {
  if constexpr (Most == 1) {
    if (threadIdx.x < row_threads) norm_of_one(program, x, eps, w, store);
    return;
  }
  const std::uint32_t n = program.width;
  wait_for_row(header().norm_barrier, slot_of(w.phase).phase.norm_round);
  // The warps that sum a row are units, of one column after the other.
  const auto units = [&](auto of_unit) {
#pragma unroll 1
    for (std::uint32_t unit = threadIdx.x / 32; unit < columns * norm_units; unit += program_warps)
      of_unit(unit, unit / norm_units, unit % norm_units * 32 + threadIdx.x % 32);
  };
  gather_pairs<worker_threads, 7>(
      columns * n / 2, w.flag(), threadIdx.x, [&](std::uint32_t i) { return x + 2 * i; },
      [&](std::uint32_t i, const flagged_two& v) {
        reinterpret_cast<float2*>(staged)[i] = {__uint_as_float(v.data(0)), __uint_as_float(v.data(1))};
      });
  sync_workers();
  units([&](std::uint32_t unit, std::uint32_t column, std::uint32_t thread) {
    float squares = 0.0F;
#pragma unroll 4
    for (std::uint32_t i = thread; i < n; i += row_threads)
      squares = fmaf(staged[column * n + i], staged[column * n + i], squares);
    keep_sum(squares, unit, columns * norm_units);
  });
  sync_workers();
  units([&](std::uint32_t, std::uint32_t column, std::uint32_t thread) {
    const float scale = rms_scale(sum_of_warps(header().scratch + column * norm_units), n, eps);
#pragma unroll 4
    for (std::uint32_t i = thread; i < n; i += row_threads)
      store(column, i, __fmul_rn(__fmul_rn(staged[column * n + i], scale), next_norm(program)[i]));
  });
}

/// f16 values of the phase before, `n` of each column, and zeros up to `padded`, which is a multiple of 64.
/// `stride` words and `x_stride` halfs lie between columns; `quads` divides by n / 4. Not synchronized at the
/// end.
template <std::uint32_t Most>
__device__ __forceinline__ void stage_halfs(const std::uint64_t* from, std::uint32_t stride, std::uint32_t n,
                                            std::uint32_t padded, const divider& quads, std::uint32_t columns,
                                            std::uint32_t flag, __half* x, std::uint32_t x_stride) {
  auto* const to = reinterpret_cast<uint2*>(x);
  const auto column_of = [&](std::uint32_t i) { return Most == 1 ? 0 : quads.quotient(i); };
  const auto place = [&](std::uint32_t i) {
    const std::uint32_t column = column_of(i);
    return from + column * stride + 2 * (i - column * (n / 4));
  };
  const auto store = [&](std::uint32_t i, const flagged_two& v) {
    const std::uint32_t column = column_of(i);
    to[column * (x_stride / 4) + i - column * (n / 4)] = {v.data(0), v.data(1)};
  };
  if constexpr (Most == 1) {
    // The others may be storing outputs of the phase before, or preparing those of this one.
    if (threadIdx.x < row_threads) gather_pairs<row_threads, 8>(n / 4, flag, threadIdx.x, place, store);
  } else {
    gather_pairs<worker_threads, 5>(columns * (n / 4), flag, threadIdx.x, place, store);
  }
  for (std::uint32_t column = 0; column < columns; ++column) {
    for (std::uint32_t i = n / 4 + threadIdx.x; i < padded / 4; i += worker_threads)
      to[column * (x_stride / 4) + i] = {0, 0};
  }
}

}  // namespace
}  // namespace orcd::kernels
