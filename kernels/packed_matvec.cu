// The latency kernel: a few columns, every weight read once, all of k inside one block.
#include "kernels/device_math.cuh"
#include "kernels/launch.cuh"
#include "kernels/packed_dispatch.cuh"
#include "kernels/packed_matmul.hpp"
#include "kernels/packed_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps = row_threads / 32;

/// What one warp asks of L2 before its input is ready.
constexpr std::uint64_t prefetch_bytes = 16 * 1024;

/// How a block's eight warps share row tiles: `tiles` tiles, `split` warps along k for each.
struct block_shape {
  std::uint32_t tiles;
  std::uint32_t split;
};

struct shared_layout {
  __half* x;       ///< [columns][x_stride]
  float* partial;  ///< [tiles][chunks][16 * columns]
  float* scratch;  ///< [8]
};

/// Where in the stacked matrices a row tile lies.
struct tile_place {
  std::uint32_t matrix;
  std::uint32_t tile;
  std::uint32_t out_row;  ///< first row of the matrix in the stacked output
};

__device__ tile_place place_of(const packed_matmul_args& a, std::uint32_t index) {
  tile_place p{0, index, 0};
  while (p.matrix + 1 < a.matrices && p.tile >= a.w[p.matrix].row_tiles()) {
    p.tile -= a.w[p.matrix].row_tiles();
    p.out_row += a.w[p.matrix].rows;
    ++p.matrix;
  }
  return p;
}

/// The dot products of one warp: chunks [first, last) of a row tile against all columns, each chunk's
/// sum written to its own place, so that the fold does not depend on the split.
template <packed_format F>
__device__ void warp_chunks(const packed_matrix& w, const std::byte* tile, std::uint32_t first,
                            std::uint32_t last, std::uint32_t columns, std::uint32_t x_stride,
                            const shared_layout& shared, float* partial) {
  using stage = tile_stage<F>;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t end = min(last * groups_per_chunk, w.groups());
  std::uint32_t group = first * groups_per_chunk;
  stage current;
  if (group < end) current.load(tile, group, end, lane);
  float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
  while (group < end) {
    stage next = current;
    if (group + stage::groups < end) next.load(tile, group + stage::groups, end, lane);
#pragma unroll
    for (std::uint32_t u = 0; u < stage::groups; ++u) {
      if (group + u >= end) break;
      uint4 b[2] = {};
      if (g < columns) {
        const auto* p =
            reinterpret_cast<const uint4*>(shared.x + g * x_stride + (group + u) * group_cols + 16 * t);
        b[0] = p[0];
        b[1] = p[1];
      }
      const std::uint32_t words[8] = {b[0].x, b[0].y, b[0].z, b[0].w, b[1].x, b[1].y, b[1].z, b[1].w};
#pragma unroll
      for (std::uint32_t s = 0; s < 4; ++s) {
        std::uint32_t fragment[4];
        current.fragment(u, (group + u) % 4, s, t, fragment);
        mma_16x8x16(acc, fragment, words[2 * s], words[2 * s + 1]);
      }
    }
    group += stage::groups;
    if (group % groups_per_chunk == 0 || group >= end) {
      float* sums = partial + ((group - 1) / groups_per_chunk) * (tile_rows * columns);
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t column = 2 * t + (i & 1U);
        if (column < columns) sums[column * tile_rows + g + (i / 2) * 8] = acc[i];
        acc[i] = 0.0F;
      }
    }
    current = next;
  }
}

/// Runs warp_chunks for the format the matrix has; uniform over the warp.
__device__ void warp_tile(const packed_matrix& w, const std::byte* tile, std::uint32_t first,
                          std::uint32_t last, std::uint32_t columns, std::uint32_t x_stride,
                          const shared_layout& shared, float* partial) {
  with_format(w.format, 0, [&](auto format) {
    warp_chunks<decltype(format)::value>(w, tile, first, last, columns, x_stride, shared, partial);
    return 0;
  });
}

/// Brings the activations of this block's columns into shared memory as f16.
__device__ void stage_input(const packed_matmul_args& a, std::uint32_t first_column, std::uint32_t columns,
                            std::uint32_t x_stride, const shared_layout& shared) {
  const std::uint32_t padded = a.w[0].groups() * group_cols;
  for (std::uint32_t c = 0; c < columns; ++c) {
    const std::uint32_t row = (first_column + c) / a.x_divisor;
    __half* to = shared.x + c * x_stride;
    if (a.norm_x != nullptr) {
      const float* x = a.norm_x + static_cast<std::uint64_t>(row) * a.w[0].cols;
      const float scale = row_rms_scale(x, a.w[0].cols, a.norm_eps, shared.scratch);
      for (std::uint32_t i = threadIdx.x; i < padded; i += row_threads) {
        to[i] = i < a.w[0].cols ? to_half(x[i] * scale * a.norm_weight[i]) : __float2half_rn(0.0F);
      }
    } else {
      const auto* from = reinterpret_cast<const uint4*>(a.x + static_cast<std::uint64_t>(row) * a.x_stride);
      for (std::uint32_t i = threadIdx.x; i < padded / 8; i += row_threads) {
        reinterpret_cast<uint4*>(to)[i] = from[i];
      }
    }
  }
}

/// The value of one output: chunk sums added left to right, row scale, bias.
__device__ float fold(const packed_matrix& w, const float* bias, std::uint32_t expert, const float* partial,
                      std::uint32_t columns, std::uint32_t tile, std::uint32_t row, std::uint32_t column) {
  const std::uint32_t chunks = w.chunks();
  const std::uint32_t stride = tile_rows * columns;
  float sum = partial[column * tile_rows + row];
  for (std::uint32_t c = 1; c < chunks; ++c) sum += partial[c * stride + column * tile_rows + row];
  const std::uint32_t matrix_row = tile * tile_rows + row;
  if (w.row_scale != nullptr) sum = __fmul_rn(sum, w.row_scale[expert * w.row_scale_stride + matrix_row]);
  if (bias != nullptr) sum = __fadd_rn(sum, bias[expert * w.rows + matrix_row]);
  return sum;
}

/// grid.x: groups of row tiles; grid.y: 1, or one column each with experts.
__global__ void __launch_bounds__(row_threads)
    matvec_kernel(packed_matmul_args a, block_shape shape, std::uint32_t total_tiles) {
  extern __shared__ uint4 shared_bytes[];
  const std::uint32_t first_column = a.experts != nullptr ? blockIdx.y : 0;
  const std::uint32_t columns = a.experts != nullptr ? 1 : a.columns;
  const std::uint32_t x_stride = a.w[0].groups() * group_cols + 8;
  shared_layout shared{};
  shared.x = reinterpret_cast<__half*>(shared_bytes);
  shared.partial = reinterpret_cast<float*>(shared.x + columns * x_stride);
  const std::uint32_t partial_floats = a.w[0].chunks() * tile_rows * columns;
  shared.scratch = shared.partial + shape.tiles * partial_floats;

  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t slot = warp / shape.split;
  const std::uint32_t segment = warp % shape.split;
  const bool paired = a.output == matmul_output::swiglu || a.output == matmul_output::swiglu_clamped;
  // Gate and up tiles of the same rows are neighbours, so that one block holds both for its epilogue.
  const std::uint32_t index = blockIdx.x * shape.tiles + slot;
  const tile_place place = paired ? tile_place{slot & 1U, index / 2, 0} : place_of(a, index);
  const packed_matrix& w = a.w[place.matrix];

  const bool working = slot < shape.tiles && index < total_tiles;
  const std::uint32_t chunks = w.chunks();
  const std::uint32_t first_chunk = chunks * segment / shape.split;
  const std::uint32_t last_chunk = chunks * (segment + 1) / shape.split;
  // Weights do not depend on the kernel before this one: start them towards L2 while it finishes.
  if (working && a.experts == nullptr && threadIdx.x % 32 == 0) {
    const std::uint64_t chunk_bytes =
        static_cast<std::uint64_t>(layout_of(w.format).bytes()) * (chunk_cols / layout_of(w.format).cols);
    const std::uint64_t from = first_chunk * chunk_bytes;
    const std::uint64_t to = min(last_chunk * chunk_bytes, w.tile_bytes());
    prefetch_l2(w.data + place.tile * w.tile_bytes() + from, min(to - from, prefetch_bytes));
  }
  wait_for_previous_kernel();
  const std::uint32_t expert = a.experts != nullptr ? static_cast<std::uint32_t>(a.experts[first_column]) : 0;
  stage_input(a, first_column, columns, x_stride, shared);
  __syncthreads();
  allow_next_kernel();
  if (working) {
    const std::byte* tile = w.data + expert * w.expert_stride + place.tile * w.tile_bytes();
    warp_tile(w, tile, first_chunk, last_chunk, columns, x_stride, shared,
              shared.partial + slot * partial_floats);
  }
  __syncthreads();

  const std::uint32_t results = (paired ? shape.tiles / 2 : shape.tiles) * tile_rows * columns;
  for (std::uint32_t i = threadIdx.x; i < results; i += row_threads) {
    const std::uint32_t row = i % tile_rows;
    const std::uint32_t column = i / tile_rows % columns;
    const std::uint32_t s = i / (tile_rows * columns);
    const std::uint32_t m = first_column + column;
    if (paired) {
      const std::uint32_t pair = blockIdx.x * (shape.tiles / 2) + s;
      const std::uint32_t r = pair * tile_rows + row;
      if (pair * 2 >= total_tiles || r >= a.w[0].rows) continue;
      const float gate = fold(a.w[0], a.bias[0], expert, shared.partial + 2 * s * partial_floats, columns,
                              pair, row, column);
      const float up = fold(a.w[1], a.bias[1], expert, shared.partial + (2 * s + 1) * partial_floats, columns,
                            pair, row, column);
      const float value = a.output == matmul_output::swiglu ? silu(gate) * up : swiglu_clamped(gate, up);
      a.act[static_cast<std::uint64_t>(m) * a.act_stride + r] = to_half(value);
      continue;
    }
    const std::uint32_t global = blockIdx.x * shape.tiles + s;
    if (global >= total_tiles) continue;
    const tile_place p = place_of(a, global);
    const std::uint32_t r = p.tile * tile_rows + row;
    if (r >= a.w[p.matrix].rows) continue;
    const float value = fold(a.w[p.matrix], a.bias[p.matrix], expert, shared.partial + s * partial_floats,
                             columns, p.tile, row, column);
    float* out = a.out + static_cast<std::uint64_t>(m) * a.out_stride + p.out_row + r;
    *out = a.output == matmul_output::add ? __fadd_rn(*out, value) : value;
  }
}

/// Blocks enough to fill the card, warps long enough to be worth starting. Never changes a bit.
block_shape choose_shape(std::uint32_t tiles, std::uint32_t chunks, std::uint32_t items, bool paired) {
  constexpr std::uint32_t blocks_wanted = 264;  // two a multiprocessor on Hopper
  std::uint32_t split = 8;
  while (split > 1 &&
         (split > chunks || (tiles * items * split / warps >= 2 * blocks_wanted && chunks / split < 4))) {
    split /= 2;
  }
  std::uint32_t in_block = warps / split;
  while (in_block > 1 && tiles * items / in_block < blocks_wanted) in_block /= 2;
  if (paired && in_block < 2) {
    in_block = 2;
    split = split > 4 ? 4 : split;
  }
  return {in_block, split};
}

bool valid(const packed_matmul_args& a) {
  const bool paired = a.output == matmul_output::swiglu || a.output == matmul_output::swiglu_clamped;
  if (a.columns == 0 || a.matrices == 0 || a.matrices > 3 || (paired && a.matrices != 2) || a.x_divisor == 0)
    return false;
  if (a.experts == nullptr && a.columns > matvec_columns_max) return false;
  if ((a.x == nullptr) == (a.norm_x == nullptr)) return false;
  if (paired ? a.act == nullptr : a.out == nullptr) return false;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    if (a.w[i].data == nullptr || a.w[i].cols != a.w[0].cols || a.w[i].rows == 0) return false;
  }
  return !paired || a.w[0].rows == a.w[1].rows;
}

}  // namespace

int launch_packed_matvec(const packed_matmul_args& a, CUstream_st* stream) {
  if (!valid(a)) return cudaErrorInvalidValue;
  const bool paired = a.output == matmul_output::swiglu || a.output == matmul_output::swiglu_clamped;
  std::uint32_t tiles = 0;
  for (std::uint32_t i = 0; i < a.matrices; ++i) tiles += a.w[i].row_tiles();
  const std::uint32_t items = a.experts != nullptr ? a.columns : 1;
  const std::uint32_t columns = a.experts != nullptr ? 1 : a.columns;
  const block_shape shape = choose_shape(tiles, a.w[0].chunks(), items, paired);
  const std::size_t bytes =
      static_cast<std::size_t>(columns) * (a.w[0].groups() * group_cols + 8) * sizeof(__half) +
      static_cast<std::size_t>(shape.tiles) * a.w[0].chunks() * tile_rows * columns * sizeof(float) +
      8 * sizeof(float);
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(matvec_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024);
  if (opted_in != cudaSuccess) return opted_in;
  if (bytes > 227 * 1024) return cudaErrorInvalidValue;
  const dim3 grid((tiles + shape.tiles - 1) / shape.tiles, items);
  return launch_dependent(matvec_kernel, grid, dim3(row_threads), bytes, stream, a, shape, tiles);
}

}  // namespace orcd::kernels
