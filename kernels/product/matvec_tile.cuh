// What the few-column products and the decode program share: the product of a chunk of a row tile with up to
// eight columns, the fold of such sums, and what becomes of an output.
#pragma once

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/device_math.cuh"
#include "kernels/product/packed_dispatch.cuh"
#include "kernels/product/packed_matmul_args.hpp"
#include "kernels/product/packed_tile.cuh"
#include "kernels/product/paired_activation.cuh"

namespace orcd::kernels {

/// What is applied to an output's folded sum. Where a model has no scale or bias, 1 and -0 change no bit.
struct result_terms {
  float scale[2];
  float bias[2];
  float old;  ///< what the sum is added to
};

/// Where one output of a block belongs.
struct result_place {
  std::uint32_t column;   ///< of the launch
  std::uint32_t matrix;   ///< the gate's, for a pair
  std::uint32_t row;      ///< of that matrix; past its last one for padding
  std::uint32_t out_row;  ///< of the stacked output
};

/// Row tiles that make one output.
__device__ __forceinline__ std::uint32_t members_of(const packed_matmul_args& a) {
  return is_paired(a) ? 2 : 1;
}

/// One chunk of a row tile, unpacked: operand A of the mma steps of its groups.
template <packed_format F>
struct unpacked_chunk {
  std::uint32_t a[groups_per_chunk][4][4];

  __device__ __forceinline__ void unpack(const std::byte* bytes, std::uint32_t groups, std::uint32_t lane) {
    if constexpr (is_k_format(F)) {
      tile_stage<F, groups_per_chunk> unit;
      unit.template load<from_shared>(bytes, 0, groups_per_chunk, lane);
#pragma unroll
      for (std::uint32_t u = 0; u < groups_per_chunk; ++u) take(unit, u, u);
    } else {
#pragma unroll
      for (std::uint32_t u = 0; u < groups_per_chunk; ++u) {
        // Past the last group that one again: a branch here would move `a` into local memory.
        tile_stage<F, 1> group;
        group.template load_group<from_shared>(bytes, min(u, groups - 1), lane);
        take(group, 0, u);
      }
    }
  }
  /// acc += the chunk times all columns. `x` points at the lane's values: column lane / 4, from 16 t of the
  /// chunk on.
  __device__ __forceinline__ void multiply(std::uint32_t groups, const __half* x, float (&acc)[4]) const {
#pragma unroll
    for (std::uint32_t u = 0; u < groups_per_chunk; ++u) {
      if (!is_k_format(F) && u >= groups) break;
      const auto* p = reinterpret_cast<const uint4*>(x + u * group_cols);
      const uint4 low = p[0];
      const uint4 high = p[1];
      const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (std::uint32_t s = 0; s < 4; ++s) mma_16x8x16(acc, a[u][s], words[2 * s], words[2 * s + 1]);
    }
  }

 private:
  template <std::uint32_t G>
  __device__ __forceinline__ void take(const tile_stage<F, G>& stage, std::uint32_t u,
                                       std::uint32_t in_chunk) {
    const auto scales = stage.scales_of(u, in_chunk);
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) stage.fragment(u, s, scales, a[in_chunk][s]);
  }
};

/// acc += group u of the stage, group `in_chunk` of its chunk, times all columns. `x` as above.
template <packed_format F, std::uint32_t G>
__device__ __forceinline__ void multiply_group(const tile_stage<F, G>& stage, std::uint32_t u,
                                               std::uint32_t in_chunk, const __half* x, float (&acc)[4]) {
  const auto* p = reinterpret_cast<const uint4*>(x + in_chunk * group_cols);
  const uint4 low = p[0];
  const uint4 high = p[1];
  const std::uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  const auto scales = stage.scales_of(u, in_chunk);
#pragma unroll
  for (std::uint32_t s = 0; s < 4; ++s) {
    std::uint32_t fragment[4];
    stage.fragment(u, s, scales, fragment);
    mma_16x8x16(acc, fragment, words[2 * s], words[2 * s + 1]);
  }
}

/// acc += one chunk of a row tile times all columns, its first `groups` groups. As little code as possible,
/// for kernels whose instructions are not in the cache yet.
template <packed_format F>
__device__ __forceinline__ void multiply_chunk(const std::byte* bytes, std::uint32_t groups, const __half* x,
                                               float (&acc)[4]) {
  const std::uint32_t lane = threadIdx.x % 32;
  tile_stage<F, 1> stage;
  stage.template load_shared_scales<from_shared>(bytes, lane);
#pragma unroll 1
  for (std::uint32_t u = 0; u < groups; ++u) {
    stage.template load_group<from_shared>(bytes, u, lane);
    multiply_group(stage, 0, u, x, acc);
  }
}

/// The same for kernels that run long: the weights of a whole chunk, unless they are floats or indices of a
/// grid, which take more registers to unpack, are read before the first is multiplied.
template <packed_format F>
__device__ __forceinline__ void multiply_chunk_ahead(const std::byte* bytes, std::uint32_t groups,
                                                     const __half* x, std::uint32_t lane, float (&acc)[4]) {
  if constexpr (!is_float_format(F) && !is_grid_format(F)) {
    if (is_k_format(F) || groups == groups_per_chunk) {
      tile_stage<F, groups_per_chunk> whole;
      whole.template load<from_shared>(bytes, 0, groups_per_chunk, lane);
#pragma unroll
      for (std::uint32_t u = 0; u < groups_per_chunk; ++u) multiply_group(whole, u, u, x, acc);
      return;
    }
  }
  multiply_chunk<F>(bytes, groups, x, acc);
}

__device__ __forceinline__ bool is_padding(const packed_matmul_args& a, const result_place& r) {
  return r.row >= a.w[r.matrix].rows;
}

__device__ __forceinline__ float* output_of(const packed_matmul_args& a, const result_place& r) {
  return a.out + static_cast<std::uint64_t>(r.column) * a.out_stride + r.out_row;
}

/// Starts to load *from to shared memory; stores `otherwise` if there is nothing to load.
__device__ __forceinline__ void fetch(float* to, const float* from, float otherwise) {
  if (from == nullptr)
    *to = otherwise;
  else
    copy_float(shared_address_of(to), from);
}

/// Starts to load an output's row scales and biases into shared memory.
__device__ __forceinline__ void fetch_scales(const packed_matmul_args& a, const result_place& r,
                                             std::uint32_t expert, float (&scale)[2], float (&bias)[2]) {
  if (is_padding(a, r)) return;
  for (std::uint32_t m = 0; m < members_of(a); ++m) {
    const packed_matrix& w = a.w[r.matrix + m];
    const float* its_bias = a.bias[r.matrix + m];
    fetch(&scale[m], w.row_scale == nullptr ? nullptr : w.row_scale + expert * w.row_scale_stride + r.row,
          1.0F);
    fetch(&bias[m], its_bias == nullptr ? nullptr : its_bias + expert * w.rows + r.row, -0.0F);
  }
}

__device__ __forceinline__ void fetch_old(const packed_matmul_args& a, const result_place& r,
                                          result_terms& to) {
  if (!is_padding(a, r)) fetch(&to.old, output_of(a, r), 0.0F);
}

/// Loads an output's terms at once.
__device__ __forceinline__ result_terms terms_of(const packed_matmul_args& a, const result_place& r,
                                                 std::uint32_t expert) {
  result_terms terms{{1.0F, 1.0F}, {-0.0F, -0.0F}, 0.0F};
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    if (m == members_of(a)) break;
    const packed_matrix& w = a.w[r.matrix + m];
    const float* bias = a.bias[r.matrix + m];
    if (w.row_scale != nullptr) terms.scale[m] = __ldg(w.row_scale + expert * w.row_scale_stride + r.row);
    if (bias != nullptr) terms.bias[m] = __ldg(bias + expert * w.rows + r.row);
  }
  if (a.output == matmul_output::add) terms.old = *output_of(a, r);
  return terms;
}

/// A folded sum times its row scale plus its bias.
__device__ __forceinline__ float with_terms(const result_terms& terms, std::uint32_t member, float sum) {
  return __fadd_rn(__fmul_rn(sum, terms.scale[member]), terms.bias[member]);
}

/// The activation of the sums of a gate and an up matrix.
__device__ __forceinline__ __half activated(matmul_output output, const result_terms& terms, float gate,
                                            float up) {
  return activated(output, with_terms(terms, 0, gate), with_terms(terms, 1, up));
}

/// Stores the sums of one chunk, as the lane has them, among the block's partial sums.
__device__ __forceinline__ void keep_sums(float* sums, std::uint32_t columns, std::uint32_t lane,
                                          const float (&acc)[4]) {
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t column = 2 * t + (i & 1U);
    if (column < columns) sums[column * tile_rows + g + (i / 2) * 8] = acc[i];
  }
}

/// Adds the sums of chunks left to right, for each of `Members` row tiles. The chunks that are no multiple of
/// eight come first, so that the loop over eights needs no test.
template <std::uint32_t Members>
__device__ __forceinline__ void fold(const float* const (&sums)[Members], std::uint32_t chunks,
                                     std::uint32_t stride, float (&folded)[Members]) {
  constexpr std::uint32_t at_once = 8;
  const std::uint32_t odd = (chunks - 1) % at_once;
  float v[at_once][Members];
#pragma unroll
  for (std::uint32_t m = 0; m < Members; ++m) folded[m] = sums[m][0];
#pragma unroll
  for (std::uint32_t c = 0; c + 1 < at_once; ++c) {
#pragma unroll
    for (std::uint32_t m = 0; m < Members; ++m)
      v[c][m] = c < odd ? sums[m][(1 + c) * stride] : -0.0F;  // changes no bit
  }
#pragma unroll
  for (std::uint32_t c = 0; c + 1 < at_once; ++c) {
#pragma unroll
    for (std::uint32_t m = 0; m < Members; ++m) folded[m] += v[c][m];
  }
#pragma unroll 1
  for (std::uint32_t first = 1 + odd; first < chunks; first += at_once) {
#pragma unroll
    for (std::uint32_t c = 0; c < at_once; ++c) {
#pragma unroll
      for (std::uint32_t m = 0; m < Members; ++m) v[c][m] = sums[m][(first + c) * stride];
    }
#pragma unroll
    for (std::uint32_t c = 0; c < at_once; ++c) {
#pragma unroll
      for (std::uint32_t m = 0; m < Members; ++m) folded[m] += v[c][m];
    }
  }
}
__device__ __forceinline__ float fold(const float* sums, std::uint32_t chunks, std::uint32_t stride) {
  const float* const one[1] = {sums};
  float folded[1];
  fold(one, chunks, stride, folded);
  return folded[0];
}

}  // namespace orcd::kernels
