// What a block of a decode program gives away: its rows of the residual stream, and the outputs of its
// products, each folded, finished and handed to whoever waits for it. Part of program_kernel.cuh.
#pragma once

#include "kernels/matvec_tile.cuh"
#include "kernels/program_block.cuh"
#include "kernels/sample_math.cuh"

namespace orcd::kernels {
namespace {

/// Row tiles of a block's outputs: gate and up make one.
__device__ __forceinline__ std::uint32_t output_tiles(const packed_matmul_args& a, const block_share& share) {
  return is_paired(a) ? share.tiles[0] : share.tiles[0] + share.tiles[1] + share.tiles[2];
}

/// Output i of the block.
__device__ __forceinline__ result_place output_at(const packed_matmul_args& a, const block_share& share,
                                                  std::uint32_t i) {
  std::uint32_t tile = i / tile_rows;
  result_place place{share.item, 0, 0, 0};
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    if (!is_paired(a) && place.matrix == m && tile >= share.tiles[m]) {
      tile -= share.tiles[m];
      place.out_row += a.w[m].rows;
      ++place.matrix;
    }
  }
  place.row = (share.first_tile[place.matrix] + tile) * tile_rows + i % tile_rows;
  place.out_row += place.row;
  return place;
}

constexpr std::uint32_t no_target = 0xFFFFFFFFU;
/// Where among its phase's outputs an output of the block goes; padding nowhere.
__device__ __forceinline__ std::uint32_t target_of(const packed_matmul_args& a, const result_place& place) {
  if (is_padding(a, place)) return no_target;
  if (is_paired(a)) return place.column * a.act_stride + place.row;
  return a.output == matmul_output::add ? place.row : place.column * a.out_stride + place.out_row;
}

/// A new state of one of the block's own rows of the residual stream, its i-th value, to all blocks and to
/// what comes after the kernel.
__device__ __forceinline__ void publish_residual(const phase_slot& slot, std::uint32_t at, std::uint32_t i,
                                                 float value, std::uint32_t flag) {
  header().residual[i] = value;
  store_flagged(slot.phase.out + at, __float_as_uint(value), flag);
  slot.phase.matmul.out[at] = value;
}

template <std::uint32_t Most>
__device__ __forceinline__ void store_outputs(std::uint32_t phase, std::uint32_t outputs,
                                              std::uint32_t columns, const float* sums, std::uint32_t expert,
                                              std::uint32_t flag) {
  const phase_slot& slot = slot_of(phase);
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t chunks = slot.phase.chunks.d;
  const std::uint32_t all = columns * outputs;
  const std::uint32_t a_chunk = columns * tile_rows;
#pragma unroll 1
  for (std::uint32_t o = first_output(); o < all; o += worker_threads) {
    const std::uint32_t column = columns == 1 ? 0 : o / outputs;
    const std::uint32_t i = o - column * outputs;
    std::uint32_t target = no_target;
    const std::uint32_t at = term_place<Most>(phase, i % terms_of_phase<Most>);
    result_terms terms = header().terms[at];
    if (i < terms_of_phase<Most>) {
      target = header().targets[at];
    } else {
      const result_place place = output_at(a, slot.share, i);
      target = target_of(a, place);
      if (target != no_target) terms = terms_of(a, place, expert);
    }
    const bool padding = target == no_target;
    const float* mine = sums + (i / tile_rows * chunks * columns + column) * tile_rows + i % tile_rows;
    if (is_paired(a)) {
      float sums_of[2];
      fold(mine, chunks, a_chunk, slot.share.tiles[0] * chunks * a_chunk, sums_of);
      // Rows 2 n and 2 n + 1 are neighbours in one warp, whose first or whose all lanes have an output.
      const std::uint32_t lanes = o / 32 * 32 + 32 <= all ? 0xFFFFFFFFU : 0xFFFFU;
      const std::uint32_t half =
          padding ? 0U : __half_as_ushort(activated(a.output, terms, sums_of[0], sums_of[1]));
      const std::uint32_t next = __shfl_xor_sync(lanes, half, 1);
      if (i % 2 == 0 && !padding)
        store_flagged(slot.phase.out + (target + column * a.act_stride) / 2, half | next << 16U, flag);
      continue;
    }
    if (padding) continue;
    const float first = fold(mine, chunks, a_chunk);
    if (a.output == matmul_output::add) {
      publish_residual(slot, target + column * a.out_stride, o,
                       __fadd_rn(header().residual[o], with_terms(terms, 0, first)), flag);
    } else {
      store_flagged(slot.phase.out + target + column * a.out_stride,
                    __float_as_uint(with_terms(terms, 0, first)), flag);
    }
  }
}

/// Of the one column of an output head: its logits, and the key of the likeliest of the block's.
__device__ __forceinline__ void store_logits(const decode_program& program, std::uint32_t phase,
                                             std::uint32_t outputs, const float* sums) {
  const phase_slot& slot = slot_of(phase);
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t chunks = slot.phase.chunks.d;
  std::uint64_t likeliest = ~0ULL;  // an order value
#pragma unroll 1
  for (std::uint32_t i = first_output(); i < outputs; i += worker_threads) {
    const result_place place = output_at(a, slot.share, i);
    if (is_padding(a, place)) continue;
    const bool fetched = i < terms_of_phase<1>;
    const result_terms terms = fetched ? header().terms[term_place<1>(phase, i)] : terms_of(a, place, 0);
    const float sum = fold(sums + i / tile_rows * chunks * tile_rows + i % tile_rows, chunks, tile_rows);
    const float logit = with_terms(terms, 0, sum);
    float* const to = a.out + place.row;
    *to = logit;
    const auto id = static_cast<std::uint32_t>(to - program.logits);
    const bool banned = program.banned != nullptr && (program.banned[id / 32] >> id % 32 & 1U) != 0;
    if (logit > -INFINITY && !banned) likeliest = min(likeliest, order_of(logit, id));
  }
  likeliest = warp_min(likeliest);
  if (threadIdx.x % 32 == 0) atomicMax(&header().key, static_cast<unsigned long long>(~likeliest));
}

}  // namespace
}  // namespace orcd::kernels
