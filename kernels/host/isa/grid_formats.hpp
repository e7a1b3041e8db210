// Decoding of the formats whose values come from grids; see block_formats.hpp and, for the layouts,
// kernels/product/quant_blocks.hpp. No index can be past a grid's end: it has as many bits as the grid needs.
#pragma once

#include "kernels/host/isa/block_formats.hpp"
#include "kernels/product/quant_grids.hpp"

namespace orcd::kernels::host::ORCD_ISA {

/// The signs of eight values from the seven that are stored.
ORCD_INLINE unsigned even_signs(unsigned seven) {
  return seven | static_cast<unsigned>(__builtin_parity(seven)) << 7;
}
ORCD_INLINE unsigned word_at(const std::uint8_t* p) {
  return p[0] | unsigned{p[1]} << 8 | unsigned{p[2]} << 16 | unsigned{p[3]} << 24;
}

/// Sixteen values that are collected from grids.
struct grid_values {
  std::uint8_t of[lane_count];

  /// Values first .. first + 7, of an entry of eight codes of two bits.
  ORCD_INLINE void put_eight(grid_values& to, int first, std::uint16_t entry, unsigned signs) {
    for (int i = 0; i < 8; ++i)
      put(to, first + i, grid_levels_of_eight[entry >> (2 * i) & 3], signs >> i & 1U);
  }
  /// Values first .. first + 3, of an entry of four codes of three bits and a format's levels.
  ORCD_INLINE void put_four(grid_values& to, int first, std::uint16_t entry, const std::uint8_t* levels,
                            unsigned signs) {
    for (int i = 0; i < 4; ++i) put(to, first + i, levels[entry >> (3 * i) & 7], signs >> i & 1U);
  }
  ORCD_INLINE void put(grid_values& to, int at, unsigned magnitude, unsigned negative) {
    to.of[at] = static_cast<std::uint8_t>((magnitude ^ (0U - negative)) + negative);
  }
  ORCD_INLINE float_lanes scaled(const grid_values& values, float scale) {
    return scale * to_float(widen_signed(values.of));
  }
};

struct iq2_xxs_format {
  static constexpr int elems = 256, bytes = sizeof(block_iq2_xxs);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_iq2_xxs>(p);
    const float d = half_to_float(b.d) * 0.125F;
    for (int group = 0; group < 16; ++group) {
      const std::uint8_t* of_32 = b.qs + 8 * (group / 2);
      const unsigned word = word_at(of_32 + 4);
      grid_values values;
      for (int e = 0; e < 2; ++e) {
        const int nth = 2 * (group % 2) + e;
        grid_values::put_eight(values, 8 * e, iq2_xxs_grid[of_32[nth]], even_signs(word >> (7 * nth) & 127U));
      }
      sink(16 * group, grid_values::scaled(values, d * static_cast<float>(1 + 2 * (word >> 28))));
    }
  }
};

struct iq2_xs_format {
  static constexpr int elems = 256, bytes = sizeof(block_iq2_xs);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_iq2_xs>(p);
    const float d = half_to_float(b.d) * 0.125F;
    for (int group = 0; group < 16; ++group) {
      grid_values values;
      for (int e = 0; e < 2; ++e) {
        const std::uint8_t* at = b.qs + 4 * group + 2 * e;
        const unsigned word = at[0] | unsigned{at[1]} << 8;
        grid_values::put_eight(values, 8 * e, iq2_xs_grid[word & 511U], even_signs(word >> 9));
      }
      const int s = b.scales[group / 2] >> (4 * (group % 2)) & 15;
      sink(16 * group, grid_values::scaled(values, d * static_cast<float>(1 + 2 * s)));
    }
  }
};

struct iq2_s_format {
  static constexpr int elems = 256, bytes = sizeof(block_iq2_s);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_iq2_s>(p);
    const float d = half_to_float(b.d) * 0.125F;
    for (int group = 0; group < 16; ++group) {
      grid_values values;
      for (int e = 0; e < 2; ++e) {
        const int nth = 2 * group + e;
        const int high = b.qh[nth / 4] >> (2 * (nth % 4)) & 3;
        grid_values::put_eight(values, 8 * e, iq2_s_grid[b.qs[nth] | high << 8], b.signs[nth]);
      }
      const int s = b.scales[group / 2] >> (4 * (group % 2)) & 15;
      sink(16 * group, grid_values::scaled(values, d * static_cast<float>(1 + 2 * s)));
    }
  }
};

struct iq3_xxs_format {
  static constexpr int elems = 256, bytes = sizeof(block_iq3_xxs);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_iq3_xxs>(p);
    const float d = half_to_float(b.d) * 0.25F;
    for (int group = 0; group < 16; ++group) {
      const unsigned word = word_at(b.signs + 4 * (group / 2));
      grid_values values;
      for (int e = 0; e < 4; ++e) {
        const int eight = 2 * (group % 2) + e / 2;
        const unsigned signs = even_signs(word >> (7 * eight) & 127U);
        grid_values::put_four(values, 4 * e, iq3_xxs_grid[b.qs[4 * group + e]], iq3_xxs_levels,
                              signs >> (4 * (e % 2)));
      }
      sink(16 * group, grid_values::scaled(values, d * static_cast<float>(1 + 2 * (word >> 28))));
    }
  }
};

struct iq3_s_format {
  static constexpr int elems = 256, bytes = sizeof(block_iq3_s);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_iq3_s>(p);
    const float d = half_to_float(b.d);
    for (int group = 0; group < 16; ++group) {
      grid_values values;
      for (int e = 0; e < 4; ++e) {
        const int nth = 4 * group + e;
        const int high = b.qh[nth / 8] >> (nth % 8) & 1;
        grid_values::put_four(values, 4 * e, iq3_s_grid[b.qs[nth] | high << 8], iq3_s_levels,
                              unsigned{b.signs[nth / 2]} >> (4 * (nth % 2)));
      }
      const int s = b.scales[group / 4] >> (4 * (group / 2 % 2)) & 15;
      sink(16 * group, grid_values::scaled(values, d * static_cast<float>(1 + 2 * s)));
    }
  }
};

}  // namespace orcd::kernels::host::ORCD_ISA
