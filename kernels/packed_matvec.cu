// The latency kernel: a few columns, every weight read once. A launch is one wave of blocks; a block owns
// row tiles for all of k. Each of its warps has a run of 256-column chunks of them, which bulk copies bring
// into the warp's own ring of shared memory. The ring is filled before the kernel waits for the one ahead
// of it, so that memory never idles between products.
#include <algorithm>

#include "kernels/device_math.cuh"
#include "kernels/launch.cuh"
#include "kernels/matvec_ring.cuh"
#include "kernels/norm_row.cuh"
#include "kernels/packed_dispatch.cuh"
#include "kernels/packed_matmul.hpp"
#include "kernels/packed_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t shared_max = 227 * 1024;

/// Two blocks of one launch must not share a multiprocessor while another idles, as they would if two fitted:
/// of the first kind of block, shared memory holds one, of the second, the registers. The products of a layer
/// take turns at them, so that a block of the next launch may find room to fill its rings.
struct block_kind {
  std::uint32_t warps;
  std::uint32_t registers;  ///< a thread
  std::uint32_t shared;     ///< bytes
};
constexpr block_kind first_kind{14, 64, 118 * 1024};
constexpr block_kind second_kind{16, 72, 107 * 1024};
constexpr std::uint32_t all_registers = 64 * 1024;
constexpr std::uint32_t all_shared = 228 * 1024;  // a KiB of them a block is the system's own
static_assert(2 * (first_kind.shared + 1024) > all_shared);
static_assert(2 * second_kind.warps * 32 * second_kind.registers > all_registers);

/// What is applied to an output's folded sums: 1 and -0, where a model has nothing, change no bit.
struct result_terms {
  float scale[2];
  float bias[2];
  float old;  ///< what the sum is added to
};

/// At the start of shared memory; x [columns][x_stride], the sums [chunk of the block][columns][16] of
/// shared tiles, and the rings follow.
struct matvec_shared {
  std::uint64_t barriers[matvec_warps_max][slots_max];
  result_terms terms[matvec_warps_max * 32];
  float scratch[8];
};

/// acc = one chunk of a row tile times all columns. `x` is the lane's: its column's value 16 t of chunk 0.
/// The loops stay loops: a step meets each kernel's instructions cold, and fetching them is what it waits
/// for most.
template <packed_format F>
__device__ __forceinline__ void multiply_chunk(chunk_ring& ring, std::uint32_t groups, const __half* x,
                                               float (&acc)[4]) {
  constexpr std::uint32_t in_piece = default_stage_groups(F);
  const std::uint32_t lane = threadIdx.x % 32;
  tile_stage<F, 1> stage;
#pragma unroll 1
  for (std::uint32_t first = 0; first < groups; first += in_piece) {
    const std::byte* piece = ring.front();
    stage.template load_shared_scales<from_shared>(piece, lane);
#pragma unroll 1
    for (std::uint32_t i = 0; i < in_piece; ++i) {
      if (!is_k_format(F) && first + i >= groups) break;
      stage.template load_group<from_shared>(piece, i, lane);
      const auto* p = reinterpret_cast<const uint4*>(x + (first + i) * group_cols);
      const uint4 low = p[0];
      const uint4 high = p[1];
      const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      const auto scales = stage.scales_of(0, i, lane % 4);
#pragma unroll
      for (std::uint32_t s = 0; s < 4; ++s) {
        std::uint32_t fragment[4];
        stage.fragment(0, s, scales, fragment);
        mma_16x8x16(acc, fragment, words[2 * s], words[2 * s + 1]);
      }
    }
    ring.pop();
  }
}

/// Calls take(chunk, sums) for each of these chunks of a row tile.
template <class Take>
__device__ __forceinline__ void multiply_run(const packed_matrix& w, chunk_ring& ring, chunk_range chunks,
                                             const __half* x, Take&& take) {
  with_format(w.format, 0, [&](auto format) {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.last; ++chunk) {
      float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
      multiply_chunk<decltype(format)::value>(
          ring, min(groups_per_chunk, w.groups() - chunk * groups_per_chunk), x + chunk * chunk_cols, acc);
      take(chunk, acc);
    }
    return 0;
  });
}

/// Brings a row of activations, or the norm of one of the residual stream, into shared memory as f16.
__device__ __forceinline__ void stage_input(const packed_matmul_args& a, const norm_weights& weights,
                                            std::uint32_t row, __half* x, float* scratch) {
  const std::uint32_t cols = a.w[0].cols;
  const std::uint32_t padded = a.w[0].groups() * group_cols;
  if (a.norm_x != nullptr) {
    norm_row(a.norm_x + static_cast<std::uint64_t>(row) * cols, cols, padded, weights, a.norm_eps, scratch,
             [&](std::uint32_t i, float value) { x[i] = to_half(value); });
    return;
  }
  const auto* from = reinterpret_cast<const uint4*>(a.x + static_cast<std::uint64_t>(row) * a.x_stride);
  for (std::uint32_t i = threadIdx.x; i < padded / 8; i += blockDim.x)
    reinterpret_cast<uint4*>(x)[i] = from[i];
}

/// One output of the block.
struct result_place {
  std::uint32_t column;   ///< of the launch
  std::uint32_t matrix;   ///< gate for a pair
  std::uint32_t row;      ///< of that matrix; past its last for padding
  std::uint32_t out_row;  ///< of the stacked output
};

__device__ __forceinline__ result_place result_of(const packed_matmul_args& a, const matvec_plan& plan,
                                                  std::uint32_t column, std::uint32_t tile,
                                                  std::uint32_t row_in_tile) {
  const tile_place place = place_of(a, plan, tile, 0);
  const std::uint32_t row = place.tile * tile_rows + row_in_tile;
  return {column, place.matrix, row, place.out_row + row};
}

__device__ __forceinline__ bool is_padding(const packed_matmul_args& a, const result_place& r) {
  return r.row >= a.w[r.matrix].rows;
}

__device__ __forceinline__ float* output_of(const packed_matmul_args& a, const result_place& r) {
  return a.out + static_cast<std::uint64_t>(r.column) * a.out_stride + r.out_row;
}

/// *to = from, or what it replaces when there is none; arrives while the thread goes on.
__device__ __forceinline__ void fetch(float* to, const float* from, float otherwise) {
  if (from == nullptr)
    *to = otherwise;
  else
    copy_float(shared_address_of(to), from);
}

/// Starts to bring row scales and biases into shared memory.
__device__ __forceinline__ void fetch_terms(const packed_matmul_args& a, const matvec_plan& plan,
                                            const result_place& r, std::uint32_t expert, result_terms& to) {
  for (std::uint32_t m = 0; m < plan.members; ++m) {
    const packed_matrix& w = a.w[r.matrix + m];
    const float* bias = a.bias[r.matrix + m];
    fetch(&to.scale[m], w.row_scale == nullptr ? nullptr : w.row_scale + expert * w.row_scale_stride + r.row,
          1.0F);
    fetch(&to.bias[m], bias == nullptr ? nullptr : bias + expert * w.rows + r.row, -0.0F);
  }
}

__device__ __forceinline__ void fetch_all_terms(const packed_matmul_args& a, const matvec_plan& plan,
                                                const result_place& r, std::uint32_t expert,
                                                result_terms& to) {
  fetch_terms(a, plan, r, expert, to);
  if (a.output == matmul_output::add) fetch(&to.old, output_of(a, r), 0.0F);
}

/// Row scale, bias and the output's own function, on sums folded left to right.
__device__ __forceinline__ void store_result(const packed_matmul_args& a, const result_place& r,
                                             const result_terms& terms, float first, float second) {
  const float value = __fadd_rn(__fmul_rn(first, terms.scale[0]), terms.bias[0]);
  if (a.output == matmul_output::store) {
    *output_of(a, r) = value;
  } else if (a.output == matmul_output::add) {
    *output_of(a, r) = __fadd_rn(terms.old, value);
  } else {
    const float up = __fadd_rn(__fmul_rn(second, terms.scale[1]), terms.bias[1]);
    const float activated = a.output == matmul_output::swiglu ? silu(value) * up : swiglu_clamped(value, up);
    a.act[static_cast<std::uint64_t>(r.column) * a.act_stride + r.row] = to_half(activated);
  }
}

/// What a block of the launch works on.
struct block_work {
  std::uint32_t first_column;
  std::uint32_t columns;
  std::uint32_t first_tile;
  std::uint32_t tiles;
  chunk_range chunks;  ///< of this warp

  __device__ __forceinline__ block_work(const packed_matmul_args& a, const matvec_plan& plan) {
    first_column = a.experts != nullptr ? blockIdx.y : 0;
    columns = a.experts != nullptr ? 1 : a.columns;
    const auto part = [](std::uint32_t whole, std::uint32_t i, std::uint32_t n) { return whole * i / n; };
    first_tile = part(plan.tiles, blockIdx.x, gridDim.x);
    tiles = part(plan.tiles, blockIdx.x + 1, gridDim.x) - first_tile;
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint32_t in_tile = plan.members * a.w[0].chunks();
    const std::uint32_t begin = first_tile * in_tile;
    if (plan.own_tiles) {
      chunks = {begin + part(tiles, warp, plan.warps) * in_tile,
                begin + part(tiles, warp + 1, plan.warps) * in_tile};
    } else {
      chunks = {begin + part(tiles * in_tile, warp, plan.warps),
                begin + part(tiles * in_tile, warp + 1, plan.warps)};
    }
  }

  [[nodiscard]] __device__ __forceinline__ std::uint32_t results() const {
    return tiles * tile_rows * columns;
  }
  /// Result i of the block: rows of a tile, then columns, then tiles.
  [[nodiscard]] __device__ __forceinline__ result_place result(const packed_matmul_args& a,
                                                               const matvec_plan& plan,
                                                               std::uint32_t i) const {
    return result_of(a, plan, first_column + i / tile_rows % columns, first_tile + i / (tile_rows * columns),
                     i % tile_rows);
  }
};

/// The chunks of this warp, their sums written to the block's partial sums.
__device__ __forceinline__ void share_tiles(const packed_matmul_args& a, const matvec_plan& plan,
                                            const block_work& work, chunk_ring& ring, const __half* x,
                                            float* partial) {
  const std::uint32_t chunks = a.w[0].chunks();
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  for (std::uint32_t at = work.chunks.first; at < work.chunks.last;) {
    const std::uint32_t row = at / chunks;
    const std::uint32_t end = min(work.chunks.last, (row + 1) * chunks);
    const tile_place place = place_of(a, plan, row / plan.members, row % plan.members);
    float* row_sums = partial + (row - work.first_tile * plan.members) * chunks * tile_rows * work.columns;
    multiply_run(a.w[place.matrix], ring, {at - row * chunks, end - row * chunks}, x,
                 [&](std::uint32_t chunk, const float(&acc)[4]) {
                   float* sums = row_sums + chunk * tile_rows * work.columns;
#pragma unroll
                   for (std::uint32_t i = 0; i < 4; ++i) {
                     const std::uint32_t column = 2 * t + (i & 1U);
                     if (column < work.columns) sums[column * tile_rows + g + (i / 2) * 8] = acc[i];
                   }
                 });
    at = end;
  }
}

/// Sums of 256 columns added left to right.
__device__ __forceinline__ float fold(const float* sums, std::uint32_t chunks, std::uint32_t stride) {
  float sum = sums[0];
#pragma unroll 8
  for (std::uint32_t c = 1; c < chunks; ++c) sum += sums[c * stride];
  return sum;
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

/// All results of the block; the terms of the first, one a thread, are on their way into `mine`.
__device__ __forceinline__ void store_all_shared(const packed_matmul_args& a, const matvec_plan& plan,
                                                 const block_work& work, const float* partial,
                                                 result_terms& mine, std::uint32_t expert) {
  for (std::uint32_t i = threadIdx.x; i < work.results(); i += blockDim.x) {
    const result_place place = work.result(a, plan, i);
    if (is_padding(a, place)) continue;
    if (i >= blockDim.x) fetch_all_terms(a, plan, place, expert, mine);
    copied_floats();
    store_shared(a, plan, work, partial, i, place, mine);
  }
}

/// The tiles of this warp, folded in registers.
__device__ __forceinline__ void fold_own_tiles(const packed_matmul_args& a, const matvec_plan& plan,
                                               const block_work& work, chunk_ring& ring, const __half* x,
                                               std::uint32_t expert, result_terms& terms) {
  const std::uint32_t chunks = a.w[0].chunks();
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  const std::uint32_t in_tile = plan.members * chunks;
  for (std::uint32_t tile = work.chunks.first / in_tile; tile < work.chunks.last / in_tile; ++tile) {
    float first[4] = {};
    float sum[4] = {};
    for (std::uint32_t member = 0; member < plan.members; ++member) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) first[i] = sum[i];
      multiply_run(a.w[place_of(a, plan, tile, member).matrix], ring, {0, chunks}, x,
                   [&](std::uint32_t chunk, const float(&acc)[4]) {
#pragma unroll
                     for (std::uint32_t i = 0; i < 4; ++i) sum[i] = chunk == 0 ? acc[i] : sum[i] + acc[i];
                   });
    }
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t column = 2 * t + (i & 1U);
      if (column >= work.columns) continue;
      const result_place place = result_of(a, plan, work.first_column + column, tile, g + (i / 2) * 8);
      if (is_padding(a, place)) continue;
      fetch_all_terms(a, plan, place, expert, terms);
      copied_floats();
      store_result(a, place, terms, plan.members == 2 ? first[i] : sum[i], sum[i]);
    }
  }
}

/// grid.x: one wave of blocks; grid.y: 1, or one column each with experts.
__device__ __forceinline__ void matvec_block(const packed_matmul_args& a, const matvec_plan& plan) {
  extern __shared__ uint4 shared_bytes[];
  auto& shared = *reinterpret_cast<matvec_shared*>(shared_bytes);
  auto* const bytes = reinterpret_cast<std::byte*>(shared_bytes);
  auto* const x = reinterpret_cast<__half*>(bytes + plan.x_at);
  auto* const partial = reinterpret_cast<float*>(bytes + plan.partial_at);
  result_terms& mine = shared.terms[threadIdx.x];
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;

  const block_work work(a, plan);
  chunk_ring ring(a, plan, work.chunks, shared_address_of(shared.barriers[warp]),
                  bytes + plan.ring_at + warp * plan.slots * plan.slot_bytes);
  const result_place place = work.result(a, plan, threadIdx.x);
  const bool has_result = !plan.own_tiles && threadIdx.x < work.results() && !is_padding(a, place);
  // What does not depend on the kernel before this one starts now.
  std::uint32_t expert = 0;
  if (a.experts == nullptr) {
    ring.fill(expert);
    if (has_result) fetch_terms(a, plan, place, expert, mine);
  }
  {
    const norm_weights weights(a.norm_weight, a.w[0].cols);
    wait_for_previous_kernel();
    allow_next_kernel();
    if (a.experts != nullptr) {
      expert = static_cast<std::uint32_t>(a.experts[work.first_column]);
      ring.fill(expert);
      if (has_result) fetch_terms(a, plan, place, expert, mine);
    }
    if (has_result && a.output == matmul_output::add) fetch(&mine.old, output_of(a, place), 0.0F);
    for (std::uint32_t c = 0; c < work.columns; ++c) {
      const std::uint32_t row = (work.first_column + c) / a.x_divisor;
      stage_input(a, weights, row, x + c * plan.x_stride, shared.scratch);
    }
    __syncthreads();
  }

  // Lanes of columns that do not exist read another's: no column takes part in another's results.
  const __half* lane_x = x + min(lane / 4, work.columns - 1) * plan.x_stride + 16 * (lane % 4);
  if (plan.own_tiles) {
    fold_own_tiles(a, plan, work, ring, lane_x, expert, mine);
    return;
  }
  share_tiles(a, plan, work, ring, lane_x, partial);
  __syncthreads();
  store_all_shared(a, plan, work, partial, mine, expert);
}

__global__ void __maxnreg__(first_kind.registers)
    first_matvec_kernel(const __grid_constant__ packed_matmul_args a,
                        const __grid_constant__ matvec_plan plan) {
  matvec_block(a, plan);
}
__global__ void __maxnreg__(second_kind.registers)
    second_matvec_kernel(const __grid_constant__ packed_matmul_args a,
                         const __grid_constant__ matvec_plan plan) {
  matvec_block(a, plan);
}

constexpr std::uint32_t aligned(std::uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

run_bytes bytes_of(const packed_matrix& w) {
  const unit_layout unit = layout_of(w.format);
  const std::uint32_t stage_cols = group_cols * with_format(w.format, 0U, [](auto format) {
                                     return default_stage_groups(decltype(format)::value);
                                   });
  return {unit.bytes() * (chunk_cols / unit.cols), unit.bytes() * (stage_cols / unit.cols), w.tile_bytes()};
}

struct matvec_launch {
  matvec_plan plan;
  dim3 grid;
  std::uint32_t shared;  ///< bytes; 0 = these columns do not fit
};

/// Whether a product ends a half of a layer, as the outputs of attention and of the FFN do: they take turns
/// with the products that begin one.
bool ends_half(const packed_matmul_args& a) {
  return a.output == matmul_output::add || (a.experts != nullptr && !is_paired(a));
}

/// One wave of blocks; tiles shared by a block's warps while they are few.
matvec_launch launch_of(const packed_matmul_args& a, const block_kind& kind, std::uint32_t multiprocessors) {
  matvec_launch l{};
  matvec_plan& plan = l.plan;
  plan.members = is_paired(a) ? 2 : 1;
  plan.warps = kind.warps;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    plan.bytes[i] = bytes_of(a.w[i]);
    plan.slot_bytes = std::max(plan.slot_bytes, plan.bytes[i].piece);
    plan.tiles += a.w[i].row_tiles();
  }
  plan.tiles /= plan.members;
  const std::uint32_t items = a.experts != nullptr ? a.columns : 1;
  const std::uint32_t columns = a.experts != nullptr ? 1 : a.columns;
  const std::uint32_t blocks = std::min(plan.tiles, std::max(1U, multiprocessors / items));
  l.grid = dim3(blocks, items);

  const std::uint32_t in_block = (plan.tiles + blocks - 1) / blocks;
  plan.x_stride = a.w[0].groups() * group_cols + 8;  // columns in different banks
  plan.x_at = aligned(sizeof(matvec_shared));
  plan.partial_at = plan.x_at + aligned(columns * plan.x_stride * sizeof(__half));
  const std::uint32_t partial_bytes = aligned(in_block * plan.members * a.w[0].chunks() * tile_rows *
                                              columns * static_cast<std::uint32_t>(sizeof(float)));
  const std::uint32_t slot_row = kind.warps * plan.slot_bytes;
  plan.own_tiles = in_block >= kind.warps || plan.partial_at + partial_bytes + 2 * slot_row > shared_max;
  plan.ring_at = plan.partial_at + (plan.own_tiles ? 0 : partial_bytes);
  const std::uint32_t budget = plan.ring_at + 2 * slot_row <= kind.shared ? kind.shared : shared_max;
  if (plan.ring_at + slot_row > budget) return l;
  plan.slots = std::min(slots_max, (budget - plan.ring_at) / slot_row);
  l.shared = budget;
  return l;
}

bool valid(const packed_matmul_args& a) {
  if (a.columns == 0 || a.matrices == 0 || a.matrices > 3 || (is_paired(a) && a.matrices != 2) ||
      a.x_divisor == 0)
    return false;
  if (a.experts == nullptr && a.columns > matvec_columns_max) return false;
  if ((a.x == nullptr) == (a.norm_x == nullptr)) return false;
  if (a.x != nullptr && (a.x_stride % 8 != 0 || a.x_stride < a.w[0].groups() * group_cols)) return false;
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
  static const cudaError_t opted_in = [] {
    const cudaError_t status =
        cudaFuncSetAttribute(first_matvec_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_max);
    return status != cudaSuccess
               ? status
               : cudaFuncSetAttribute(second_matvec_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      shared_max);
  }();
  if (opted_in != cudaSuccess) return opted_in;
  const bool second = ends_half(a);
  const block_kind& kind = second ? second_kind : first_kind;
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  const matvec_launch l = launch_of(a, kind, multiprocessors);
  if (l.shared != 0)
    return launch_dependent(second ? second_matvec_kernel : first_matvec_kernel, l.grid,
                            dim3(32 * kind.warps), l.shared, stream, a, l.plan);
  // The columns of very wide matrices do not fit together.
  if (a.experts != nullptr || a.columns == 1 || a.x_divisor != 1) return cudaErrorInvalidValue;
  const int status = launch_packed_matvec(columns_half(a, false), stream);
  return status != cudaSuccess ? status : launch_packed_matvec(columns_half(a, true), stream);
}

}  // namespace orcd::kernels
