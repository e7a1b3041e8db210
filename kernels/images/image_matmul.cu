// Chooses how the throughput product of prompts is launched; the kernel is in image_matmul_kernel.cuh.
#include "kernels/images/image_matmul.hpp"
#include "kernels/images/image_matmul_shape.cuh"
#include "kernels/product/packed_dispatch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint64_t impossible = ~0ULL;
constexpr std::uint32_t item_row_tiles = image_plan<packed_format::mxfp4>::row_tiles;

constexpr std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) {
  return (a + b - 1) / b;
}

/// Cycles that a multiprocessor takes for one group of 64 of k, in the unit of packed_matmul.cu's: measured
/// by bench_cuda_matmul on an H200, divided by waves and groups, rounded. More where all multiprocessors are
/// busy, which share L2 and power. Q8_0 has weights so large that a chunk of them is all that fits.
constexpr std::uint32_t group_cycles(std::uint32_t columns, packed_format format, bool all_busy) {
  const std::uint32_t more = format == packed_format::q8_0 || is_float_format(format) ? 200 : 0;
  if (!all_busy) return more + (columns == 128 ? 600 : columns == 96 ? 570 : 540);
  return more + (columns == 128 ? 900 : columns == 96 ? 720 : 580);
}
constexpr std::uint32_t item_cycles = 6'000;     ///< to store the result
constexpr std::uint32_t launch_cycles = 11'000;  ///< and to fill the rings

std::uint32_t row_tiles_of(const packed_matmul_args& a) {
  std::uint32_t tiles = 0;
  for (std::uint32_t i = 0; i < a.matrices; ++i) tiles += a.w[i].row_tiles();
  return tiles;
}

struct dense_choice {
  std::uint32_t columns = 0;
  std::uint64_t cycles = impossible;
};
/// Tiles of a dense product with the shortest estimate.
dense_choice choose(const packed_matmul_args& a, std::uint32_t multiprocessors) {
  dense_choice best;
  const std::uint32_t most = image_tile_columns(a.w[0].format);
  const std::uint32_t row_groups = divide_up(row_tiles_of(a), item_row_tiles);
  for (const std::uint32_t columns : {128U, 96U, 64U}) {
    if (columns > most) continue;
    const std::uint32_t items = row_groups * divide_up(a.columns, columns);
    const std::uint32_t group = group_cycles(columns, a.w[0].format, items > multiprocessors / 2);
    const std::uint64_t waves = divide_up(items, multiprocessors);
    const std::uint64_t cycles = launch_cycles + waves * (a.w[0].groups() * group + item_cycles);
    if (cycles < best.cycles) best = {columns, cycles};
  }
  return best;
}

int launch_one_format(const image_matmul_args& args, cudaStream_t stream) {
  const device_room& room = room_of_device();
  if (room.status != cudaSuccess) return room.status;
  const packed_matrix& w = args.matmul.w[0];
  image_work work{args, row_tiles_of(args.matmul), 0, w.groups(), static_cast<std::uint32_t>(w.tile_bytes())};
  work.row_groups = divide_up(work.row_tiles, item_row_tiles);
  if (work.args.tile_columns == 0) work.args.tile_columns = choose(args.matmul, room.multiprocessors).columns;
  if (work.args.tile_columns == 0 || work.args.tile_columns > image_tile_columns(w.format) ||
      work.row_groups > 0xFFFFU)
    return cudaErrorInvalidValue;
  const std::uint32_t column_tiles =
      args.tiles != nullptr ? args.tiles_max : divide_up(args.matmul.columns, work.args.tile_columns);
  if (column_tiles > 0xFFFFU) return cudaErrorInvalidValue;
  const std::uint64_t items = std::uint64_t{work.row_groups} * column_tiles;
  const auto blocks = static_cast<std::uint32_t>(items < room.multiprocessors ? items : room.multiprocessors);
  return with_format(w.format, static_cast<int>(cudaErrorInvalidValue), [&](auto format) -> int {
    constexpr packed_format known = decltype(format)::value;
    if constexpr (image_tile_columns(known) == 0)
      return cudaErrorInvalidValue;
    else
      return image_products<known>::launch(work, blocks, stream);
  });
}

bool valid(const packed_matmul_args& a) {
  const bool paired = is_paired(a);
  if (a.columns == 0 || a.matrices == 0 || a.matrices > 3 || (paired && a.matrices != 2)) return false;
  if (a.x == nullptr || a.x_stride % image_align != 0 || a.x_stride < image_columns(1)) return false;
  if (paired ? a.act == nullptr || a.act_stride % image_align != 0 || a.w[0].rows % group_cols != 0
             : a.out == nullptr)
    return false;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    if (a.w[i].data == nullptr || a.w[i].cols != a.w[0].cols || a.w[i].rows == 0) return false;
  }
  return !paired || (a.w[0].rows == a.w[1].rows && a.w[0].format == a.w[1].format);
}

bool valid(const image_matmul_args& args) {
  const packed_matmul_args& a = args.matmul;
  if (!valid(a) || args.tile_columns % image_align != 0) return false;
  if ((args.tiles == nullptr) != (args.tile_count == nullptr)) return false;
  if (args.tiles != nullptr) return args.tile_columns != 0 && args.tiles_max != 0;
  const std::uint32_t stored = is_paired(a) ? a.act_stride : a.x_stride;
  return a.columns <= a.x_stride && a.columns <= stored;
}

/// Calls launch(args) for each run of matrices of one format until one fails.
template <class Launch>
int for_each_format(const image_matmul_args& args, Launch launch) {
  std::uint32_t out_row = 0;
  for (std::uint32_t first = 0; first < args.matmul.matrices;) {
    std::uint32_t last = first + 1;
    while (last < args.matmul.matrices && args.matmul.w[last].format == args.matmul.w[first].format) ++last;
    image_matmul_args run = args;
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

int launch_image_matmul(const image_matmul_args& args, CUstream_st* stream) {
  if (!valid(args)) return cudaErrorInvalidValue;
  return for_each_format(args, [&](const image_matmul_args& run) { return launch_one_format(run, stream); });
}

std::uint64_t image_matmul_cycles(const packed_matmul_args& args) {
  const device_room& room = room_of_device();
  if (room.status != cudaSuccess || args.columns == 0 || image_tile_columns(args) == 0) return impossible;
  std::uint64_t sum = 0;
  const int status = for_each_format({args}, [&](const image_matmul_args& run) -> int {
    sum += choose(run.matmul, room.multiprocessors).cycles;
    return cudaSuccess;
  });
  return status == cudaSuccess ? sum : impossible;
}

}  // namespace orcd::kernels
