// A latency kernel of up to eight columns whose row tiles are dealt evenly: of one product, or of all experts
// that were chosen, each with the columns that chose it, so that every weight is read once. One block a
// multiprocessor has an equal run of tiles; its warps take turns at their chunks of 256 columns, which are
// copied into slots of shared memory ahead of use. Tiles are multiplied until their sums fill a part of
// shared memory, then folded and stored.
#include <algorithm>

#include "kernels/bulk_copy.cuh"
#include "kernels/divider.hpp"
#include "kernels/launch.cuh"
#include "kernels/matvec_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps_max = 24;
constexpr std::uint32_t threads = warps_max * 32;
constexpr std::uint32_t slots_max = 96;
constexpr std::uint32_t shared_max = 227 * 1024;
/// Of sums, unless one tile has more.
constexpr std::uint32_t sums_most = 48 * 1024;

/// What a launch decides. Nothing in it changes a bit. A tile is a row tile of the stacked matrices, or one
/// of the gate and one of the up matrix of the same rows; an item is an expert's columns, or all columns.
struct dealt_plan {
  divider tiles{};                   ///< of an item
  divider in_tile{};                 ///< chunks of a tile
  std::uint32_t chunks = 0;          ///< of a row tile
  std::uint32_t first_tile[3] = {};  ///< of each matrix
  std::uint32_t out_row[3] = {};
  std::uint32_t chunk_bytes[3] = {};
  std::uint32_t tile_bytes[3] = {};
  std::uint32_t x_stride = 0;  ///< halfs
  std::uint32_t warps = 0;     ///< that multiply
  std::uint32_t slots = 0;     ///< a multiple of them
  std::uint32_t slot_bytes = 0;
  std::uint32_t sums_bytes = 0;
  std::uint32_t x_at = 0, sums_at = 0, slots_at = 0;  ///< offsets in shared memory, after the barriers
};

/// A row tile in its matrix.
struct dealt_tile {
  std::uint32_t matrix;
  std::uint32_t tile;
};
__device__ __forceinline__ dealt_tile tile_of(const packed_matmul_args& a, const dealt_plan& plan,
                                              std::uint32_t tile, std::uint32_t member) {
  if (is_paired(a)) return {member, tile};
  const std::uint32_t matrix = (a.matrices > 1 && tile >= plan.first_tile[1] ? 1U : 0U) +
                               (a.matrices > 2 && tile >= plan.first_tile[2] ? 1U : 0U);
  return {matrix, tile - plan.first_tile[matrix]};
}

/// Where chunk v of a run of tiles is.
struct chunk_in_tiles {
  std::uint32_t tile;    ///< of the run
  std::uint32_t chunk;   ///< of its row tile
  std::uint32_t member;  ///< which row tile of a pair

  __device__ __forceinline__ chunk_in_tiles(const dealt_plan& plan, std::uint32_t v)
      : tile(plan.in_tile.quotient(v)),
        chunk(v - tile * plan.in_tile.d),
        member(chunk >= plan.chunks ? 1 : 0) {
    chunk -= member * plan.chunks;
  }
};

/// A block's chunks on their way through the slots.
struct dealt_slots {
  const tiled_matmul_args& args;
  const dealt_plan& plan;
  std::uint32_t first_tile;
  std::uint32_t count;     ///< chunks of the block
  std::uint32_t barriers;  ///< one a slot, and one of the activations
  std::byte* slots;

  /// One thread starts the copy of chunk v, whose slot is free.
  __device__ __forceinline__ void copy(std::uint32_t v, std::uint32_t slot) const {
    const chunk_in_tiles c(plan, v);
    const std::uint32_t item = plan.tiles.quotient(first_tile + c.tile);
    const dealt_tile place = tile_of(args.matmul, plan, first_tile + c.tile - item * plan.tiles.d, c.member);
    const std::uint32_t m = place.matrix;
    const packed_matrix& w = args.matmul.w[m];
    const std::uint32_t skipped = c.chunk * plan.chunk_bytes[m];
    const std::uint32_t bytes = min(plan.chunk_bytes[m], plan.tile_bytes[m] - skipped);
    const std::uint32_t expert =
        args.tiles == nullptr ? 0 : static_cast<std::uint32_t>(args.tiles[item].expert);
    barrier_expect(barriers + 8 * slot, bytes);
    bulk_copy(shared_address_of(slots + slot * plan.slot_bytes),
              w.data + expert * w.expert_stride +
                  static_cast<std::uint64_t>(place.tile) * plan.tile_bytes[m] + skipped,
              bytes, barriers + 8 * slot);
  }
  /// Of the item's activations: after those of the slots.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t x_barrier() const {
    return barriers + 8 * slots_max;
  }
  /// All threads: the first copies. The block must synchronize before it waits for one.
  __device__ __forceinline__ void fill() const {
    if (threadIdx.x == 0) barrier_init(x_barrier(), 1);
    if (threadIdx.x >= plan.slots) return;
    barrier_init(barriers + 8 * threadIdx.x, 1);
    barrier_init_done();
    if (threadIdx.x < count) copy(threadIdx.x, threadIdx.x);
  }
};

/// The columns of an item.
struct item_columns {
  const std::int32_t* order;  ///< or null: as they are
  std::uint32_t count;
  std::uint32_t expert;

  __device__ __forceinline__ item_columns(const tiled_matmul_args& args, std::uint32_t item)
      : order(nullptr), count(args.matmul.columns), expert(0) {
    if (args.tiles == nullptr) return;
    const expert_tile e = args.tiles[item];
    order = args.order + e.first;
    count = static_cast<std::uint32_t>(e.count);
    expert = static_cast<std::uint32_t>(e.expert);
  }
  __device__ __forceinline__ std::uint32_t operator[](std::uint32_t i) const {
    return order == nullptr ? i : static_cast<std::uint32_t>(order[i]);
  }
};

/// The first warp starts to copy an item's activations to `x`, whose last readers have synchronized with it.
__device__ __forceinline__ void copy_columns(const packed_matmul_args& a, const dealt_plan& plan,
                                             const item_columns& columns, __half* x, std::uint32_t barrier) {
  if (threadIdx.x >= 32) return;
  const std::uint32_t bytes = padded_cols(a.w[0].cols) * static_cast<std::uint32_t>(sizeof(__half));
  fence_shared_for_async();
  if (threadIdx.x == 0) barrier_expect(barrier, columns.count * bytes);
  __syncwarp();
  if (threadIdx.x >= columns.count) return;
  const std::uint64_t row = columns[threadIdx.x] / a.x_divisor;
  bulk_copy(shared_address_of(x + threadIdx.x * plan.x_stride), a.x + row * a.x_stride, bytes, barrier);
}

/// Tiles of one item that are multiplied before their sums are folded.
struct dealt_pass {
  std::uint32_t first;  ///< chunk of the block
  std::uint32_t tile;   ///< of the item
  std::uint32_t tiles;
};

/// A warp's place in its chunks: the next one of the block's, and its slot.
struct warp_place {
  std::uint32_t chunk;
  std::uint32_t slot;
  std::uint32_t round = 0;

  __device__ __forceinline__ void advance(const dealt_plan& plan) {
    chunk += plan.warps;
    slot += plan.warps;
    if (slot < plan.slots) return;
    slot -= plan.slots;
    ++round;
  }
};

/// acc += one chunk of a row tile times all columns: a whole unit at a time where that is the chunk.
template <packed_format F>
__device__ __forceinline__ void multiply_one(const std::byte* bytes, std::uint32_t groups, const __half* x,
                                             float (&acc)[4]) {
  if constexpr (is_k_format(F))
    multiply_chunk_ahead<F>(bytes, groups, x, threadIdx.x % 32, acc);
  else
    multiply_chunk<F>(bytes, groups, x, acc);
}

/// This warp's chunks of the pass; their sums of each column are kept.
__device__ __forceinline__ void multiply_pass(const dealt_slots& slots, const dealt_pass& pass,
                                              std::uint32_t columns, const __half* x, float* sums,
                                              warp_place& at) {
  const dealt_plan& plan = slots.plan;
  const packed_matmul_args& a = slots.args.matmul;
  if (threadIdx.x / 32 >= plan.warps) return;
  const std::uint32_t end = pass.first + pass.tiles * plan.in_tile.d;
  for (; at.chunk < end; at.advance(plan)) {
    const std::uint32_t in_pass = at.chunk - pass.first;
    const chunk_in_tiles c(plan, in_pass);
    const packed_matrix& w = a.w[tile_of(a, plan, pass.tile + c.tile, c.member).matrix];
    barrier_wait(slots.barriers + 8 * at.slot, at.round & 1U);
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    with_format(w.format, 0, [&](auto format) {
      multiply_one<decltype(format)::value>(slots.slots + at.slot * plan.slot_bytes,
                                            min(groups_per_chunk, w.groups() - c.chunk * groups_per_chunk),
                                            x + c.chunk * chunk_cols, acc);
      return 0;
    });
    __syncwarp();
    if (threadIdx.x % 32 == 0 && at.chunk + plan.slots < slots.count)
      slots.copy(at.chunk + plan.slots, at.slot);
    keep_sums(sums + in_pass * tile_rows * columns, columns, threadIdx.x % 32, acc);
  }
}

/// Folds and stores the results of the pass.
__device__ __forceinline__ void store_pass(const packed_matmul_args& a, const dealt_plan& plan,
                                           const dealt_pass& pass, const item_columns& columns,
                                           const float* sums) {
  const std::uint32_t stride = columns.count * tile_rows;
  for (std::uint32_t i = threadIdx.x; i < pass.tiles * stride; i += threads) {
    const std::uint32_t tile = i / stride;
    const dealt_tile at = tile_of(a, plan, pass.tile + tile, 0);
    const std::uint32_t row = at.tile * tile_rows + i % tile_rows;
    if (row >= a.w[at.matrix].rows) continue;
    const result_place place{columns[i / tile_rows % columns.count], at.matrix, row,
                             plan.out_row[at.matrix] + row};
    const result_terms terms = terms_of(a, place, columns.expert);
    const float* from = sums + tile * plan.in_tile.d * stride + i % stride;
    const float first = fold(from, plan.chunks, stride);
    store_result(a, place, terms, first,
                 is_paired(a) ? fold(from + plan.chunks * stride, plan.chunks, stride) : 0.0F);
  }
}

__global__ void __launch_bounds__(threads, 1)
    dealt_kernel(const __grid_constant__ tiled_matmul_args args, const __grid_constant__ dealt_plan plan) {
  extern __shared__ uint4 shared_bytes[];
  const packed_matmul_args& a = args.matmul;
  auto* const bytes = reinterpret_cast<std::byte*>(shared_bytes);
  auto* const x = reinterpret_cast<__half*>(bytes + plan.x_at);
  auto* const sums = reinterpret_cast<float*>(bytes + plan.sums_at);
  dealt_slots slots{args, plan, 0, 0, shared_address_of(bytes), bytes + plan.slots_at};
  std::uint32_t end = 0;
  const auto deal = [&](std::uint32_t items) {
    const std::uint64_t all = static_cast<std::uint64_t>(items) * plan.tiles.d;
    slots.first_tile = static_cast<std::uint32_t>(all * blockIdx.x / gridDim.x);
    end = static_cast<std::uint32_t>(all * (blockIdx.x + 1) / gridDim.x);
    slots.count = (end - slots.first_tile) * plan.in_tile.d;
    slots.fill();
  };
  // Which experts were chosen is the work of a kernel before; other weights are known.
  if (args.tiles == nullptr) deal(1);
  wait_for_previous_kernel();
  allow_next_kernel();
  if (args.tiles != nullptr) deal(static_cast<std::uint32_t>(*args.tile_count));
  warp_place place{threadIdx.x / 32, threadIdx.x / 32};
  std::uint32_t staged = ~0U;
  std::uint32_t items = 0;  // whose activations have been asked for
  for (std::uint32_t at = slots.first_tile; at < end;) {
    const std::uint32_t item = plan.tiles.quotient(at);
    const item_columns columns(args, item);
    const std::uint32_t fit = plan.sums_bytes / (plan.in_tile.d * tile_rows * columns.count *
                                                 static_cast<std::uint32_t>(sizeof(float)));
    const dealt_pass pass{(at - slots.first_tile) * plan.in_tile.d, at - item * plan.tiles.d,
                          min(fit, min(end, (item + 1) * plan.tiles.d) - at)};
    if (item != staged) {
      copy_columns(a, plan, columns, x, slots.x_barrier());
      staged = item;
      ++items;
    }
    __syncthreads();
    barrier_wait(slots.x_barrier(), (items - 1) & 1U);
    // Lanes of columns that do not exist read another's: no column takes part in another's results.
    const std::uint32_t mine = min(threadIdx.x % 32 / 4, columns.count - 1);
    multiply_pass(slots, pass, columns.count, x + mine * plan.x_stride + 16 * (threadIdx.x % 4), sums, place);
    __syncthreads();
    store_pass(a, plan, pass, columns, sums);
    at += pass.tiles;
  }
}

constexpr std::uint32_t aligned(std::uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

/// Shared memory for up to `columns` columns of an item; false when it has no room.
bool divide_memory(dealt_plan& plan, std::uint32_t columns) {
  const std::uint32_t tile_sums =
      plan.in_tile.d * tile_rows * columns * static_cast<std::uint32_t>(sizeof(float));
  plan.x_at = aligned((slots_max + 1) * 8);
  plan.sums_at = plan.x_at + aligned(columns * plan.x_stride * 2);
  if (plan.sums_at >= shared_max) return false;
  plan.sums_bytes = aligned(std::max(tile_sums, std::min(sums_most, (shared_max - plan.sums_at) / 3)));
  plan.slots_at = plan.sums_at + plan.sums_bytes;
  for (plan.warps = warps_max; plan.warps >= 8; plan.warps -= 4) {
    if (plan.slots_at + plan.warps * plan.slot_bytes > shared_max) continue;
    const std::uint32_t fit = std::min(slots_max, (shared_max - plan.slots_at) / plan.slot_bytes);
    plan.slots = fit / plan.warps * plan.warps;
    return true;
  }
  return false;
}

bool make_plan(const packed_matmul_args& a, std::uint32_t columns, dealt_plan& plan) {
  const bool paired = is_paired(a);
  if (a.matrices == 0 || a.matrices > 3 || (paired && a.matrices != 2) || columns == 0 ||
      columns > matvec_columns_max)
    return false;
  plan.chunks = a.w[0].chunks();
  plan.in_tile = divider::by(plan.chunks * (paired ? 2 : 1));
  plan.x_stride = padded_cols(a.w[0].cols) + 8;  // columns in different banks
  std::uint32_t tiles = 0;
  std::uint32_t rows = 0;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    plan.chunk_bytes[i] = a.w[i].chunk_bytes();
    plan.tile_bytes[i] = static_cast<std::uint32_t>(a.w[i].tile_bytes());
    plan.slot_bytes = std::max(plan.slot_bytes, std::min(plan.chunk_bytes[i], plan.tile_bytes[i]));
    plan.first_tile[i] = paired ? 0 : tiles;
    plan.out_row[i] = paired ? 0 : rows;
    tiles += a.w[i].row_tiles();
    rows += a.w[i].rows;
  }
  plan.tiles = divider::by(paired ? a.w[0].row_tiles() : tiles);
  return divide_memory(plan, columns);
}

}  // namespace

bool dealt_matvec_takes(const packed_matmul_args& a, std::uint32_t columns) {
  dealt_plan plan;
  return make_plan(a, columns, plan);
}

int launch_dealt_matvec(const tiled_matmul_args& args, CUstream_st* stream) {
  const packed_matmul_args& a = args.matmul;
  const bool grouped = args.tiles != nullptr;
  dealt_plan plan;
  if (a.x == nullptr || a.norm_x != nullptr || a.x_stride % 8 != 0 || a.x_stride < padded_cols(a.w[0].cols) ||
      a.x_divisor == 0 || (is_paired(a) ? a.act == nullptr : a.out == nullptr) ||
      (grouped && (args.tile_count == nullptr || args.order == nullptr)) ||
      !make_plan(a, grouped ? args.tile_columns : a.columns, plan))
    return cudaErrorInvalidValue;
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(dealt_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_max);
  if (opted_in != cudaSuccess) return opted_in;
  std::uint32_t blocks = 0;
  if (const cudaError_t status = multiprocessor_count(blocks); status != cudaSuccess) return status;
  if (!grouped) blocks = std::min(blocks, plan.tiles.d);
  return launch_dependent(dealt_kernel, dim3(blocks), dim3(threads),
                          plan.slots_at + plan.slots * plan.slot_bytes, stream, args, plan);
}

}  // namespace orcd::kernels
