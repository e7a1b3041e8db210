// Packed matmuls at the shapes of the three target models, L2 cold: microseconds, the share of the
// streaming-read ceiling that the same run measures, and TFLOP/s.
//   bench_cuda_matmul [--columns N,N...] [--only TEXT] [--sweep]
// --only takes the matrices whose name contains TEXT; --sweep times every instance of the throughput kernel.
// From 64 columns on each line also has the product of prompts, and how long its input's image takes to make.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cuda_calls.hpp"
#include "kernels/device/stream_read.hpp"
#include "kernels/images/image_matmul.hpp"
#include "kernels/layer/experts.hpp"
#include "kernels/product/packed_matmul.hpp"
#include "kernels/product/repack.hpp"

namespace {

using namespace orcd;
using namespace orcd::kernels;
using bench::allocate;
using bench::check;

constexpr std::uint64_t pool_bytes = 1ULL << 30U;
constexpr std::uint32_t columns_max = 2048;

/// Median microseconds of `run(i)` over `repeats`, timed with events in batches.
template <class F>
double median_us(int repeats, int batch, F run) {
  std::vector<double> times;
  for (int r = 0; r < repeats + 2; ++r) {
    const float ms = bench::ms_of([&] {
      for (int i = 0; i < batch; ++i) run(r * batch + i);
    });
    if (r >= 2) times.push_back(1000.0 * ms / batch);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct shape {
  const char* name;
  packed_format format;
  std::uint32_t rows, cols;
  bool paired = false;        ///< gate and up of `rows` each
  std::uint32_t experts = 0;  ///< a stack of so many, four of them a token
};

const std::vector<shape> shapes{
    {"qwen qkv", packed_format::q5_0, 1152, 896},
    {"qwen gate_up", packed_format::q5_0, 4864, 896, true},
    {"qwen down q6_k", packed_format::q6_k, 896, 4864},
    {"qwen down q4_k", packed_format::q4_k, 896, 4864},
    {"qwen o", packed_format::q5_0, 896, 896},
    {"qwen head", packed_format::q8_0, 151936, 896},
    {"phi qkv", packed_format::q5_k, 9216, 3072},
    {"phi o", packed_format::q4_k, 3072, 3072},
    {"phi gate_up", packed_format::q4_k, 8192, 3072, true},
    {"phi down q4_k", packed_format::q4_k, 3072, 8192},
    {"phi down q6_k", packed_format::q6_k, 3072, 8192},
    {"phi head", packed_format::q6_k, 32064, 3072},
    {"phi gate_up q2_k", packed_format::q2_k, 8192, 3072, true},
    {"phi gate_up q3_k", packed_format::q3_k, 8192, 3072, true},
    {"phi gate_up iq4_nl", packed_format::iq4_nl, 8192, 3072, true},
    {"phi gate_up iq4_xs", packed_format::iq4_xs, 8192, 3072, true},
    {"phi gate_up nvfp4", packed_format::nvfp4, 8192, 3072, true},
    {"phi gate_up iq3_s", packed_format::iq3_s, 8192, 3072, true},
    {"phi gate_up iq3_xxs", packed_format::iq3_xxs, 8192, 3072, true},
    {"phi gate_up iq2_s", packed_format::iq2_s, 8192, 3072, true},
    {"phi gate_up iq2_xs", packed_format::iq2_xs, 8192, 3072, true},
    {"phi gate_up iq2_xxs", packed_format::iq2_xxs, 8192, 3072, true},
    {"oss qkv", packed_format::q8_0, 5120, 2880},
    {"oss o", packed_format::q8_0, 2880, 4096},
    {"oss gate_up x4", packed_format::mxfp4, 2880, 2880, true, 32},
    {"oss down x4", packed_format::mxfp4, 2880, 2880, false, 32},
    {"oss head", packed_format::q8_0, 201088, 2880},
    {"30b gate_up x4", packed_format::q4_k, 768, 2048, true, 32},
    {"30b down x4 q6_k", packed_format::q6_k, 2048, 768, false, 32},
};

struct buffers {
  std::byte* pool = allocate<std::byte>(pool_bytes);
  __half* x = allocate<__half>(4ULL * columns_max * 8192);
  float* out = allocate<float>(1ULL << 26U);
  __half* act = allocate<__half>(5ULL * columns_max * 8192);
  float* scales = allocate<float>(1 << 18);
  std::int32_t* order = allocate<std::int32_t>(4 * columns_max);
  expert_tile* tiles = allocate<expert_tile>(4096);
  std::int32_t* tile_count = allocate<std::int32_t>(1);
  std::int32_t* chosen = allocate<std::int32_t>(4 * columns_max);
  __half* image = allocate<__half>(5ULL * columns_max * 8192);
  image_tile* image_tiles = allocate<image_tile>(4096);

  buffers() {
    std::vector<std::uint32_t> random(pool_bytes / 4);
    std::uint64_t state = 1;
    for (auto& word : random) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      word = static_cast<std::uint32_t>(state >> 33U) & 0xBBFFBBFFU;  // pairs of finite halves
    }
    check(cudaMemcpy(pool, random.data(), pool_bytes, cudaMemcpyHostToDevice), "copy");
    // Not zero: divisions of zeros take longer.
    const std::vector<float> ones(1 << 18, 1e-3F);
    check(cudaMemcpy(scales, ones.data(), ones.size() * sizeof(float), cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(x, random.data(), 8ULL * columns_max * 8192, cudaMemcpyHostToDevice), "copy");
    std::vector<std::int32_t> ids(4 * columns_max);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(random[i] >> 8U) % 32;
    check(cudaMemcpy(chosen, ids.data(), ids.size() * 4, cudaMemcpyHostToDevice), "copy");
  }
};

/// An instance of the throughput kernel; zeros are its own choice.
struct instance {
  std::uint32_t tile_columns = 0;
  std::uint32_t row_blocks = 0;
  std::uint32_t split = 0;
  half_order order = half_order::natural;  ///< with no tile_columns: as models' layers give it
};

/// Microseconds of one matrix with `columns` columns. 0 when the device has no room for the instance.
double time_matmul(const buffers& b, const shape& s, std::uint32_t columns, const instance& by) {
  const std::uint64_t one = (packed_bytes(s.format, s.rows, s.cols) + 255) / 256 * 256;
  const std::uint32_t matrices = s.paired ? 2 : 1;
  const std::uint64_t stack = one * std::max(1U, s.experts);
  const std::uint64_t copies = std::max<std::uint64_t>(1, pool_bytes / (stack * matrices));
  tiled_matmul_args t{};
  packed_matmul_args& a = t.matmul;
  const std::uint32_t pairs = s.experts > 0 ? columns * 4 : columns;
  if (s.experts > 0) {
    const expert_tiles tiles = expert_tiles_of(pairs, s.experts, true);
    const bool few = few_pairs(pairs, s.experts);
    t.tile_columns = by.tile_columns != 0 ? by.tile_columns : few ? matvec_columns_max : tiles.columns;
    a.x_order = by.tile_columns != 0 ? by.order : few ? half_order::natural : tiles.order;
    check(launch_sort_experts({b.chosen, pairs, s.experts, b.order, b.tiles, b.tile_count, t.tile_columns},
                              nullptr),
          "sort");
    a.experts = b.chosen;
    a.x_divisor = s.paired ? 4 : 1;
    t.order = b.order;
    t.tiles = b.tiles;
    t.tile_count = b.tile_count;
    t.tiles_max = sorted_tiles_max(pairs, s.experts, t.tile_columns);
    t.tiles_likely = sorted_tiles_likely(pairs, s.experts, t.tile_columns);
  } else {
    t.tile_columns = by.tile_columns;
    a.x_order = by.order;
  }
  t.row_blocks = by.row_blocks;
  t.split = by.split;
  a.columns = pairs;
  a.matrices = matrices;
  a.x = b.x;
  a.x_stride = (s.cols + 63) / 64 * 64;
  a.out = b.out;
  a.out_stride = s.rows;
  a.act = b.act;
  a.act_stride = (s.rows + 63) / 64 * 64;
  if (s.paired) a.output = matmul_output::swiglu;
  const auto set = [&](int i) {
    for (std::uint32_t m = 0; m < matrices; ++m) {
      a.w[m].data = b.pool + (static_cast<std::uint64_t>(i) % copies * matrices + m) * stack;
      a.w[m].rows = s.rows;
      a.w[m].cols = s.cols;
      a.w[m].format = s.format;
      a.w[m].row_scale = packed_row_scales(s.format, s.rows) > 0 ? b.scales : nullptr;
      a.w[m].expert_stride = s.experts > 0 ? one : 0;
      a.w[m].row_scale_stride = s.rows;
    }
  };
  if (s.experts == 0 && by.tile_columns == 0 && columns >= 256) {
    set(0);
    const std::uint64_t natural = packed_matmul_cycles(t);
    a.x_order = half_order::packed;
    if (packed_matmul_cycles(t) >= natural) a.x_order = half_order::natural;
  }
  const auto run = [&](int i) {
    set(i);
    const bool few =
        t.tile_columns != 0 ? t.tile_columns <= matvec_columns_max : columns <= matvec_columns_max;
    check(few ? launch_balanced_matvec(t, nullptr) : launch_packed_matmul(t, nullptr), s.name);
  };
  if (by.split > 1 || a.x_order == half_order::packed) {
    set(0);
    if (!packed_matmul_takes(t)) return 0.0;
  }
  return columns > 64 ? median_us(5, 4, run) : median_us(7, 12, run);
}

/// Microseconds of the product of prompts, and of making its image.
struct image_times {
  double product = 0, image = 0;
};
image_times time_images(const buffers& b, const shape& s, std::uint32_t columns) {
  const std::uint64_t one = (packed_bytes(s.format, s.rows, s.cols) + 255) / 256 * 256;
  const std::uint32_t matrices = s.paired ? 2 : 1;
  const std::uint64_t stack = one * std::max(1U, s.experts);
  const std::uint64_t copies = std::max<std::uint64_t>(1, pool_bytes / (stack * matrices));
  const std::uint32_t most = image_tile_columns(s.format);
  const std::uint32_t pairs = s.experts > 0 ? columns * 4 : columns;
  image_matmul_args t{};
  packed_matmul_args& a = t.matmul;
  to_image_args g{};
  a.x_stride = image_columns(columns);
  if (s.experts > 0) {
    a.x_stride = static_cast<std::uint32_t>(sorted_image_columns(pairs, s.experts));
    check(launch_sort_experts({b.chosen, pairs, s.experts, b.order, nullptr, b.tile_count, most},
                              b.image_tiles, nullptr),
          "sort");
    t.order = g.order = b.order;
    t.tiles = g.tiles = b.image_tiles;
    t.tile_count = g.tile_count = b.tile_count;
    t.tiles_max = g.tiles_max = sorted_tiles_max(pairs, s.experts, most);
    t.tile_columns = most;
    g.x_divisor = s.paired ? 4 : 1;
  }
  g.x = b.x;
  g.x_stride = (s.cols + 63) / 64 * 64;
  g.x_order = half_order::packed;
  g.columns = columns;
  g.image = b.image;
  g.image_columns = a.x_stride;
  a.columns = pairs;
  a.matrices = matrices;
  a.x = b.image;
  a.out = b.out;
  a.out_stride = s.rows;
  a.act = b.act;
  a.act_stride = a.x_stride;
  if (s.paired) a.output = matmul_output::swiglu;
  const double image = median_us(5, 4, [&](int) { check(launch_to_image(g, nullptr), "image"); });
  const double product = median_us(5, 4, [&](int i) {
    for (std::uint32_t m = 0; m < matrices; ++m) {
      a.w[m] = {b.pool + (static_cast<std::uint64_t>(i) % copies * matrices + m) * stack,
                packed_row_scales(s.format, s.rows) > 0 ? b.scales : nullptr,
                s.rows,
                s.cols,
                s.format,
                s.experts > 0 ? one : 0,
                s.rows};
    }
    check(launch_image_matmul(t, nullptr), s.name);
  });
  return {product, image};
}

/// Bytes of weights that a launch must read at least once.
double bytes_of(const shape& s, std::uint32_t columns) {
  const double one = static_cast<double>(packed_bytes(s.format, s.rows, s.cols)) * (s.paired ? 2 : 1);
  return one * (s.experts > 0 ? std::min(s.experts, columns * 4) : 1);
}
double flops_of(const shape& s, std::uint32_t columns) {
  return 2.0 * s.rows * (s.paired ? 2 : 1) * s.cols * columns * (s.experts > 0 ? 4 : 1);
}

/// Tiles x sets of rows / blocks that share k; p: of activations in packed order.
void print_instances(const buffers& b, const shape& s, std::uint32_t columns) {
  const auto print = [&](const instance& by) {
    const double us = time_matmul(b, s, columns, by);
    const char* const order = by.order == half_order::packed ? "p" : "";
    if (us > 0) std::printf("  %s%ux%u/%u:%.2f", order, by.tile_columns, by.row_blocks, by.split, us);
    std::fflush(stdout);
  };
  for (const std::uint32_t tile : {16U, 32U, 64U, 128U}) {
    if (tile > 2 * columns || tile * 16 < columns) continue;
    for (const std::uint32_t blocks : {1U, 2U, 4U}) {
      if (blocks > (tile >= 64 ? 2U : 4U) || (tile == 128 && blocks > 1)) continue;
      for (std::uint32_t split = 1; split <= (tile <= 32 && s.experts == 0 ? 8U : 1U); ++split)
        print({tile, blocks, split});
    }
    if (tile > 16) print({tile, 4, 1, half_order::packed});
  }
}

void print_row(const buffers& b, const shape& s, std::uint32_t columns, double ceiling, bool sweep) {
  if (static_cast<std::uint64_t>(s.rows) * columns * (s.experts > 0 ? 4 : 1) > 1ULL << 26U) return;
  const double us = time_matmul(b, s, columns, {});
  std::printf("%-16s %5u %9.2f us %6.1f%% %7.0f TFLOP/s", s.name, columns, us,
              100 * bytes_of(s, columns) / us / 1e3 / ceiling, flops_of(s, columns) / us / 1e6);
  if (columns >= 64 && image_tile_columns(s.format) > 0 && (!s.paired || s.rows % 64 == 0)) {
    const image_times by = time_images(b, s, columns);
    std::printf("; prompts' %9.2f us %7.0f TFLOP/s, image %7.2f us", by.product,
                flops_of(s, columns) / by.product / 1e6, by.image);
  }
  std::fflush(stdout);
  if (sweep && columns > 1) print_instances(b, s, columns);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::uint32_t> columns{1, 8, 16, 32, 64, 512, columns_max};
  std::string only;
  bool sweep = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--sweep") {
      sweep = true;
    } else if (option == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else if (option == "--columns" && i + 1 < argc) {
      columns.clear();
      std::istringstream list(argv[++i]);
      for (std::string n; std::getline(list, n, ',');) {
        columns.push_back(std::clamp<std::uint32_t>(std::strtoul(n.c_str(), nullptr, 10), 1, columns_max));
      }
    } else {
      std::fprintf(stderr, "usage: bench_cuda_matmul [--columns N,N...] [--only TEXT] [--sweep]\n");
      return 2;
    }
  }
  const buffers b;
  const double read_us =
      median_us(7, 1, [&](int) { check(launch_stream_read(b.pool, pool_bytes, b.scales, nullptr), "read"); });
  const double ceiling = pool_bytes / read_us / 1e3;
  std::printf("streaming read of 1 GiB: %.0f GB/s\n", ceiling);
  for (const shape& s : shapes) {
    if (std::string(s.name).find(only) == std::string::npos) continue;
    for (const std::uint32_t n : columns) print_row(b, s, n, ceiling, sweep);
  }
  return 0;
}
