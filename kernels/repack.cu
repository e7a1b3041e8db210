#include <cuda_runtime.h>

#include "kernels/ggml_blocks.cuh"
#include "kernels/packed_dispatch.cuh"
#include "kernels/repack.hpp"

namespace orcd::kernels {
namespace {

/// Where element (row, col) of the matrix lies in the file's rows; out of range reads as `none`.
template <packed_format F>
__device__ std::uint32_t quantum_at(const repack_args& a, std::uint32_t row, std::uint32_t col) {
  constexpr raw_block block = raw_block_of(F);
  // A padded element must contribute nothing: zero weight for floats; for quanta any value does,
  // because the activations of padded columns are zero and padded rows are never stored.
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

/// Columns and rows of the two elements of pair i at mma step s: pair 0 and 2 are row g, 1 and 3 row
/// g + 8; pairs 2 and 3 are the columns two further on.
__device__ std::uint32_t pair_row(std::uint32_t g, std::uint32_t i) {
  return g + (i & 1U) * 8;
}
__device__ std::uint32_t pair_col(std::uint32_t t, std::uint32_t s, std::uint32_t i) {
  return 16 * t + 4 * s + (i >> 1U) * 2;
}

/// Stores word w of a lane: quads of words of all lanes lie together, so that a warp's 16-byte loads
/// are one contiguous 512-byte run.
__device__ void store_word(std::byte* quants, std::uint32_t lane, std::uint32_t w, std::uint32_t value) {
  reinterpret_cast<std::uint32_t*>(quants)[w / 4 * 128 + lane * 4 + w % 4] = value;
}

/// An MXFP4 value as pair i of a half.
__device__ std::uint32_t fp4_bits(std::uint32_t q, std::uint32_t i) {
  return (q & 7U) << fp4_magnitude_bit(i) | (q >> 3 & 1U) << fp4_sign_bit(i);
}

/// Packs the quanta that one lane owns in one group of 64 columns.
template <packed_format F>
__device__ void pack_group(const repack_args& a, std::uint32_t tile, std::uint32_t group, std::uint32_t lane,
                           std::byte* quants, std::byte* high) {
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  std::uint32_t high_words[2] = {0, 0};
  for (std::uint32_t s = 0; s < 4; ++s) {
    std::uint32_t nibbles = 0;
    std::uint32_t bytes[2] = {0, 0};
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t row = tile * tile_rows + pair_row(g, i);
      const std::uint32_t col = group * group_cols + pair_col(t, s, i);
      const std::uint32_t q0 = quantum_at<F>(a, row, col);
      const std::uint32_t q1 = quantum_at<F>(a, row, col + 1);
      if constexpr (F == packed_format::f32) {
        store_word(quants, lane, s * 8 + 2 * i, q0);
        store_word(quants, lane, s * 8 + 2 * i + 1, q1);
      } else if constexpr (F == packed_format::f16 || F == packed_format::bf16) {
        store_word(quants, lane, s * 4 + i, q0 | q1 << 16);
      } else if constexpr (F == packed_format::q8_0) {
        bytes[i / 2] |= (q0 | q1 << 8) << 16 * (i & 1U);
      } else {
        nibbles |= F == packed_format::mxfp4 ? fp4_bits(q0, i) | fp4_bits(q1, i) << 16
                                             : (q0 & 15U) << 4 * i | (q1 & 15U) << (16 + 4 * i);
        if constexpr (F == packed_format::q5_0 || F == packed_format::q5_1 || F == packed_format::q5_k) {
          high_words[0] |= (q0 >> 4) << (4 * s + i) | (q1 >> 4) << (16 + 4 * s + i);
        }
        if constexpr (F == packed_format::q6_k) {
          const std::uint32_t place = 2 * ((s & 1U) * 4 + i);
          high_words[s / 2] |= (q0 >> 4) << place | (q1 >> 4) << (16 + place);
        }
      }
    }
    if constexpr (F == packed_format::q8_0) {
      store_word(quants, lane, s * 2, bytes[0]);
      store_word(quants, lane, s * 2 + 1, bytes[1]);
    } else if constexpr (F != packed_format::f32 && F != packed_format::f16 && F != packed_format::bf16) {
      store_word(quants, lane, s, nibbles);
    }
  }
  if constexpr (F == packed_format::q5_0 || F == packed_format::q5_1 || F == packed_format::q5_k) {
    reinterpret_cast<std::uint32_t*>(high)[lane] = high_words[0];
  }
  if constexpr (F == packed_format::q6_k) {
    reinterpret_cast<std::uint32_t*>(high)[lane * 2] = high_words[0];
    reinterpret_cast<std::uint32_t*>(high)[lane * 2 + 1] = high_words[1];
  }
}

/// The row scale of MXFP4, 2^(e - 127) for the row's largest block exponent e, and back. Block scales are
/// stored relative to it so that they fit f16. Made of bits: 2^-127 is subnormal.
__device__ float scale_of_exponent(std::uint32_t e) {
  return __uint_as_float(e == 0 ? 0x00400000U : e << 23);
}
__device__ std::uint32_t exponent_of_scale(float scale) {
  return __float_as_uint(scale) >> 23;
}

/// One warp per row, padded rows included: the largest block exponent, found once for all units.
__global__ void row_scale_kernel(repack_args a, std::uint32_t padded_rows) {
  const std::uint32_t row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  if (row >= padded_rows) return;
  std::uint32_t top = 0;
  for (std::uint32_t col = lane * 32; col < a.cols; col += 32 * 32) {
    const std::byte* b = block_at<packed_format::mxfp4>(a, row, col);
    if (b != nullptr) top = max(top, byte_at(b, 0));
  }
  top = __reduce_max_sync(0xFFFFFFFFU, top);
  if (lane == 0) a.row_scale[row] = row < a.rows ? scale_of_exponent(top) : 0.0F;
}

/// Packs the scales of one row of one unit; `row` is within the tile.
template <packed_format F>
__device__ void pack_scales(const repack_args& a, std::uint32_t tile, std::uint32_t unit, std::uint32_t row,
                            std::byte* scales) {
  const std::uint32_t matrix_row = tile * tile_rows + row;
  if constexpr (F == packed_format::q4_k || F == packed_format::q5_k || F == packed_format::q6_k) {
    const std::byte* b = block_at<F>(a, matrix_row, unit * 256);
    if constexpr (F == packed_format::q6_k) {
      // Lane t needs scales t, 4 + t, 8 + t, 12 + t: together they are one 32-bit load.
      for (std::uint32_t i = 0; i < 16; ++i)
        scales[row * 16 + i % 4 * 4 + i / 4] = b ? b[192 + i] : std::byte{0};
      for (std::uint32_t i = 0; i < 2; ++i) scales[256 + row * 2 + i] = b ? b[208 + i] : std::byte{0};
    } else {
      for (std::uint32_t i = 0; i < 16; ++i) scales[row * 16 + i] = b ? b[i] : std::byte{0};
    }
  } else if constexpr (F == packed_format::mxfp4) {
    const std::uint32_t top = exponent_of_scale(a.row_scale[matrix_row]);
    for (std::uint32_t block = 0; block < 2; ++block) {
      const std::byte* b = block_at<F>(a, matrix_row, unit * 64 + block * 32);
      const int biased = b ? 29 + static_cast<int>(byte_at(b, 0)) - static_cast<int>(top) : 0;
      scales[row * 2 + block] = static_cast<std::byte>(max(biased, 0));
    }
  } else if constexpr (F != packed_format::f16 && F != packed_format::bf16 && F != packed_format::f32) {
    constexpr std::uint32_t width = F == packed_format::q4_1 || F == packed_format::q5_1 ? 4 : 2;
    for (std::uint32_t block = 0; block < 2; ++block) {
      const std::byte* b = block_at<F>(a, matrix_row, unit * 64 + block * 32);
      for (std::uint32_t i = 0; i < width; ++i) {
        scales[(row * 2 + block) * width + i] = b ? b[i] : std::byte{0};
      }
    }
  }
}

/// One warp per (row tile, unit).
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
    pack_group<F>(a, tile, unit * groups + u, lane, out + u * (layout.quant_bytes / groups),
                  out + layout.quant_bytes + u * (layout.high_bytes / groups));
  }
  if (lane < tile_rows) pack_scales<F>(a, tile, unit, lane, out + layout.quant_bytes + layout.high_bytes);
}

template <packed_format F>
int launch(const repack_args& a, cudaStream_t stream) {
  const std::uint32_t unit_cols = layout_of(F).cols;
  const std::uint32_t units = (a.cols + unit_cols - 1) / unit_cols;
  const std::uint64_t warps = static_cast<std::uint64_t>((a.rows + tile_rows - 1) / tile_rows) * units;
  const std::uint64_t blocks = (warps + 7) / 8;
  if (blocks == 0 || blocks > 0x7FFFFFFF) return cudaErrorInvalidValue;
  if constexpr (F == packed_format::mxfp4) {
    const std::uint32_t padded_rows = (a.rows + tile_rows - 1) / tile_rows * tile_rows;
    row_scale_kernel<<<(padded_rows + 7) / 8, 256, 0, stream>>>(a, padded_rows);
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  }
  repack_kernel<F><<<static_cast<unsigned>(blocks), 256, 0, stream>>>(a, units);
  return cudaGetLastError();
}

}  // namespace

int launch_repack(const repack_args& a, CUstream_st* stream) {
  if (a.raw == nullptr || a.packed == nullptr || a.rows == 0 || a.cols == 0 ||
      a.cols % raw_block_of(a.format).elems != 0 ||
      (a.format == packed_format::mxfp4 && a.row_scale == nullptr)) {
    return cudaErrorInvalidValue;
  }
  return with_format(a.format, static_cast<int>(cudaErrorInvalidValue),
                     [&](auto format) { return launch<decltype(format)::value>(a, stream); });
}

}  // namespace orcd::kernels
