// The latency kernel: a few columns, every weight read once, all of k inside one block.
#include "kernels/device_math.cuh"
#include "kernels/launch.cuh"
#include "kernels/packed_matmul.hpp"
#include "kernels/packed_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps = row_threads / 32;

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
__device__ void warp_chunks(const packed_matrix& w, const std::byte* tile, std::uint32_t first, std::uint32_t last,
                            std::uint32_t columns, std::uint32_t x_stride, const shared_layout& shared,
                            float* partial, bool input_ready) {
  using stage = tile_stage<F>;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t end = min(last * groups_per_chunk, w.groups());
  std::uint32_t group = first * groups_per_chunk;
  stage current;
  if (group < end) current.load(tile, group, end, lane);
  if (!input_ready) __syncthreads();
  float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
  while (group < end) {
    stage next = current;
    if (group + stage::groups < end) next.load(tile, group + stage::groups, end, lane);
#pragma unroll
    for (std::uint32_t u = 0; u < stage::groups; ++u) {
      if (group + u >= end) break;
      uint4 b[2] = {};
      if (g < columns) {
        const auto* p = reinterpret_cast<const uint4*>(shared.x + g * x_stride + (group + u) * group_cols + 16 * t);
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
