// The epilogue of the throughput product of prompts: row scale and bias, then stored, added to the residual
// stream, or combined with the sums of the neighbouring warp as gate and up. Sums are stored from where the
// tensor cores leave them: lane 4 g + t has rows g and g + 8 of columns 8 c + 2 t and 8 c + 2 t + 1 in sums
// 4 c, 4 c + 2 and 4 c + 1, 4 c + 3.
#pragma once

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/device_math.cuh"
#include "kernels/images/image_matmul_shape.cuh"

namespace orcd::kernels {

/// Scales and biases of a lane's two rows, which change nothing where there are none: a factor of 1, and -0,
/// which leaves even a sum's sign.
struct image_outputs {
  float scale[2], bias[2];
  bool inside[2];

  __device__ image_outputs(const packed_matmul_args& a, std::uint32_t matrix, std::uint32_t tile, bool live,
                           std::uint32_t expert) {
    const packed_matrix& w = a.w[matrix];
#pragma unroll
    for (std::uint32_t r = 0; r < 2; ++r) {
      const std::uint32_t row = tile * tile_rows + threadIdx.x % 32 / 4 + 8 * r;
      inside[r] = live && row < w.rows;
      const bool scaled = inside[r] && w.row_scale != nullptr;
      const bool biased = inside[r] && a.bias[matrix] != nullptr;
      scale[r] = scaled ? w.row_scale[expert * w.row_scale_stride + row] : 1.0F;
      bias[r] = biased ? a.bias[matrix][expert * w.rows + row] : -0.0F;
    }
  }
  /// In the order of the few-column epilogue: scale, then bias.
  [[nodiscard]] __device__ float finish(float sum, std::uint32_t r) const {
    return __fadd_rn(__fmul_rn(sum, scale[r]), bias[r]);
  }
};

/// n / d, rounded as division is, for denominators of at least 1. What the compiler makes of a division
/// branches behind each; here the same steps are made for all, and whatever they are not exact for, zeros
/// among it, is divided once more. Divisions were a fifth of the product of gate and up.
template <std::uint32_t Count>
__device__ __forceinline__ void divide(const float (&n)[Count], const float (&d)[Count], float (&q)[Count]) {
  constexpr float least = 0x1p-60F, most = 0x1p60F, denominator_most = 0x1p50F;
  bool exact = true;
#pragma unroll
  for (std::uint32_t i = 0; i < Count; ++i) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d[i]));
    r = __fmaf_rn(__fmaf_rn(-d[i], r, 1.0F), r, r);
    q[i] = __fmul_rn(n[i], r);
    q[i] = __fmaf_rn(__fmaf_rn(-d[i], q[i], n[i]), r, q[i]);
    q[i] = __fmaf_rn(__fmaf_rn(-d[i], q[i], n[i]), r, q[i]);
    exact = exact && fabsf(n[i]) >= least && fabsf(n[i]) <= most && d[i] <= denominator_most;
  }
  if (exact) return;
#pragma unroll 1
  for (std::uint32_t i = 0; i < Count; ++i) {
#pragma unroll
    for (std::uint32_t k = 0; k < Count; ++k) {
      if (k == i) q[k] = __fdiv_rn(n[k], d[k]);
    }
  }
}

/// geglu() of several.
template <std::uint32_t Count>
__device__ __forceinline__ void activate_geglu(const float (&gate)[Count], const float (&up)[Count],
                                               float (&value)[Count]) {
  float d[Count];
#pragma unroll
  for (std::uint32_t i = 0; i < Count; ++i) d[i] = 1.0F + expf(geglu_exponent(gate[i]));
  divide(gate, d, value);
#pragma unroll
  for (std::uint32_t i = 0; i < Count; ++i) value[i] = __fmul_rn(value[i], up[i]);
}

/// silu(), swiglu_clamped() or geglu() of several.
template <std::uint32_t Count>
__device__ __forceinline__ void activate(matmul_output output, const float (&gate)[Count],
                                         const float (&up)[Count], float (&value)[Count]) {
  if (output == matmul_output::geglu) return activate_geglu(gate, up, value);
  const bool clamped = output == matmul_output::swiglu_clamped;
  float n[Count];
  float d[Count];
#pragma unroll
  for (std::uint32_t i = 0; i < Count; ++i) {
    n[i] = clamped ? fminf(gate[i], 7.0F) : gate[i];
    d[i] = 1.0F + expf(clamped ? -1.702F * n[i] : -n[i]);
  }
  divide(n, d, value);
#pragma unroll
  for (std::uint32_t i = 0; i < Count; ++i)
    value[i] = __fmul_rn(value[i], clamped ? fminf(fmaxf(up[i], -7.0F), 7.0F) + 1.0F : up[i]);
}

/// Stores a row tile's sums or adds them to the residual stream. Four times eight columns at a time, so that
/// what is read comes together.
template <std::uint32_t N>
__device__ __forceinline__ void store_image_sums(const image_work& work, const image_tile& tile,
                                                 const image_rows& rows, const float (&sums)[N / 2]) {
  const image_matmul_args& args = work.args;
  const packed_matmul_args& a = args.matmul;
  const image_outputs outputs(a, rows.matrix, rows.tile, rows.live, static_cast<std::uint32_t>(tile.expert));
  const std::uint32_t lane = threadIdx.x % 32;
  const auto count = static_cast<std::uint32_t>(tile.count);
  const bool adds = a.output == matmul_output::add;
  float* const out = a.out + rows.out_row + rows.tile * tile_rows + lane / 4;
  std::uint32_t row[N / 4];
#pragma unroll
  for (std::uint32_t i = 0; i < N / 4; ++i) {
    const std::uint32_t column = 8 * (i / 2) + lane % 4 * 2 + i % 2;
    row[i] = static_cast<std::uint32_t>(tile.first) + column;
    if (args.order != nullptr && column < count) row[i] = static_cast<std::uint32_t>(args.order[row[i]]);
  }
#pragma unroll
  for (std::uint32_t first = 0; first < N / 8; first += 4) {
    if (8 * first >= count) break;
    float old[8][2];
#pragma unroll
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t r = i % 2;
      const std::uint32_t nth = 2 * first + i / 2;
      const bool there = 8 * (nth / 2) + lane % 4 * 2 + nth % 2 < count && outputs.inside[r];
      const float* const from = out + static_cast<std::uint64_t>(row[nth]) * a.out_stride + 8 * r;
      old[i / 2][r] = 0.0F;
      if (adds && there) old[i / 2][r] = *from;
    }
#pragma unroll
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t r = i % 2;
      const std::uint32_t nth = 2 * first + i / 2;
      const bool there = 8 * (nth / 2) + lane % 4 * 2 + nth % 2 < count && outputs.inside[r];
      float* const to = out + static_cast<std::uint64_t>(row[nth]) * a.out_stride + 8 * r;
      const float value = outputs.finish(sums[4 * (nth / 2) + 2 * r + nth % 2], r);
      const float sum = __fadd_rn(old[i / 2][r], value);
      if (there) *to = adds ? sum : value;
    }
  }
}

/// Two halves of neighbouring rows of a column as a word: the lane of the even row keeps the first of its two
/// columns, that of the odd row the second, and each gives the other the halves that it does not keep.
struct row_pairs {
  std::uint32_t low, high;  ///< of rows g and of rows g + 8

  /// `first` and `second`: rows g and g + 8 of the one column and of the other.
  __device__ row_pairs(__half2 first, __half2 second, bool odd) {
    const std::uint32_t mine = odd ? as_bits(second) : as_bits(first);
    const std::uint32_t given = odd ? as_bits(first) : as_bits(second);
    const std::uint32_t taken = __shfl_xor_sync(0xFFFFFFFFU, given, 4);
    const std::uint32_t even_row = odd ? taken : mine;
    const std::uint32_t odd_row = odd ? mine : taken;
    low = __byte_perm(even_row, odd_row, 0x5410);
    high = __byte_perm(even_row, odd_row, 0x7632);
  }
};

/// Stores gate and up of a pair of warps as an image: the even warp, which has gate, takes the even eights of
/// columns, the other the odd ones. `exchange` is the warp's memory of 1 KiB, beside the other one's.
template <std::uint32_t N>
__device__ __forceinline__ void store_image_pairs(const image_work& work, const image_tile& tile,
                                                  const image_rows& rows, const float (&sums)[N / 2],
                                                  std::byte* exchange) {
  const packed_matmul_args& a = work.args.matmul;
  const auto expert = static_cast<std::uint32_t>(tile.expert);
  const image_outputs gate(a, 0, rows.tile, rows.live, expert);
  const image_outputs up(a, 1, rows.tile, rows.live, expert);
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const bool has_up = warp % 2 == 1;
  const bool odd = lane / 4 % 2 == 1;
  const auto count = static_cast<std::uint32_t>(tile.count);
  auto* const mine = reinterpret_cast<float4*>(exchange) + lane;
  const auto* const others = mine + (has_up ? -64 : 64);
  const std::uint32_t in_eight = lane % 4 * 2 + (odd ? 1 : 0);
  const std::uint32_t piece = lane / 8;
  std::byte* const to =
      reinterpret_cast<std::byte*>(a.act) + ((static_cast<std::uint64_t>(rows.tile) / 4 * a.act_stride +
                                              static_cast<std::uint32_t>(tile.at) + in_eight) *
                                                 group_cols * 2 +
                                             rows.tile % 4 * 4);
#pragma unroll
  for (std::uint32_t c = 0; c < N / 8; c += 2) {
    if (8 * c >= count) break;
    const std::uint32_t slot = c / 2 % 2 * 32;
    // What the other warp takes: of gate the odd eights, of up the even ones.
    mine[slot] = has_up ? float4{sums[4 * c], sums[4 * c + 1], sums[4 * c + 2], sums[4 * c + 3]}
                        : float4{sums[4 * c + 4], sums[4 * c + 5], sums[4 * c + 6], sums[4 * c + 7]};
    const float here[4] = {has_up ? sums[4 * c + 4] : sums[4 * c], has_up ? sums[4 * c + 5] : sums[4 * c + 1],
                           has_up ? sums[4 * c + 6] : sums[4 * c + 2],
                           has_up ? sums[4 * c + 7] : sums[4 * c + 3]};
    named_barrier(1 + warp / 2, 64);
    const float4 taken = others[slot];
    const float there[4] = {taken.x, taken.y, taken.z, taken.w};
    float g[4];
    float u[4];
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      g[i] = gate.finish(has_up ? there[i] : here[i], i / 2);
      u[i] = up.finish(has_up ? here[i] : there[i], i / 2);
    }
    float value[4];
    activate(a.output, g, u, value);
    const row_pairs words(__halves2half2(to_half(value[0]), to_half(value[2])),
                          __halves2half2(to_half(value[1]), to_half(value[3])), odd);
    const std::uint32_t eight = 8 * (c + (has_up ? 1 : 0));
    if (eight + in_eight < count && rows.live) {
      std::byte* const column = to + eight * (group_cols * 2);
      *reinterpret_cast<std::uint32_t*>(column + ((piece ^ in_eight) << 4U)) = words.low;
      *reinterpret_cast<std::uint32_t*>(column + (((piece + 4) ^ in_eight) << 4U)) = words.high;
    }
    __syncwarp();
  }
  named_barrier(1 + warp / 2, 64);  // the next item's first exchange is not before this one's last
}

}  // namespace orcd::kernels
