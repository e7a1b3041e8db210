// The few-column product: up to eight columns of one product, or the tokens of all chosen experts,
// up to eight of each, so that every weight is read once. Row tiles are divided evenly among the blocks, one
// a multiprocessor, however they fall on matrices and experts.
//
//   activations  VRAM --bulk copy, to all blocks of a cluster--> shared memory, once an item
//   weights      VRAM --bulk copies, ahead of use--> slots of shared memory --> warp: unpack, mma
//   sums         16 rows by all columns for each chunk of 256 --> shared memory
//   outputs      when the sums of a pass of tiles fill their memory: fold, scale, bias, store
//
// An item is one expert with its tokens, or the whole product with all columns. Every block of one product
// needs all activations, so the blocks of a cluster load a part each and send it to all of them. Weights and
// the scales of outputs start to come before the kernel ahead of this one has ended.
#include <algorithm>
#include <iterator>

#include "kernels/device/launch.cuh"
#include "kernels/product/balanced_blocks.hpp"
#include "kernels/product/balanced_outputs.cuh"
#include "kernels/product/balanced_stream.cuh"
#include "kernels/product/packed_matmul.hpp"

namespace orcd::kernels {
namespace {

/// Formats of the files that most run. A kernel for these alone is compiled besides that for all: unpacking
/// grids and what is looked up takes registers that the others would spill.
constexpr std::uint32_t common_formats =
    format_bit(packed_format::q4_0) | format_bit(packed_format::q4_1) | format_bit(packed_format::q5_0) |
    format_bit(packed_format::q5_1) | format_bit(packed_format::q8_0) | format_bit(packed_format::q4_k) |
    format_bit(packed_format::q5_k) | format_bit(packed_format::q6_k) | format_bit(packed_format::mxfp4) |
    format_bit(packed_format::f16) | format_bit(packed_format::bf16) | format_bit(packed_format::f32);
constexpr std::uint32_t all_formats = ~0U;

bool in_common_formats(const packed_matmul_args& a) {
  return std::all_of(a.w, a.w + std::min<std::size_t>(a.matrices, std::size(a.w)),
                     [](const packed_matrix& w) { return (format_bit(w.format) & common_formats) != 0; });
}

/// Multiplies this warp's chunks of the pass and keeps their sums of each column; waits for the item's
/// activations before the first.
template <bool Grouped, std::uint32_t Formats>
__device__ __forceinline__ void multiply_pass(warp_chunks<Grouped>& chunks, const balanced_pass& pass,
                                              std::uint32_t end, std::uint32_t columns, const __half* x,
                                              const column_loader<Grouped>& activations, float* sums) {
  bool waits = true;
#pragma unroll 1
  for (; chunks.next() < end; chunks.advance()) {
    const chunk_kind kind = chunks.kind();
    const std::byte* const bytes = chunks.wait();
    if (waits) activations.wait();
    waits = false;
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    with_format_of<Formats>(kind.format(), [&](auto format) {
      multiply_chunk_ahead<decltype(format)::value>(bytes, kind.groups(), x + kind.column(), threadIdx.x % 32,
                                                    acc);
    });
    keep_sums(sums + (chunks.next() - pass.first) * tile_rows * columns, columns, threadIdx.x % 32, acc);
  }
}

/// Grouped: items are the experts of args.tiles; otherwise there is one item.
template <bool Grouped, std::uint32_t Formats>
__global__ void __launch_bounds__(register_threads, 1)
    balanced_kernel(const __grid_constant__ tiled_matmul_args args,
                    const __grid_constant__ balanced_plan plan) {
  extern __shared__ uint4 shared_bytes[];
  const packed_matmul_args& a = args.matmul;
  auto* const bytes = reinterpret_cast<std::byte*>(shared_bytes);
  auto& state = *reinterpret_cast<balanced_state*>(shared_bytes);
  auto* const x = reinterpret_cast<__half*>(bytes + plan.x_at);
  pass_output& output = reinterpret_cast<pass_output*>(bytes + plan.outputs_at)[threadIdx.x];
  auto* const sums = reinterpret_cast<float*>(bytes + plan.sums_at);
  const std::uint32_t x_barrier = shared_address_of(&state.x_barrier);
  warp_chunks<Grouped> chunks(args, plan, state, bytes + plan.slots_at);
  column_loader<Grouped> activations(args, plan, x, x_barrier);
  if (threadIdx.x == first_loader) {
    barrier_init(x_barrier, 1);
    barrier_init_done();
  }
  if (plan.cluster_blocks > 1) cluster_arrives();
  // Which experts were chosen is the result of an earlier kernel; other weights are constants and can be
  // copied now.
  tile_run run(plan, 1);
  if constexpr (!Grouped) {
    chunks.begin(run);
    activations.announce(0);
  }
  if (plan.cluster_blocks > 1) cluster_begins();
  wait_for_previous_kernel();
  allow_next_kernel();
  if constexpr (Grouped) {
    run = tile_run(plan, static_cast<std::uint32_t>(*args.tile_count));
    if (run.first < run.end) activations.announce(plan.tiles.quotient(run.first));
  }
  activations.copy();
  if constexpr (Grouped) {
    chunks.begin(run);  // after the activations, since every chunk waits for those
    prefetch_run_terms(args, plan, run);
    __syncwarp();
  }
  if (threadIdx.x == 0) state.run = run;
  for (std::uint32_t at = run.first; at < run.end;) {
    const std::uint32_t item = item_of<Grouped>(plan, at);
    const item_columns<Grouped> columns(args, item);
    const std::uint32_t fit = plan.sums_bytes / plan.tile_sums_bytes(columns.count);
    const balanced_pass pass{(at - run.first) * plan.in_tile.d, at - item * plan.tiles.d,
                             min(fit, min(run.end, (item + 1) * plan.tiles.d) - at)};
    const pass_outputs<Grouped> outputs(a, plan, pass, columns);
    if (threadIdx.x < outputs.count()) outputs.precompute(threadIdx.x, output);
    at += pass.tiles;
    __syncthreads();
    // Lanes of columns that do not exist read an existing one's input. Their results are not stored, and no
    // column of an mma influences another's.
    const std::uint32_t mine = min(threadIdx.x % 32 / 4, columns.count - 1);
    if (threadIdx.x / 32 < plan.warps)
      multiply_pass<Grouped, Formats>(chunks, pass, (at - run.first) * plan.in_tile.d, columns.count,
                                      x + mine * plan.x_stride + 16 * (threadIdx.x % 4), activations, sums);
    __syncthreads();
    if constexpr (Grouped) {
      const std::uint32_t next = item_of<Grouped>(plan, at);
      if (at == next * plan.tiles.d && at < run.end) {
        activations.announce(next);
        activations.copy();
      }
    }
    store_pass(a, plan, outputs, output, columns.count, sums);
  }
}

constexpr std::uint32_t aligned(std::uint32_t bytes) {
  return (bytes + 127) / 128 * 128;
}

/// Divides shared memory for up to `columns` columns of an item and up to `tiles` tiles a block. Takes only
/// what the tiles need, so that a block of the next kernel can be resident beside this one, and leaves
/// `leaves` bytes. tiles == 0 means that their number is unknown: take all of it. False if there is not
/// enough.
bool divide_memory(balanced_plan& plan, std::uint32_t columns, std::uint32_t tiles,
                   std::uint32_t leaves = 0) {
  const std::uint32_t all = multiprocessor_shared_bytes - leaves;
  const bool any = tiles == 0;
  const std::uint32_t outputs = any ? threads : std::min(threads, tiles * tile_rows * columns);
  const std::uint32_t tile_bytes = aligned(plan.tile_sums_bytes(columns));
  plan.x_at = aligned(sizeof(balanced_state));
  plan.outputs_at = plan.x_at + aligned(columns * plan.x_stride * 2);
  plan.sums_at = plan.outputs_at + aligned(outputs * static_cast<std::uint32_t>(sizeof(pass_output)));
  for (plan.warps = warps_max; plan.warps >= warps_min; plan.warps -= 4) {
    const std::uint32_t least = plan.sums_at + plan.warps * plan.slot_bytes;
    if (least + tile_bytes > all) continue;
    const std::uint32_t wanted = any ? sums_most : std::min(sums_most, tiles * tile_bytes);
    plan.sums_bytes = std::clamp(wanted, tile_bytes, (all - least) / 128 * 128);
    const std::uint32_t room = all - plan.sums_at - plan.sums_bytes;
    plan.ahead = std::min(slots_max, room / plan.slot_bytes) / plan.warps;
    if (!any) plan.ahead = std::min(plan.ahead, (tiles * plan.in_tile.d + plan.warps - 1) / plan.warps);
    plan.slots = plan.ahead * plan.warps;
    if (any) plan.sums_bytes = (all - plan.sums_at - plan.slots * plan.slot_bytes) / 128 * 128;
    plan.slots_at = plan.sums_at + plan.sums_bytes;
    return true;
  }
  return false;
}

/// Sets all of the plan that does not depend on the number of blocks or on shared memory. False for a product
/// that this kernel cannot do.
bool describe(const packed_matmul_args& a, std::uint32_t columns, balanced_plan& plan) {
  const bool paired = is_paired(a);
  if (a.matrices == 0 || a.matrices > 3 || (paired && a.matrices != 2) || columns == 0 ||
      columns > matvec_columns_max)
    return false;
  plan.chunks = a.w[0].chunks();
  plan.in_tile = divider::by(plan.chunks * (paired ? 2 : 1));
  plan.x_stride = padded_cols(a.w[0].cols) + 8;  // columns begin in different banks
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
  return std::uint64_t{plan.tiles.d} * plan.tiles.d <= UINT32_MAX;  // the limit of divider
}

/// Whether pointers and strides are consistent.
bool valid(const tiled_matmul_args& args) {
  const packed_matmul_args& a = args.matmul;
  return a.x != nullptr && a.norm_x == nullptr && a.x_stride % 8 == 0 &&
         a.x_stride >= padded_cols(a.w[0].cols) && a.x_divisor > 0 &&
         (is_paired(a) ? a.act : static_cast<const void*>(a.out)) != nullptr &&
         (args.tiles == nullptr || (args.tile_count != nullptr && args.order != nullptr));
}

template <bool Grouped, std::uint32_t Formats>
int launch_with(const tiled_matmul_args& args, cudaStream_t stream, std::uint32_t leaves) {
  const packed_matmul_args& a = args.matmul;
  const std::uint32_t columns = Grouped ? args.tile_columns : a.columns;
  balanced_plan plan;
  if (!valid(args) || !describe(a, columns, plan)) return cudaErrorInvalidValue;
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(balanced_kernel<Grouped, Formats>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           multiprocessor_shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  const device_room& room = room_of_device();
  if (room.status != cudaSuccess) return room.status;
  std::uint32_t blocks = room.multiprocessors;
  if constexpr (!Grouped) {
    const block_choice choice = choose_blocks(plan.tiles.d, plan.x_stride * 2, room);
    blocks = choice.blocks;
    plan.cluster_blocks = choice.cluster_blocks;
  }
  plan.blocks = divider::by(blocks);
  const std::uint64_t tiles = std::uint64_t{std::max(args.tiles_max, 1U)} * plan.tiles.d;
  const std::uint32_t each = Grouped ? 0 : (plan.tiles.d + blocks - 1) / blocks;
  if (tiles * std::max(plan.tiles.d, blocks) > UINT32_MAX ||  // the limit of divider
      (!divide_memory(plan, columns, each, leaves) && !divide_memory(plan, columns, each)))
    return cudaErrorInvalidValue;
  return launch_dependent_clusters(balanced_kernel<Grouped, Formats>, plan.cluster_blocks, dim3(blocks),
                                   dim3(threads), plan.slots_at + plan.slots * plan.slot_bytes, stream, args,
                                   plan);
}

template <bool Grouped>
int launch(const tiled_matmul_args& args, cudaStream_t stream, std::uint32_t leaves = 0) {
  return in_common_formats(args.matmul) ? launch_with<Grouped, common_formats>(args, stream, leaves)
                                        : launch_with<Grouped, all_formats>(args, stream, leaves);
}

}  // namespace

bool balanced_matvec_takes(const packed_matmul_args& a, std::uint32_t columns) {
  balanced_plan plan;
  return describe(a, columns, plan) && divide_memory(plan, columns, 0);
}

int launch_balanced_matvec(const tiled_matmul_args& args, CUstream_st* stream, std::uint32_t leaves) {
  if (leaves > multiprocessor_shared_bytes || args.matmul.x_order != half_order::natural)
    return cudaErrorInvalidValue;
  return args.tiles != nullptr ? launch<true>(args, stream) : launch<false>(args, stream, leaves);
}

}  // namespace orcd::kernels
