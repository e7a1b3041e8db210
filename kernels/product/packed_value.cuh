// One element of a packed matrix as the file's own f32 value, for embedding rows and tests. Exact, except for
// the lowest bits of minimums in rows of K formats whose scales are past 64.
#pragma once

#include "kernels/product/packed_tile.cuh"

namespace orcd::kernels {

/// Word w of a lane's quanta in a group; layout as in repack.cu.
__device__ inline std::uint32_t quant_word(const std::byte* quants, std::uint32_t lane, std::uint32_t w) {
  return reinterpret_cast<const std::uint32_t*>(quants)[w / 4 * 128 + lane * 4 + w % 4];
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
    const std::uint32_t word = place.word < quant_words(F)
                                   ? quant_word(quants, e.lane, place.word)
                                   : reinterpret_cast<const std::uint32_t*>(
                                         high)[e.lane * high_words(F) + place.word - quant_words(F)];
    n |= (word >> (place.bit + 16 * e.high_half) & 1U) << b;
  }
  return n;
}

/// The value of an E2M1 number.
__device__ inline float fp4_value(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 7U;
  const float value = magnitude < 2 ? 0.5F * static_cast<float>(magnitude)
                                    : ldexpf(1.0F + 0.5F * static_cast<float>(magnitude & 1U),
                                             static_cast<int>(magnitude >> 1U) - 1);
  return (bits & 8U) != 0 ? -value : value;
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
    return __uint_as_float(quant_word(quants, e.lane, e.step * 8 + 2 * e.pair + e.high_half));
  if constexpr (F == packed_format::f16 || F == packed_format::bf16) {
    const std::uint32_t bits = quant_word(quants, e.lane, e.step * 4 + e.pair) >> 16 * e.high_half;
    return F == packed_format::bf16 ? __uint_as_float(bits << 16) : __half2float(half_of(bits & 0xFFFFU));
  }
  const std::uint32_t n = quantum_of<F>(quants, high, e);
  const std::uint32_t block = col % group_cols / 32;
  const float row_scale = m.row_scale[row];
  if constexpr (F == packed_format::mxfp4) {
    const auto exponent = static_cast<std::uint32_t>(scales[scale_index(r, block)]) >> fp4_exponent_bit;
    return fp4_value(n) * ldexpf(row_scale, static_cast<int>(exponent) - 29);
  }
  // Undoes the powers of two in stored minimums and scales.
  const float back = row_scale * (1.0F / 16777216.0F);
  const float scale_back = r < tile_rows / 2 ? back : back * static_cast<float>(1U << upper_shift(F));
  const float q = static_cast<float>(n) - static_cast<float>(quantum_bias(F));
  if constexpr (F == packed_format::q6_k) {
    const auto sc = static_cast<std::int8_t>(scales[q6_scale_at(r, col % 256 / 16)]);
    return half_at(scales + q6_factor_at(r)) * scale_back * static_cast<float>(sc) * q;
  }
  if constexpr (F == packed_format::q4_k || F == packed_format::q5_k) {
    const std::uint32_t j = col % 256 / 32;
    const auto half = [&](std::uint32_t i) {
      return static_cast<std::uint32_t>(
          *reinterpret_cast<const std::uint16_t*>(scales + k_scale_at(r, j % 2, i)));
    };
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
