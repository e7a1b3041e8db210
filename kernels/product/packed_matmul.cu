// Chooses the instance of the throughput product for a launch; the kernel is in packed_matmul_kernel.cuh.
#include <initializer_list>

#include "kernels/device/launch.cuh"
#include "kernels/product/packed_dispatch.cuh"
#include "kernels/product/packed_matmul.hpp"
#include "kernels/product/packed_matmul_shape.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t split_max = cluster_blocks_max;

constexpr std::initializer_list<std::uint32_t> all_tiles{16, 32, 64, 128};
constexpr std::initializer_list<std::uint32_t> copied_tiles{32, 64, 128};

/// How a launch is run: columns of a tile, sets of 64 rows of a block, blocks that share k; or
/// k_sharing::copied.
struct tile_choice {
  std::uint32_t columns;
  std::uint32_t row_blocks;
  std::uint32_t split;
  bool copied;
};

/// A product of many experts' single matrices has too few rows for sets of four: with 16 columns they take 47
/// us instead of 40.
std::uint32_t row_blocks_max(const tiled_matmul_args& args, std::uint32_t columns) {
  const bool one_of_many = args.tiles != nullptr && args.row_blocks == 0 && !is_paired(args.matmul);
  return columns >= 64 || (columns == 16 && one_of_many) ? 2 : 4;
}

constexpr std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

/// Cycles that a multiprocessor takes for one group of 64 of k: measured by bench_cuda_matmul --sweep on an
/// H200, divided by waves and groups, rounded. Q8_0 has larger weights, so fewer chunks fit: one, beside 32
/// or 64 columns. With Q6_K and one set of rows two fit. In a cluster it takes long to send the sums of four
/// sets. Copied tiles: of MXFP4 and Q4_K.
constexpr std::uint32_t group_cycles(const tile_choice& c, packed_format format) {
  if (c.copied) return c.columns == 32 ? 870 : c.columns == 64 ? 1050 : 750;
  const bool few_slots = format == packed_format::q8_0;
  const bool split = c.split > 1;
  const bool crowded = format == packed_format::q6_k && c.row_blocks == 1 && !split;
  switch (c.columns) {
    case 16:
      return 175 * c.row_blocks + 55 + (few_slots ? 80 : 0) + (crowded ? 90 : 0) +
             (split && c.row_blocks == 4 ? 60 : 0);
    case 32:
      return 210 * c.row_blocks + 115 + (few_slots ? 400 : 0) + (crowded ? 90 : 0) +
             (split && c.row_blocks == 4 ? 310 : 0);
    case 64: return 232 * c.row_blocks + 250 + (few_slots ? 280 : 0);
    default: return 920 + (few_slots ? 200 : 0);
  }
}

/// Cycles of an item besides its groups: to fill the rings and store the result.
constexpr std::uint32_t item_cycles(const tile_choice& c) {
  return c.columns == 16 ? 5'500 : c.columns == 32 ? 7'000 : c.columns == 64 ? 8'500 : 14'000;
}
/// Cycles that a launch of clusters takes besides.
constexpr std::uint32_t split_cycles(std::uint32_t blocks) {
  return 6'000 + 40 * blocks;
}

/// Chunks that a block of a split launch works on at the same time.
constexpr std::uint32_t split_parts(const tile_choice& c) {
  return smaller(4 / c.row_blocks, c.columns == 16
                                       ? block_plan<packed_format::q4_k, 16, k_sharing::cluster>::parts_max
                                       : block_plan<packed_format::q4_k, 32, k_sharing::cluster>::parts_max);
}

/// Whether the blocks of a cluster have room for each other's sums.
constexpr bool split_fits(const tile_choice& c) {
  if (c.columns > 32) return false;
  return split_parts(c) * c.split * split_units_of_block(c.columns, c.row_blocks, c.split) *
             split_unit_bytes <=
         split_round_bytes_max(c.columns);
}

constexpr std::uint64_t impossible = ~0ULL;

/// Estimated cycles of a launch with `column_tiles` tiles.
std::uint64_t estimated_cycles(const tile_choice& c, const packed_matrix& w, std::uint32_t row_tiles,
                               std::uint32_t column_tiles, const device_room& room) {
  const std::uint32_t items = divide_up(row_tiles, group_row_tiles * c.row_blocks) * column_tiles;
  const std::uint64_t cycles = group_cycles(c, w.format);
  if (c.split == 1) return divide_up(items, room.multiprocessors) * (w.groups() * cycles + item_cycles(c));
  if (items > room.clusters[c.split] || c.split > w.chunks() || !split_fits(c)) return impossible;
  return divide_up(w.chunks(), c.split) * groups_per_chunk * cycles + split_cycles(items * c.split);
}

struct estimated_choice {
  tile_choice choice{};  ///< no columns: there is none
  std::uint64_t cycles = impossible;
};

/// The choice with the shortest estimate. The caller may fix any of the three numbers.
estimated_choice choose(const tiled_matmul_args& args, std::uint32_t row_tiles, const device_room& room) {
  estimated_choice best;
  const auto consider = [&](const tile_choice& c) {
    if (args.split != 0 && c.split != args.split) return;
    const std::uint32_t column_tiles =
        args.tiles != nullptr ? max(args.tiles_likely, 1U) : divide_up(args.matmul.columns, c.columns);
    const std::uint64_t cycles = estimated_cycles(c, args.matmul.w[0], row_tiles, column_tiles, room);
    if (cycles < best.cycles) best = {c, cycles};
  };
  const bool copied = args.matmul.x_order == half_order::packed;
  for (const std::uint32_t columns : copied ? copied_tiles : all_tiles) {
    if (args.tile_columns != 0 && columns != args.tile_columns) continue;
    const std::uint32_t most = columns == 128 ? 2 : copied ? 4 : row_blocks_max(args, columns);
    for (std::uint32_t blocks = copied || columns == 128 ? most : 1; blocks <= most; blocks *= 2) {
      if (args.row_blocks != 0 && columns != 128 && blocks != min(args.row_blocks, most)) continue;
      const std::uint32_t split_end = args.tiles != nullptr || copied ? 1 : split_max;
      for (std::uint32_t split = 1; split <= split_end; ++split) consider({columns, blocks, split, copied});
    }
  }
  return best;
}

split_plan plan_split(const tile_choice& c, std::uint32_t chunks) {
  const std::uint32_t round_chunks = split_parts(c) * c.split;
  return {c.split, divide_up(chunks, round_chunks), round_chunks, cyclic_share::of(chunks, c.split),
          cyclic_share::of(split_units(c.columns, c.row_blocks), c.split)};
}

std::uint32_t row_tiles_of(const packed_matmul_args& a) {
  std::uint32_t tiles = 0;
  for (std::uint32_t i = 0; i < a.matrices; ++i) tiles += a.w[i].row_tiles();
  return tiles;
}

/// One launch: all matrices have the format of the first.
int launch_one_format(const tiled_matmul_args& args, cudaStream_t stream) {
  const device_room& room = room_of_device();
  if (room.status != cudaSuccess) return room.status;
  const packed_matrix& w = args.matmul.w[0];
  matmul_work work{args, row_tiles_of(args.matmul), 0, 0, w.groups(), w.chunks(), w.tile_bytes(), {}};
  const tile_choice choice = choose(args, work.row_tiles, room).choice;
  if (choice.columns == 0) return cudaErrorInvalidValue;
  work.row_blocks = choice.row_blocks;
  work.row_groups = divide_up(work.row_tiles, group_row_tiles * choice.row_blocks);
  const std::uint32_t column_tiles =
      args.tiles != nullptr ? args.tiles_max : divide_up(args.matmul.columns, choice.columns);
  if (choice.split > 1) work.split = plan_split(choice, work.chunks);
  const std::uint32_t items = work.row_groups * column_tiles;
  const std::uint32_t blocks = choice.split > 1 ? items * choice.split : min(room.multiprocessors, items);
  return with_format(w.format, static_cast<int>(cudaErrorInvalidValue), [&](auto format) {
    return packed_tiles<decltype(format)::value>::launch(work, choice.columns, blocks, stream);
  });
}

bool valid(const tiled_matmul_args& args) {
  const packed_matmul_args& a = args.matmul;
  const bool paired = is_paired(a);
  if (a.columns == 0 || a.matrices == 0 || a.matrices > 3 || (paired && a.matrices != 2)) return false;
  if (a.x == nullptr || a.x_stride % 8 != 0 || a.x_divisor == 0) return false;
  if (a.x_order == half_order::packed &&
      (a.x_stride % group_cols != 0 ||
       (paired && (a.w[0].rows % group_cols != 0 || a.act_stride % group_cols != 0))))
    return false;
  if (paired ? a.act == nullptr : a.out == nullptr) return false;
  if ((args.tiles == nullptr) != (args.tile_count == nullptr)) return false;
  if (args.tiles != nullptr && (args.tile_columns == 0 || args.tiles_max == 0)) return false;
  if (args.row_blocks > 4 || args.row_blocks == 3 || args.split > split_max) return false;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    if (a.w[i].data == nullptr || a.w[i].cols != a.w[0].cols || a.w[i].rows == 0) return false;
  }
  // The matrices of a pair must share a format; other stacks are cut into runs of one format.
  return !paired || (a.w[0].rows == a.w[1].rows && a.w[0].format == a.w[1].format);
}

/// Calls launch(args) for each run of matrices of one format until one fails.
template <class Launch>
int for_each_format(const tiled_matmul_args& args, Launch launch) {
  std::uint32_t out_row = 0;
  for (std::uint32_t first = 0; first < args.matmul.matrices;) {
    std::uint32_t last = first + 1;
    while (last < args.matmul.matrices && args.matmul.w[last].format == args.matmul.w[first].format) ++last;
    tiled_matmul_args run = args;
    run.matmul.matrices = last - first;
    for (std::uint32_t i = first; i < last; ++i) {
      run.matmul.w[i - first] = args.matmul.w[i];
      run.matmul.bias[i - first] = args.matmul.bias[i];
    }
    if (run.matmul.out != nullptr) run.matmul.out += out_row;
    const int status = launch(run);
    if (status != cudaSuccess) return status;
    for (; first < last; ++first) out_row += args.matmul.w[first].rows;
  }
  return cudaSuccess;
}

}  // namespace

int launch_packed_matmul(const tiled_matmul_args& args, CUstream_st* stream) {
  if (!valid(args)) return cudaErrorInvalidValue;
  return for_each_format(args, [&](const tiled_matmul_args& run) { return launch_one_format(run, stream); });
}

std::uint64_t packed_matmul_cycles(const tiled_matmul_args& args) {
  const device_room& room = room_of_device();
  if (!valid(args) || room.status != cudaSuccess) return impossible;
  std::uint64_t sum = 0;
  const int status = for_each_format(args, [&](const tiled_matmul_args& run) -> int {
    const estimated_choice best = choose(run, row_tiles_of(run.matmul), room);
    sum += best.cycles;
    return best.choice.columns != 0 ? cudaSuccess : cudaErrorInvalidValue;
  });
  return status == cudaSuccess ? sum : impossible;
}

bool packed_matmul_takes(const tiled_matmul_args& args) {
  return packed_matmul_cycles(args) != impossible;
}

}  // namespace orcd::kernels
