// One element of a packed matrix as the file's own f32 value, for embedding rows and tests. Exact, except for
// the lowest bits of minimums in rows of K formats whose scales are past 64.
#pragma once

#include "kernels/product/packed_tile.cuh"

namespace orcd::kernels {

/// Word w of a lane's quanta in a group.
template <packed_format F>
__device__ std::uint32_t quant_word(const std::byte* quants, std::uint32_t lane, std::uint32_t w) {
  return reinterpret_cast<const std::uint32_t*>(quants)[quant_word_at(F, lane, w)];
}
/// Word w of the quanta and, after them, of the high bits.
template <packed_format F>
__device__ std::uint32_t word_of_group(const std::byte* quants, const std::byte* high, std::uint32_t lane,
                                       std::uint32_t w) {
  if (w < quant_words(F)) return quant_word<F>(quants, lane, w);
  return reinterpret_cast<const std::uint32_t*>(high)[lane * high_words(F) + w - quant_words(F)];
}

/// Where an element is: lane, mma step, pair of the step, and half of the pair.
struct element_place {
  std::uint32_t lane, step, pair, high_half;
};

__device__ inline element_place place_of_element(std::uint32_t row_in_tile, std::uint32_t col_in_group) {
  const std::uint32_t t = col_in_group / 16;
  const std::uint32_t in_lane = col_in_group % 16;
  return {row_in_tile % 8 * 4 + t, in_lane / 4, row_in_tile / 8 + in_lane % 4 / 2 * 2, in_lane % 2};
}

__device__ inline float half_at(const std::byte* p) {
  return __half2float(*reinterpret_cast<const __half*>(p));
}

/// The quantum there, from the words of its group.
template <packed_format F>
__device__ std::uint32_t quantum_of(const std::byte* quants, const std::byte* high, const element_place& e) {
  std::uint32_t n = 0;
  for (std::uint32_t b = 0; b < quantum_bits(F); ++b) {
    const quantum_place place = place_of_bit(F, e.step, e.pair, b);
    const std::uint32_t word = word_of_group<F>(quants, high, e.lane, place.word);
    n |= (word >> (place.bit + pair_distance(F) * e.high_half) & 1U) << b;
  }
  return n;
}

/// The value that a nibble of IQ4_NL or IQ4_XS stands for, from the byte that products look up.
__device__ inline int iq4_value(std::uint32_t nibble) {
  const std::uint32_t byte = __byte_perm(nibble < 8 ? table_word(0) : table_word(8),
                                         nibble < 8 ? table_word(4) : table_word(12), nibble & 7U) &
                             0xFFU;
  return byte < 128 ? static_cast<int>(byte) - 128 : 255 - static_cast<int>(byte);
}

/// The value of an E2M1 number.
__device__ inline float fp4_value(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 7U;
  const float value = magnitude < 2 ? 0.5F * static_cast<float>(magnitude)
                                    : ldexpf(1.0F + 0.5F * static_cast<float>(magnitude & 1U),
                                             static_cast<int>(magnitude >> 1U) - 1);
  return (bits & 8U) != 0 ? -value : value;
}

__device__ inline std::uint32_t half_bits_at(const std::byte* p) {
  return *reinterpret_cast<const std::uint16_t*>(p);
}

/// A value of a grid, less its scale d: `r` is the row in its tile, `in_unit` the group in its unit.
template <packed_format F>
__device__ float grid_value(const std::byte* quants, const std::byte* high, const std::byte* scales,
                            const element_place& e, std::uint32_t r, std::uint32_t in_unit) {
  std::uint32_t words[quant_words(F) + high_words(F)];
  for (std::uint32_t w = 0; w < quant_words(F) + high_words(F); ++w)
    words[w] = word_of_group<F>(quants, high, e.lane, w);
  constexpr std::uint32_t last = quant_words(F) + high_words(F) - 1;
  std::uint32_t index_bits = 0;
  if constexpr (has_index_bytes(F)) index_bits = static_cast<std::uint32_t>(scales[e.lane * 4 + in_unit]);
  std::uint32_t s = 0;
  if constexpr (has_grid_scales(F)) {
    s = half_bits_at(scales + grid_scale_at(F, r % 8, e.lane % 4) + r / 8 * 2) >> 4 * in_unit & 15U;
  } else {
    const std::uint32_t word = word_of_group<F>(quants, high, (e.lane & ~1U) + r / 8, last);
    s = (word >> grid_free_bit(0, 0) & 3U) | (word >> grid_free_bit(1, 0) & 3U) << 2;
  }
  const std::uint32_t four = grid_magnitudes<F>(grid_index<F>(words, e.step, r / 8, index_bits), e.step);
  const auto magnitude =
      static_cast<float>(four >> 8 * (e.pair / 2 * 2 + e.high_half) & 0xFFU) * static_cast<float>(1 + 2 * s);
  const bool negative = (grid_signs<F>(words[last]) >> grid_sign_bit(e.step, e.pair, e.high_half) & 1U) != 0;
  return negative ? -magnitude : magnitude;
}

template <packed_format F>
__device__ float packed_value(const packed_matrix& m, std::uint32_t row, std::uint32_t col) {
  constexpr unit_layout layout = layout_of(F);
  constexpr std::uint32_t groups = layout.cols / group_cols;
  const std::uint32_t r = row % tile_rows;
  const std::uint32_t in_unit = col / group_cols % groups;
  const std::byte* unit = m.data + row / tile_rows * m.tile_bytes() +
                          static_cast<std::uint64_t>(col / layout.cols) * layout.bytes();
  const std::byte* quants = unit + in_unit * (layout.quant_bytes / groups);
  const std::byte* high = unit + layout.quant_bytes + in_unit * (layout.high_bytes / groups);
  const std::byte* scales = unit + layout.quant_bytes + layout.high_bytes;
  const element_place e = place_of_element(r, col % group_cols);
  if constexpr (F == packed_format::f32)
    return __uint_as_float(quant_word<F>(quants, e.lane, e.step * 8 + 2 * e.pair + e.high_half));
  if constexpr (F == packed_format::f16 || F == packed_format::bf16) {
    const std::uint32_t bits = quant_word<F>(quants, e.lane, e.step * 4 + e.pair) >> 16 * e.high_half;
    return F == packed_format::bf16 ? __uint_as_float(bits << 16) : __half2float(half_of(bits & 0xFFFFU));
  }
  const float row_scale = m.row_scale[row];
  if constexpr (is_grid_format(F)) {
    const std::byte* d = scales + grid_scales_of(F).factor_at + r % 8 * 4 + r / 8 * 2;
    return half_at(d) * (row_scale * (1.0F / 16777216.0F)) *
           grid_value<F>(quants, high, scales, e, r, in_unit);
  }
  const std::uint32_t n = quantum_of<F>(quants, high, e);
  const std::uint32_t block = col % group_cols / 32;
  if constexpr (F == packed_format::mxfp4) {
    const auto exponent = static_cast<std::uint32_t>(scales[scale_index(r, block)]) >> fp4_exponent_bit;
    return fp4_value(n) * ldexpf(row_scale, static_cast<int>(exponent) - 29);
  }
  if constexpr (F == packed_format::nvfp4) {
    const auto bits = static_cast<std::uint32_t>(scales[nvfp4_scale_at(r, col % group_cols / 16)]);
    return fp4_value(n) * __half2float(half_of(bits << 7)) * 256.0F * (row_scale / nvfp4_row_scale);
  }
  // Undoes the powers of two in stored minimums and scales.
  const float back = row_scale * (1.0F / 16777216.0F);
  const float scale_back = r < tile_rows / 2 ? back : back * static_cast<float>(1U << upper_shift(F));
  const float q = is_table_format(F) ? static_cast<float>(iq4_value(n))
                                     : static_cast<float>(n) - static_cast<float>(quantum_bias(F));
  if constexpr (F == packed_format::q6_k) {
    const auto sc = static_cast<std::int8_t>(scales[q6_scale_at(r, col % 256 / 16)]);
    return half_at(scales + q6_factor_at(r)) * scale_back * static_cast<float>(sc) * q;
  }
  if constexpr (F == packed_format::q3_k || F == packed_format::iq4_xs) {
    const std::uint32_t set = six_bit_sets(F) == 4 ? col % group_cols / 16 : block;
    const auto its = six_bit_scales_of(half_bits_at(scales + six_bit_half_at(F, r, set)),
                                       static_cast<std::uint32_t>(scales[six_bit_byte_at(F, r, set)]));
    const int sc = static_cast<int>(its.of[in_unit]) - static_cast<int>(six_bit_bias);
    return half_at(scales + six_bit_factor_at(F, r)) * scale_back * static_cast<float>(sc) * q;
  }
  if constexpr (F == packed_format::q2_k) {
    const auto its = static_cast<std::uint32_t>(scales[q2_scale_at(r, col % 256 / 16)]);
    const float minimum_back = back * static_cast<float>(1U << q2_minimum_bit);
    return __fsub_rn(
        __fmul_rn(half_at(scales + q2_factor_at(r, false)) * scale_back * static_cast<float>(its & 15U), q),
        half_at(scales + q2_factor_at(r, true)) * minimum_back * static_cast<float>(its >> 4U));
  }
  if constexpr (F == packed_format::q4_k || F == packed_format::q5_k) {
    const std::uint32_t j = col % 256 / 32;
    const auto half = [&](std::uint32_t i) { return half_bits_at(scales + k_scale_at(r, j % 2, i)); };
    const k_scales its = k_scales_of(half(0), half(1), half(2));
    const float minimum_back = back * static_cast<float>(1U << k_minimum_bit);
    return __fsub_rn(
        __fmul_rn(half_at(scales + k_factor_at(r, false)) * scale_back * static_cast<float>(its.scale[j / 2]),
                  q),
        half_at(scales + k_factor_at(r, true)) * minimum_back * static_cast<float>(its.minimum[j / 2]));
  }
  if constexpr (has_minimum(F)) {
    const std::byte* s = scales + scale_index(r, block) * 4;
    return __fadd_rn(__fmul_rn(half_at(s) * scale_back, q),
                     half_at(s + 2) * back * static_cast<float>(1U << minimum_shift));
  }
  return half_at(scales + scale_index(r, block) * 2) * scale_back * q;
}

}  // namespace orcd::kernels
