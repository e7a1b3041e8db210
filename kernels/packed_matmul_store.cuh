// What becomes of a warp's sums: row scale, bias, then stored, added to the residual stream, or combined
// with the sums of the neighbour warp as gate and up.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/device_math.cuh"
#include "kernels/packed_matmul_shape.cuh"

namespace orcd::kernels {

/// Row scale and bias of one output row.
struct output_row {
  float scale = 1.0F;
  float bias = 0.0F;
  bool scaled = false;
  bool biased = false;
  bool inside = false;

  /// The order of the latency kernel's epilogue: scale, then bias, each only where there is one.
  [[nodiscard]] __device__ float finish(float sum) const {
    if (scaled) sum = __fmul_rn(sum, scale);
    if (biased) sum = __fadd_rn(sum, bias);
    return sum;
  }
};

__device__ inline output_row output_row_of(const packed_matmul_args& a, std::uint32_t matrix,
                                           std::uint32_t row, std::uint32_t expert) {
  const packed_matrix& w = a.w[matrix];
  output_row o;
  o.inside = row < w.rows;
  o.scaled = w.row_scale != nullptr;
  o.biased = a.bias[matrix] != nullptr;
  if (!o.inside) return o;
  if (o.scaled) o.scale = w.row_scale[expert * w.row_scale_stride + row];
  if (o.biased) o.bias = a.bias[matrix][expert * w.rows + row];
  return o;
}

/// Sums of a warp's row tile: sums[4c + i] is row g + 8 (i / 2), column 8c + 2t + i % 2.
template <std::uint32_t N>
__device__ void store_sums(const tiled_matmul_args& args, const column_range& range, const row_tile& place,
                           const float (&sums)[N / 2]) {
  const packed_matmul_args& a = args.matmul;
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  if (!place.live) return;
  const std::uint32_t row = place.tile * tile_rows + g;
  const output_row rows[2] = {output_row_of(a, place.matrix, row, range.expert),
                              output_row_of(a, place.matrix, row + 8, range.expert)};
  float* out = a.out + place.out_row + row;
  const bool adding = a.output == matmul_output::add;
  constexpr std::uint32_t batch = N / 8 < 4 ? N / 8 : 4;  ///< column tiles whose old values are read at once
#pragma unroll
  for (std::uint32_t first = 0; first < N / 8; first += batch) {
    float old[batch][4] = {};
    float* to[batch][2] = {};
#pragma unroll
    for (std::uint32_t c = 0; c < batch; ++c) {
#pragma unroll
      for (std::uint32_t j = 0; j < 2; ++j) {
        const std::uint32_t column = (first + c) * 8 + 2 * t + j;
        if (column >= range.count) continue;
        to[c][j] = out + static_cast<std::uint64_t>(column_at(args, range.first + column)) * a.out_stride;
        if (!adding) continue;
        if (rows[0].inside) old[c][j] = to[c][j][0];
        if (rows[1].inside) old[c][2 + j] = to[c][j][8];
      }
    }
#pragma unroll
    for (std::uint32_t c = 0; c < batch; ++c) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        if (to[c][i % 2] == nullptr || !rows[i / 2].inside) continue;
        const float value = rows[i / 2].finish(sums[4 * (first + c) + i]);
        to[c][i % 2][i / 2 * 8] = adding ? __fadd_rn(old[c][i], value) : value;
      }
    }
  }
}

/// Gate and up of one pair of warps: the even warp takes the first half of the columns, the odd one the
/// second; `exchange` is 1 KiB of the pair's each, in shared memory, the even warp's first.
template <std::uint32_t N>
__device__ void store_paired(const tiled_matmul_args& args, const column_range& range, const row_tile& place,
                             const float (&sums)[N / 2], float* exchange) {
  constexpr std::uint32_t half = N / 16;                ///< column tiles of a warp
  constexpr std::uint32_t piece = half < 2 ? half : 2;  ///< exchanged at once
  const packed_matmul_args& a = args.matmul;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const bool odd = warp % 2 == 1;
  const std::uint32_t row = place.tile * tile_rows + lane / 4;
  output_row rows[2][2];  // of gate and up
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) rows[m][r] = output_row_of(a, m, row + 8 * r, range.expert);
  }
  float* mine = exchange + (odd ? 256 : 0) + lane;
  const float* theirs = exchange + (odd ? 0 : 256) + lane;
#pragma unroll
  for (std::uint32_t first = 0; first < half; first += piece) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4 * piece; ++i) {
      mine[32 * i] = odd ? sums[4 * first + i] : sums[4 * (first + half) + i];
    }
    named_barrier(1 + warp / 2, 64);
    float other[4 * piece];
#pragma unroll
    for (std::uint32_t i = 0; i < 4 * piece; ++i) other[i] = theirs[32 * i];
    named_barrier(1 + warp / 2, 64);
#pragma unroll
    for (std::uint32_t i = 0; i < 4 * piece; ++i) {
      const float own = odd ? sums[4 * (first + half) + i] : sums[4 * first + i];
      const std::uint32_t c = first + i / 4 + (odd ? half : 0);
      const std::uint32_t column = c * 8 + 2 * (lane % 4) + i % 2;
      const std::uint32_t r = i / 2 % 2;
      if (!place.live || !rows[0][r].inside || column >= range.count) continue;
      const float gate = rows[0][r].finish(odd ? other[i] : own);
      const float up = rows[1][r].finish(odd ? own : other[i]);
      const float value = a.output == matmul_output::swiglu ? silu(gate) * up : swiglu_clamped(gate, up);
      a.act[static_cast<std::uint64_t>(column_at(args, range.first + column)) * a.act_stride + row + 8 * r] =
          to_half(value);
    }
  }
}

}  // namespace orcd::kernels
