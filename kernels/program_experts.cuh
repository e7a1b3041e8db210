// The phases of a decode program that experts need beside their products: which of them each column has, and
// the sum of what they return. Part of program_kernel.cuh.
#pragma once

#include "kernels/expert_choice.cuh"
#include "kernels/program_outputs.cuh"

namespace orcd::kernels {
namespace {

/// The experts of each column, by every block for itself; the loader needs those of its own column.
template <std::uint32_t Most>
__device__ __forceinline__ void choose_experts(const decode_program& program, const phase_slot& slot,
                                               const walk& w) {
  stream_state& stream = header().stream;
  const route_args& a = slot.phase.route;
  const std::uint32_t column = Most == 1 ? 0 : threadIdx.x / 32;
  if (Most == 1 ? threadIdx.x < 32 : column < columns_of<Most>(program)) {
    const std::uint64_t* const logits = slot.phase.in + column * a.experts;
    choose(
        a, [&](std::uint32_t expert) { return __uint_as_float(read_flagged(logits + expert, w.flag())); },
        stream.chosen + column * a.used, header().expert_weights + column * a.used,
        [&] {
          __syncwarp();
          if (threadIdx.x % 32 == 0 && (Most == 1 || column == slot.share.item / a.used))
            write_volatile(stream.known, w.phase);
        });
  }
  sync_workers();
}

/// A block has every program.blocks-th expert, and a warp computes a column's logit of it. Leaves the norm of
/// the column whose expert's product is next for this block as that product's input.
template <std::uint32_t Most>
__device__ __forceinline__ void route(const decode_program& program, const walk& w) {
  const decode_phase& phase = slot_of(w.phase).phase;
  const route_args& a = phase.route;
  const std::uint32_t n = a.width;
  const std::uint32_t columns = columns_of<Most>(program);
  std::uint32_t own = 0;
  if (Most > 1) {
    wait_for_phase(w.phase + 1);
    own = slot_of(w.phase + 1).share.item / a.used;
  }
  auto* const x = reinterpret_cast<__half*>(work_memory());
  auto* const normed = reinterpret_cast<float*>(x + padded_cols(n));
  if (threadIdx.x < padded_cols(n) - n) x[n + threadIdx.x] = __half{};
  // Asked for before the wait: it may be far away.
  const float first_bias =
      a.bias != nullptr && blockIdx.x < a.experts ? read_volatile(a.bias[blockIdx.x]) : 0.0F;
  if (Most > 1 && blockIdx.x >= a.experts) {
    norm_of<Most>(program, phase.in + own * n, a.norm_eps, w, 1, normed,
                  [&](std::uint32_t, std::uint32_t i, float value) { x[i] = to_half(value); });
    return sync_workers();
  }
  const std::uint32_t mine = (a.experts + program.blocks - 1 - blockIdx.x) / program.blocks;
  norm_of<Most>(program, phase.in, a.norm_eps, w, columns, normed,
                [&](std::uint32_t column, std::uint32_t i, float value) {
                  if (column == own) x[i] = to_half(value);
                  normed[column * n + i] = value;
                });
  sync_workers();
  std::uint32_t round = phase.route_round * mine;
#pragma unroll 1
  for (std::uint32_t expert = blockIdx.x; expert < a.experts; expert += program.blocks, ++round) {
    if (expert != blockIdx.x && threadIdx.x == 0)
      fetch_row(next_router(program), a.router + static_cast<std::uint64_t>(expert) * n, n,
                header().router_barrier);
    wait_for_row(header().router_barrier, round);
    const std::uint32_t warp = Most == 1 ? 0 : threadIdx.x / 32;
    if (Most == 1 ? threadIdx.x < 32 : warp < columns) {
      float logit = logit_of(next_router(program), normed + warp * n, n);
      if (a.bias != nullptr) logit = __fadd_rn(logit, expert == blockIdx.x ? first_bias : a.bias[expert]);
      if (threadIdx.x % 32 == 0)
        store_flagged(phase.out + warp * a.experts + expert, __float_as_uint(logit), w.flag() + 1);
    }
    sync_workers();
  }
}

/// What the chosen experts return, into the block's own rows.
template <std::uint32_t Most>
__device__ __forceinline__ void combine(const decode_program& program, const walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const combine_experts_args& a = slot.phase.combine;
  const std::uint32_t rows = output_tiles(slot.phase.matmul, slot.share) * tile_rows;
  for (std::uint32_t o = threadIdx.x; o < columns_of<Most>(program) * rows; o += worker_threads) {
    const std::uint32_t column = Most == 1 ? 0 : o / rows;
    const result_place place = output_at(slot.phase.matmul, slot.share, o - column * rows);
    if (is_padding(slot.phase.matmul, place)) continue;
    const std::uint64_t* const in = slot.phase.in + column * a.used * a.width + place.row;
    const float* const weights = header().expert_weights + column * a.used;
    constexpr std::uint32_t at_once = 4;
    float sum = 0.0F;
#pragma unroll 1
    for (std::uint32_t first = 0; first < a.used; first += at_once) {
      flagged_one parts[at_once];
      gather(parts, a.used - first, w.flag(), [&](std::uint32_t i) { return in + (first + i) * a.width; });
#pragma unroll
      for (std::uint32_t i = 0; i < at_once; ++i) {
        if (first + i < a.used) sum = with_part(sum, weights[first + i], __uint_as_float(parts[i].data()));
      }
    }
    publish_residual(slot, place.row + column * a.width, o, __fadd_rn(header().residual[o], sum),
                     w.flag() + 1);
  }
}

}  // namespace
}  // namespace orcd::kernels
