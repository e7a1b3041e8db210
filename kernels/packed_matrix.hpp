// The layout of a weight matrix in VRAM: the file's own quanta and scales, moved into the order in
// which the tensor-core kernels read them. The values are those of the file, never dequantized; the
// bytes are the same too, except for the padding of odd shapes and 4 bytes a row for MXFP4.
//
// A matrix is cut into row tiles of 16 rows and units of 64 columns (32-value blocks) or 256 columns
// (K formats). One (row tile, unit) is contiguous: quanta, high bits, scales. Tiles follow each other
// along k first, so that one warp streams its row tile from front to back.
//
// Within a group of 64 columns lane t = lane % 4 of a warp owns columns 16t .. 16t+15 of rows
// g = lane / 4 and g + 8: mma step s in 0..3 takes columns 16t + 4s + {0,1} as k slots {2t, 2t+1} and
// 16t + 4s + {2,3} as slots {2t+8, 2t+9}. The permutation of k is part of the numeric definition of
// every matmul (docs/architecture.md, "Numerics"). Shared by host and device code; no CUDA types.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define ORCD_HD __host__ __device__
#else
#define ORCD_HD
#endif

namespace orcd::kernels {

/// Formats a packed matrix can have, in the order of the dispatch tables.
enum class packed_format : std::uint8_t {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q4_k,
  q5_k,
  q6_k,
  mxfp4,
  f16,
  bf16,
  f32
};

inline constexpr std::uint32_t tile_rows = 16;
inline constexpr std::uint32_t group_cols = 64;   ///< four mma steps of 16
inline constexpr std::uint32_t chunk_cols = 256;  ///< columns accumulated before a fold
inline constexpr std::uint32_t groups_per_chunk = chunk_cols / group_cols;

/// Columns with those that fill the last group.
[[nodiscard]] ORCD_HD constexpr std::uint32_t padded_cols(std::uint32_t cols) {
  return (cols + group_cols - 1) / group_cols * group_cols;
}

/// Bytes of the parts of one (row tile, unit).
struct unit_layout {
  std::uint32_t cols;         ///< 64 or 256
  std::uint32_t quant_bytes;  ///< low bits, 32 lanes
  std::uint32_t high_bytes;   ///< fifth and sixth bits, 32 lanes
  std::uint32_t scale_bytes;  ///< 16 rows
  ORCD_HD constexpr std::uint32_t bytes() const { return quant_bytes + high_bytes + scale_bytes; }
};

ORCD_HD constexpr unit_layout layout_of(packed_format f) {
  switch (f) {
    case packed_format::q4_0: return {64, 512, 0, 64};     // d per 32
    case packed_format::q4_1: return {64, 512, 0, 128};    // d, m per 32
    case packed_format::q5_0: return {64, 512, 128, 64};   // d per 32
    case packed_format::q5_1: return {64, 512, 128, 128};  // d, m per 32
    case packed_format::q8_0: return {64, 1024, 0, 64};    // d per 32
    case packed_format::mxfp4: return {64, 512, 0, 32};    // relative exponent per 32
    case packed_format::q4_k: return {256, 2048, 0, 256};  // d, dmin, 12 bytes of 6-bit pairs
    case packed_format::q5_k: return {256, 2048, 512, 256};
    case packed_format::q6_k: return {256, 2048, 1024, 288};  // 16 int8 scales, d
    case packed_format::f16: return {64, 2048, 0, 0};
    case packed_format::bf16: return {64, 2048, 0, 0};
    case packed_format::f32: return {64, 4096, 0, 0};
  }
  return {0, 0, 0, 0};
}

/// MXFP4 values have bits scattered over a 16-bit half so that most come to a half's exponent and sign, bits
/// 9 to 11 and 15, with one shift or none: pair i's three low bits start here,
ORCD_HD constexpr std::uint32_t fp4_magnitude_bit(std::uint32_t i) {
  return 9 - 3 * i;
}
/// and its sign is here.
ORCD_HD constexpr std::uint32_t fp4_sign_bit(std::uint32_t i) {
  return i == 0 ? 15 : i == 1 ? 12 : i == 2 ? 14 : 13;
}

/// A packed matrix, or one expert of a stack: y[r] = sum_c W[r][c] * x[c].
struct packed_matrix {
  const std::byte* data = nullptr;   ///< device; 256-byte aligned
  const float* row_scale = nullptr;  ///< device, [padded rows]; MXFP4 only, a power of two
  std::uint32_t rows = 0;            ///< logical
  std::uint32_t cols = 0;            ///< logical
  packed_format format = packed_format::f16;
  std::uint64_t expert_stride = 0;     ///< bytes between experts of a stack
  std::uint32_t row_scale_stride = 0;  ///< floats between experts

  ORCD_HD constexpr std::uint32_t row_tiles() const { return (rows + tile_rows - 1) / tile_rows; }
  ORCD_HD constexpr std::uint32_t groups() const { return (cols + group_cols - 1) / group_cols; }
  ORCD_HD constexpr std::uint32_t chunks() const { return (cols + chunk_cols - 1) / chunk_cols; }
  ORCD_HD constexpr std::uint32_t units() const {
    const std::uint32_t unit = layout_of(format).cols;
    return (cols + unit - 1) / unit;
  }
  ORCD_HD constexpr std::uint64_t tile_bytes() const {
    return static_cast<std::uint64_t>(units()) * layout_of(format).bytes();
  }
};

/// Bytes of the data plane of one matrix.
ORCD_HD constexpr std::uint64_t packed_bytes(packed_format f, std::uint64_t rows, std::uint64_t cols) {
  const unit_layout u = layout_of(f);
  return (rows + tile_rows - 1) / tile_rows * ((cols + u.cols - 1) / u.cols) * u.bytes();
}

/// Floats of the row-scale plane; 0 for formats without one.
ORCD_HD constexpr std::uint64_t packed_row_scales(packed_format f, std::uint64_t rows) {
  return f == packed_format::mxfp4 ? (rows + tile_rows - 1) / tile_rows * tile_rows : 0;
}

}  // namespace orcd::kernels
