// What a block of a decode program hands over: its rows of the residual stream, and the outputs of its
// products. An output is the fold of its chunks' partial sums, times the row scale, plus the bias, then
// activated or added; it is stored as a flagged word for the blocks that wait for it. Part of
// program_kernel.cuh.
#pragma once

#include "kernels/decode_program/program_block.cuh"
#include "kernels/product/matvec_tile.cuh"
#include "kernels/sample/sample_math.cuh"

namespace orcd::kernels {
namespace {

/// Row tiles of a block's outputs; a gate and an up tile make one.
__device__ __forceinline__ std::uint32_t output_tiles(const packed_matmul_args& a, const block_share& share) {
  return is_paired(a) ? share.tiles[0] : share.tiles[0] + share.tiles[1] + share.tiles[2];
}

/// Where output i of the block lies in the product's matrices, whose tiles have so many rows.
template <std::uint32_t TileRows = tile_rows>
__device__ __forceinline__ result_place output_at(const packed_matmul_args& a, const block_share& share,
                                                  std::uint32_t i) {
  std::uint32_t tile = i / TileRows;
  result_place place{share.item, 0, 0, 0};
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    if (!is_paired(a) && place.matrix == m && tile >= share.tiles[m]) {
      tile -= share.tiles[m];
      place.out_row += a.w[m].rows;
      ++place.matrix;
    }
  }
  place.row = (share.first_tile[place.matrix] + tile) * TileRows + i % TileRows;
  place.out_row += place.row;
  return place;
}

/// Words from one column's outputs to the next one's.
__device__ __forceinline__ std::uint32_t column_words(const packed_matmul_args& a) {
  return is_paired(a) ? a.act_stride / 2 : a.out_stride;
}
/// The word that an output goes to. Two neighbouring f16 outputs share one; padding has none.
__device__ __forceinline__ std::uint64_t* target_of(const phase_slot& slot, const result_place& place) {
  const packed_matmul_args& a = slot.phase.matmul;
  if (is_padding(a, place)) return nullptr;
  const std::uint32_t in_column = is_paired(a) ? place.row / 2 : place.out_row;
  return slot.phase.out + place.column * column_words(a) + in_column;
}

/// Keeps a new state of one of the block's rows of the residual stream, its i-th value: in shared memory for
/// the block itself, and in `out` for the kernels after this one.
__device__ __forceinline__ void keep_residual(const phase_slot& slot, std::uint32_t at, std::uint32_t i,
                                              float value) {
  header().residual[i] = value;
  slot.phase.matmul.out[at] = value;
}
/// And hands it to all blocks.
__device__ __forceinline__ void publish_residual(const phase_slot& slot, std::uint32_t at, std::uint32_t i,
                                                 float value, std::uint32_t flag) {
  store_flagged(slot.phase.out + at, __float_as_uint(value), flag);
  keep_residual(slot, at, i, value);
}

/// Describes output i of the block, without scales and biases.
__device__ __forceinline__ product_output output_of_block(const phase_slot& slot, const result_place& place,
                                                          std::uint32_t i, std::uint32_t columns) {
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t chunks = slot.phase.chunks.d;
  const std::uint32_t sums = i / tile_rows * chunks * columns * tile_rows + i % tile_rows;
  const std::uint32_t apart = is_paired(a) ? slot.share.tiles[0] * chunks * columns * tile_rows : 0;
  return {{},
          {},
          target_of(slot, place),
          {static_cast<std::uint16_t>(sums), static_cast<std::uint16_t>(sums + apart)},
          static_cast<std::uint16_t>(chunks),
          a.output};
}

/// A precomputing thread: describes its output in shared memory and starts to load its scales and biases
/// there.
__device__ __forceinline__ void precompute_output(const phase_slot& slot, std::uint32_t outputs,
                                                  std::uint32_t columns, std::uint32_t expert) {
  const std::uint32_t i = threadIdx.x - first_precompute_thread;
  product_output& to = header().outputs[i];
  to.output = slot.phase.matmul.output;  // all threads, padding too: they branch on it together
  if (i >= outputs) {
    to.to = nullptr;
    return;
  }
  const result_place place = output_at(slot.phase.matmul, slot.share, i);
  const product_output its = output_of_block(slot, place, i, columns);
  to.to = its.to;
  to.sums[0] = its.sums[0];
  to.sums[1] = its.sums[1];
  to.chunks = its.chunks;
  fetch_scales(slot.phase.matmul, place, expert, to.scale, to.bias);
}

/// What is added to an output at place `out_row` of the product's: nothing. program_lora.cuh has the other.
struct as_it_is {
  __device__ __forceinline__ float operator()(std::uint32_t /*out_row*/, float value) const { return value; }
};

/// Folds, finishes and stores output o of the block (counted through all columns). Its partial sums lie
/// `stride` apart; `old` is the residual stream's value; adapt(out_row, value) comes after the bias and what
/// was there, before an activation. `lanes` are the lanes of the warp that call this together: with gate and
/// up, rows 2 n and 2 n + 1 are in neighbouring lanes, which combine their halves into one word.
template <class Adapt>
__device__ __forceinline__ void store_output(const phase_slot& slot, const product_output& its,
                                             const float* sums, std::uint32_t stride, float old,
                                             std::uint32_t o, std::uint32_t lanes, std::uint32_t flag,
                                             Adapt adapt) {
  const result_terms terms{{its.scale[0], its.scale[1]}, {its.bias[0], its.bias[1]}, 0.0F};
  const bool padding = its.to == nullptr;
  if (is_paired(its.output)) {
    std::uint32_t half = 0;
    if (!padding) {
      const float* const members[2] = {sums + its.sums[0], sums + its.sums[1]};
      float folded[2];
      fold(members, its.chunks, stride, folded);
      const auto row = 2 * static_cast<std::uint32_t>(its.to - slot.phase.out) + o % 2;
      const float gate = adapt(row, with_terms(terms, 0, folded[0]));
      const float up = adapt(slot.phase.matmul.w[0].rows + row, with_terms(terms, 1, folded[1]));
      half = __half_as_ushort(program_activated(its.output, gate, up));
    }
    const std::uint32_t next = __shfl_xor_sync(lanes, half, 1);
    if (o % 2 == 0 && !padding) store_flagged(its.to, half | next << 16U, flag);
    return;
  }
  if (padding) return;
  float value = with_terms(terms, 0, fold(sums + its.sums[0], its.chunks, stride));
  const bool adds = its.output == matmul_output::add;
  if (adds) value = __fadd_rn(old, value);
  const auto out_row = static_cast<std::uint32_t>(its.to - slot.phase.out);
  value = adapt(out_row, value);
  store_flagged(its.to, __float_as_uint(value), flag);
  if (adds) keep_residual(slot, out_row, o, value);
}

/// Stores outputs `first`, `first` + worker_threads, ..., counted through all columns.
template <std::uint32_t MaxSequences, class Adapt>
__device__ __forceinline__ void store_outputs(const phase_slot& slot, std::uint32_t first,
                                              std::uint32_t outputs, std::uint32_t columns, const float* sums,
                                              std::uint32_t expert, std::uint32_t flag, Adapt adapt) {
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t all = columns * outputs;
#pragma unroll 1
  for (std::uint32_t o = first; o < all; o += worker_threads) {
    const std::uint32_t column = columns == 1 ? 0 : o / outputs;
    const std::uint32_t i = o - column * outputs;
    product_output its;
    if (MaxSequences > 1 && i < precompute_threads) {
      its = header().outputs[i];
    } else {
      const result_place place = output_at(a, slot.share, i);
      its = output_of_block(slot, place, i, columns);
      if (its.to != nullptr) {
        const result_terms terms = terms_of(a, place, expert);
        for (std::uint32_t m = 0; m < 2; ++m) {
          its.scale[m] = terms.scale[m];
          its.bias[m] = terms.bias[m];
        }
      }
    }
    if (its.to != nullptr) its.to += column * column_words(a);
    const std::uint32_t lanes = o / 32 * 32 + 32 <= all ? 0xFFFFFFFFU : 0xFFFFU;
    const float old = its.output == matmul_output::add ? header().residual[o] : 0.0F;
    store_output(slot, its, sums + column * tile_rows, columns * tile_rows, old, o, lanes, flag, adapt);
  }
}

/// Whether the phase is a part of the output head, in a step of one sequence.
__device__ __forceinline__ bool gives_logits(const phase_slot& slot) {
  return slot.phase.out == nullptr;
}

/// Prefetches the row scales of an output head, which has one matrix, into L2.
__device__ __forceinline__ void prefetch_scales(const phase_slot& slot, std::uint32_t outputs) {
  constexpr std::uint32_t a_sector = l2_sector_bytes / sizeof(float);
  const std::uint32_t i = a_sector * threadIdx.x;
  const float* const scales = slot.phase.matmul.w[0].row_scale;
  if (i < outputs && scales != nullptr) prefetch_sector(scales + slot.share.first_tile[0] * tile_rows + i);
}

/// Stores the block's logits, and reduces the order value of its highest one that is not banned into
/// header().key.
__device__ __forceinline__ void store_logits(const decode_program& program, const phase_slot& slot,
                                             std::uint32_t outputs, const float* sums) {
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t chunks = slot.phase.chunks.d;
  std::uint64_t top = ~0ULL;  // the lowest order value is the highest logit
#pragma unroll 1
  for (std::uint32_t i = first_output(); i < outputs; i += worker_threads) {
    const result_place place = output_at(a, slot.share, i);
    if (is_padding(a, place)) continue;
    const result_terms terms = terms_of(a, place, 0);
    const float sum = fold(sums + i / tile_rows * chunks * tile_rows + i % tile_rows, chunks, tile_rows);
    const float logit = with_terms(terms, 0, sum);
    float* const to = a.out + place.row;
    *to = logit;
    const auto id = static_cast<std::uint32_t>(to - program.logits);
    const bool banned = program.banned != nullptr && (program.banned[id / 32] >> id % 32 & 1U) != 0;
    if (logit > -INFINITY && !banned) top = min(top, order_of(logit, id));
  }
  top = warp_min(top);
  if (threadIdx.x % 32 == 0) atomicMax(&header().key, static_cast<unsigned long long>(~top));
}

}  // namespace
}  // namespace orcd::kernels
