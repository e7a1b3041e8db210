// Which instance of the throughput kernel a launch uses; the kernel is in packed_matmul_kernel.cuh.
#include "kernels/launch.cuh"
#include "kernels/packed_dispatch.cuh"
#include "kernels/packed_matmul_shape.cuh"

namespace orcd::kernels {
namespace {

/// How an instance is run: columns of a tile and sets of 64 rows of a block.
struct tile_choice {
  std::uint32_t columns;
  std::uint32_t row_blocks;
};

/// One matrix of each of many experts has too few rows for sets of four: 16 columns take 47 us instead of 40.
std::uint32_t row_blocks_max(const tiled_matmul_args& args, std::uint32_t columns) {
  const bool one_of_many = args.tiles != nullptr && args.row_blocks == 0 && !is_paired(args.matmul);
  return columns >= 64 || (columns == 16 && one_of_many) ? 2 : 4;
}

constexpr std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

/// Cycles of a multiprocessor for one group of 64 of k: what bench_cuda_matmul --sweep takes on an H200, over
/// waves and groups, rounded. Q8_0 has more bytes and room for fewer: of one chunk beside 32 or 64 columns.
constexpr std::uint32_t group_cycles(const tile_choice& c, packed_format format) {
  const bool few_slots = format == packed_format::q8_0;
  switch (c.columns) {
    case 16: return 175 * c.row_blocks + 55 + (few_slots ? 80 : 0);
    case 32: return 210 * c.row_blocks + 115 + (few_slots ? 400 : 0);
    case 64: return 232 * c.row_blocks + 250 + (few_slots ? 280 : 0);
    default: return 920 + (few_slots ? 200 : 0);
  }
}

/// Of an item beside its groups: filling the rings, storing the result.
constexpr std::uint32_t item_cycles(const tile_choice& c) {
  return c.columns == 16 ? 5'000 : c.columns < 128 ? 8'500 : 14'000;
}

/// The time of a launch with `column_tiles` tiles, in cycles.
std::uint64_t estimated_cycles(const tile_choice& c, const packed_matrix& w, std::uint32_t row_tiles,
                               std::uint32_t column_tiles, std::uint32_t multiprocessors) {
  const std::uint32_t items = divide_up(row_tiles, group_row_tiles * c.row_blocks) * column_tiles;
  return std::uint64_t{divide_up(items, multiprocessors)} *
         (w.groups() * group_cycles(c, w.format) + item_cycles(c));
}

/// The instance with the shortest estimate; the width of tiles may be fixed by the caller's list.
tile_choice choose(const tiled_matmul_args& args, std::uint32_t row_tiles, std::uint32_t multiprocessors) {
  tile_choice best{};
  std::uint64_t best_cycles = ~0ULL;
  for (const std::uint32_t columns : {16U, 32U, 64U, 128U}) {
    if (args.tile_columns != 0 && columns != args.tile_columns) continue;
    const std::uint32_t column_tiles =
        args.tiles != nullptr ? max(args.tiles_likely, 1U) : divide_up(args.matmul.columns, columns);
    for (std::uint32_t blocks = columns == 128 ? 2 : 1; blocks <= row_blocks_max(args, columns);
         blocks *= 2) {
      if (args.row_blocks != 0 && columns != 128 &&
          blocks != min(args.row_blocks, row_blocks_max(args, columns))) {
        continue;
      }
      const tile_choice c{columns, blocks};
      const std::uint64_t cycles =
          estimated_cycles(c, args.matmul.w[0], row_tiles, column_tiles, multiprocessors);
      if (cycles >= best_cycles) continue;
      best = c;
      best_cycles = cycles;
    }
  }
  return best;
}

/// One launch: all matrices have the format of the first.
int launch_one_format(const tiled_matmul_args& args, cudaStream_t stream) {
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  const packed_matrix& w = args.matmul.w[0];
  matmul_work work{args, 0, 0, 0, w.groups(), w.chunks(), w.tile_bytes()};
  for (std::uint32_t i = 0; i < args.matmul.matrices; ++i) work.row_tiles += args.matmul.w[i].row_tiles();
  const tile_choice choice = choose(args, work.row_tiles, multiprocessors);
  if (choice.columns == 0) return cudaErrorInvalidValue;
  work.row_blocks = choice.row_blocks;
  work.row_groups = divide_up(work.row_tiles, group_row_tiles * choice.row_blocks);
  const std::uint32_t column_tiles =
      args.tiles != nullptr ? args.tiles_max : divide_up(args.matmul.columns, choice.columns);
  const std::uint32_t blocks = min(multiprocessors, work.row_groups * column_tiles);
  return with_format(w.format, static_cast<int>(cudaErrorInvalidValue), [&](auto format) {
    return packed_tiles<decltype(format)::value>::launch(work, choice.columns, blocks, stream);
  });
}

bool valid(const tiled_matmul_args& args) {
  const packed_matmul_args& a = args.matmul;
  const bool paired = is_paired(a);
  if (a.columns == 0 || a.matrices == 0 || a.matrices > 3 || (paired && a.matrices != 2)) return false;
  if (a.x == nullptr || a.x_stride % 8 != 0 || a.x_divisor == 0) return false;
  if (paired ? a.act == nullptr : a.out == nullptr) return false;
  if ((args.tiles == nullptr) != (args.tile_count == nullptr)) return false;
  if (args.tiles != nullptr && (args.tile_columns == 0 || args.tiles_max == 0)) return false;
  if (args.row_blocks > 4 || args.row_blocks == 3) return false;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    if (a.w[i].data == nullptr || a.w[i].cols != a.w[0].cols || a.w[i].rows == 0) return false;
  }
  // A pair must share a format; other stacks are cut into runs of one format.
  return !paired || (a.w[0].rows == a.w[1].rows && a.w[0].format == a.w[1].format);
}

}  // namespace

int launch_packed_matmul(const tiled_matmul_args& args, CUstream_st* stream) {
  if (!valid(args)) return cudaErrorInvalidValue;
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
    const int status = launch_one_format(run, stream);
    if (status != cudaSuccess) return status;
    for (; first < last; ++first) out_row += args.matmul.w[first].rows;
  }
  return cudaSuccess;
}

}  // namespace orcd::kernels
