// Blocks of the grid formats as a file has them (quant_blocks.hpp), read one index, one scale or the signs of
// eight values at a time; used only while weights are repacked.
#pragma once

#include "kernels/product/ggml_blocks.cuh"
#include "kernels/product/grid_tile.cuh"

namespace orcd::kernels {

/// Index of entry e of a block: of each four of its values (IQ3) or each eight.
template <packed_format F>
__device__ std::uint32_t raw_grid_index(const std::byte* b, std::uint32_t e) {
  if constexpr (F == packed_format::iq2_xxs) return byte_at(b, 2 + e / 4 * 8 + e % 4);
  if constexpr (F == packed_format::iq2_xs) return u16_at(b, 2 + 2 * e) & 511U;
  if constexpr (F == packed_format::iq2_s)
    return byte_at(b, 2 + e) | (byte_at(b, 66 + e / 4) >> (e % 4 * 2) & 3U) << 8;
  if constexpr (F == packed_format::iq3_xxs) return byte_at(b, 2 + e);
  return byte_at(b, 2 + e) | (byte_at(b, 66 + e / 8) >> (e % 8) & 1U) << 8;
}

/// Signs of values 8 n .. 8 n + 7: all eight, or the seven that are stored.
template <packed_format F>
__device__ std::uint32_t raw_grid_signs(const std::byte* b, std::uint32_t n) {
  if constexpr (F == packed_format::iq2_xxs) return u32_at(b, 6 + n / 4 * 8) >> (n % 4 * 7) & 127U;
  if constexpr (F == packed_format::iq2_xs) return u16_at(b, 2 + 2 * n) >> 9;
  if constexpr (F == packed_format::iq2_s) return byte_at(b, 34 + n);
  if constexpr (F == packed_format::iq3_xxs) return u32_at(b, 66 + n / 4 * 4) >> (n % 4 * 7) & 127U;
  return byte_at(b, 74 + n);
}

/// s of values 16 j .. 16 j + 15.
template <packed_format F>
__device__ std::uint32_t raw_grid_scale(const std::byte* b, std::uint32_t j) {
  if constexpr (F == packed_format::iq2_xxs) return u32_at(b, 6 + j / 2 * 8) >> 28;
  if constexpr (F == packed_format::iq2_xs) return byte_at(b, 66 + j / 2) >> (j % 2 * 4) & 15U;
  if constexpr (F == packed_format::iq2_s) return byte_at(b, 74 + j / 2) >> (j % 2 * 4) & 15U;
  if constexpr (F == packed_format::iq3_xxs) return u32_at(b, 66 + j / 2 * 4) >> 28;
  return byte_at(b, 106 + j / 4) >> (j / 2 % 2 * 4) & 15U;
}

/// What a lane owns of a group: its words, and its byte of further index bits.
template <packed_format F>
struct packed_grid_group {
  std::uint32_t words[quant_words(F) + high_words(F)];
  std::uint32_t index_bits;

  /// Adds the sixteen values from 16 j on of the block of row g (upper_row 0) or g + 8 (1), for lane t.
  __device__ void add(const std::byte* b, std::uint32_t j, std::uint32_t upper_row, std::uint32_t t) {
    constexpr bool four = is_grid_of_four(F);
    constexpr std::uint32_t last = quant_words(F) + high_words(F) - 1;
    constexpr std::uint32_t entries = four ? 4 : 2;
    for (std::uint32_t e = 0; e < entries; ++e) {
      const std::uint32_t index = raw_grid_index<F>(b, entries * j + e);
      words[four ? upper_row : 0] |= (index & 255U) << 8 * (four ? e : 2 * upper_row + e);
      if constexpr (F == packed_format::iq3_s) index_bits |= (index >> 8) << (4 * upper_row + e);
      if constexpr (F == packed_format::iq2_s) index_bits |= (index >> 8) << 2 * (2 * upper_row + e);
      if constexpr (F == packed_format::iq2_xs) words[last] |= (index >> 8) << grid_free_bit(e, upper_row);
    }
    for (std::uint32_t i = 0; i < 16; ++i) {
      if (stores_seven_signs(F) && i % 8 == 7) continue;
      const std::uint32_t negative = raw_grid_signs<F>(b, 2 * j + i / 8) >> (i % 8) & 1U;
      words[last] |= negative << grid_sign_bit(i / 4, upper_row + i % 4 / 2 * 2, i % 2);
    }
    if (!has_grid_scales(F) && t % 2 == upper_row) {
      const std::uint32_t s = raw_grid_scale<F>(b, j);
      words[last] |= (s & 3U) << grid_free_bit(0, 0) | (s >> 2) << grid_free_bit(1, 0);
    }
  }
};

}  // namespace orcd::kernels
