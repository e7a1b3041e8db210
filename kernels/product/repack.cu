// Repacks a tensor: one warp a row finds the row scale, then one warp a (row tile, unit) moves quanta and
// scales.
#include <cuda_runtime.h>

#include "kernels/product/ggml_blocks.cuh"
#include "kernels/product/grid_blocks.cuh"
#include "kernels/product/packed_dispatch.cuh"
#include "kernels/product/repack.hpp"

namespace orcd::kernels {
namespace {

/// The quantum of element (row, col) of the matrix, from the file's rows.
template <packed_format F>
__device__ std::uint32_t quantum_at(const repack_args& a, std::uint32_t row, std::uint32_t col) {
  constexpr raw_block block = raw_block_of(F);
  // Padding must contribute nothing. Floats are zero; for quanta any value will do, because the activations
  // of padded columns are zero and padded rows are never stored.
  if (row >= a.rows || col >= a.cols) return 0;
  const std::byte* b =
      a.raw + row * a.raw_row_bytes + static_cast<std::uint64_t>(col / block.elems) * block.bytes;
  return raw_quantum<F>(b, col % block.elems);
}

/// The file block of `row` that holds column `col`, or null outside the matrix.
template <packed_format F>
__device__ const std::byte* block_at(const repack_args& a, std::uint32_t row, std::uint32_t col) {
  constexpr raw_block block = raw_block_of(F);
  if (row >= a.rows || col >= a.cols) return nullptr;
  return a.raw + row * a.raw_row_bytes + static_cast<std::uint64_t>(col / block.elems) * block.bytes;
}

/// Columns and rows of the two elements of pair i at mma step s: pairs 0 and 2 are of row g, 1 and 3 of row g
/// + 8; pairs 2 and 3 are two columns further.
__device__ std::uint32_t pair_row(std::uint32_t g, std::uint32_t i) {
  return g + (i & 1U) * 8;
}
__device__ std::uint32_t pair_col(std::uint32_t t, std::uint32_t s, std::uint32_t i) {
  return 16 * t + 4 * s + (i >> 1U) * 2;
}

/// Stores a lane's words of a group, quanta and high bits.
template <packed_format F>
__device__ void store_words(const std::uint32_t (&words)[quant_words(F) + high_words(F)], std::uint32_t lane,
                            std::byte* quants, std::byte* high) {
#pragma unroll
  for (std::uint32_t w = 0; w < quant_words(F); ++w)
    reinterpret_cast<std::uint32_t*>(quants)[quant_word_at(F, lane, w)] = words[w];
  if constexpr (high_words(F) != 0) {
#pragma unroll
    for (std::uint32_t w = 0; w < high_words(F); ++w)
      reinterpret_cast<std::uint32_t*>(high)[lane * high_words(F) + w] = words[quant_words(F) + w];
  }
}

/// Packs the quanta that one lane owns in one group of 64 columns.
template <packed_format F>
__device__ void pack_group(const repack_args& a, std::uint32_t tile, std::uint32_t group, std::uint32_t lane,
                           std::byte* quants, std::byte* high) {
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  std::uint32_t words[quant_words(F) + high_words(F)] = {};
#pragma unroll
  for (std::uint32_t s = 0; s < 4; ++s) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t row = tile * tile_rows + pair_row(g, i);
      const std::uint32_t col = group * group_cols + pair_col(t, s, i);
      const std::uint32_t q0 = quantum_at<F>(a, row, col);
      const std::uint32_t q1 = quantum_at<F>(a, row, col + 1);
      if constexpr (F == packed_format::f32) {
        words[s * 8 + 2 * i] = q0;
        words[s * 8 + 2 * i + 1] = q1;
      } else if constexpr (is_float_format(F)) {
        words[s * 4 + i] = q0 | q1 << 16;
      } else {
#pragma unroll
        for (std::uint32_t b = 0; b < quantum_bits(F); ++b) {
          const quantum_place place = place_of_bit(F, s, i, b);
          words[place.word] |= ((q0 >> b & 1U) | (q1 >> b & 1U) << pair_distance(F)) << place.bit;
        }
      }
    }
  }
  store_words<F>(words, lane, quants, high);
}

/// The same of indices of grids. Their further bits go to `scales`.
template <packed_format F>
__device__ void pack_grid_group(const repack_args& a, std::uint32_t tile, std::uint32_t group,
                                std::uint32_t lane, std::byte* quants, std::byte* high, std::byte* scales) {
  const std::uint32_t t = lane % 4;
  const std::uint32_t in_unit = group % groups_per_chunk;
  packed_grid_group<F> packed{};
  for (std::uint32_t upper_row = 0; upper_row < 2; ++upper_row) {
    const std::uint32_t row = tile * tile_rows + lane / 4 + 8 * upper_row;
    const std::byte* b = block_at<F>(a, row, group * group_cols);
    if (b != nullptr) packed.add(b, 4 * in_unit + t, upper_row, t);
  }
  store_words<F>(packed.words, lane, quants, high);
  if constexpr (has_index_bytes(F)) scales[lane * 4 + in_unit] = static_cast<std::byte>(packed.index_bits);
}

/// 2^e.
__device__ float power_of_two(int e) {
  return __uint_as_float(static_cast<std::uint32_t>(127 + e) << 23);
}
/// The smallest e for which |x| < 2^e, below 2^17; -126 for zero.
__device__ int exponent_above(std::uint32_t magnitude_bits) {
  return min(static_cast<int>(magnitude_bits >> 23) - 126, 17);
}

/// The row scale of MXFP4, 2^(e - 127) for the row's largest block exponent e, and the inverse. Block scales
/// are stored relative to it, so that they fit f16. Made from bits, because 2^-127 is subnormal.
__device__ float scale_of_exponent(std::uint32_t e) {
  return __uint_as_float(e == 0 ? 0x00400000U : e << 23);
}
__device__ std::uint32_t exponent_of_scale(float scale) {
  return __float_as_uint(scale) >> 23;
}

/// Where a file block has its scale; a minimum follows it.
template <packed_format F>
constexpr std::uint32_t scale_at = F == packed_format::q6_k   ? 208
                                   : F == packed_format::q2_k ? 80
                                   : F == packed_format::q3_k ? 108
                                                              : 0;
/// What the formula of a format multiplies its scale with.
template <packed_format F>
constexpr float scale_unit = is_grid_format(F) ? grid_unit(F) : 1.0F;

__device__ float half_value(const std::byte* b, std::uint32_t at) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(u16_at(b, at))));
}

/// The largest e for which the row's scales times 2^e, multiplied with their integers, fit f16.
template <packed_format F>
__device__ int scale_exponent(std::uint32_t scale_bits, std::uint32_t minimum_bits) {
  constexpr int scale_top = F == packed_format::q6_k ? 8 : is_k_format(F) ? 10 : 15;
  constexpr int minimum_top = is_k_format(F) ? 15 : 15 + static_cast<int>(minimum_shift);
  constexpr int most = 60;  // for a row of zeros
  return min(min(scale_top - exponent_above(scale_bits), minimum_top - exponent_above(minimum_bits)), most);
}
/// What a row's scales are multiplied with, from its row scale.
__device__ float scale_factor(float row_scale) {
  return 16777216.0F / row_scale;
}

/// One warp a row, padded rows included: computes the row scale, once for all units.
template <packed_format F>
__global__ void row_scale_kernel(repack_args a, std::uint32_t padded_rows) {
  constexpr std::uint32_t elems = raw_block_of(F).elems;
  const std::uint32_t row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  if (row >= padded_rows) return;
  std::uint32_t top = 0;
  std::uint32_t top_minimum = 0;
  for (std::uint32_t col = lane * elems; col < a.cols; col += 32 * elems) {
    const std::byte* b = block_at<F>(a, row, col);
    if (b == nullptr) break;
    if constexpr (F == packed_format::mxfp4) {
      top = max(top, byte_at(b, 0));
    } else if constexpr (F != packed_format::nvfp4) {
      top = max(top, __float_as_uint(fabsf(half_value(b, scale_at<F>) * scale_unit<F>)));
      if constexpr (has_minimum(F))
        top_minimum = max(top_minimum, __float_as_uint(fabsf(half_value(b, scale_at<F> + 2))));
    }
  }
  top = __reduce_max_sync(0xFFFFFFFFU, top);
  top_minimum = __reduce_max_sync(0xFFFFFFFFU, top_minimum);
  if (lane != 0) return;
  const float scale = F == packed_format::mxfp4   ? scale_of_exponent(top)
                      : F == packed_format::nvfp4 ? nvfp4_row_scale
                                                  : power_of_two(24 - scale_exponent<F>(top, top_minimum));
  a.row_scale[row] = row < a.rows ? scale : 0.0F;
}

__device__ void store_half(std::byte* to, std::uint32_t bits) {
  to[0] = static_cast<std::byte>(bits & 0xFFU);
  to[1] = static_cast<std::byte>(bits >> 8);
}
/// Stores a scale of the file times a power of two.
__device__ void store_scaled(std::byte* to, const std::byte* b, std::uint32_t at, float factor) {
  store_half(to, b == nullptr ? 0U : __half_as_ushort(__float2half_rn(half_value(b, at) * factor)));
}

/// Packs what a unit of 256 columns has for one row: `b` is the row's block, or null. `scale` and `factor`
/// are what its scale and its minimum are multiplied with.
template <packed_format F>
__device__ void pack_k_scales(const std::byte* b, std::uint32_t row, float scale, float factor,
                              std::byte* scales) {
  if constexpr (F == packed_format::q6_k) {
    for (std::uint32_t j = 0; j < 16; ++j) scales[q6_scale_at(row, j)] = b ? b[192 + j] : std::byte{0};
    store_scaled(scales + q6_factor_at(row), b, scale_at<F>, scale);
  } else if constexpr (F == packed_format::q2_k) {
    for (std::uint32_t j = 0; j < 16; ++j) scales[q2_scale_at(row, j)] = b ? b[j] : std::byte{0};
    store_scaled(scales + q2_factor_at(row, false), b, scale_at<F>, scale);
    store_scaled(scales + q2_factor_at(row, true), b, scale_at<F> + 2,
                 factor * power_of_two(-static_cast<int>(q2_minimum_bit)));
  } else if constexpr (F == packed_format::q3_k || F == packed_format::iq4_xs) {
    for (std::uint32_t set = 0; set < six_bit_sets(F); ++set) {
      const six_bit_scales its = b ? raw_six_bit_scales<F>(b, set) : six_bit_scales{};
      store_half(scales + six_bit_half_at(F, row, set), its.half());
      scales[six_bit_byte_at(F, row, set)] = static_cast<std::byte>(its.byte());
    }
    store_scaled(scales + six_bit_factor_at(F, row), b, scale_at<F>, scale);
  } else if constexpr (is_grid_format(F)) {
    if constexpr (has_grid_scales(F)) {
      for (std::uint32_t t = 0; t < 4; t += is_grid_of_four(F) ? 2 : 1) {
        std::uint32_t half = 0;
        for (std::uint32_t u = 0; b != nullptr && u < 4; ++u)
          half |= raw_grid_scale<F>(b, 4 * u + t) << 4 * u;
        store_half(scales + grid_scale_at(F, row % 8, t) + row / 8 * 2, half);
      }
    }
    store_scaled(scales + grid_scales_of(F).factor_at + row % 8 * 4 + row / 8 * 2, b, scale_at<F>,
                 scale * scale_unit<F>);
  } else {
    for (std::uint32_t h = 0; h < 2; ++h) {
      const k_scales its = b ? raw_k_scales(b, h) : k_scales{};
      for (std::uint32_t i = 0; i < 3; ++i) store_half(scales + k_scale_at(row, h, i), k_scale_half(its, i));
    }
    store_scaled(scales + k_factor_at(row, false), b, scale_at<F>, scale);
    store_scaled(scales + k_factor_at(row, true), b, scale_at<F> + 2,
                 factor * power_of_two(-static_cast<int>(k_minimum_bit)));
  }
}

/// Packs the scales of one row of one unit; `row` is within the tile.
template <packed_format F>
__device__ void pack_scales(const repack_args& a, std::uint32_t tile, std::uint32_t unit, std::uint32_t row,
                            std::byte* scales) {
  const std::uint32_t matrix_row = tile * tile_rows + row;
  const float row_scale = a.row_scale[matrix_row];
  // For minimums. Scales of the upper rows are smaller by as much as their integers are larger.
  const float factor = scale_factor(row_scale);
  const float scale = row < tile_rows / 2 ? factor : factor * power_of_two(-static_cast<int>(upper_shift(F)));
  if constexpr (is_k_format(F)) {
    pack_k_scales<F>(block_at<F>(a, matrix_row, unit * 256), row, scale, factor, scales);
  } else if constexpr (F == packed_format::nvfp4) {
    const std::byte* b = block_at<F>(a, matrix_row, unit * 64);
    for (std::uint32_t j = 0; j < 4; ++j) {
      const std::uint32_t e = b == nullptr || byte_at(b, j) == nvfp4_no_scale ? 0U : byte_at(b, j) & 0x7FU;
      scales[nvfp4_scale_at(row, j)] = static_cast<std::byte>(e);
    }
  } else if constexpr (F == packed_format::mxfp4) {
    const std::uint32_t top = exponent_of_scale(row_scale);
    for (std::uint32_t block = 0; block < 2; ++block) {
      const std::byte* b = block_at<F>(a, matrix_row, unit * 64 + block * 32);
      const int biased = b ? 29 + static_cast<int>(byte_at(b, 0)) - static_cast<int>(top) : 0;
      scales[scale_index(row, block)] = static_cast<std::byte>(max(biased, 0) << fp4_exponent_bit);
    }
  } else {
    constexpr std::uint32_t width = has_minimum(F) ? 4 : 2;
    for (std::uint32_t block = 0; block < 2; ++block) {
      const std::byte* b = block_at<F>(a, matrix_row, unit * 64 + block * 32);
      std::byte* const to = scales + scale_index(row, block) * width;
      store_scaled(to, b, scale_at<F>, scale);
      if constexpr (has_minimum(F))
        store_scaled(to + 2, b, scale_at<F> + 2, factor * power_of_two(-static_cast<int>(minimum_shift)));
    }
  }
}

/// One warp a (row tile, unit).
template <packed_format F>
__global__ void repack_kernel(repack_args a, std::uint32_t units) {
  constexpr unit_layout layout = layout_of(F);
  const std::uint64_t warp = (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  const auto tile = static_cast<std::uint32_t>(warp / units);
  const auto unit = static_cast<std::uint32_t>(warp % units);
  if (tile * tile_rows >= a.rows) return;
  std::byte* out = a.packed + (static_cast<std::uint64_t>(tile) * units + unit) * layout.bytes();
  constexpr std::uint32_t groups = layout.cols / group_cols;
  for (std::uint32_t u = 0; u < groups; ++u) {
    std::byte* const quants = out + u * (layout.quant_bytes / groups);
    std::byte* const high = out + layout.quant_bytes + u * (layout.high_bytes / groups);
    if constexpr (is_grid_format(F))
      pack_grid_group<F>(a, tile, unit * groups + u, lane, quants, high,
                         out + layout.quant_bytes + layout.high_bytes);
    else
      pack_group<F>(a, tile, unit * groups + u, lane, quants, high);
  }
  if constexpr (!is_float_format(F)) {
    if (lane < tile_rows) pack_scales<F>(a, tile, unit, lane, out + layout.quant_bytes + layout.high_bytes);
  }
}

/// After the scales have been packed, which need row scales that are powers of two.
__global__ void multiply_row_scales_kernel(float* row_scale, std::uint32_t rows, float factor) {
  const std::uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) row_scale[row] *= factor;
}

template <packed_format F>
int launch(const repack_args& a, cudaStream_t stream) {
  const std::uint32_t unit_cols = layout_of(F).cols;
  const std::uint32_t units = (a.cols + unit_cols - 1) / unit_cols;
  const std::uint64_t warps = static_cast<std::uint64_t>((a.rows + tile_rows - 1) / tile_rows) * units;
  const std::uint64_t blocks = (warps + 7) / 8;
  if (blocks == 0 || blocks > 0x7FFFFFFF) return cudaErrorInvalidValue;
  if constexpr (!is_float_format(F)) {
    const std::uint32_t padded_rows = (a.rows + tile_rows - 1) / tile_rows * tile_rows;
    row_scale_kernel<F><<<(padded_rows + 7) / 8, 256, 0, stream>>>(a, padded_rows);
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  }
  repack_kernel<F><<<static_cast<unsigned>(blocks), 256, 0, stream>>>(a, units);
  if constexpr (!is_float_format(F)) {
    if (a.factor != 1.0F) {
      if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
      multiply_row_scales_kernel<<<(a.rows + 255) / 256, 256, 0, stream>>>(a.row_scale, a.rows, a.factor);
    }
  }
  return cudaGetLastError();
}

}  // namespace

int launch_repack(const repack_args& a, CUstream_st* stream) {
  if (a.raw == nullptr || a.packed == nullptr || a.rows == 0 || a.cols == 0 ||
      a.cols % raw_block_of(a.format).elems != 0 || (is_float_format(a.format) && a.factor != 1.0F) ||
      (!is_float_format(a.format) && a.row_scale == nullptr)) {
    return cudaErrorInvalidValue;
  }
  return with_format(a.format, static_cast<int>(cudaErrorInvalidValue),
                     [&](auto format) { return launch<decltype(format)::value>(a, stream); });
}

}  // namespace orcd::kernels
