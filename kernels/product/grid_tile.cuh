// Weights whose quanta are indices of a grid (quant_grids.hpp) with signs, packed; what packed_tile.cuh is
// for the other formats. A lane has of a group of 64 columns sixteen values of row g and sixteen of
// row g + 8:
//
//   IQ3   words 0 and 1: four bytes of index of row g, of row g + 8: one for each mma step; word 2: signs
//   IQ2   word 0: a byte of index for each eight values, two of row g, two of row g + 8; word 1: signs
//
// Of 32 signs, pair i of step s has bits q and q + 16, with q = 4 s + i. Where a file has seven of eight
// signs, four bits are free for something else: bit 22 + 8 o + r for the values o of eight of row g + 8 r.
// IQ2_XS has the index's ninth bit there, the XXS formats the scales of a block of 32: those of row g in
// lanes with an even t, those of row g + 8 in the others. More bits of indices, and scales, come once for a
// unit.
#pragma once

#include <cuda_fp16.h>

#include "kernels/product/packed_matrix.hpp"
#include "kernels/product/quant_grids.hpp"

namespace orcd::kernels {

__device__ inline __half2 as_half2(std::uint32_t bits) {
  return *reinterpret_cast<__half2*>(&bits);
}
__device__ inline std::uint32_t as_bits(__half2 h) {
  return *reinterpret_cast<std::uint32_t*>(&h);
}
/// word & mask | bits in one instruction; with two constants the compiler makes it two.
__device__ inline std::uint32_t and_or(std::uint32_t word, std::uint32_t mask, std::uint32_t bits) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
}

/// Whether a unit has a word a lane of further index bits: byte u of group u.
ORCD_HD constexpr bool has_index_bytes(packed_format f) {
  return f == packed_format::iq3_s || f == packed_format::iq2_s;
}
/// Whether a unit has words of scales of four bits: those of row g in the lower half, group u at 4 u.
ORCD_HD constexpr bool has_grid_scales(packed_format f) {
  return f != packed_format::iq3_xxs && f != packed_format::iq2_xxs;
}
ORCD_HD constexpr bool stores_seven_signs(packed_format f) {
  return f != packed_format::iq3_s && f != packed_format::iq2_s;
}
/// Where these lie among a unit's scales, and d of rows g and g + 8.
struct grid_scales {
  std::uint32_t scales_at, factor_at;
};
ORCD_HD constexpr grid_scales grid_scales_of(packed_format f) {
  const std::uint32_t scales_at = has_index_bytes(f) ? 128 : 0;
  const std::uint32_t words = !has_grid_scales(f) ? 0 : is_grid_of_four(f) ? 16 : 32;
  return {scales_at, scales_at + words * 4};
}
/// Of a row g and its lane t: IQ3_S has a scale for two lanes.
ORCD_HD constexpr std::uint32_t grid_scale_at(packed_format f, std::uint32_t g, std::uint32_t t) {
  return grid_scales_of(f).scales_at + (is_grid_of_four(f) ? g * 2 + t / 2 : g * 4 + t) * 4;
}
/// What a format's d is multiplied with: its scales are odd multiples of that.
ORCD_HD constexpr float grid_unit(packed_format f) {
  return f == packed_format::iq3_s ? 1.0F : f == packed_format::iq3_xxs ? 0.25F : 0.125F;
}

/// The bit of a sign in its word, and the word's free bits.
ORCD_HD constexpr std::uint32_t grid_sign_bit(std::uint32_t step, std::uint32_t pair, std::uint32_t second) {
  return 4 * step + pair + 16 * second;
}
ORCD_HD constexpr std::uint32_t grid_free_bit(std::uint32_t eight, std::uint32_t upper_row) {
  return grid_sign_bit(2 * eight + 1, 2 + upper_row, 1);
}
inline constexpr std::uint32_t grid_free_bits = 0xC0C00000;

/// A grid's entries with four bits a code, as selectors of bytes.
template <class Entry, std::uint32_t Count>
struct selector_table {
  Entry of[Count];

  template <std::uint32_t CodeBits>
  static constexpr selector_table spread(const std::uint16_t (&grid)[Count]) {
    selector_table table{};
    constexpr std::uint32_t codes = sizeof(Entry) * 2;
    for (std::uint32_t e = 0; e < Count; ++e) {
      std::uint32_t nibbles = 0;
      for (std::uint32_t i = 0; i < codes; ++i)
        nibbles |= (grid[e] >> (CodeBits * i) & ((1U << CodeBits) - 1U)) << 4 * i;
      table.of[e] = static_cast<Entry>(nibbles);
    }
    return table;
  }
};
static __device__ const auto iq2_xxs_entries = selector_table<std::uint32_t, 256>::spread<2>(iq2_xxs_grid);
static __device__ const auto iq2_xs_entries = selector_table<std::uint32_t, 512>::spread<2>(iq2_xs_grid);
static __device__ const auto iq2_s_entries = selector_table<std::uint32_t, 1024>::spread<2>(iq2_s_grid);
static __device__ const auto iq3_xxs_entries = selector_table<std::uint16_t, 256>::spread<3>(iq3_xxs_grid);
static __device__ const auto iq3_s_entries = selector_table<std::uint16_t, 512>::spread<3>(iq3_s_grid);

template <packed_format F>
__device__ inline std::uint32_t grid_entry(std::uint32_t index) {
  if constexpr (F == packed_format::iq2_xxs) return __ldg(&iq2_xxs_entries.of[index]);
  if constexpr (F == packed_format::iq2_xs) return __ldg(&iq2_xs_entries.of[index]);
  if constexpr (F == packed_format::iq2_s) return __ldg(&iq2_s_entries.of[index]);
  if constexpr (F == packed_format::iq3_xxs) return __ldg(&iq3_xxs_entries.of[index]);
  return __ldg(&iq3_s_entries.of[index]);
}

/// Byte i of the magnitudes is that of code i; those past a format's levels are no code of it.
ORCD_HD constexpr std::uint32_t grid_level(packed_format f, std::uint32_t i) {
  if (f == packed_format::iq3_s) return iq3_s_levels[i];
  if (f == packed_format::iq3_xxs) return iq3_xxs_levels[i];
  return i < 4 ? grid_levels_of_eight[i] : 0;
}
ORCD_HD constexpr std::uint32_t grid_levels_word(packed_format f, std::uint32_t first) {
  return grid_level(f, first) | grid_level(f, first + 1) << 8 | grid_level(f, first + 2) << 16 |
         grid_level(f, first + 3) << 24;
}

/// All signs from the word that has them: the eighth of each eight makes the number of ones even.
template <packed_format F>
__device__ inline std::uint32_t grid_signs(std::uint32_t word) {
  if constexpr (!stores_seven_signs(F)) return word;
  const std::uint32_t seven = word & ~grid_free_bits;
  std::uint32_t odd = seven ^ seven >> 16;
  odd ^= odd >> 4;
  odd ^= odd >> 2;  // bit 8 o + r: of the values o of eight of row g + 8 r
  static_assert(grid_free_bit(0, 0) == 22 && grid_free_bit(1, 1) == 31);
  return seven | (odd & 0x0303U) << 22;
}

/// 1 + 2 s of rows g and g + 8, as halves, for group `in_unit`.
template <packed_format F>
__device__ inline __half2 grid_scale(std::uint32_t scales, std::uint32_t signs, std::uint32_t in_unit) {
  std::uint32_t both = 0;
  if constexpr (has_grid_scales(F)) {
    both = scales >> 4 * in_unit & 0x000F000FU;
  } else {
    const std::uint32_t mine = (signs >> 22 & 3U) | (signs >> 28 & 12U);
    const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFFU, mine, 1);
    both = (threadIdx.x & 1U) == 0 ? mine | other << 16 : other | mine << 16;
  }
  // 1024 + 1 + 2 s, less 1024.
  return __hsub2(as_half2(both << 1 | 0x64016401U), __float2half2_rn(1024.0F));
}

/// The index of the entry that has the values of mma step s of row g or g + 8; byte `index_bits` has the bits
/// that are neither in the bytes of indices nor free bits of the signs.
template <packed_format F, std::uint32_t Words>
__device__ inline std::uint32_t grid_index(const std::uint32_t (&words)[Words], std::uint32_t s,
                                           std::uint32_t upper_row, std::uint32_t index_bits) {
  if constexpr (is_grid_of_four(F)) {
    const std::uint32_t low = words[upper_row] >> 8 * s & 0xFFU;
    if constexpr (F == packed_format::iq3_xxs) return low;
    return low | (index_bits >> (4 * upper_row + s) & 1U) << 8;
  } else {
    const std::uint32_t eight = s / 2;
    const std::uint32_t nth = 2 * upper_row + eight;
    const std::uint32_t low = words[0] >> 8 * nth & 0xFFU;
    if constexpr (F == packed_format::iq2_xxs) return low;
    if constexpr (F == packed_format::iq2_xs)
      return low | (words[1] >> grid_free_bit(eight, upper_row) & 1U) << 8;
    return low | (index_bits >> 2 * nth & 3U) << 8;
  }
}

/// The magnitudes of four values, from an index and, of grids of eight, the mma step.
template <packed_format F>
__device__ inline std::uint32_t grid_magnitudes(std::uint32_t index, std::uint32_t s) {
  const std::uint32_t entry = grid_entry<F>(index);
  return __byte_perm(grid_levels_word(F, 0), grid_levels_word(F, 4),
                     is_grid_of_four(F) ? entry : entry >> 16 * (s % 2));
}

/// The pairs of mma step s as integers.
template <packed_format F, std::uint32_t Words>
__device__ inline void grid_pairs(const std::uint32_t (&words)[Words], std::uint32_t s,
                                  std::uint32_t index_bits, __half2 (&pairs)[4]) {
  const std::uint32_t signs = grid_signs<F>(words[Words - 1]);
#pragma unroll
  for (std::uint32_t row = 0; row < 2; ++row) {
    const std::uint32_t four = grid_magnitudes<F>(grid_index<F>(words, s, row, index_bits), s);
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t i = row + 2 * half;
      pairs[i] = as_half2(and_or(signs << (15 - grid_sign_bit(s, i, 0)), 0x80008000U,
                                 __byte_perm(four, 0, half == 0 ? 0x4140 : 0x4342)));
    }
  }
}

}  // namespace orcd::kernels
