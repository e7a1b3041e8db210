// What the warps of a block of a decode program share: its memory, its barriers, its place in the phases, and
// how the inputs of phases get from other blocks into shared memory. Part of program_kernel.cuh.
//
// The warps of a block in a step of one sequence (program_product.cuh has what they do in a product):
//
//   0 .. 7   row_threads          load a product's input from other blocks, and compute its norm
//   8 .. 10  idle_threads         prefetch the first page of attention where that comes next
//  11 .. 14  precompute_threads   describe the block's first outputs, load their scales and biases
//   0 .. 14  the workers          multiply chunks of weights; 8 .. 14 unpack one before the input is there
//  15        the loader           copies weights, and descriptions of phases
#pragma once

#include "kernels/decode_program/decode_program.hpp"
#include "kernels/decode_program/weight_stream.cuh"
#include "kernels/device/flagged.cuh"
#include "kernels/product/matvec_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t worker_threads = program_warps * 32;
constexpr std::uint32_t program_threads = worker_threads + 32;
static_assert(worker_threads >= row_threads);

/// The last four warps precompute one output each before a product: its address, its scale and its bias. In a
/// step of one sequence they can then store it as soon as its sums are there.
constexpr std::uint32_t precompute_threads = 128;
constexpr std::uint32_t first_precompute_thread = worker_threads - precompute_threads;
/// Workers that neither load a product's input nor precompute an output.
constexpr std::uint32_t idle_threads = first_precompute_thread - row_threads;
/// The thread that loads rows for later phases and says that a phase has been left.
constexpr std::uint32_t phase_keeper = worker_threads - 1;

/// threadIdx.x, read where it is needed. Kept in a register through all phases it would be spilled, and so
/// would what is derived from it.
__device__ __forceinline__ std::uint32_t thread_here() {
  std::uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
/// The first of the block's outputs that this thread stores; every worker_threads-th after it is its own,
/// too. The threads that precompute have the first ones. Those that load input have the last: where outputs
/// are few they have none and begin the next phase at once.
__device__ __forceinline__ std::uint32_t first_output() {
  if (threadIdx.x >= first_precompute_thread) return threadIdx.x - first_precompute_thread;
  return threadIdx.x >= row_threads ? threadIdx.x - row_threads + precompute_threads
                                    : threadIdx.x + (worker_threads - row_threads);
}

/// All that it takes to store an output of a product once its sums are there.
struct alignas(16) product_output {
  float scale[2];
  float bias[2];
  std::uint64_t* to;      ///< target_of(), for the first column
  std::uint16_t sums[2];  ///< index of each member's first partial sum, for the first column
  std::uint16_t chunks;   ///< partial sums of a member
  matmul_output output;
};
static_assert(sizeof(product_output) == 32);
static_assert(multiprocessor_shared_bytes / sizeof(float) <= 0xFFFF);  // indices of sums

/// What a block knows of its sequence's LoRA adapters (program_lora.cuh).
struct lora_state {
  phase_pairs slots[phase_slots];  ///< beside the phases' own
  float sums[2][4];                ///< of the warps that multiply a row of A
  float inner[program_inner_max];  ///< A x of the phase
};

/// The start of a block's shared memory (decode_program.hpp shows the rest).
struct program_header {
  stream_state stream;
  std::uint64_t norm_barrier;    ///< completes when the next norm's weights are there
  std::uint64_t router_barrier;  ///< completes when the next router row is there
  step_token steps[program_sequences_max];
  std::uint32_t first_flag;       ///< flag of the words that were written before the first phase
  const float* known_rope_table;  ///< the table (its frequencies) whose cosines and sines are known, or null
  float2 rope_cos_sin[narrow_head_max / 2];    ///< steps of one sequence
  product_output outputs[precompute_threads];  ///< of the block's first outputs
  float residual[own_rows_max];                ///< the block's values, one sequence after the other
  float scratch[program_sequences_max * row_threads / 32];
  float expert_weights[program_sequences_max * experts_used_max];
  unsigned long long key;  ///< of the highest of the block's logits, as decode_program::key
  bool clears;             ///< this block clears all words
  lora_state lora;         ///< in kernels with code for adapters
};
static_assert(sizeof(program_header) <= program_header_bytes);

extern __shared__ __align__(128) std::byte program_memory[];
/// Shared memory begins past what the device keeps for itself. As a constant, because the address of a symbol
/// takes an instruction that stalls, and a register, wherever it is used.
constexpr std::uint32_t program_shared_at = program_reserved_bytes;
__device__ __forceinline__ std::byte* memory_start() {
  return static_cast<std::byte*>(__cvta_shared_to_generic(program_shared_at));
}
/// Traps where the constant is wrong.
__device__ __forceinline__ void check_memory_start() {
  if (shared_address_of(program_memory) != program_shared_at) __trap();
}
__device__ __forceinline__ program_header& header() {
  return *reinterpret_cast<program_header*>(memory_start());
}
__device__ __forceinline__ std::byte* work_memory() {
  return memory_start() + program_header_bytes;
}
/// The slot of this worker's phase, or of the one before, or of a later one after wait_for_phase().
__device__ __forceinline__ const phase_slot& slot_of(std::uint32_t phase) {
  return header().stream.slots[phase % phase_slots];
}

__device__ __forceinline__ void sync_workers() {
  asm volatile("bar.sync 2, %0;" ::"n"(worker_threads) : "memory");
}

/// Barriers at which some workers only arrive. What an arriving thread wrote before is visible to a waiting
/// one. input_there: the loading warps arrive when a product's input is in shared memory; the others wait
/// before they multiply. phase_left: the others arrive when they have left the phase before; the loading
/// warps wait before they overwrite its sums.
enum class program_barrier : std::uint32_t { input_there = 3, phase_left = 4 };

template <program_barrier Barrier>
__device__ __forceinline__ void arrive_at() {
  asm volatile("bar.arrive %0, %1;" ::"n"(static_cast<int>(Barrier)), "n"(worker_threads) : "memory");
}
template <program_barrier Barrier>
__device__ __forceinline__ void wait_at() {
  asm volatile("bar.sync %0, %1;" ::"n"(static_cast<int>(Barrier)), "n"(worker_threads) : "memory");
}

/// A worker's walk through the phases, the same for all threads of a warp. Kept small: attention with the
/// widest heads uses all registers, and a spilled value takes long to come back, because so much shared
/// memory leaves little L1.
struct walk {
  std::uint32_t phase = 0;
  ring_reader reader;

  /// Of the words that the phase before wrote.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t flag() const { return header().first_flag + phase; }
};

/// Records one instant of a phase if `Stamps`, and if there is a place for it. The last instant is taken by
/// the thread that stores the block's first output.
template <bool Stamps>
__device__ __forceinline__ void stamp(const decode_program& program, std::uint32_t phase,
                                      std::uint32_t instant) {
  const std::uint32_t by = instant + 1 == phase_stamps ? first_precompute_thread : 0;
  if (!Stamps || threadIdx.x != by || program.stamps == nullptr) return;
  program.stamps[(static_cast<std::uint64_t>(blockIdx.x) * program.count + phase) * phase_stamps + instant] =
      clock_ns();
}

/// Sequences of the step. As a constant 1 in the kernel for one sequence.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ std::uint32_t sequences_of(const decode_program& program) {
  return MaxSequences == 1 ? 1 : program.sequences;
}

/// One thread: starts to copy a phase's description and the block's share of it into their slot, which must
/// be free. With `Adapts`, the pairs of its adapters as well.
///
/// The slot is read by the workers, by the loader's lanes and by this thread (`row`, which the slot held
/// until now). A bulk copy goes through the asynchronous proxy and is not ordered behind a thread's own
/// earlier reads, so those must have returned: the workers have synchronized since, and the lanes have used
/// what they read in their copies. For `row` there is the fence; and the share comes first, because its
/// address needs the value of `row`. Without both, a copy has overwritten `row` before it was read, and the
/// block took the share of another row.
template <bool Adapts>
__device__ __forceinline__ void fetch_phase(const decode_program& program, std::uint32_t index,
                                            share_row row) {
  if (index >= program.count) return;
  phase_slot& slot = header().stream.slots[index % phase_slots];
  const std::uint32_t barrier = shared_address_of(&header().stream.slot_barriers[index % phase_slots]);
  const block_share* const share = program.shares + row.of(program.sequences) * program.blocks + blockIdx.x;
  fence_shared_for_async();
  barrier_expect(barrier, sizeof(decode_phase) + sizeof(block_share) + (Adapts ? sizeof(phase_pairs) : 0));
  bulk_copy(shared_address_of(&slot.share), share, sizeof(block_share), barrier);
  bulk_copy(shared_address_of(&slot.phase), program.phases + index, sizeof(decode_phase), barrier);
  if constexpr (Adapts)
    bulk_copy(shared_address_of(&header().lora.slots[index % phase_slots]), program.adapters.phases + index,
              sizeof(phase_pairs), barrier);
}

/// Waits until a phase's description is in its slot.
__device__ __forceinline__ void wait_for_phase(std::uint32_t phase) {
  barrier_wait(shared_address_of(&header().stream.slot_barriers[phase % phase_slots]),
               phase / phase_slots & 1U);
}

/// Says that all workers have left the phases before this one; call it after they have synchronized.
__device__ __forceinline__ void enter_phase(std::uint32_t phase) {
  if (threadIdx.x == phase_keeper) write_volatile(header().stream.current, phase);
}

__device__ __forceinline__ std::byte* ring_memory(const decode_program& program) {
  return work_memory() + program.work_bytes + program.kept_bytes;
}
/// Of one worker's ring.
__device__ __forceinline__ std::uint32_t ring_bytes(const decode_program& program) {
  return stream_bytes(program.work_bytes + program.kept_bytes);
}

/// The rows in kept memory that are loaded before they are needed.
__device__ __forceinline__ float* next_norm(const decode_program& program) {
  return reinterpret_cast<float*>(work_memory() + program.work_bytes);
}
__device__ __forceinline__ float* next_router(const decode_program& program) {
  return reinterpret_cast<float*>(work_memory() + program.work_bytes + row_bytes(program.width));
}
/// Cosines and sines for a sequence's position.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ float2* cos_sin_of_sequence(const decode_program& program,
                                                       std::uint32_t sequence) {
  if constexpr (MaxSequences == 1) return header().rope_cos_sin;
  auto* const all = reinterpret_cast<float2*>(reinterpret_cast<std::byte*>(next_norm(program)) +
                                              (program.experts > 0 ? 2 : 1) * row_bytes(program.width));
  return all + sequence * (narrow_head_max / 2);
}

/// One thread: starts to load a row of constants into kept memory that nobody reads any more.
__device__ __forceinline__ void fetch_row(float* to, const float* from, std::uint32_t width,
                                          std::uint64_t& barrier) {
  const std::uint32_t bytes = width * static_cast<std::uint32_t>(sizeof(float));
  fence_shared_for_async();
  barrier_expect(shared_address_of(&barrier), bytes);
  bulk_copy(shared_address_of(to), from, bytes, shared_address_of(&barrier));
}
/// Waits for the barrier's round-th row, counted from 0.
__device__ __forceinline__ void wait_for_row(std::uint64_t& barrier, std::uint32_t round) {
  barrier_wait(shared_address_of(&barrier), round & 1U);
}

/// Starts to load the rows that later phases need, once this phase has used what is in their place.
__device__ __forceinline__ void fetch_next_rows(const decode_program& program, const decode_phase& phase) {
  if (threadIdx.x != phase_keeper) return;
  if (phase.next_norm != nullptr && phase.next_norm_at < program.count)
    fetch_row(next_norm(program), phase.next_norm, program.width, header().norm_barrier);
  if (phase.next_router != nullptr && blockIdx.x < program.experts)
    fetch_row(next_router(program),
              phase.next_router + static_cast<std::uint64_t>(blockIdx.x) * program.width, program.width,
              header().router_barrier);
}

/// One warp: reduces the sum of squares and puts it where rms_scale() takes it from, if the warp has one of
/// `units`.
__device__ __forceinline__ void keep_sum(float squares, std::uint32_t unit, std::uint32_t units) {
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0 && unit < units) header().scratch[unit] = squares;
}

/// The norm of a row of which each thread holds up to `Values` values in registers. The weights are read
/// while the row is on its way: the compiler would not move those reads up, as it cannot tell that weights
/// and results do not overlap.
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

/// The same for a row of any width, which is read twice, `Values` values of each thread at a time.
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

/// Single sequence: each of row_threads threads loads the values that it sums.
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

/// norm_row() of each of `sequences` rows of the residual stream from `x` on, bit for bit. Calls
/// store(sequence, i, value) for i < width; `staged` has room for the rows in f32. Does not synchronize at
/// the end; the workers must before `scratch` is used again.
template <std::uint32_t MaxSequences, class Store>
__device__ __forceinline__ void norm_of(const decode_program& program, const std::uint64_t* x, float eps,
                                        const walk& w, std::uint32_t sequences, float* staged, Store store) {
  if constexpr (MaxSequences == 1) {
    if (threadIdx.x < row_threads) norm_of_one(program, x, eps, w, store);
    return;
  }
  const std::uint32_t n = program.width;
  wait_for_row(header().norm_barrier, slot_of(w.phase).phase.norm_round);
  // A unit is a warp's part of a row. norm_row() sums with eight warps, so every row has eight units here,
  // too.
  const auto units = [&](auto of_unit) {
#pragma unroll 1
    for (std::uint32_t unit = threadIdx.x / 32; unit < sequences * norm_units; unit += program_warps)
      of_unit(unit, unit / norm_units, unit % norm_units * 32 + threadIdx.x % 32);
  };
  gather_pairs<worker_threads, 7>(
      sequences * n / 2, w.flag(), threadIdx.x, [&](std::uint32_t i) { return x + 2 * i; },
      [&](std::uint32_t i, const flagged_two& v) {
        reinterpret_cast<float2*>(staged)[i] = {__uint_as_float(v.data(0)), __uint_as_float(v.data(1))};
      });
  sync_workers();
  units([&](std::uint32_t unit, std::uint32_t sequence, std::uint32_t thread) {
    float squares = 0.0F;
#pragma unroll 4
    for (std::uint32_t i = thread; i < n; i += row_threads)
      squares = fmaf(staged[sequence * n + i], staged[sequence * n + i], squares);
    keep_sum(squares, unit, sequences * norm_units);
  });
  sync_workers();
  units([&](std::uint32_t, std::uint32_t sequence, std::uint32_t thread) {
    const float scale = rms_scale(sum_of_warps(header().scratch + sequence * norm_units), n, eps);
#pragma unroll 4
    for (std::uint32_t i = thread; i < n; i += row_threads)
      store(sequence, i, __fmul_rn(__fmul_rn(staged[sequence * n + i], scale), next_norm(program)[i]));
  });
}

/// Loads `n` f16 values of each sequence that the phase before wrote, with zeros up to `padded`, a multiple
/// of 64. `stride` words and `x_stride` halves lie between sequences; `quads` divides by n / 4. Does not
/// synchronize at the end.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ void stage_halves(const std::uint64_t* from, std::uint32_t stride, std::uint32_t n,
                                             std::uint32_t padded, const divider& quads,
                                             std::uint32_t sequences, std::uint32_t flag, __half* x,
                                             std::uint32_t x_stride) {
  auto* const to = reinterpret_cast<uint2*>(x);
  const auto column_of = [&](std::uint32_t i) { return MaxSequences == 1 ? 0 : quads.quotient(i); };
  const auto place = [&](std::uint32_t i) {
    const std::uint32_t sequence = column_of(i);
    return from + sequence * stride + 2 * (i - sequence * (n / 4));
  };
  const auto store = [&](std::uint32_t i, const flagged_two& v) {
    const std::uint32_t sequence = column_of(i);
    to[sequence * (x_stride / 4) + i - sequence * (n / 4)] = {v.data(0), v.data(1)};
  };
  if constexpr (MaxSequences == 1) {
    // Only the loading warps: the others may still store outputs of the phase before, or precompute this
    // one's.
    if (threadIdx.x < row_threads) gather_pairs<row_threads, 8>(n / 4, flag, threadIdx.x, place, store);
  } else {
    gather_pairs<worker_threads, 5>(sequences * (n / 4), flag, threadIdx.x, place, store);
  }
  for (std::uint32_t sequence = 0; sequence < sequences; ++sequence) {
    for (std::uint32_t i = n / 4 + threadIdx.x; i < padded / 4; i += worker_threads)
      to[sequence * (x_stride / 4) + i] = {0, 0};
  }
}

}  // namespace
}  // namespace orcd::kernels
