// The kernel of a decode program and its launch, for the source files that instantiate it
// (program_codes.hpp).
//
//  work()  warps 0 .. 14: each phase in order; begin, multiply or multiply_ternary, attend, route, combine
//  load()  warp 15: copies weights, and descriptions of phases into the slots of those that have been left
#pragma once

#include <cuda_runtime.h>

#include "kernels/attention/attention_dispatch.cuh"
#include "kernels/attention/decode_attention.cuh"
#include "kernels/decode_program/decode_program.hpp"
#include "kernels/decode_program/program_codes.hpp"
#include "kernels/decode_program/program_experts.cuh"
#include "kernels/decode_program/program_product.cuh"
#include "kernels/decode_program/program_ternary.cuh"

namespace orcd::kernels {
namespace {

using engine::kv_type;

template <std::uint32_t W>
using attention_shared = decode_shared<W, program_warps>;
static_assert(norm_units * 32 == row_threads);
template <std::uint32_t W>
constexpr bool heads_lie_past_the_page = offsetof(attention_shared<W>, heads) == attention_page_bytes(W);
static_assert(heads_lie_past_the_page<32> && heads_lie_past_the_page<64> && heads_lie_past_the_page<96> &&
              heads_lie_past_the_page<128>);
static_assert(sizeof(attention_shared<32>) <= attention_work_bytes(32) &&
              sizeof(attention_shared<64>) <= attention_work_bytes(64) &&
              sizeof(attention_shared<96>) <= attention_work_bytes(96) &&
              sizeof(attention_shared<128>) <= attention_work_bytes(128));

/// How attention gets its queries, keys and values from other blocks and hands its results on:
/// attention_memory (decode_attention.cuh) for flagged words.
template <std::uint32_t W, std::uint32_t MaxSequences>
struct attention_flagged {
  static constexpr std::uint32_t warps = program_warps;
  static constexpr bool hands_over_partials = MaxSequences == 1;
  static constexpr bool keeps_results = false;
  static constexpr bool prefetches_spans = false;
  static constexpr bool caps_scores = false;
  /// For heads of 65 to 96. Narrower ones load keys and values together anyway; wider ones leave too few
  /// registers.
  static constexpr bool prefetches_keys = MaxSequences == 1 && W > 64 && W <= 96;
  /// A warp that holds prefetched keys has no registers left to prepare heads; the warps after them do that.
  static constexpr std::uint32_t first_preparer = prefetches_keys ? row_threads / 32 : 0;

  const decode_phase& phase;
  std::uint32_t sequence;
  std::uint32_t flag;
  const float2* rope_cos_sin;  ///< of the sequence's position

  [[nodiscard]] __device__ __forceinline__ std::uint32_t pages_asked() const {
    return MaxSequences > 1 ? pages_ahead<W> + 1 : 0;
  }
  __device__ __forceinline__ void await_input() const {}  // read() waits for its words
  __device__ __forceinline__ void sync() const { sync_workers(); }
  [[nodiscard]] __device__ __forceinline__ auto partials(const decode_tile& tile, std::uint32_t first) const {
    const decode_attention_args& args = phase.attention;
    if constexpr (hands_over_partials)
      return handed_partials<W>{partials_from<W>(args.attend, phase.partials, tile, first), flag + 1};
    else
      return stored_partials<W>{partials_from<W>(args.attend, args.partials, tile, first)};
  }
  __device__ __forceinline__ void read(std::uint32_t index, float (&v)[head_values_per_lane<W>]) const {
    const rope_store_args& a = phase.attention.rope;
    gather_floats<32>(phase.in + sequence * a.stride + index * a.width, a.width, flag, threadIdx.x % 32, v);
  }
  __device__ __forceinline__ void write(std::uint32_t d, __half first, __half second) const {
    store_flagged(phase.out + (sequence * phase.attention.attend.out_stride + d) / 2,
                  __half_as_ushort(first) | static_cast<std::uint32_t>(__half_as_ushort(second)) << 16U,
                  flag + 1);
  }
};

/// Computes the cosines and sines of a layer's rotation, unless the layer before had the same table.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ void update_rope_cos_sin(const decode_program& program, const rope_store_args& a) {
  if (header().known_rope_table == a.inv_freq) return;
  for (std::uint32_t sequence = 0; sequence < sequences_of<MaxSequences>(program); ++sequence) {
    if (threadIdx.x < a.rope_dims / 2)
      cos_sin_of_sequence<MaxSequences>(program, sequence)[threadIdx.x] =
          rope_cos_sin_of(a, sequence, header().steps[sequence].position, threadIdx.x);
  }
  sync_workers();
  if (threadIdx.x == 0) header().known_rope_table = a.inv_freq;
  sync_workers();
}

/// Idle workers of the product before attention, which is this phase: prefetch the first page that it will
/// read into L2. More pages would delay the product's own weights.
template <std::uint32_t W>
__device__ __forceinline__ void prefetch_attention(std::uint32_t phase) {
  wait_for_phase(phase);
  const phase_slot& slot = slot_of(phase);
  const attention_share share = slot.share.attention;
  if (share.heads > 0)
    prefetch_pages<W, kv_type::f16, kv_type::f16>(
        slot.phase.attention.attend, {0, share.kv_head, share.first_head, share.heads}, header().steps[0],
        share.worker, slot.phase.page_workers, 1, threadIdx.x - row_threads, idle_threads);
}

template <std::uint32_t W, std::uint32_t MaxSequences>
__device__ __forceinline__ void attend(const decode_program& program, const walk& w) {
  const decode_phase& phase = slot_of(w.phase).phase;
  const decode_attention_args& args = phase.attention;
  const attention_args_paged& a = args.attend;
  auto& shared = *reinterpret_cast<attention_shared<W>*>(work_memory() + program.attention_at);
  const std::uint32_t sequences = sequences_of<MaxSequences>(program);
  const std::uint32_t workers =
      MaxSequences == 1 ? phase.page_workers : decode_page_workers(a, sequences, program.blocks);
  const std::uint32_t items = MaxSequences == 1 ? phase.attention_items : decode_items(a, sequences, workers);
  attention_share share = slot_of(w.phase).share.attention;
  if (MaxSequences > 1)
    share = blockIdx.x < items ? attention_share_of(a, sequences, blockIdx.x) : attention_share{};
  if (share.heads == 0) return;
  const auto tile = [](const attention_share& s) {
    return decode_tile{MaxSequences == 1 ? 0U : s.sequence, s.kv_head, s.first_head, s.heads};
  };
  // A step of one sequence has prefetched its first page; more would delay what is read now.
  [[maybe_unused]] const auto prefetch = [&](const attention_share& s) {
    const decode_tile its = tile(s);
    prefetch_pages<W, kv_type::f16, kv_type::f16>(a, its, header().steps[its.column], s.worker, workers,
                                                  pages_ahead<W> + 1, threadIdx.x, worker_threads);
  };
  if constexpr (MaxSequences > 1) prefetch(share);
  update_rope_cos_sin<MaxSequences>(program, args.rope);
#pragma unroll 1
  for (std::uint32_t item = blockIdx.x;;) {
    item += program.blocks;
    if (MaxSequences > 1 && item < items) prefetch(attention_share_of(a, sequences, item));
    const std::uint32_t sequence = tile(share).column;
    attend_token<W, kv_type::f16, kv_type::f16>(
        args, tile(share), header().steps[sequence], share.worker, workers,
        attention_flagged<W, MaxSequences>{phase, sequence, w.flag(),
                                           cos_sin_of_sequence<MaxSequences>(program, sequence)},
        shared);
    sync_workers();
    if (item >= items) return;
    share = attention_share_of(a, sequences, item);  // computed again: kept over the loop it would be spilled
  }
}

/// Takes the embedding, which the kernel before has written, as the first state of the block's rows.
template <std::uint32_t MaxSequences, std::uint32_t TileRows>
__device__ __forceinline__ void begin(const decode_program& program, const walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t rows = output_tiles(a, slot.share) * TileRows;
  for (std::uint32_t o = threadIdx.x; o < sequences_of<MaxSequences>(program) * rows; o += worker_threads) {
    const std::uint32_t sequence = MaxSequences == 1 ? 0 : o / rows;
    const result_place place = output_at<TileRows>(a, slot.share, o - sequence * rows);
    const std::uint32_t at = sequence * a.out_stride + place.row;
    if (!is_padding(a, place)) publish_residual(slot, at, o, a.out[at], w.flag() + 1);
  }
}

/// All workers, at the end: hand over the block's key; the last block adds the launch's phases to the count.
__device__ __forceinline__ void leave(const decode_program& program) {
  if (threadIdx.x == 0) {
    if (program.key != nullptr) atomicMax(program.key, header().key);
    std::uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(&program.state->left)
                 : "memory");
    header().clears = false;
    if (before + 1 == program.blocks) {
      program.state->left = 0;
      program.state->phases += program.count;
      header().clears = program.state->phases >= counted_phases_max;
      if (header().clears) program.state->phases = 0;
    }
  }
  sync_workers();
  if (!header().clears) return;
  for (std::uint64_t i = threadIdx.x; i < program.word_count; i += worker_threads) program.words[i] = 0;
}

template <std::uint32_t W, std::uint32_t MaxSequences, bool Stamps, class Code>
__device__ __forceinline__ void work(const decode_program& program) {
  walk w;
#pragma unroll 1
  for (; w.phase < program.count; ++w.phase) {
    wait_for_phase(w.phase);
    stamp<Stamps>(program, w.phase, 0);
    if constexpr (Code::adapts) prefetch_adapters(program, w.phase + adapters_ahead);
    const phase_kind kind = slot_of(w.phase).phase.kind;  // most are products, and each test costs time
    if (Code::has.ternary && __builtin_expect(kind == phase_kind::ternary, 1)) {
      multiply_ternary<Stamps>(program, w, [&] { prefetch_attention<W>(w.phase + 1); });
    } else if (__builtin_expect(kind == phase_kind::matmul, 1)) {
      multiply<MaxSequences, Stamps, Code>(program, w, [&] { prefetch_attention<W>(w.phase + 1); });
    } else if (__builtin_expect(kind == phase_kind::attention, 1)) {
      attend<W, MaxSequences>(program, w);
    } else if (kind == phase_kind::begin) {
      begin<MaxSequences, Code::has.ternary ? ternary_tile_rows : tile_rows>(program, w);
    } else if constexpr (Code::has.experts) {
      if (kind == phase_kind::route)
        route<MaxSequences>(program, w);
      else
        combine<MaxSequences>(program, w);
    }
    const decode_phase& phase = slot_of(w.phase).phase;
    if (MaxSequences > 1 || !phase.overlaps_next) {
      const bool product = phase.kind == phase_kind::matmul;  // read while the slot still holds this phase
      sync_workers();
      if (!product) fetch_next_rows(program, phase);
      enter_phase(w.phase + 1);
    }
    stamp<Stamps>(program, w.phase, 3);
  }
  leave(program);
}

/// The loader: each lane copies weights into one worker's ring. When no lane can start a copy, the slot of a
/// phase that workers and lanes have left gets the description of a later phase.
template <bool Adapts>
__device__ __forceinline__ void load(const decode_program& program) {
  const std::uint32_t worker = threadIdx.x % 32;
  if (worker >= program_warps) return;
  const std::uint32_t bytes = ring_bytes(program);
  ring_loader loader(worker, shared_address_of(ring_memory(program)) + worker * bytes, bytes);
  // The lanes vote, so that they stay together: once diverged, each would run its step alone.
  constexpr std::uint32_t lanes = (1U << program_warps) - 1;
  std::uint32_t left = 0;  // phases whose slots hold a later one
  for (;;) {
    const bool done = loader.phase() == program.count;
    if (__all_sync(lanes, done)) return;
    const bool moved = !done && loader.step(header().stream);
    if (__any_sync(lanes, moved)) continue;
    const bool is_left = left < read_volatile(header().stream.current) && left < loader.phase();
    if (__all_sync(lanes, is_left)) {
      if (worker == 0) fetch_phase<Adapts>(program, left + phase_slots, slot_of(left).phase.later);
      ++left;
    } else {
      __nanosleep(20);
    }
  }
}

/// One kernel for each padded width of heads, for one sequence and for two; for one, with stamps too where
/// ORCD_PROGRAM_STAMPS is defined.
template <std::uint32_t W, std::uint32_t MaxSequences, bool Stamps, class Code>
__global__ void __launch_bounds__(program_threads, 1)
    decode_program_kernel(const __grid_constant__ decode_program program) {
  check_memory_start();
  stream_state& stream = header().stream;
  allow_next_kernel();  // the next kernel has no room beside this one, but may follow at once
  if (threadIdx.x < phase_slots) barrier_init(shared_address_of(&stream.slot_barriers[threadIdx.x]), 1);
  if (threadIdx.x < program_warps * stream_copies)
    barrier_init(shared_address_of(stream.barriers[0] + threadIdx.x), 1);
  if (threadIdx.x < program_warps) stream.read[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    barrier_init(shared_address_of(&header().norm_barrier), 1);
    barrier_init(shared_address_of(&header().router_barrier), 1);
    header().known_rope_table = nullptr;
    header().key = 0;
    header().first_flag = read_volatile(program.state->phases);
    stream.current = 0;
    stream.known = 0;
  }
  if (threadIdx.x < sequences_of<MaxSequences>(program))
    header().steps[threadIdx.x] = program.steps[threadIdx.x];
  barrier_init_done();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < phase_slots; ++i)
      fetch_phase<Code::adapts>(program, i, program.first_shares[i]);
  }
  if (threadIdx.x < worker_threads)
    work<W, MaxSequences, Stamps, Code>(program);
  else
    load<Code::adapts>(program);
}

template <std::uint32_t W, std::uint32_t MaxSequences, bool Stamps, class Code>
int launch(const decode_program& program, CUstream_st* stream) {
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(decode_program_kernel<W, MaxSequences, Stamps, Code>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, multiprocessor_shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(program.blocks);
  config.blockDim = dim3(program_threads);
  config.dynamicSmemBytes = multiprocessor_shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, decode_program_kernel<W, MaxSequences, Stamps, Code>, program);
}

}  // namespace

template <class Code>
int program_kernels<Code>::launch(const decode_program& program, CUstream_st* stream) {
  return with_width<kv_type::f16, kv_type::f16>(
      program.padded_head_width, [&]<std::uint32_t W, kv_type K, kv_type V>() -> int {
        if (program.stamps == nullptr) return kernels::launch<W, 1, false, Code>(program, stream);
#ifdef ORCD_PROGRAM_STAMPS
        if constexpr (!Code::adapts)
          return kernels::launch<W, 1, true, Code>(program, stream);
        else
#endif
          return cudaErrorNotSupported;
      });
}

template <class Code>
int sequences_kernels<Code>::launch(const decode_program& program, CUstream_st* stream) {
  return with_width<kv_type::f16, kv_type::f16>(
      program.padded_head_width, [&]<std::uint32_t W, kv_type K, kv_type V>() {
        return kernels::launch<W, program_sequences_max, true, Code>(program, stream);
      });
}

}  // namespace orcd::kernels
