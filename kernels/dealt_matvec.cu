// A latency kernel of up to eight columns whose row tiles are dealt evenly: of one product, or of all experts
// that were chosen, each with the columns that chose it, so that every weight is read once. One block a
// multiprocessor has an equal run of tiles; its warps take turns at their chunks of 256 columns, which are
// copied into slots of shared memory ahead of use. Tiles are multiplied until their sums fill a part of
// shared memory, then folded and stored. Every block of one product needs all activations, so two of a
// cluster bring half of them each, for both.
#include <algorithm>

#include "kernels/bulk_copy.cuh"
#include "kernels/cluster.cuh"
#include "kernels/divider.hpp"
#include "kernels/launch.cuh"
#include "kernels/matvec_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps_max = 24;
constexpr std::uint32_t warps_min = 8;
constexpr std::uint32_t threads = warps_max * 32;
/// Registers are those of so many threads: what is left has room for a block of the norm that follows.
constexpr std::uint32_t register_threads = 1024;
constexpr std::uint32_t slots_max = 96;
/// Of a cluster: every multiprocessor has another beside it, not three. Each of them has tiles, or it would
/// be gone before the other's copies come.
constexpr std::uint32_t sharing_blocks = 2;
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
  std::uint32_t share = 1;     ///< blocks of a cluster, which copy activations to each other
  std::uint32_t warps = 0;     ///< that multiply
  std::uint32_t slots = 0;     ///< a multiple of them
  std::uint32_t ahead = 0;     ///< slots of a warp
  std::uint32_t slot_bytes = 0;
  std::uint32_t sums_bytes = 0;
  std::uint32_t x_at = 0, sums_at = 0, slots_at = 0;  ///< offsets in shared memory, after the barriers

  /// Of a tile's sums of so many columns.
  [[nodiscard]] ORCD_HD constexpr std::uint32_t tile_sums_bytes(std::uint32_t columns) const {
    return in_tile.d * tile_rows * columns * static_cast<std::uint32_t>(sizeof(float));
  }
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

/// The tiles of a block, counted through all items.
struct tile_run {
  std::uint32_t first;
  std::uint32_t end;

  __device__ __forceinline__ tile_run(const dealt_plan& plan, std::uint32_t items) {
    const std::uint64_t all = static_cast<std::uint64_t>(items) * plan.tiles.d;
    first = static_cast<std::uint32_t>(all * blockIdx.x / gridDim.x);
    end = static_cast<std::uint32_t>(all * (blockIdx.x + 1) / gridDim.x);
  }
};

/// What is to be known of a chunk that has come.
class chunk_kind {
 public:
  chunk_kind() = default;
  __device__ __forceinline__ explicit chunk_kind(std::uint32_t bits) : bits_(bits) {}
  __device__ __forceinline__ chunk_kind(std::uint32_t chunk, const packed_matrix& w)
      : bits_(chunk | min(groups_per_chunk, w.groups() - chunk * groups_per_chunk) << 16U |
              static_cast<std::uint32_t>(w.format) << 24U) {}

  [[nodiscard]] __device__ __forceinline__ std::uint32_t bits() const { return bits_; }
  /// Its first column.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t column() const {
    return (bits_ & 0xFFFFU) * chunk_cols;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t groups() const { return bits_ >> 16U & 0xFFU; }
  [[nodiscard]] __device__ __forceinline__ packed_format format() const {
    return static_cast<packed_format>(bits_ >> 24U);
  }

 private:
  std::uint32_t bits_ = 0;
};

/// A warp's chunks on their way through its slots of shared memory: every plan.warps-th of the block's. What
/// is known of one is found by a lane for itself, of 32 at a time, and that lane starts its copy: the warp
/// would take longer over one address than over a third of a chunk's products.
class warp_chunks {
 public:
  __device__ __forceinline__ warp_chunks(const tiled_matmul_args& args, const dealt_plan& plan,
                                         std::uint32_t barriers, std::byte* slots)
      : args_(args), plan_(plan), barriers_(barriers), slots_(slots) {}

  /// Starts the first copies of a block's run, which begins at chunk 0.
  __device__ __forceinline__ void begin(const tile_run& run) {
    first_tile_ = run.first;
    count_ = (run.end - run.first) * plan_.in_tile.d;
    chunk_ = slot_ = threadIdx.x / 32;
    if (chunk_ >= plan_.warps) count_ = 0;
    known_ = threadIdx.x % 32;
    find();
    const std::uint32_t own = slot_ + known_ * plan_.warps;
    if (count_ > 0 && own < plan_.slots) {
      barrier_init(barriers_ + 8 * own, 1);
      barrier_init_done();
      copy(own);
    }
    __syncwarp();
  }

  /// The number in the block of the warp's next chunk.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t next() const { return chunk_; }
  [[nodiscard]] __device__ __forceinline__ chunk_kind kind() const {
    return chunk_kind(__shfl_sync(0xFFFFFFFFU, kind_.bits(), static_cast<int>(number_ % 32)));
  }
  /// Waits for it.
  [[nodiscard]] __device__ __forceinline__ const std::byte* wait() const {
    barrier_wait(barriers_ + 8 * slot_, round_ & 1U);
    return slots_ + slot_ * plan_.slot_bytes;
  }
  /// The warp has read it: another takes its slot.
  __device__ __forceinline__ void advance() {
    __syncwarp();
    if (known_ == number_ + plan_.ahead) copy(slot_);
    ++number_;
    chunk_ += plan_.warps;
    slot_ += plan_.warps;
    if (slot_ >= plan_.slots) {
      slot_ -= plan_.slots;
      ++round_;
    }
    if (number_ % find_every == 0 && known_ < number_) {
      known_ += 32;
      find();
    }
  }

  static constexpr std::uint32_t find_every = 16;  ///< and no more are on their way

 private:
  /// Of the lane's chunk, if the block has it.
  __device__ __forceinline__ void find() {
    const std::uint32_t v = threadIdx.x / 32 + known_ * plan_.warps;
    bytes_ = 0;
    if (v >= count_) return;
    const std::uint32_t in_run = plan_.in_tile.quotient(v);
    std::uint32_t chunk = v - in_run * plan_.in_tile.d;
    const std::uint32_t member = chunk >= plan_.chunks ? 1 : 0;  // of a pair
    chunk -= member * plan_.chunks;
    const std::uint32_t item = plan_.tiles.quotient(first_tile_ + in_run);
    const dealt_tile place =
        tile_of(args_.matmul, plan_, first_tile_ + in_run - item * plan_.tiles.d, member);
    const std::uint32_t m = place.matrix;
    const packed_matrix& w = args_.matmul.w[m];
    const std::uint32_t expert =
        args_.tiles == nullptr ? 0 : static_cast<std::uint32_t>(args_.tiles[item].expert);
    const std::uint32_t skipped = chunk * plan_.chunk_bytes[m];
    from_ = w.data + expert * w.expert_stride + static_cast<std::uint64_t>(place.tile) * plan_.tile_bytes[m] +
            skipped;
    bytes_ = min(plan_.chunk_bytes[m], plan_.tile_bytes[m] - skipped);
    kind_ = chunk_kind(chunk, w);
  }
  /// One lane: its chunk into a slot that is free.
  __device__ __forceinline__ void copy(std::uint32_t slot) const {
    if (bytes_ == 0) return;
    const std::uint32_t barrier = barriers_ + 8 * slot;
    barrier_expect(barrier, bytes_);
    bulk_copy(shared_address_of(slots_ + slot * plan_.slot_bytes), from_, bytes_, barrier);
  }

  const tiled_matmul_args& args_;
  const dealt_plan& plan_;
  std::uint32_t barriers_;  ///< one a slot
  std::byte* slots_;
  std::uint32_t first_tile_ = 0;  ///< of the block
  std::uint32_t count_ = 0;       ///< chunks of the block
  // The warp's place:
  std::uint32_t number_ = 0;  ///< chunks that it has read
  std::uint32_t chunk_ = 0;
  std::uint32_t slot_ = 0;
  std::uint32_t round_ = 0;
  // Of the warp's chunk that the lane knows:
  std::uint32_t known_ = 0;  ///< which one
  std::uint32_t bytes_ = 0;
  const std::byte* from_ = nullptr;
  chunk_kind kind_;
};
static_assert(slots_max / warps_min <= warp_chunks::find_every);

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
/// Blocks that share them copy every plan.share-th column each, to all.
__device__ __forceinline__ void copy_columns(const tiled_matmul_args& args, const dealt_plan& plan,
                                             std::uint32_t item, __half* x, std::uint32_t barrier) {
  if (threadIdx.x >= 32) return;
  const packed_matmul_args& a = args.matmul;
  const item_columns columns(args, item);
  const std::uint32_t bytes = padded_cols(a.w[0].cols) * static_cast<std::uint32_t>(sizeof(__half));
  fence_shared_for_async();
  if (threadIdx.x == 0) barrier_expect(barrier, columns.count * bytes);
  __syncwarp();
  if (threadIdx.x >= columns.count) return;
  const std::uint64_t row = columns[threadIdx.x] / a.x_divisor;
  const __half* const from = a.x + row * a.x_stride;
  const std::uint32_t to = shared_address_of(x + threadIdx.x * plan.x_stride);
  if (plan.share == 1)
    bulk_copy(to, from, bytes, barrier);
  else if (threadIdx.x % plan.share == cluster_rank())
    bulk_copy_to_cluster(to, from, bytes, barrier, plan.share);
}

/// Tiles of one item that are multiplied before their sums are folded.
struct dealt_pass {
  std::uint32_t first;  ///< chunk of the block
  std::uint32_t tile;   ///< of the item
  std::uint32_t tiles;
};

/// acc += one chunk of a row tile times all columns: read whole where that was measured to be faster.
template <packed_format F>
__device__ __forceinline__ void multiply_one(const std::byte* bytes, std::uint32_t groups, const __half* x,
                                             float (&acc)[4]) {
  if constexpr (is_k_format(F) || F == packed_format::mxfp4)
    multiply_chunk_ahead<F>(bytes, groups, x, threadIdx.x % 32, acc);
  else
    multiply_chunk<F>(bytes, groups, x, acc);
}

/// This warp's chunks of the pass; their sums of each column are kept.
__device__ __forceinline__ void multiply_pass(warp_chunks& chunks, const dealt_pass& pass, std::uint32_t end,
                                              std::uint32_t columns, const __half* x, float* sums) {
#pragma unroll 1
  for (; chunks.next() < end; chunks.advance()) {
    const chunk_kind kind = chunks.kind();
    const std::byte* const bytes = chunks.wait();
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    with_format(kind.format(), 0, [&](auto format) {
      multiply_one<decltype(format)::value>(bytes, kind.groups(), x + kind.column(), acc);
      return 0;
    });
    keep_sums(sums + (chunks.next() - pass.first) * tile_rows * columns, columns, threadIdx.x % 32, acc);
  }
}

/// Asks L2 for the row scales and biases of a run's outputs.
__device__ __forceinline__ void prefetch_terms(const tiled_matmul_args& args, const dealt_plan& plan,
                                               const tile_run& run) {
  constexpr std::uint32_t in_sector = l2_sector_bytes / sizeof(float);
  constexpr std::uint32_t sectors = tile_rows / in_sector;
  const packed_matmul_args& a = args.matmul;
  const std::uint32_t of_tile = members_of(a) * sectors;
  for (std::uint32_t i = threadIdx.x; i < (run.end - run.first) * of_tile; i += threads) {
    const std::uint32_t tile = run.first + i / of_tile;
    const std::uint32_t item = plan.tiles.quotient(tile);
    const dealt_tile at = tile_of(a, plan, tile - item * plan.tiles.d, i % of_tile / sectors);
    const packed_matrix& w = a.w[at.matrix];
    const std::uint32_t row = at.tile * tile_rows + i % sectors * in_sector;
    const std::uint32_t expert =
        args.tiles == nullptr ? 0 : static_cast<std::uint32_t>(args.tiles[item].expert);
    if (row >= w.rows) continue;
    if (w.row_scale != nullptr) prefetch_sector(w.row_scale + expert * w.row_scale_stride + row);
    if (a.bias[at.matrix] != nullptr) prefetch_sector(a.bias[at.matrix] + expert * w.rows + row);
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

/// The block's weights on their way, and what its results need besides.
__device__ __forceinline__ void begin_run(const tiled_matmul_args& args, const dealt_plan& plan,
                                          const tile_run& run, warp_chunks& chunks) {
  chunks.begin(run);
  prefetch_terms(args, plan, run);
  __syncwarp();
}

__global__ void __launch_bounds__(register_threads, 1)
    dealt_kernel(const __grid_constant__ tiled_matmul_args args, const __grid_constant__ dealt_plan plan) {
  extern __shared__ uint4 shared_bytes[];
  const packed_matmul_args& a = args.matmul;
  auto* const bytes = reinterpret_cast<std::byte*>(shared_bytes);
  auto* const x = reinterpret_cast<__half*>(bytes + plan.x_at);
  auto* const sums = reinterpret_cast<float*>(bytes + plan.sums_at);
  const std::uint32_t x_barrier = shared_address_of(bytes) + 8 * slots_max;
  warp_chunks chunks(args, plan, shared_address_of(bytes), bytes + plan.slots_at);
  if (threadIdx.x == 0) {
    barrier_init(x_barrier, 1);
    barrier_init_done();
  }
  // Which experts were chosen is the work of a kernel before; other weights are known.
  tile_run run(plan, 1);
  if (args.tiles == nullptr) begin_run(args, plan, run, chunks);
  if (plan.share > 1) cluster_begins();
  wait_for_previous_kernel();
  allow_next_kernel();
  if (args.tiles != nullptr) {
    run = tile_run(plan, static_cast<std::uint32_t>(*args.tile_count));
    begin_run(args, plan, run, chunks);
  }
  if (run.first < run.end) copy_columns(args, plan, plan.tiles.quotient(run.first), x, x_barrier);
  std::uint32_t items = 0;  // whose activations are done with
  for (std::uint32_t at = run.first; at < run.end;) {
    const std::uint32_t item = plan.tiles.quotient(at);
    const item_columns columns(args, item);
    const std::uint32_t fit = plan.sums_bytes / plan.tile_sums_bytes(columns.count);
    const dealt_pass pass{(at - run.first) * plan.in_tile.d, at - item * plan.tiles.d,
                          min(fit, min(run.end, (item + 1) * plan.tiles.d) - at)};
    at += pass.tiles;
    __syncthreads();
    barrier_wait(x_barrier, items & 1U);
    // Lanes of columns that do not exist read another's: no column takes part in another's results.
    const std::uint32_t mine = min(threadIdx.x % 32 / 4, columns.count - 1);
    if (threadIdx.x / 32 < plan.warps)
      multiply_pass(chunks, pass, (at - run.first) * plan.in_tile.d, columns.count,
                    x + mine * plan.x_stride + 16 * (threadIdx.x % 4), sums);
    __syncthreads();
    if (at == (item + 1) * plan.tiles.d && at < run.end) {
      copy_columns(args, plan, item + 1, x, x_barrier);
      ++items;
    }
    store_pass(a, plan, pass, columns, sums);
  }
}

constexpr std::uint32_t aligned(std::uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

/// What is left of shared memory, among the warps.
void divide_slots(dealt_plan& plan) {
  const std::uint32_t fit = std::min(slots_max, (shared_max - plan.slots_at) / plan.slot_bytes);
  plan.ahead = fit / plan.warps;
  plan.slots = plan.ahead * plan.warps;
}

/// Shared memory for up to `columns` columns of an item; false when it has no room.
bool divide_memory(dealt_plan& plan, std::uint32_t columns) {
  plan.x_at = aligned((slots_max + 1) * 8);
  plan.sums_at = plan.x_at + aligned(columns * plan.x_stride * 2);
  if (plan.sums_at >= shared_max) return false;
  plan.sums_bytes = aligned(
      std::max(plan.tile_sums_bytes(columns), std::min(sums_most, (shared_max - plan.sums_at) / 3)));
  plan.slots_at = plan.sums_at + plan.sums_bytes;
  for (plan.warps = warps_max; plan.warps >= warps_min; plan.warps -= 4) {
    if (plan.slots_at + plan.warps * plan.slot_bytes > shared_max) continue;
    divide_slots(plan);
    return true;
  }
  return false;
}

/// A block of so many tiles takes no more than it needs: what follows may find room beside it.
void limit_to_run(dealt_plan& plan, std::uint32_t columns, std::uint32_t tiles) {
  plan.sums_bytes = std::min(plan.sums_bytes, aligned(tiles * plan.tile_sums_bytes(columns)));
  plan.slots_at = plan.sums_at + plan.sums_bytes;
  divide_slots(plan);
  plan.ahead = std::min(plan.ahead, (tiles * plan.in_tile.d + plan.warps - 1) / plan.warps);
  plan.slots = plan.ahead * plan.warps;
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
  if (!grouped) {
    blocks = std::min(blocks, plan.tiles.d);
    limit_to_run(plan, a.columns, (plan.tiles.d + blocks - 1) / blocks);
    if (blocks % sharing_blocks == 0) plan.share = sharing_blocks;
  }
  return launch_dependent_clusters(dealt_kernel, plan.share, dim3(blocks), dim3(threads),
                                   plan.slots_at + plan.slots * plan.slot_bytes, stream, args, plan);
}

}  // namespace orcd::kernels
