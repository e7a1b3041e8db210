// Reading packed tiles: what one lane loads for a stage of a row tile, and how it becomes the f16
// operand A of mma.m16n8k16. Every path that multiplies by packed weights uses these functions, so a
// weight has one f16 value everywhere, which its row scale makes the weight. Rounding: K formats round
// d*scale and dmin*min to f16 and the value once more; block formats round the value once; F16 is exact, BF16
// and F32 round once; MXFP4 is exact within 2^23 of its row's largest block scale. Of integer formats a value
// that is 2^-10 of its row's largest or less rounds to 2^-20 of that. Determinism: exact, no order involved.
#pragma once

#include <cuda_fp16.h>

#include "kernels/product/grid_tile.cuh"
#include "kernels/product/packed_matrix.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels {

/// Streaming loads: weights are read once per step and must not displace activations from L1.
__device__ inline uint4 stream_16(const std::byte* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ inline uint2 stream_8(const std::byte* p) {
  uint2 v;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
__device__ inline std::uint32_t stream_4(const std::byte* p) {
  std::uint32_t v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ inline std::uint32_t load_2(const std::byte* p) {
  std::uint16_t v;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}

/// Where a stage's bytes come from: VRAM, once a step, or shared memory that a bulk copy has filled.
struct from_vram {
  static __device__ uint4 load_16(const std::byte* p) { return stream_16(p); }
  static __device__ uint2 load_8(const std::byte* p) { return stream_8(p); }
  static __device__ std::uint32_t load_4(const std::byte* p) { return stream_4(p); }
  static __device__ std::uint32_t load_2(const std::byte* p) { return kernels::load_2(p); }
};
struct from_shared {
  static __device__ uint4 load_16(const std::byte* p) { return *reinterpret_cast<const uint4*>(p); }
  static __device__ uint2 load_8(const std::byte* p) { return *reinterpret_cast<const uint2*>(p); }
  static __device__ std::uint32_t load_4(const std::byte* p) {
    return *reinterpret_cast<const std::uint32_t*>(p);
  }
  static __device__ std::uint32_t load_2(const std::byte* p) {
    return *reinterpret_cast<const std::uint16_t*>(p);
  }
};

__device__ inline __half half_of(std::uint32_t bits) {
  return __ushort_as_half(static_cast<unsigned short>(bits));
}

/// Groups a stage holds unless a kernel asks for another number: as many as keep two stages in registers.
ORCD_HD constexpr std::uint32_t default_stage_groups(packed_format f) {
  return is_float_format(f) ? 1 : f == packed_format::q8_0 ? 2 : 4;
}

/// Words of what the groups of a unit share, as a lane holds them.
ORCD_HD constexpr std::uint32_t super_words(packed_format f) {
  switch (f) {
    case packed_format::q4_k:
    case packed_format::q5_k: return 5;
    case packed_format::q2_k: return 4;
    case packed_format::q6_k:
    case packed_format::q3_k:
    case packed_format::iq4_xs:
    case packed_format::iq3_s:
    case packed_format::iq2_s: return 3;
    case packed_format::iq2_xs: return 2;
    default: return 1;
  }
}

/// What a lane holds of G consecutive groups of 64 columns of one row tile; G divides 4.
template <packed_format F, std::uint32_t G = default_stage_groups(F)>
struct tile_stage {
  static constexpr std::uint32_t groups = G;
  static constexpr std::uint32_t words = quant_words(F);

  std::uint32_t quants[G][words + high_words(F)];  ///< the high bits last
  std::uint32_t scale[G][2];            ///< block formats: d of rows g and g + 8, or d | m << 16 each
  std::uint32_t super[super_words(F)];  ///< K formats: a unit's scales of both rows

  /// Loads groups first .. first + G - 1 (first a multiple of G); those at or past `end` become zero.
  /// `super` must hold the current unit's scales when first is not a multiple of 4.
  template <class Source = from_vram>
  __device__ void load(const std::byte* tile, std::uint32_t first, std::uint32_t end, std::uint32_t lane) {
    constexpr unit_layout layout = layout_of(F);
    const std::uint32_t g = lane / 4;
    const std::uint32_t t = lane % 4;
#pragma unroll
    for (std::uint32_t u = 0; u < G; ++u) {
      const bool inside = first + u < end;
      if constexpr (is_k_format(F)) {
        const std::byte* unit = tile + static_cast<std::uint64_t>(first / 4) * layout.bytes();
        const std::uint32_t in_unit = (first + u) % 4;
        load_quants<Source>(unit + in_unit * (layout.quant_bytes / 4), inside, u, lane);
        load_high<Source>(unit + layout.quant_bytes + in_unit * (layout.high_bytes / 4), inside, u, lane);
        if (in_unit == 0) load_super<Source>(unit + layout.quant_bytes + layout.high_bytes, inside, g, t);
      } else {
        const std::byte* unit = tile + static_cast<std::uint64_t>(first + u) * layout.bytes();
        load_quants<Source>(unit, inside, u, lane);
        load_high<Source>(unit + layout.quant_bytes, inside, u, lane);
        if constexpr (!is_float_format(F)) {
          load_scales<Source>(unit + layout.quant_bytes + layout.high_bytes, inside, u, g, t);
        }
      }
    }
  }

  /// The same in two parts, for one group at a time: what the groups of a unit share, and group `in_piece` of
  /// a piece that starts with a unit.
  template <class Source>
  __device__ void load_shared_scales(const std::byte* unit, std::uint32_t lane) {
    constexpr unit_layout layout = layout_of(F);
    if constexpr (is_k_format(F))
      load_super<Source>(unit + layout.quant_bytes + layout.high_bytes, true, lane / 4, lane % 4);
  }
  template <class Source>
  __device__ void load_group(const std::byte* piece, std::uint32_t in_piece, std::uint32_t lane) {
    static_assert(G == 1);
    constexpr unit_layout layout = layout_of(F);
    constexpr std::uint32_t in_unit = layout.cols / group_cols;
    if constexpr (is_k_format(F)) {
      load_quants<Source>(piece + in_piece * (layout.quant_bytes / in_unit), true, 0, lane);
      load_high<Source>(piece + layout.quant_bytes + in_piece * (layout.high_bytes / in_unit), true, 0, lane);
    } else {
      load<Source>(piece + in_piece * layout.bytes(), 0, 1, lane);
    }
  }

  /// Scales of rows g (low half) and g + 8 (high half), and what is added to their multiples; of grids the
  /// bits of indices that are not among the quanta.
  struct scales {
    __half2 d, m;
    std::uint32_t index_bits;
  };
  /// Of the columns that this lane owns of the stage's group u, which is group `in_unit` (0..3) of its 256
  /// columns.
  __device__ scales scales_of(std::uint32_t u, std::uint32_t in_unit) const;

  /// The four registers of operand A for mma step s of the stage's group u, which has these scales.
  __device__ void fragment(std::uint32_t u, std::uint32_t s, const scales& both, std::uint32_t (&a)[4]) const;

 private:
  template <class Source>
  __device__ void load_quants(const std::byte* p, bool inside, std::uint32_t u, std::uint32_t lane) {
    if constexpr (words == 2) {
      const uint2 v = inside ? Source::load_8(p + lane * 8) : uint2{0, 0};
      quants[u][0] = v.x;
      quants[u][1] = v.y;
    } else {
#pragma unroll
      for (std::uint32_t w = 0; w < words; w += 4) {
        const uint4 v = inside ? Source::load_16(p + w * 128 + lane * 16) : uint4{0, 0, 0, 0};
        quants[u][w] = v.x;
        quants[u][w + 1] = v.y;
        quants[u][w + 2] = v.z;
        quants[u][w + 3] = v.w;
      }
    }
  }
  template <class Source>
  __device__ void load_high(const std::byte* p, bool inside, std::uint32_t u, std::uint32_t lane) {
    if constexpr (high_words(F) == 1) quants[u][words] = inside ? Source::load_4(p + lane * 4) : 0;
    if constexpr (high_words(F) == 2) {
      const uint2 v = inside ? Source::load_8(p + lane * 8) : uint2{0, 0};
      quants[u][words] = v.x;
      quants[u][words + 1] = v.y;
    }
  }
  template <class Source>
  __device__ void load_scales(const std::byte* p, bool inside, std::uint32_t u, std::uint32_t g,
                              std::uint32_t t) {
    const std::uint32_t at = scale_index(g, t / 2);
    if constexpr (has_minimum(F)) {
      const uint2 both = inside ? Source::load_8(p + at * 4) : uint2{0, 0};
      scale[u][0] = both.x;
      scale[u][1] = both.y;
    } else if constexpr (F == packed_format::mxfp4) {
      scale[u][0] = inside ? Source::load_2(p + at) : 0;
    } else if constexpr (F == packed_format::nvfp4) {
      scale[u][0] = inside ? Source::load_2(p + nvfp4_scale_at(g, t)) : 0;
    } else {
      scale[u][0] = inside ? Source::load_4(p + at * 2) : 0;
    }
  }
  template <class Source>
  __device__ void load_super(const std::byte* p, bool inside, std::uint32_t g, std::uint32_t t) {
    if constexpr (F == packed_format::q6_k) {
      const uint2 both = inside ? Source::load_8(p + q6_scale_at(g, t)) : uint2{0, 0};
      super[0] = both.x;
      super[1] = both.y;
      super[2] = inside ? Source::load_4(p + q6_factor_at(g)) : 0;
    } else if constexpr (F == packed_format::q2_k) {
      const uint2 both = inside ? Source::load_8(p + q2_scale_at(g, t)) : uint2{0, 0};
      const uint2 factors = inside ? Source::load_8(p + q2_factor_at(g, false)) : uint2{0, 0};
      super[0] = both.x;
      super[1] = both.y;
      super[2] = factors.x;
      super[3] = factors.y;
    } else if constexpr (F == packed_format::q3_k || F == packed_format::iq4_xs) {
      const std::uint32_t set = six_bit_sets(F) == 4 ? t : t / 2;
      super[0] = inside ? Source::load_4(p + six_bit_half_at(F, g, set)) : 0;
      super[1] = inside ? Source::load_2(p + six_bit_byte_at(F, g, set)) : 0;
      super[2] = inside ? Source::load_4(p + six_bit_factor_at(F, g)) : 0;
    } else if constexpr (is_grid_format(F)) {
      constexpr grid_scales at = grid_scales_of(F);
      super[0] = inside ? Source::load_4(p + at.factor_at + g * 4) : 0;
      if constexpr (has_grid_scales(F)) super[1] = inside ? Source::load_4(p + grid_scale_at(F, g, t)) : 0;
      if constexpr (has_index_bytes(F)) super[2] = inside ? Source::load_4(p + (g * 4 + t) * 4) : 0;
    } else {
      const uint2 both = inside ? Source::load_8(p + k_scale_at(g, t / 2, 0)) : uint2{0, 0};
      const uint2 factors = inside ? Source::load_8(p + k_factor_at(g, false)) : uint2{0, 0};
      super[0] = both.x;
      super[1] = both.y;
      super[2] = inside ? Source::load_4(p + k_scale_at(g, t / 2, 2)) : 0;
      super[3] = factors.x;
      super[4] = factors.y;
    }
  }
};

/// Minus the bias of the quanta, as a multiple of the scales of rows g and g + 8.
template <packed_format F>
__device__ inline __half2 centre() {
  constexpr std::uint32_t bias = quantum_bias(F);
  return as_half2(0x80008000U | bias | bias << (16 + upper_shift(F)));
}

/// The six-bit scales of rows g and g + 8 for group `in_unit`, less their bias.
__device__ inline __half2 six_bit_scale(std::uint32_t halves, std::uint32_t two_bytes,
                                        std::uint32_t in_unit) {
  const std::uint32_t bytes = __byte_perm(two_bytes, 0, 0x4140);
  std::uint32_t bits = 0;
  if (in_unit < 2)
    bits = and_or(halves >> 6 * in_unit, 0x003F003FU, 0x64006400U);
  else if (in_unit == 2)
    bits = and_or(bytes >> 2, 0x00300030U, and_or(halves >> 12, 0x000F000FU, 0x64006400U));
  else
    bits = and_or(bytes, 0x003F003FU, 0x64006400U);
  return __hsub2(as_half2(bits), __float2half2_rn(1024.0F + six_bit_bias));
}

/// The scales of K formats become halves by the bits of 1024 + n, their minimums as subnormals.
template <packed_format F, std::uint32_t G>
__device__ inline typename tile_stage<F, G>::scales tile_stage<F, G>::scales_of(std::uint32_t u,
                                                                                std::uint32_t in_unit) const {
  __half2 d{};
  __half2 m{};
  if constexpr (F == packed_format::q6_k) {
    const std::uint32_t two = in_unit < 2 ? super[0] : super[1];
    const std::uint32_t both = (in_unit % 2 == 0 ? two : two >> 8) & 0x00FF00FFU;
    const __half2 sc = __hsub2(as_half2(both ^ 0x64806480U), __float2half2_rn(1152.0F));
    d = __hmul2(as_half2(super[2]), sc);
    m = __hmul2(d, centre<F>());
  } else if constexpr (F == packed_format::q2_k) {
    const std::uint32_t two = in_unit < 2 ? super[0] : super[1];
    const std::uint32_t both = in_unit % 2 == 0 ? two : two >> 8;
    const __half2 sc = __hsub2(as_half2(and_or(both, 0x000F000FU, 0x64006400U)), __float2half2_rn(1024.0F));
    static_assert(q2_minimum_bit == 4);
    d = __hmul2(as_half2(super[2]), sc);
    m = __hneg2(__hmul2(as_half2(super[3]), as_half2(both & 0x00F000F0U)));
  } else if constexpr (F == packed_format::q3_k || F == packed_format::iq4_xs) {
    d = __hmul2(as_half2(super[2]), six_bit_scale(super[0], super[1], in_unit));
    m = __hmul2(d, centre<F>());
  } else if constexpr (is_grid_format(F)) {
    d = __hmul2(as_half2(super[0]), grid_scale<F>(has_grid_scales(F) ? super[super_words(F) > 1] : 0,
                                                  quants[u][words + high_words(F) - 1], in_unit));
    if constexpr (has_index_bytes(F)) return {d, m, super[super_words(F) - 1] >> 8 * in_unit};
  } else if constexpr (is_k_format(F)) {
    std::uint32_t sc = 0;
    std::uint32_t mn = 0;
    if (in_unit < 3) {
      const std::uint32_t halves = in_unit == 0 ? super[0] : in_unit == 1 ? super[1] : super[2];
      sc = and_or(halves >> 10, 0x003F003FU, 0x64006400U);
      mn = halves & 0x03F003F0U;
    } else {
      sc = and_or(super[2] << 4, 0x00300030U, and_or(super[0], 0x000F000FU, 0x64006400U));
      mn = and_or(super[2] << 6, 0x03000300U, super[1] << 4 & 0x00F000F0U);
    }
    d = __hmul2(as_half2(super[3]), __hsub2(as_half2(sc), __float2half2_rn(1024.0F)));
    m = __hneg2(__hmul2(as_half2(super[4]), as_half2(mn)));
  } else if constexpr (F == packed_format::mxfp4) {
    // E2M1 bits moved into a half's exponent read 2^14 too small.
    d = as_half2(__byte_perm(scale[u][0], 0, 0x1404));
  } else if constexpr (F == packed_format::nvfp4) {
    constexpr std::uint32_t bits = 15U + nvfp4_scale_power;  // of a half: its exponent
    d = __hmul2(as_half2(__byte_perm(scale[u][0], 0, 0x1404) >> 1), as_half2(bits << 10 | bits << 26));
  } else if constexpr (has_minimum(F)) {
    d = as_half2(__byte_perm(scale[u][0], scale[u][1], 0x5410));
    // 2^-16 is what a subnormal's 2^-24 leaves of the minimum's own power.
    static_assert(minimum_shift == 8);
    m = __hmul2(as_half2(__byte_perm(scale[u][0], scale[u][1], 0x7632)), as_half2(0x01000100U));
  } else {
    d = as_half2(scale[u][0]);
    m = __hmul2(d, centre<F>());
  }
  return {d, m, 0};
}

/// Shifts `word` so that bit `from` comes to bit `to`.
__device__ inline std::uint32_t move_bits(std::uint32_t word, std::uint32_t from, std::uint32_t to) {
  return from > to ? word >> (from - to) : word << (to - from);
}

/// The bits of `chosen` where `mask` has ones, those of `others` where it has zeros.
__device__ inline std::uint32_t select_bits(std::uint32_t mask, std::uint32_t chosen, std::uint32_t others) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(result) : "r"(mask), "r"(chosen), "r"(others));
  return result;
}

/// The byte that stands for a nibble of IQ4_NL and IQ4_XS: the value plus 128. Of a positive value all other
/// bits are exchanged, as table_pairs() needs them.
ORCD_HD constexpr std::uint32_t table_byte(std::uint32_t nibble) {
  const int value = iq4_values[exchange_upper_bits(nibble)];
  return value < 0 ? static_cast<std::uint32_t>(value + 128) : 255U - static_cast<std::uint32_t>(value);
}
ORCD_HD constexpr std::uint32_t table_word(std::uint32_t first) {
  return table_byte(first) | table_byte(first + 1) << 8 | table_byte(first + 2) << 16 |
         table_byte(first + 3) << 24;
}

/// Four of the eight bytes of `low` and `high`, as prmt.b32 takes them: where the highest bit of a nibble of
/// `selector` is set, eight copies of the chosen byte's sign. __byte_perm() would clear that bit.
__device__ inline std::uint32_t bytes_or_signs(std::uint32_t low, std::uint32_t high,
                                               std::uint32_t selector) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}

/// The values of a word of nibbles as integers with a bias. An instruction takes four nibbles at once and
/// finds one of eight bytes for each, or where its highest bit is set copies of that byte's sign: so there is
/// a table for each state of that bit, and for the sign to say nothing, the two that a nibble may mean have
/// the same. Copies of a negative value's sign are zeros, of a positive one's ones, which the xor undoes.
__device__ inline void table_pairs(std::uint32_t word, __half2 (&pairs)[4]) {
  const std::uint32_t other = word ^ 0x88888888U;
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint32_t lower = bytes_or_signs(table_word(0), table_word(4), word >> 16 * half);
    const std::uint32_t upper = bytes_or_signs(table_word(8), table_word(12), other >> 16 * half);
    std::uint32_t four = 0;  // the xor, but the sign itself
    asm("lop3.b32 %0, %1, %2, %3, 0xBC;" : "=r"(four) : "r"(lower), "r"(upper), "r"(0x80808080U));
    pairs[2 * half] = as_half2(__byte_perm(four, 0, 0x4140));
    pairs[2 * half + 1] = as_half2(__byte_perm(four, 0, 0x4342));
  }
}

/// The pairs of a word of E2M1 values as halves that are 2^14 too small: the E2M1 bits as a half's exponent
/// and mantissa. Pairs 2 and 3 are first shifted to where 0 and 1 lie.
__device__ inline void fp4_pairs(std::uint32_t word, __half2 (&pairs)[4]) {
  constexpr std::uint32_t mask = 0x8E008E00U;
  static_assert(fp4_magnitude_bit(0) == 9 && fp4_sign_bit(0) == 15);
  static_assert(fp4_magnitude_bit(1) == 1 && fp4_sign_bit(1) == 7);
  static_assert(fp4_magnitude_bit(2) == 12 && fp4_sign_bit(2) == 8);
  static_assert(fp4_magnitude_bit(3) == 4 && fp4_sign_bit(3) == 0);
  const std::uint32_t later = select_bits(0x80808080U, word << 7, word >> 3);
  pairs[0] = as_half2(word & mask);
  pairs[1] = as_half2(word << 8 & mask);
  pairs[2] = as_half2(later & mask);
  pairs[3] = as_half2(later << 8 & mask);
}

/// `count` bits of both elements of a pair, shifted to bit `to` of their halves.
template <std::uint32_t Words>
__device__ inline std::uint32_t take_bits(const std::uint32_t (&words)[Words], quantum_place from,
                                          std::uint32_t count, std::uint32_t to) {
  return move_bits(words[from.word], from.bit, to) & ((1U << count) - 1U) * 0x00010001U << to;
}

/// The integers of pair i of mma step s as subnormal halves; those of row g + 8 are higher by upper_shift().
template <packed_format F, std::uint32_t Words>
__device__ inline __half2 integer_pair(const std::uint32_t (&words)[Words], std::uint32_t s,
                                       std::uint32_t i) {
  const quantum_place place = place_of_bit(F, s, i, 0);
  const std::uint32_t to = i % 2 * upper_shift(F);
  std::uint32_t bits = 0;
  if constexpr (F == packed_format::q8_0) {
    bits = __byte_perm(words[place.word], 0, i % 2 == 0 ? 0x4240 : 0x4341);
  } else if (bits_together(F, s, i) == 1) {
#pragma unroll
    for (std::uint32_t b = 0; b < quantum_bits(F); ++b)
      bits |= take_bits(words, place_of_bit(F, s, i, b), 1, to + b);
  } else {
    const std::uint32_t first = bits_together(F, s, i);
    bits = take_bits(words, place, first, to);
    if (first < quantum_bits(F))
      bits |= take_bits(words, place_of_bit(F, s, i, first), quantum_bits(F) - first, to + first);
  }
  return as_half2(bits);
}

/// The integers of all pairs of mma step s, as integer_pair() gives them. With four bits, the lower half of
/// the upper byte is computed by removing its upper half, because that instruction uses a pipe that is
/// otherwise nearly idle.
template <packed_format F, std::uint32_t Words>
__device__ inline void integer_pairs(const std::uint32_t (&words)[Words], std::uint32_t s,
                                     __half2 (&pairs)[4]) {
  if constexpr (quantum_bits(F) == 4) {
    const std::uint32_t upper = __byte_perm(words[s], 0, 0x4341);
    pairs[0] = integer_pair<F>(words, s, 0);
    pairs[1] = integer_pair<F>(words, s, 1);
    pairs[3] = as_half2(upper & 0x00F000F0U);
    pairs[2] = __hsub2(as_half2(upper), pairs[3]);
  } else {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) pairs[i] = integer_pair<F>(words, s, i);
  }
}

template <packed_format F, std::uint32_t G>
__device__ void tile_stage<F, G>::fragment(std::uint32_t u, std::uint32_t s, const scales& both,
                                           std::uint32_t (&a)[4]) const {
  if constexpr (F == packed_format::f16) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) a[i] = quants[u][s * 4 + i];
    return;
  } else if constexpr (F == packed_format::bf16) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t w = quants[u][s * 4 + i];
      a[i] = as_bits(__floats2half2_rn(__uint_as_float(w << 16), __uint_as_float(w & 0xFFFF0000U)));
    }
    return;
  } else if constexpr (F == packed_format::f32) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      a[i] = as_bits(__floats2half2_rn(__uint_as_float(quants[u][s * 8 + 2 * i]),
                                       __uint_as_float(quants[u][s * 8 + 2 * i + 1])));
    }
    return;
  } else {
    __half2 pairs[4];
    if constexpr (is_fp4_format(F))
      fp4_pairs(quants[u][s], pairs);
    else if constexpr (is_table_format(F))
      table_pairs(quants[u][s], pairs);
    else if constexpr (is_grid_format(F))
      grid_pairs<F>(quants[u], s, both.index_bits, pairs);
    else
      integer_pairs<F>(quants[u], s, pairs);
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const __half2 d = (i & 1U) == 0 ? __low2half2(both.d) : __high2half2(both.d);
      const __half2 m = (i & 1U) == 0 ? __low2half2(both.m) : __high2half2(both.m);
      a[i] =
          as_bits(quantum_bias(F) == 0 && !has_minimum(F) ? __hmul2(pairs[i], d) : __hfma2(pairs[i], d, m));
    }
  }
}

/// acc += A * B with f32 accumulation.
__device__ inline void mma_16x8x16(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace orcd::kernels
