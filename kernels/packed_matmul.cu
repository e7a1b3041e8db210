// The throughput kernel: many columns. Each warp turns its weights into f16 fragments once and uses
// them for 64 columns; activations come through a ring in shared memory. Same bits as the latency
// kernel: same fragments, same order of k, same folds.
#include <cuda_pipeline.h>

#include "kernels/device_math.cuh"
#include "kernels/launch.cuh"
#include "kernels/packed_matmul.hpp"
#include "kernels/packed_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t row_warps = 4;     ///< warps along the rows of a block, two row tiles each
constexpr std::uint32_t column_warps = 2;  ///< warps along its columns
constexpr std::uint32_t warp_columns = tiled_columns / column_warps;
constexpr std::uint32_t column_tiles = warp_columns / 8;
constexpr std::uint32_t block_row_tiles = row_warps * 2;
constexpr std::uint32_t ring_stages = 4;
constexpr std::uint32_t row_halfs = group_cols + 8;  ///< padded so that a warp's 16-byte reads hit all banks
constexpr std::size_t ring_bytes = ring_stages * tiled_columns * row_halfs * sizeof(__half);

/// The columns of this block: `count` entries of the sorted list from `first`, all of one expert.
struct column_range {
  std::uint32_t first;
  std::uint32_t count;
  std::uint32_t expert;
};

/// Brings one group of 64 columns of k of all activations of the block into a ring stage.
__device__ void fetch_group(const tiled_matmul_args& a, const column_range& range, std::uint32_t group,
                            std::uint32_t groups, __half* stage) {
  if (group < groups) {
    for (std::uint32_t i = threadIdx.x; i < tiled_columns * 8; i += row_threads) {
      const std::uint32_t column = i / 8;
      const std::uint32_t part = i % 8;
      __half* to = stage + column * row_halfs + part * 8;
      if (column < range.count) {
        const std::uint32_t listed = range.first + column;
        const std::uint32_t m = a.order != nullptr ? static_cast<std::uint32_t>(a.order[listed]) : listed;
        const __half* from = a.matmul.x +
                             static_cast<std::uint64_t>(m / a.matmul.x_divisor) * a.matmul.x_stride +
                             group * group_cols + part * 8;
        __pipeline_memcpy_async(to, from, 16);
      } else {
        *reinterpret_cast<uint4*>(to) = uint4{0, 0, 0, 0};
      }
    }
  }
  __pipeline_commit();
}

struct accumulators {
  float chunk[2][column_tiles][4];
  float total[2][column_tiles][4];
};

/// total += chunk; chunk = 0. The first chunk is copied, as in the latency kernel.
__device__ void fold_chunk(accumulators& acc, bool first) {
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
#pragma unroll
    for (std::uint32_t c = 0; c < column_tiles; ++c) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        acc.total[r][c][i] = first ? acc.chunk[r][c][i] : acc.total[r][c][i] + acc.chunk[r][c][i];
        acc.chunk[r][c][i] = 0.0F;
      }
    }
  }
}

template <packed_format F>
__device__ void walk_k(const tiled_matmul_args& a, const column_range& range, const std::byte* tile0,
                       const std::byte* tile1, std::uint32_t groups, __half* ring, accumulators& acc) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t column_base = threadIdx.x / 32 % column_warps * warp_columns;
  for (std::uint32_t s = 0; s + 1 < ring_stages; ++s) {
    fetch_group(a, range, s, groups, ring + s * tiled_columns * row_halfs);
  }
  tile_stage<F, 1> w0;
  tile_stage<F, 1> w1;
  w0.load(tile0, 0, groups, lane);
  w1.load(tile1, 0, groups, lane);
  for (std::uint32_t group = 0; group < groups; ++group) {
    __pipeline_wait_prior(ring_stages - 2);
    __syncthreads();
    fetch_group(a, range, group + ring_stages - 1, groups,
                ring + (group + ring_stages - 1) % ring_stages * tiled_columns * row_halfs);
    tile_stage<F, 1> next0 = w0;
    tile_stage<F, 1> next1 = w1;
    if (group + 1 < groups) {
      next0.load(tile0, group + 1, groups, lane);
      next1.load(tile1, group + 1, groups, lane);
    }
    const __half* stage = ring + group % ring_stages * tiled_columns * row_halfs;
    std::uint32_t fragments[4][2][4];
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) {
      w0.fragment(0, group % 4, s, t, fragments[s][0]);
      w1.fragment(0, group % 4, s, t, fragments[s][1]);
    }
#pragma unroll
    for (std::uint32_t c = 0; c < column_tiles; ++c) {
      const auto* p = reinterpret_cast<const uint4*>(stage + (column_base + c * 8 + g) * row_halfs + 16 * t);
      const uint4 low = p[0];
      const uint4 high = p[1];
      const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (std::uint32_t s = 0; s < 4; ++s) {
        mma_16x8x16(acc.chunk[0][c], fragments[s][0], words[2 * s], words[2 * s + 1]);
        mma_16x8x16(acc.chunk[1][c], fragments[s][1], words[2 * s], words[2 * s + 1]);
      }
    }
    if (group % groups_per_chunk == groups_per_chunk - 1 || group + 1 == groups) {
      fold_chunk(acc, group < groups_per_chunk);
    }
    w0 = next0;
    w1 = next1;
  }
}

/// Row scale and bias of one output row, then where the value goes.
struct output_row {
  float scale;
  float bias;
  bool inside;
};

__device__ output_row output_of(const packed_matmul_args& a, std::uint32_t matrix, std::uint32_t row,
                                std::uint32_t expert) {
  const packed_matrix& w = a.w[matrix];
  output_row o{1.0F, 0.0F, row < w.rows};
  if (!o.inside) return o;
  if (w.row_scale != nullptr) o.scale = w.row_scale[expert * w.row_scale_stride + row];
  if (a.bias[matrix] != nullptr) o.bias = a.bias[matrix][expert * w.rows + row];
  return o;
}

/// The order of the latency kernel's epilogue: scale, then bias, each only where there is one.
__device__ float finish(const packed_matmul_args& a, std::uint32_t matrix, const output_row& o, float sum) {
  if (a.w[matrix].row_scale != nullptr) sum = __fmul_rn(sum, o.scale);
  if (a.bias[matrix] != nullptr) sum = __fadd_rn(sum, o.bias);
  return sum;
}

/// Writes a warp's results. `matrix`, `tile` name its two row tiles.
__device__ void write_results(const tiled_matmul_args& args, const column_range& range,
                              const std::uint32_t (&matrix)[2], const std::uint32_t (&tile)[2],
                              const std::uint32_t (&out_row)[2], const bool (&live)[2], bool paired,
                              const accumulators& acc) {
  const packed_matmul_args& a = args.matmul;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t column_base = threadIdx.x / 32 % column_warps * warp_columns;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    output_row rows[2];
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) {
      rows[r] = output_of(a, matrix[r], tile[r] * tile_rows + g + 8 * half, range.expert);
    }
#pragma unroll
    for (std::uint32_t c = 0; c < column_tiles; ++c) {
#pragma unroll
      for (std::uint32_t j = 0; j < 2; ++j) {
        const std::uint32_t column = column_base + c * 8 + 2 * t + j;
        if (column >= range.count) continue;
        const std::uint32_t listed = range.first + column;
        const std::uint64_t m =
            args.order != nullptr ? static_cast<std::uint32_t>(args.order[listed]) : listed;
        if (paired) {
          if (!live[0] || !rows[0].inside) continue;
          const float gate = finish(a, 0, rows[0], acc.total[0][c][half * 2 + j]);
          const float up = finish(a, 1, rows[1], acc.total[1][c][half * 2 + j]);
          const float value = a.output == matmul_output::swiglu ? silu(gate) * up : swiglu_clamped(gate, up);
          a.act[m * a.act_stride + tile[0] * tile_rows + g + 8 * half] = to_half(value);
          continue;
        }
#pragma unroll
        for (std::uint32_t r = 0; r < 2; ++r) {
          if (!live[r] || !rows[r].inside) continue;
          const float value = finish(a, matrix[r], rows[r], acc.total[r][c][half * 2 + j]);
          float* out = a.out + m * a.out_stride + out_row[r] + tile[r] * tile_rows + g + 8 * half;
          *out = a.output == matmul_output::add ? __fadd_rn(*out, value) : value;
        }
      }
    }
  }
}

/// grid.x: blocks of 8 row tiles; grid.y: column tiles. One instance a format; the matrices of a launch
/// with different formats are launched one by one.
template <packed_format F>
__global__ void __launch_bounds__(row_threads, 1)
    matmul_kernel(tiled_matmul_args args, std::uint32_t total_tiles) {
  extern __shared__ uint4 shared_bytes[];
  const packed_matmul_args& a = args.matmul;
  auto* ring = reinterpret_cast<__half*>(shared_bytes);
  wait_for_previous_kernel();
  allow_next_kernel();
  column_range range{blockIdx.y * tiled_columns, 0, 0};
  if (args.tiles != nullptr) {
    if (static_cast<std::int32_t>(blockIdx.y) >= *args.tile_count) return;
    const expert_tile e = args.tiles[blockIdx.y];
    range = {static_cast<std::uint32_t>(e.first), static_cast<std::uint32_t>(e.count),
             static_cast<std::uint32_t>(e.expert)};
  } else {
    range.count = min(tiled_columns, a.columns - range.first);
  }
  const bool paired = a.output == matmul_output::swiglu || a.output == matmul_output::swiglu_clamped;
  const std::uint32_t index = blockIdx.x * block_row_tiles + threadIdx.x / 32 / column_warps * 2;
  std::uint32_t matrix[2];
  std::uint32_t tile[2];
  std::uint32_t out_row[2];
  bool live[2];
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    live[r] = index + r < total_tiles;
    matrix[r] = 0;
    out_row[r] = 0;
    tile[r] = live[r] ? index + r : 0;
    if (paired) {
      matrix[r] = r;
      tile[r] = live[r] ? index / 2 : 0;
    } else {
      while (matrix[r] + 1 < a.matrices && tile[r] >= a.w[matrix[r]].row_tiles()) {
        tile[r] -= a.w[matrix[r]].row_tiles();
        out_row[r] += a.w[matrix[r]].rows;
        ++matrix[r];
      }
    }
  }
  const packed_matrix& w0 = a.w[matrix[0]];
  const packed_matrix& w1 = a.w[matrix[1]];
  accumulators acc{};
  walk_k<F>(args, range, w0.data + range.expert * w0.expert_stride + tile[0] * w0.tile_bytes(),
            w1.data + range.expert * w1.expert_stride + tile[1] * w1.tile_bytes(), w0.groups(), ring, acc);
  write_results(args, range, matrix, tile, out_row, live, paired, acc);
}

template <packed_format F>
int launch(const tiled_matmul_args& args, cudaStream_t stream) {
  std::uint32_t tiles = 0;
  for (std::uint32_t i = 0; i < args.matmul.matrices; ++i) tiles += args.matmul.w[i].row_tiles();
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(matmul_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, ring_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  const std::uint32_t column_blocks =
      args.tiles != nullptr ? args.tiles_max : (args.matmul.columns + tiled_columns - 1) / tiled_columns;
  const dim3 grid((tiles + block_row_tiles - 1) / block_row_tiles, column_blocks);
  return launch_dependent(matmul_kernel<F>, grid, dim3(row_threads), ring_bytes, stream, args, tiles);
}

int launch_one_format(const tiled_matmul_args& args, cudaStream_t stream) {
  switch (args.matmul.w[0].format) {
#define ORCD_CASE(F) \
  case packed_format::F: return launch<packed_format::F>(args, stream)
    ORCD_CASE(q4_0);
    ORCD_CASE(q4_1);
    ORCD_CASE(q5_0);
    ORCD_CASE(q5_1);
    ORCD_CASE(q8_0);
    ORCD_CASE(q4_k);
    ORCD_CASE(q5_k);
    ORCD_CASE(q6_k);
    ORCD_CASE(mxfp4);
    ORCD_CASE(f16);
    ORCD_CASE(bf16);
    ORCD_CASE(f32);
#undef ORCD_CASE
  }
  return cudaErrorInvalidValue;
}

bool valid(const tiled_matmul_args& args) {
  const packed_matmul_args& a = args.matmul;
  const bool paired = a.output == matmul_output::swiglu || a.output == matmul_output::swiglu_clamped;
  if (a.columns == 0 || a.matrices == 0 || a.matrices > 3 || (paired && a.matrices != 2)) return false;
  if (a.x == nullptr || a.x_stride % 8 != 0 || a.x_divisor == 0) return false;
  if (paired ? a.act == nullptr : a.out == nullptr) return false;
  if ((args.tiles == nullptr) != (args.tile_count == nullptr)) return false;
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
