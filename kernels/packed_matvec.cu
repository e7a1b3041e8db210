// The latency kernel: a few columns, every weight read once. A launch is one wave of blocks of all a
// multiprocessor's registers; a block owns row tiles for all of k. What fits of its weights is on its way to
// shared memory before the kernel waits for the one ahead of it.
#include <algorithm>

#include "kernels/device_room.hpp"
#include "kernels/launch.cuh"
#include "kernels/matvec_chunks.cuh"
#include "kernels/matvec_tile.cuh"
#include "kernels/norm_row.cuh"

namespace orcd::kernels {
namespace {

/// Sums of shared tiles may take so much of it.
constexpr std::uint32_t partial_max = 40 * 1024;
/// Outputs of a block whose terms are fetched ahead.
constexpr std::uint32_t terms_ahead = 256;
/// What a thread asks L2 for of the next product, and a block at most.
constexpr std::uint32_t prefetch_piece = 1024;
constexpr std::uint32_t prefetch_most = 128 * 1024;

/// At the start of shared memory; x [columns][x_stride], the sums [chunk of the block][columns][16] of
/// shared tiles, and the slots follow.
struct matvec_shared {
  std::uint64_t barriers[slots_max];
  result_terms terms[terms_ahead];
  float scratch[8];
};

__device__ __forceinline__ result_place result_of(const packed_matmul_args& a, const matvec_plan& plan,
                                                  std::uint32_t column, std::uint32_t tile,
                                                  std::uint32_t row_in_tile) {
  const tile_place place = place_of(a, plan, tile, 0);
  const std::uint32_t row = place.tile * tile_rows + row_in_tile;
  return {column, place.matrix, row, place.out_row + row};
}

/// Result i of the block: rows of a tile, then columns, then tiles.
__device__ __forceinline__ result_place result_at(const packed_matmul_args& a, const matvec_plan& plan,
                                                  const block_work& work, std::uint32_t i) {
  return result_of(a, plan, work.first_column + i / tile_rows % work.columns,
                   work.first_tile + i / (tile_rows * work.columns), i % tile_rows);
}

/// Folds and stores result i of the block.
__device__ __forceinline__ void store_shared(const packed_matmul_args& a, const matvec_plan& plan,
                                             const block_work& work, const float* partial, std::uint32_t i,
                                             const result_place& place, const result_terms& terms) {
  const std::uint32_t chunks = a.w[0].chunks();
  const std::uint32_t stride = tile_rows * work.columns;
  const float* sums = partial + i / stride * plan.members * chunks * stride + i % stride;
  const float first = fold(sums, chunks, stride);
  store_result(a, place, terms, first,
               plan.members == 2 ? fold(sums + chunks * stride, chunks, stride) : 0.0F);
}

/// All results of the block; the terms of the first are on their way.
__device__ __forceinline__ void store_all_shared(const packed_matmul_args& a, const matvec_plan& plan,
                                                 const block_work& work, const float* partial,
                                                 matvec_shared& shared, std::uint32_t expert) {
  result_terms late;
  for (std::uint32_t i = threadIdx.x; i < work.tiles * tile_rows * work.columns; i += matvec_threads) {
    const result_place place = result_at(a, plan, work, i);
    if (is_padding(a, place)) continue;
    if (i >= terms_ahead) late = terms_of(a, place, expert);
    copied_floats();
    store_shared(a, plan, work, partial, i, place, i < terms_ahead ? shared.terms[i] : late);
  }
}

/// What a warp's lanes hold of a tile of its own: sums folded so far, of the member at work and of the one
/// before it.
struct own_tile {
  float first[4] = {};
  float sum[4] = {};

  __device__ __forceinline__ void add(std::uint32_t chunk, std::uint32_t member, const float (&acc)[4]) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      if (chunk == 0 && member == 1) first[i] = sum[i];
      sum[i] = chunk == 0 ? acc[i] : sum[i] + acc[i];
    }
  }
  __device__ __forceinline__ void store(const packed_matmul_args& a, const matvec_plan& plan,
                                        const block_work& work, std::uint32_t tile,
                                        std::uint32_t expert) const {
    const std::uint32_t g = threadIdx.x % 32 / 4;
    const std::uint32_t t = threadIdx.x % 4;
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t column = 2 * t + (i & 1U);
      if (column >= work.columns) continue;
      const result_place place = result_of(a, plan, work.first_column + column, tile, g + (i / 2) * 8);
      if (is_padding(a, place)) continue;
      store_result(a, place, terms_of(a, place, expert), plan.members == 2 ? first[i] : sum[i], sum[i]);
    }
  }
};

/// All chunks of this warp.
__device__ __forceinline__ void multiply_all(const packed_matmul_args& a, const matvec_plan& plan,
                                             const block_work& work, const chunk_slots& slots,
                                             const __half* x, float* partial, std::uint32_t expert) {
  own_tile own;
  const std::uint32_t warp = threadIdx.x / 32;
  if (warp >= plan.warps.d) return;
  for (std::uint32_t v = warp; v < slots.count; v += plan.warps.d) {
    const chunk_place p(plan, v);
    if (!work.has(plan, p)) return;  // tiles of its own: later ones are past the end too
    const packed_matrix& w = a.w[work.tile(a, plan, p.row).matrix];
    const std::uint32_t round = plan.slots.quotient(v);
    const std::uint32_t slot = v - round * plan.slots.d;
    const std::byte* bytes = slots.wait(slot, round);
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    with_format(w.format, 0, [&](auto format) {
      multiply_chunk<decltype(format)::value>(bytes,
                                              min(groups_per_chunk, w.groups() - p.chunk * groups_per_chunk),
                                              x + p.chunk * chunk_cols, acc);
      return 0;
    });
    slots.release(v, slot, expert);
    if (!plan.own_tiles) {
      keep_sums(partial + v * tile_rows * work.columns, work.columns, threadIdx.x % 32, acc);
      continue;
    }
    const std::uint32_t member = plan.members == 2 ? p.row % 2 : 0;
    own.add(p.chunk, member, acc);
    if (p.chunk + 1 == plan.chunks.d && member + 1 == plan.members)
      own.store(a, plan, work, work.first_tile + (plan.members == 2 ? p.row / 2 : p.row), expert);
  }
}

/// Asks L2 for this block's share of what the next product reads.
__device__ __forceinline__ void prefetch_next(const next_weights& next, std::uint32_t part) {
  const std::uint32_t offset = threadIdx.x * prefetch_piece;
  const std::uint64_t from = static_cast<std::uint64_t>(part) * blockIdx.x + offset;
  if (offset >= min(part, prefetch_most) || from >= next.bytes) return;
  const std::uint64_t left = min(static_cast<std::uint64_t>(part - offset), next.bytes - from);
  prefetch_l2(next.data + from, min(left, static_cast<std::uint64_t>(prefetch_piece)));
}

/// All threads: a row of activations, or the norm of one of the residual stream, into shared memory as f16.
/// Not synchronized at the end.
__device__ __forceinline__ void stage_input(const packed_matmul_args& a, const norm_weights<>& weights,
                                            std::uint32_t row, __half* x, float* scratch) {
  const std::uint32_t cols = a.w[0].cols;
  const std::uint32_t padded = padded_cols(a.w[0].cols);
  if (a.norm_x != nullptr) {
    norm_row(a.norm_x + static_cast<std::uint64_t>(row) * cols, cols, padded, weights, a.norm_eps, scratch,
             [&](std::uint32_t i, float value) { x[i] = to_half(value); });
    return;
  }
  const auto* from = reinterpret_cast<const uint4*>(a.x + static_cast<std::uint64_t>(row) * a.x_stride);
  for (std::uint32_t i = threadIdx.x; i < padded / 8; i += matvec_threads)
    reinterpret_cast<uint4*>(x)[i] = from[i];
}

/// grid.x: one wave of blocks; grid.y: 1, or one column each with experts.
__global__ void __launch_bounds__(matvec_threads, 1)
    matvec_kernel(const __grid_constant__ packed_matmul_args a, const __grid_constant__ matvec_plan plan) {
  extern __shared__ uint4 shared_bytes[];
  auto& shared = *reinterpret_cast<matvec_shared*>(shared_bytes);
  auto* const bytes = reinterpret_cast<std::byte*>(shared_bytes);
  auto* const x = reinterpret_cast<__half*>(bytes + plan.x_at);
  auto* const partial = reinterpret_cast<float*>(bytes + plan.partial_at);
  const std::uint32_t lane = threadIdx.x % 32;

  const block_work work(a, plan);
  const chunk_slots slots{
      a, plan, work, work.chunks(plan), shared_address_of(shared.barriers), bytes + plan.slots_at};
  const std::uint32_t result = threadIdx.x;
  const bool has_result = !plan.own_tiles && result < min(terms_ahead, work.tiles * tile_rows * work.columns);
  // What does not depend on the kernel before this one starts now.
  std::uint32_t expert = 0;
  if (a.experts == nullptr) {
    slots.fill(expert);
    if (has_result)
      fetch_scales(a, result_at(a, plan, work, result), expert, shared.terms[result].scale,
                   shared.terms[result].bias);
  }
  prefetch_next(a.next, plan.next_part);
  {
    const norm_weights weights(a.norm_weight, a.w[0].cols);
    wait_for_previous_kernel();
    allow_next_kernel();
    if (a.experts != nullptr) {
      expert = static_cast<std::uint32_t>(a.experts[work.first_column]);
      slots.fill(expert);
      if (has_result)
        fetch_scales(a, result_at(a, plan, work, result), expert, shared.terms[result].scale,
                     shared.terms[result].bias);
    }
    if (has_result && a.output == matmul_output::add)
      fetch_old(a, result_at(a, plan, work, result), shared.terms[result]);
    for (std::uint32_t c = 0; c < work.columns; ++c) {
      const std::uint32_t row = (work.first_column + c) / a.x_divisor;
      stage_input(a, weights, row, x + c * plan.x_stride, shared.scratch);
    }
    __syncthreads();
  }

  // Lanes of columns that do not exist read another's: no column takes part in another's results.
  const __half* lane_x = x + min(lane / 4, work.columns - 1) * plan.x_stride + 16 * (lane % 4);
  multiply_all(a, plan, work, slots, lane_x, partial, expert);
  if (plan.own_tiles) return;
  __syncthreads();
  store_all_shared(a, plan, work, partial, shared, expert);
}

constexpr std::uint32_t aligned(std::uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

struct matvec_launch {
  matvec_plan plan;
  dim3 grid;
  std::uint32_t shared;  ///< bytes; 0 = these columns do not fit
};

/// One wave of blocks; a block's warps share its tiles unless the sums would take too much room.
matvec_launch launch_of(const packed_matmul_args& a, std::uint32_t multiprocessors) {
  matvec_launch l{};
  matvec_plan& plan = l.plan;
  const std::uint32_t chunks = a.w[0].chunks();
  plan.members = is_paired(a) ? 2 : 1;
  plan.chunks = divider::by(chunks);
  plan.in_tile = divider::by(chunks * plan.members);
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    plan.chunk_bytes[i] = a.w[i].chunk_bytes();
    plan.tile_bytes[i] = static_cast<std::uint32_t>(a.w[i].tile_bytes());
    plan.slot_bytes = std::max(plan.slot_bytes, std::min(plan.chunk_bytes[i], plan.tile_bytes[i]));
    plan.tiles += a.w[i].row_tiles();
  }
  plan.tiles /= plan.members;
  const std::uint32_t items = a.experts != nullptr ? a.columns : 1;
  const std::uint32_t columns = a.experts != nullptr ? 1 : a.columns;
  const std::uint32_t blocks = std::min(plan.tiles, std::max(1U, multiprocessors / items));
  l.grid = dim3(blocks, items);

  const std::uint32_t in_block = (plan.tiles + blocks - 1) / blocks;
  plan.x_stride = padded_cols(a.w[0].cols) + 8;  // columns in different banks
  plan.x_at = aligned(sizeof(matvec_shared));
  plan.partial_at = plan.x_at + aligned(columns * plan.x_stride * sizeof(__half));
  const std::uint32_t partial_bytes = aligned(in_block * plan.members * chunks * tile_rows * columns *
                                              static_cast<std::uint32_t>(sizeof(float)));
  plan.own_tiles = partial_bytes > partial_max;
  plan.slots_at = plan.partial_at + (plan.own_tiles ? 0 : partial_bytes);
  if (plan.slots_at + plan.slot_bytes > multiprocessor_shared_bytes) return l;
  const std::uint32_t fit =
      std::min(slots_max, (multiprocessor_shared_bytes - plan.slots_at) / plan.slot_bytes);
  const std::uint32_t warps = std::min(matvec_warps, fit);
  plan.warps = divider::by(warps);
  // A slot that is used again serves one warp only: nobody else could wait a round behind it.
  const std::uint32_t wanted = in_block * plan.members * chunks;
  plan.slots = divider::by(plan.own_tiles || wanted > fit ? fit / warps * warps : wanted);
  if (a.next.data != nullptr && items == 1)
    plan.next_part = static_cast<std::uint32_t>((a.next.bytes / blocks + 16) / 16 * 16);
  l.shared = plan.slots_at + plan.slots.d * plan.slot_bytes;
  return l;
}

bool valid(const packed_matmul_args& a) {
  if (a.columns == 0 || a.matrices == 0 || a.matrices > 3 || (is_paired(a) && a.matrices != 2) ||
      a.x_divisor == 0)
    return false;
  if (a.experts == nullptr && a.columns > matvec_columns_max) return false;
  if ((a.x == nullptr) == (a.norm_x == nullptr)) return false;
  if (a.x != nullptr && (a.x_stride % 8 != 0 || a.x_stride < padded_cols(a.w[0].cols))) return false;
  if (is_paired(a) ? a.act == nullptr : a.out == nullptr) return false;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    if (a.w[i].data == nullptr || a.w[i].cols != a.w[0].cols || a.w[i].rows == 0) return false;
  }
  return !is_paired(a) || a.w[0].rows == a.w[1].rows;
}

/// The first or the other half of the columns.
packed_matmul_args columns_half(const packed_matmul_args& a, bool second) {
  packed_matmul_args part = a;
  const std::uint32_t first = second ? a.columns / 2 : 0;
  part.columns = second ? a.columns - first : a.columns / 2;
  if (a.x != nullptr) part.x += static_cast<std::uint64_t>(first) * a.x_stride;
  if (a.norm_x != nullptr) part.norm_x += static_cast<std::uint64_t>(first) * a.w[0].cols;
  if (a.out != nullptr) part.out += static_cast<std::uint64_t>(first) * a.out_stride;
  if (a.act != nullptr) part.act += static_cast<std::uint64_t>(first) * a.act_stride;
  return part;
}

}  // namespace

int launch_packed_matvec(const packed_matmul_args& a, CUstream_st* stream) {
  if (!valid(a)) return cudaErrorInvalidValue;
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      matvec_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, multiprocessor_shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  const matvec_launch l = launch_of(a, multiprocessors);
  if (l.shared != 0)
    return launch_dependent(matvec_kernel, l.grid, dim3(matvec_threads), l.shared, stream, a, l.plan);
  // The columns of very wide matrices do not fit together.
  if (a.experts != nullptr || a.columns == 1 || a.x_divisor != 1) return cudaErrorInvalidValue;
  const int status = launch_packed_matvec(columns_half(a, false), stream);
  return status != cudaSuccess ? status : launch_packed_matvec(columns_half(a, true), stream);
}

}  // namespace orcd::kernels
