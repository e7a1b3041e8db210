// The phases of a mixture of experts besides its products: the router's logits, the choice, and the weighted
// sum of the experts' outputs. Part of program_kernel.cuh.
#pragma once

#include "kernels/decode_program/program_outputs.cuh"
#include "kernels/layer/expert_choice.cuh"

namespace orcd::kernels {
namespace {

/// Chooses the experts of each sequence. Every block does it for itself: that is faster than to wait for one
/// that tells the others. The loader is told as soon as the experts of this block's own sequence are known.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ void choose_experts(const decode_program& program, const phase_slot& slot,
                                               const walk& w) {
  stream_state& stream = header().stream;
  const route_args& a = slot.phase.route;
  const std::uint32_t sequence = MaxSequences == 1 ? 0 : threadIdx.x / 32;
  if (MaxSequences == 1 ? threadIdx.x < 32 : sequence < sequences_of<MaxSequences>(program)) {
    const std::uint64_t* const logits = slot.phase.in + sequence * a.experts;
    choose(
        a, [&](std::uint32_t expert) { return __uint_as_float(read_flagged(logits + expert, w.flag())); },
        stream.chosen + sequence * a.used, header().expert_weights + sequence * a.used,
        [&] {
          __syncwarp();
          if (threadIdx.x % 32 == 0 && (MaxSequences == 1 || sequence == slot.share.item / a.used))
            write_volatile(stream.known, w.phase);
        });
  }
  sync_workers();
}

/// Router logits: the block computes those of every program.blocks-th expert, a warp one sequence's. All
/// blocks compute the norm; it stays in working memory as the input of the experts' product that follows.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ void route(const decode_program& program, const walk& w) {
  const decode_phase& phase = slot_of(w.phase).phase;
  const route_args& a = phase.route;
  const std::uint32_t n = a.width;
  const std::uint32_t sequences = sequences_of<MaxSequences>(program);
  std::uint32_t own = 0;
  if (MaxSequences > 1) {
    wait_for_phase(w.phase + 1);
    own = slot_of(w.phase + 1).share.item / a.used;
  }
  auto* const x = reinterpret_cast<__half*>(work_memory());
  auto* const normed = reinterpret_cast<float*>(x + padded_cols(n));
  if (threadIdx.x < padded_cols(n) - n) x[n + threadIdx.x] = __half{};
  // Read before the wait for the residual stream, since it may come from VRAM.
  const float first_bias =
      a.bias != nullptr && blockIdx.x < a.experts ? read_volatile(a.bias[blockIdx.x]) : 0.0F;
  if (MaxSequences > 1 && blockIdx.x >= a.experts) {
    norm_of<MaxSequences>(program, phase.in + own * n, a.norm_eps, w, 1, normed,
                          [&](std::uint32_t, std::uint32_t i, float value) { x[i] = to_half(value); });
    return sync_workers();
  }
  const std::uint32_t mine = (a.experts + program.blocks - 1 - blockIdx.x) / program.blocks;
  norm_of<MaxSequences>(program, phase.in, a.norm_eps, w, sequences, normed,
                        [&](std::uint32_t sequence, std::uint32_t i, float value) {
                          if (sequence == own) x[i] = to_half(value);
                          normed[sequence * n + i] = value;
                        });
  sync_workers();
  std::uint32_t round = phase.route_round * mine;
#pragma unroll 1
  for (std::uint32_t expert = blockIdx.x; expert < a.experts; expert += program.blocks, ++round) {
    if (expert != blockIdx.x && threadIdx.x == 0)
      fetch_row(next_router(program), a.router + static_cast<std::uint64_t>(expert) * n, n,
                header().router_barrier);
    wait_for_row(header().router_barrier, round);
    const std::uint32_t warp = MaxSequences == 1 ? 0 : threadIdx.x / 32;
    if (MaxSequences == 1 ? threadIdx.x < 32 : warp < sequences) {
      float logit = logit_of(next_router(program), normed + warp * n, n);
      if (a.bias != nullptr) logit = __fadd_rn(logit, expert == blockIdx.x ? first_bias : a.bias[expert]);
      if (threadIdx.x % 32 == 0)
        store_flagged(phase.out + warp * a.experts + expert, __float_as_uint(logit), w.flag() + 1);
    }
    sync_workers();
  }
}

/// Adds the chosen experts' outputs, weighted, to the block's rows of the residual stream.
template <std::uint32_t MaxSequences>
__device__ __forceinline__ void combine(const decode_program& program, const walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const combine_experts_args& a = slot.phase.combine;
  const std::uint32_t rows = output_tiles(slot.phase.matmul, slot.share) * tile_rows;
  for (std::uint32_t o = threadIdx.x; o < sequences_of<MaxSequences>(program) * rows; o += worker_threads) {
    const std::uint32_t sequence = MaxSequences == 1 ? 0 : o / rows;
    const result_place place = output_at(slot.phase.matmul, slot.share, o - sequence * rows);
    if (is_padding(slot.phase.matmul, place)) continue;
    const std::uint64_t* const in = slot.phase.in + sequence * a.used * a.width + place.row;
    const float* const weights = header().expert_weights + sequence * a.used;
    constexpr std::uint32_t at_once = 4;
    float sum = 0.0F;
#pragma unroll 1
    for (std::uint32_t first = 0; first < a.used; first += at_once) {
      flagged_one outputs[at_once];
      gather(outputs, a.used - first, w.flag(), [&](std::uint32_t i) { return in + (first + i) * a.width; });
#pragma unroll
      for (std::uint32_t i = 0; i < at_once; ++i) {
        if (first + i < a.used)
          sum = with_expert_output(sum, weights[first + i], __uint_as_float(outputs[i].data()));
      }
    }
    publish_residual(slot, place.row + sequence * a.width, o, __fadd_rn(header().residual[o], sum),
                     w.flag() + 1);
  }
}

}  // namespace
}  // namespace orcd::kernels
