// The layout of a weight matrix in VRAM: the file's own quanta and scales, moved into the order in
// which the tensor-core kernels read them. The values are those of the file, never dequantized; they take
// the same bytes too, except for the padding of odd shapes and 4 bytes a row.
//
// Integers become operands without a conversion: masked out of a word they are the low bits of a half, which
// is then a subnormal, n * 2^-24, and multiplied by a scale in one instruction. So that the product is a
// normal half again, scales are stored multiplied by a power of two of their row, and a product's sums are
// multiplied by the row scale that undoes both, and that a scale of the whole matrix multiplies. MXFP4's
// block scales are stored relative to the row's largest for the same reason; NVFP4's as they are.
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

#include "kernels/device/host_device.hpp"

namespace orcd::kernels {

/// Formats a packed matrix can have. f32 stays last: program_codes_test.cpp counts up to it.
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
  q2_k,
  q3_k,
  iq4_nl,
  iq4_xs,
  nvfp4,
  iq3_s,
  iq3_xxs,
  iq2_s,
  iq2_xs,
  iq2_xxs,
  f16,
  bf16,
  f32
};

/// Of a set of formats.
[[nodiscard]] ORCD_HD constexpr std::uint32_t format_bit(packed_format format) {
  return 1U << static_cast<std::uint32_t>(format);
}

inline constexpr std::uint32_t tile_rows = 16;
inline constexpr std::uint32_t group_cols = 64;   ///< four mma steps of 16
inline constexpr std::uint32_t chunk_cols = 256;  ///< columns accumulated before a fold
inline constexpr std::uint32_t groups_per_chunk = chunk_cols / group_cols;

/// Columns with those that fill the last group.
[[nodiscard]] ORCD_HD constexpr std::uint32_t padded_cols(std::uint32_t cols) {
  return (cols + group_cols - 1) / group_cols * group_cols;
}

/// Of block formats: the scale of a row's block among the 32 of a (row tile, unit). Those of rows g and g +
/// 8, which a lane needs, lie together.
[[nodiscard]] ORCD_HD constexpr std::uint32_t scale_index(std::uint32_t row, std::uint32_t block) {
  return (block * 8 + row % 8) * 2 + row / 8;
}
/// MXFP4's block scale is stored as the upper byte of a half whose exponent is e + 29 - top, or 0; that lies
/// here.
inline constexpr std::uint32_t fp4_exponent_bit = 2;

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
    case packed_format::mxfp4: return {64, 512, 0, 32};    // upper byte of a relative f16 scale per 32
    case packed_format::q4_k: return {256, 2048, 0, 256};  // k_scales of 16 rows, two each; d, dmin
    case packed_format::q5_k: return {256, 2048, 512, 256};
    case packed_format::q6_k: return {256, 2048, 1024, 288};   // 16 int8 scales, d
    case packed_format::q2_k: return {256, 1024, 0, 320};      // 16 scales and minimums a byte; d, dmin
    case packed_format::q3_k: return {256, 1024, 512, 224};    // six_bit_scales of 16 rows, four each; d
    case packed_format::iq4_nl: return {64, 512, 0, 64};       // d per 32
    case packed_format::iq4_xs: return {256, 2048, 0, 128};    // six_bit_scales of 16 rows, two each; d
    case packed_format::nvfp4: return {64, 512, 0, 64};        // E4M3 per 16
    case packed_format::iq3_s: return {256, 1024, 512, 224};   // grid_scales: ninth bits, s per 32, d
    case packed_format::iq3_xxs: return {256, 1024, 512, 32};  // d
    case packed_format::iq2_s: return {256, 1024, 0, 288};     // ninth and tenth bits, s per 16, d
    case packed_format::iq2_xs: return {256, 1024, 0, 160};    // s per 16, d
    case packed_format::iq2_xxs: return {256, 1024, 0, 32};    // d
    case packed_format::f16: return {64, 2048, 0, 0};
    case packed_format::bf16: return {64, 2048, 0, 0};
    case packed_format::f32: return {64, 4096, 0, 0};
  }
  return {0, 0, 0, 0};
}

/// Q4_K and Q5_K: scales and minimums, six bits each, of the blocks h, h + 2, h + 4 and h + 6 of a row's
/// unit: those that lanes t = 2 h and 2 h + 1 own some of. Three halves hold them so that few instructions
/// find them: bits 4 to 9 of half i are minimum i, bits 10 to 15 scale i; those of block 3 are in the lowest
/// bits.
struct k_scales {
  std::uint8_t scale[4];
  std::uint8_t minimum[4];

  [[nodiscard]] bool operator==(const k_scales&) const = default;
};
/// How much higher the integers of minimums then lie in their halves; their factor is as much smaller.
inline constexpr std::uint32_t k_minimum_bit = 4;
[[nodiscard]] ORCD_HD constexpr std::uint32_t k_scale_half(const k_scales& s, std::uint32_t i) {
  const auto high = [](std::uint32_t v) { return v >> 4U; };
  const std::uint32_t lowest = i == 0   ? s.scale[3] & 15U
                               : i == 1 ? s.minimum[3] & 15U
                                        : high(s.scale[3]) | high(s.minimum[3]) << 2U;
  return lowest | static_cast<std::uint32_t>(s.minimum[i]) << k_minimum_bit |
         static_cast<std::uint32_t>(s.scale[i]) << 10U;
}
[[nodiscard]] ORCD_HD constexpr k_scales k_scales_of(std::uint32_t first, std::uint32_t second,
                                                     std::uint32_t third) {
  k_scales s{};
  const std::uint32_t halves[3] = {first, second, third};
  for (std::uint32_t i = 0; i < 3; ++i) {
    s.minimum[i] = static_cast<std::uint8_t>(halves[i] >> k_minimum_bit & 63U);
    s.scale[i] = static_cast<std::uint8_t>(halves[i] >> 10U & 63U);
  }
  s.scale[3] = static_cast<std::uint8_t>((first & 15U) | (third & 3U) << 4U);
  s.minimum[3] = static_cast<std::uint8_t>((second & 15U) | (third >> 2U & 3U) << 4U);
  return s;
}
/// Where half i of a row is among a unit's scales, in bytes: rows g and g + 8 lie together.
[[nodiscard]] ORCD_HD constexpr std::uint32_t k_scale_at(std::uint32_t row, std::uint32_t h,
                                                         std::uint32_t i) {
  const std::uint32_t pair = row % 8 * 2 + h;
  return (i < 2 ? pair * 8 + i * 4 : 128 + pair * 4) + row / 8 * 2;
}
/// And the row's d or dmin.
[[nodiscard]] ORCD_HD constexpr std::uint32_t k_factor_at(std::uint32_t row, bool of_minimums) {
  return 192 + row % 8 * 8 + (of_minimums ? 4U : 0U) + row / 8 * 2;
}
/// Q6_K: where the scale of block j of 16 columns is, and a row's d: two bytes of each of rows g and g + 8
/// make a word.
[[nodiscard]] ORCD_HD constexpr std::uint32_t q6_scale_at(std::uint32_t row, std::uint32_t j) {
  const std::uint32_t group = j / 4;
  return (row % 8 * 4 + j % 4) * 8 + group / 2 * 4 + row / 8 * 2 + group % 2;
}
[[nodiscard]] ORCD_HD constexpr std::uint32_t q6_factor_at(std::uint32_t row) {
  return 256 + row % 8 * 4 + row / 8 * 2;
}

/// Q2_K: the same of the byte of scale and minimum, and the row's d or dmin.
[[nodiscard]] ORCD_HD constexpr std::uint32_t q2_scale_at(std::uint32_t row, std::uint32_t j) {
  return q6_scale_at(row, j);
}
[[nodiscard]] ORCD_HD constexpr std::uint32_t q2_factor_at(std::uint32_t row, bool of_minimums) {
  return k_factor_at(row, of_minimums) + 64;
}
/// How much higher the integers of its minimums lie.
inline constexpr std::uint32_t q2_minimum_bit = 4;

/// Q3_K and IQ4_XS: the scales, six bits each, of the four blocks of a row's unit of which one lane owns
/// some. A half has the first, the second from bit 6 on, and four bits of the third; a byte has the fourth
/// and the third's other two.
struct six_bit_scales {
  std::uint8_t of[4];

  [[nodiscard]] ORCD_HD constexpr std::uint32_t half() const {
    return of[0] | static_cast<std::uint32_t>(of[1]) << 6U | (of[2] & 15U) << 12U;
  }
  [[nodiscard]] ORCD_HD constexpr std::uint32_t byte() const { return of[3] | (of[2] >> 4U) << 6U; }
  [[nodiscard]] bool operator==(const six_bit_scales&) const = default;
};
[[nodiscard]] ORCD_HD constexpr six_bit_scales six_bit_scales_of(std::uint32_t half, std::uint32_t byte) {
  return {{static_cast<std::uint8_t>(half & 63U), static_cast<std::uint8_t>(half >> 6U & 63U),
           static_cast<std::uint8_t>(half >> 12U | (byte >> 6U) << 4U),
           static_cast<std::uint8_t>(byte & 63U)}};
}
inline constexpr std::uint32_t six_bit_bias = 32;
/// Sets of four scales that a row's unit has: one for each lane t, or for each two.
[[nodiscard]] ORCD_HD constexpr std::uint32_t six_bit_sets(packed_format f) {
  return f == packed_format::q3_k ? 4 : 2;
}
/// Where the half and the byte of a set are among a unit's scales, and the row's d. Rows g and g + 8 lie
/// together.
[[nodiscard]] ORCD_HD constexpr std::uint32_t six_bit_half_at(packed_format f, std::uint32_t row,
                                                              std::uint32_t set) {
  return (row % 8 * six_bit_sets(f) + set) * 4 + row / 8 * 2;
}
[[nodiscard]] ORCD_HD constexpr std::uint32_t six_bit_byte_at(packed_format f, std::uint32_t row,
                                                              std::uint32_t set) {
  return 32 * six_bit_sets(f) + (row % 8 * six_bit_sets(f) + set) * 2 + row / 8;
}
[[nodiscard]] ORCD_HD constexpr std::uint32_t six_bit_factor_at(packed_format f, std::uint32_t row) {
  return 48 * six_bit_sets(f) + row % 8 * 4 + row / 8 * 2;
}
/// NVFP4: where the scale of block j of 16 columns of a unit is.
[[nodiscard]] ORCD_HD constexpr std::uint32_t nvfp4_scale_at(std::uint32_t row, std::uint32_t j) {
  return (row % 8 * 4 + j) * 2 + row / 8;
}
/// A lane's scale bits are moved to a half, whose value is then so many powers of two too small, and that is
/// multiplied by as many more as f16 has room for; the row scale is what is then too much. So the product
/// with any E2M1 number, which reads 2^14 too small, is a half without rounding.
inline constexpr int nvfp4_scale_power = 15;
inline constexpr float nvfp4_row_scale = 128.0F;  ///< 2^(14 + 8 - nvfp4_scale_power)

[[nodiscard]] ORCD_HD constexpr bool is_grid_of_four(packed_format f) {
  return f == packed_format::iq3_s || f == packed_format::iq3_xxs;
}
/// Formats whose quanta are indices of a grid (quant_grids.hpp) and signs; grid_tile.cuh has their layout.
[[nodiscard]] ORCD_HD constexpr bool is_grid_format(packed_format f) {
  return is_grid_of_four(f) || f == packed_format::iq2_s || f == packed_format::iq2_xs ||
         f == packed_format::iq2_xxs;
}
/// Those whose integers are looked up: the index of iq4_values with its two upper bits exchanged.
[[nodiscard]] ORCD_HD constexpr bool is_table_format(packed_format f) {
  return f == packed_format::iq4_nl || f == packed_format::iq4_xs;
}
[[nodiscard]] ORCD_HD constexpr std::uint32_t exchange_upper_bits(std::uint32_t nibble) {
  return (nibble & 3U) | (nibble & 4U) << 1U | (nibble & 8U) >> 1U;
}
[[nodiscard]] ORCD_HD constexpr bool is_fp4_format(packed_format f) {
  return f == packed_format::mxfp4 || f == packed_format::nvfp4;
}
/// Formats whose unit is 256 columns.
[[nodiscard]] ORCD_HD constexpr bool is_k_format(packed_format f) {
  return layout_of(f).cols == chunk_cols;
}
[[nodiscard]] ORCD_HD constexpr bool is_float_format(packed_format f) {
  return f == packed_format::f16 || f == packed_format::bf16 || f == packed_format::f32;
}
[[nodiscard]] ORCD_HD constexpr bool has_minimum(packed_format f) {
  return f == packed_format::q4_1 || f == packed_format::q5_1 || f == packed_format::q4_k ||
         f == packed_format::q5_k || f == packed_format::q2_k;
}
/// Bits of a quantum; of an integer unless it is an E2M1 number or an index. Not for grids.
[[nodiscard]] ORCD_HD constexpr std::uint32_t quantum_bits(packed_format f) {
  switch (f) {
    case packed_format::q2_k: return 2;
    case packed_format::q3_k: return 3;
    case packed_format::q5_0:
    case packed_format::q5_1:
    case packed_format::q5_k: return 5;
    case packed_format::q6_k: return 6;
    case packed_format::q8_0: return 8;
    default: return 4;
  }
}
/// What is subtracted from a quantum, or from what is looked up.
[[nodiscard]] ORCD_HD constexpr std::uint32_t quantum_bias(packed_format f) {
  if (is_table_format(f)) return 128;
  return has_minimum(f) || is_fp4_format(f) || is_grid_format(f) ? 0 : 1U << (quantum_bits(f) - 1);
}
/// The integers of rows 8 to 15 of a tile are so many bits higher in their halves, where a mask finds them
/// without a shift, and their scales are as many powers of two smaller.
[[nodiscard]] ORCD_HD constexpr std::uint32_t upper_shift(packed_format f) {
  if (quantum_bits(f) == 8 || is_fp4_format(f) || is_table_format(f) || is_grid_format(f)) return 0;
  return quantum_bits(f) == 6 ? 4 : quantum_bits(f);
}
/// Powers of two between a stored minimum of the block formats and what belongs to its stored scale.
inline constexpr std::uint32_t minimum_shift = 8;

/// Words that a lane has of a group of 64 columns: of the quanta, and of the high bits.
[[nodiscard]] ORCD_HD constexpr std::uint32_t quant_words(packed_format f) {
  if (f == packed_format::f32) return 32;
  if (is_float_format(f)) return 16;
  if (f == packed_format::q2_k || f == packed_format::q3_k || is_grid_format(f)) return 2;
  return f == packed_format::q8_0 ? 8 : 4;
}
[[nodiscard]] ORCD_HD constexpr std::uint32_t high_words(packed_format f) {
  if (quantum_bits(f) == 5 || quantum_bits(f) == 3 || is_grid_of_four(f)) return 1;
  return quantum_bits(f) == 6 ? 2 : 0;
}
/// Where word w of a lane's quanta is among those of a group. Up to four of all lanes lie together, so that a
/// warp's loads are one contiguous run.
[[nodiscard]] ORCD_HD constexpr std::uint32_t quant_word_at(packed_format f, std::uint32_t lane,
                                                            std::uint32_t w) {
  const std::uint32_t together = quant_words(f) < 4 ? quant_words(f) : 4;
  return w / together * together * 32 + lane * together + w % together;
}
/// Bits between the two elements of a pair: the second is in the upper half of a word, but for indices, which
/// an instruction takes four together.
[[nodiscard]] ORCD_HD constexpr std::uint32_t pair_distance(packed_format f) {
  return is_table_format(f) ? 4 : 16;
}

/// E2M1 values have bits scattered over a 16-bit half so that those of two pairs come together to a half's
/// exponent and sign, bits 9 to 11 and 15, or to the same bits of its lower byte (fp4_pairs()): pair i's
/// three low bits start here,
ORCD_HD constexpr std::uint32_t fp4_magnitude_bit(std::uint32_t i) {
  return (i / 2 == 0 ? 1U : 4U) + (i % 2 == 0 ? 8U : 0U);
}
/// and its sign is here.
ORCD_HD constexpr std::uint32_t fp4_sign_bit(std::uint32_t i) {
  return (i / 2 == 0 ? 7U : 0U) + (i % 2 == 0 ? 8U : 0U);
}

/// Where a bit of a quantum is: in which of a lane's words (first the quanta, then the high bits), and where
/// in the word of the pair's first element.
struct quantum_place {
  std::uint32_t word;
  std::uint32_t bit;
};
/// Of bit b of pair i of mma step s, except float formats and grids. Pairs 0 and 2 are of row g, 1 and 3 of
/// row g + 8.
[[nodiscard]] ORCD_HD constexpr quantum_place place_of_bit(packed_format f, std::uint32_t s, std::uint32_t i,
                                                           std::uint32_t b) {
  if (is_fp4_format(f)) return {s, b < 3 ? fp4_magnitude_bit(i) + b : fp4_sign_bit(i)};
  if (f == packed_format::q8_0) return {2 * s + i / 2, 8 * (i % 2) + b};
  if (is_table_format(f)) return {s, 8 * i + b};
  const bool upper = i % 2 == 1;
  const std::uint32_t nth = 2 * s + i / 2;  // of the pairs of these rows
  if (quantum_bits(f) == 2) return {nth / 4, 4 * (nth % 4) + (upper ? 2 : 0) + b};
  if (quantum_bits(f) == 3) {
    // A half has five: three and two or two and three of rows g and g + 8, which lie 3 bits higher. Bit 15 of
    // all words is the last.
    if (upper && nth == 7) return {b, 15};
    if (upper && nth == 4) return {1, 12 + b};
    if (upper) return {nth < 2 ? 0U : nth < 4 ? 1U : 2U, 3 + 6 * (nth < 4 ? nth % 2 : nth - 5) + b};
    return {nth < 3 ? 0U : nth < 5 ? 1U : 2U, 6 * (nth < 3 ? nth : nth < 5 ? nth - 3 : nth - 5) + b};
  }
  if (quantum_bits(f) == 5) {
    // A half has three: at 0 of row g, at 5 of row g + 8, at 10 of either. Bit 15 of all words is the last.
    if (upper && nth == 7) return {b, 15};
    if (nth < 5) return {nth, (upper ? 5 : 0) + b};
    return {nth - (upper ? 2 : 5), 10 + b};
  }
  if (quantum_bits(f) == 6) {
    // A half has two: at 4 of row g + 8, at 10 of row g. Bits 0 to 3 of all words are the last four.
    if (nth < 6) return {nth, (upper ? 4 : 10) + b};
    return b < 4 ? quantum_place{(upper ? 2 : 0) + nth - 6, b}
                 : quantum_place{4 + nth - 6, (upper ? 2 : 0) + b - 4};
  }
  return {s, 4 * i + b};
}
/// Bits of that pair that lie together, from the lowest on.
[[nodiscard]] ORCD_HD constexpr std::uint32_t bits_together(packed_format f, std::uint32_t s,
                                                            std::uint32_t i) {
  if ((quantum_bits(f) == 5 || quantum_bits(f) == 3) && s == 3 && i == 3) return 1;
  return quantum_bits(f) == 6 && s == 3 ? 4 : quantum_bits(f);
}

/// A packed matrix, or one expert of a stack: y[r] = sum_c W[r][c] * x[c].
struct packed_matrix {
  const std::byte* data = nullptr;   ///< device; 256-byte aligned
  const float* row_scale = nullptr;  ///< device, [padded rows]; null for float formats
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
  /// Of a row tile's whole chunk.
  ORCD_HD constexpr std::uint32_t chunk_bytes() const {
    const unit_layout unit = layout_of(format);
    return unit.bytes() * (chunk_cols / unit.cols);
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
  return is_float_format(f) ? 0 : (rows + tile_rows - 1) / tile_rows * tile_rows;
}

}  // namespace orcd::kernels
