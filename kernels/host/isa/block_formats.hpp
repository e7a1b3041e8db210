// Decoding of every block format, sixteen values at a time. A format has the number of values and bytes
// of its block and a decode() that hands the block's values to `sink(offset, lanes)` in ascending offset;
// the same code therefore serves dequantization into memory and products on the fly.
// Formulas: kernels/product/quant_blocks.hpp; all arithmetic is f32, rounded once per operation as written
// there.
#pragma once

#include "kernels/host/isa/half.hpp"

namespace orcd::kernels::host::ORCD_ISA {

template <class Block>
ORCD_INLINE const Block& block_at(const std::byte* p) {
  return *reinterpret_cast<const Block*>(p);
}

ORCD_INLINE int_lanes low_nibbles(const std::uint8_t* qs) {
  return widen(qs) & 15;
}
ORCD_INLINE int_lanes high_nibbles(const std::uint8_t* qs) {
  return widen(qs) >> 4;
}

struct f32_format {
  static constexpr int elems = 16, bytes = 64;
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    sink(0, load(reinterpret_cast<const float*>(p)));
  }
};

struct f16_format {
  static constexpr int elems = 16, bytes = 32;
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    sink(0, load_half(reinterpret_cast<const std::uint8_t*>(p)));
  }
};

struct bf16_format {
  static constexpr int elems = 16, bytes = 32;
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    sink(0, load_bfloat(reinterpret_cast<const std::uint8_t*>(p)));
  }
};

struct q4_0_format {
  static constexpr int elems = 32, bytes = sizeof(block_q4_0);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q4_0>(p);
    const float d = half_to_float(b.d);
    sink(0, d * to_float(low_nibbles(b.qs) - 8));
    sink(16, d * to_float(high_nibbles(b.qs) - 8));
  }
};

struct q4_1_format {
  static constexpr int elems = 32, bytes = sizeof(block_q4_1);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q4_1>(p);
    const float d = half_to_float(b.d);
    const float m = half_to_float(b.m);
    sink(0, d * to_float(low_nibbles(b.qs)) + m);
    sink(16, d * to_float(high_nibbles(b.qs)) + m);
  }
};

/// 16 where bit `first + lane` of the little-endian word is set.
ORCD_INLINE int_lanes fifth_bits(const std::uint8_t* qh, int first) {
  static constexpr std::int32_t lane_bits[lane_count] = {
      1, 2, 4, 8, 16, 32, 64, 128, 0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0x8000};
  const std::int32_t word = qh[first / 8] | qh[first / 8 + 1] << 8;
  return mask_nonzero(splat_int(word) & load_int(lane_bits)) & 16;
}

struct q5_0_format {
  static constexpr int elems = 32, bytes = sizeof(block_q5_0);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q5_0>(p);
    const float d = half_to_float(b.d);
    sink(0, d * to_float((low_nibbles(b.qs) | fifth_bits(b.qh, 0)) - 16));
    sink(16, d * to_float((high_nibbles(b.qs) | fifth_bits(b.qh, 16)) - 16));
  }
};

struct q5_1_format {
  static constexpr int elems = 32, bytes = sizeof(block_q5_1);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q5_1>(p);
    const float d = half_to_float(b.d);
    const float m = half_to_float(b.m);
    sink(0, d * to_float(low_nibbles(b.qs) | fifth_bits(b.qh, 0)) + m);
    sink(16, d * to_float(high_nibbles(b.qs) | fifth_bits(b.qh, 16)) + m);
  }
};

struct q8_0_format {
  static constexpr int elems = 32, bytes = sizeof(block_q8_0);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q8_0>(p);
    const float d = half_to_float(b.d);
    sink(0, d * to_float(widen_signed(b.qs)));
    sink(16, d * to_float(widen_signed(b.qs + 16)));
  }
};

struct mxfp4_format {
  static constexpr int elems = 32, bytes = sizeof(block_mxfp4);
  /// 0 1 2 3 4 6 8 12 for codes 0..7 and the negatives for 8..15: the doubled E2M1 values.
  ORCD_INLINE int_lanes doubled_value(int_lanes code) {
    const int_lanes t = code & 7;
    const int_lanes magnitude = t - mask_above(t, 4) - mask_above(t, 5) + (mask_above(t, 6) & 3);
    const int_lanes negative = mask_above(code, 7);
    return (magnitude ^ negative) - negative;
  }
  /// 2^(e - 128), subnormal for e below 2.
  ORCD_INLINE float half_scale(std::uint8_t e) {
    const std::uint32_t bits = e < 2 ? 0x00200000U << e : static_cast<std::uint32_t>(e - 1) << 23;
    float scale;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    return scale;
  }
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_mxfp4>(p);
    const float scale = half_scale(b.e);
    sink(0, scale * to_float(doubled_value(low_nibbles(b.qs))));
    sink(16, scale * to_float(doubled_value(high_nibbles(b.qs))));
  }
};

/// The 6-bit scale and minimum of group j of Q4_K and Q5_K.
struct scale_and_min {
  float scale, min;
};
ORCD_INLINE scale_and_min k_scale(const std::uint8_t* s, int j) {
  if (j < 4) return {static_cast<float>(s[j] & 63), static_cast<float>(s[j + 4] & 63)};
  return {static_cast<float>((s[j + 4] & 15) | (s[j - 4] >> 6) << 4),
          static_cast<float>((s[j + 4] >> 4) | (s[j] >> 6) << 4)};
}

struct q4_k_format {
  static constexpr int elems = 256, bytes = sizeof(block_q4_k);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q4_k>(p);
    const float d = half_to_float(b.d);
    const float dmin = half_to_float(b.dmin);
    for (int j = 0; j < 8; ++j) {
      const scale_and_min s = k_scale(b.scales, j);
      const float scale = d * s.scale;
      const float min = dmin * s.min;
      const std::uint8_t* qs = b.qs + 32 * (j / 2);
      const int shift = 4 * (j % 2);
      sink(32 * j, scale * to_float((widen(qs) >> shift) & 15) - min);
      sink(32 * j + 16, scale * to_float((widen(qs + 16) >> shift) & 15) - min);
    }
  }
};

struct q5_k_format {
  static constexpr int elems = 256, bytes = sizeof(block_q5_k);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q5_k>(p);
    const float d = half_to_float(b.d);
    const float dmin = half_to_float(b.dmin);
    for (int j = 0; j < 8; ++j) {
      const scale_and_min s = k_scale(b.scales, j);
      const float scale = d * s.scale;
      const float min = dmin * s.min;
      for (int half = 0; half < 2; ++half) {
        const int_lanes low = (widen(b.qs + 32 * (j / 2) + 16 * half) >> 4 * (j % 2)) & 15;
        const int_lanes fifth = ((widen(b.qh + 16 * half) >> j) & 1) << 4;
        sink(32 * j + 16 * half, scale * to_float(low | fifth) - min);
      }
    }
  }
};

struct q2_k_format {
  static constexpr int elems = 256, bytes = sizeof(block_q2_k);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q2_k>(p);
    const float d = half_to_float(b.d);
    const float dmin = half_to_float(b.dmin);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(b.scales[group] & 15);
      const float min = dmin * static_cast<float>(b.scales[group] >> 4);
      const std::uint8_t* qs = b.qs + 32 * (group / 8) + 16 * (group % 2);
      sink(16 * group, scale * to_float((widen(qs) >> (2 * (group % 8 / 2))) & 3) - min);
    }
  }
};

struct q3_k_format {
  static constexpr int elems = 256, bytes = sizeof(block_q3_k);
  ORCD_INLINE int scale_of(const std::uint8_t* s, int group) {
    const int low = group < 8 ? s[group] & 15 : s[group - 8] >> 4;
    return (low | (s[8 + group % 4] >> (2 * (group / 4)) & 3) << 4) - 32;
  }
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q3_k>(p);
    const float d = half_to_float(b.d);
    for (int group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(scale_of(b.scales, group));
      const int l = 16 * (group % 2);
      const int_lanes low = (widen(b.qs + 32 * (group / 8) + l) >> (2 * (group % 8 / 2))) & 3;
      const int_lanes high = ((widen(b.hmask + l) >> (group / 2)) & 1) << 2;
      sink(16 * group, scale * to_float((low | high) - 4));
    }
  }
};

struct iq4_nl_format {
  static constexpr int elems = 32, bytes = sizeof(block_iq4_nl);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_iq4_nl>(p);
    const float d = half_to_float(b.d);
    sink(0, d * to_float(look_up_nibbles(iq4_values, b.qs, 0)));
    sink(16, d * to_float(look_up_nibbles(iq4_values, b.qs, 4)));
  }
};

struct iq4_xs_format {
  static constexpr int elems = 256, bytes = sizeof(block_iq4_xs);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_iq4_xs>(p);
    const float d = half_to_float(b.d);
    const int high = b.scales_h[0] | b.scales_h[1] << 8;
    for (int j = 0; j < 8; ++j) {
      const int bits = (b.scales_l[j / 2] >> (4 * (j % 2)) & 15) | (high >> (2 * j) & 3) << 4;
      const float scale = d * static_cast<float>(bits - 32);
      const std::uint8_t* qs = b.qs + 16 * j;
      sink(32 * j, scale * to_float(look_up_nibbles(iq4_values, qs, 0)));
      sink(32 * j + 16, scale * to_float(look_up_nibbles(iq4_values, qs, 4)));
    }
  }
};

struct nvfp4_format {
  static constexpr int elems = 64, bytes = sizeof(block_nvfp4);
  /// Half of the E4M3 number, whose bits are also those of a half that is 2^8 too small.
  ORCD_INLINE float half_scale(std::uint8_t e) {
    if (e == nvfp4_no_scale) return 0.0F;
    const unsigned bits = static_cast<unsigned>(e & 0x7F) << 7;
    return 128.0F *
           half_to_float({{static_cast<std::uint8_t>(bits & 255U), static_cast<std::uint8_t>(bits >> 8)}});
  }
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_nvfp4>(p);
    for (int group = 0; group < 4; ++group) {
      std::uint8_t codes[lane_count];
      for (int i = 0; i < 8; ++i) {
        codes[i] = b.qs[8 * group + i] & 15;
        codes[8 + i] = b.qs[8 * group + i] >> 4;
      }
      sink(16 * group, half_scale(b.scales[group]) * to_float(mxfp4_format::doubled_value(widen(codes))));
    }
  }
};

struct i2_s_format {
  static constexpr int elems = 128, bytes = sizeof(block_i2_s);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_i2_s>(p);
    for (int group = 0; group < 8; ++group) {
      const int_lanes code = (widen(b.qs + 16 * (group % 2)) >> (6 - 2 * (group / 2))) & 3;
      sink(16 * group, to_float(code - 1));
    }
  }
};

struct tq2_0_format {
  static constexpr int elems = 256, bytes = sizeof(block_tq2_0);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_tq2_0>(p);
    const float d = half_to_float(b.d);
    for (int group = 0; group < 16; ++group) {
      const std::uint8_t* qs = b.qs + 32 * (group / 8) + 16 * (group % 2);
      const int_lanes code = (widen(qs) >> (2 * (group % 8 / 2))) & 3;
      sink(16 * group, d * to_float(code - 1));
    }
  }
};

struct tq1_0_format {
  static constexpr int elems = 256, bytes = sizeof(block_tq1_0);
  ORCD_INLINE int_lanes times_three(int_lanes v) { return v + (v << 1); }
  /// `scaled` is a byte times 3^k mod 256.
  ORCD_INLINE float_lanes value(float d, int_lanes scaled) {
    return d * to_float((times_three(scaled) >> 8) - 1);
  }
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_tq1_0>(p);
    const float d = half_to_float(b.d);
    int_lanes first = widen(b.qs), second = widen(b.qs + 16), third = widen(b.qs + 32);
    for (int k = 0; k < 5; ++k) {
      sink(32 * k, value(d, first));
      sink(32 * k + 16, value(d, second));
      first = times_three(first) & 255;
      second = times_three(second) & 255;
    }
    for (int k = 0; k < 5; ++k) {
      sink(160 + 16 * k, value(d, third));
      third = times_three(third) & 255;
    }
    std::uint8_t last[lane_count];
    for (int r = 0; r < 4; ++r) {
      unsigned scaled = b.qh[r];
      for (int k = 0; k < 4; ++k, scaled *= 3) last[4 * k + r] = static_cast<std::uint8_t>(scaled);
    }
    sink(240, value(d, widen(last)));
  }
};

struct q1_0_format {
  static constexpr int elems = 128, bytes = sizeof(block_q1_0);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    static constexpr std::int32_t lane_bits[lane_count] = {
        1, 2, 4, 8, 16, 32, 64, 128, 0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0x8000};
    const auto& b = block_at<block_q1_0>(p);
    const float d = half_to_float(b.d);
    for (int group = 0; group < 8; ++group) {
      const std::int32_t word = b.qs[2 * group] | b.qs[2 * group + 1] << 8;
      const int_lanes set = mask_nonzero(splat_int(word) & load_int(lane_bits));
      sink(16 * group, d * to_float((set & 2) - 1));
    }
  }
};

struct q2_0_format {
  static constexpr int elems = 64, bytes = sizeof(block_q2_0);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q2_0>(p);
    const float d = half_to_float(b.d);
    for (int group = 0; group < 4; ++group) {
      std::uint8_t codes[lane_count];
      for (int i = 0; i < lane_count; ++i)
        codes[i] = static_cast<std::uint8_t>(b.qs[4 * group + i / 4] >> (2 * (i % 4)) & 3);
      sink(16 * group, d * to_float(widen(codes) - 1));
    }
  }
};

struct q6_k_format {
  static constexpr int elems = 256, bytes = sizeof(block_q6_k);
  template <class Sink>
  ORCD_INLINE void decode(const std::byte* p, Sink sink) {
    const auto& b = block_at<block_q6_k>(p);
    const float d = half_to_float(b.d);
    for (int group = 0; group < 16; ++group) {
      const int n = group / 8;         // which half of the block
      const int g = (group % 8) / 2;   // which quarter of that half
      const int l = 16 * (group % 2);  // where in the quarter
      const float scale = d * static_cast<float>(static_cast<std::int8_t>(b.scales[group]));
      const int_lanes low = (widen(b.ql + 64 * n + l + 32 * (g & 1)) >> 4 * (g / 2)) & 15;
      const int_lanes high = ((widen(b.qh + 32 * n + l) >> 2 * g) & 3) << 4;
      sink(16 * group, scale * to_float((low | high) - 32));
    }
  }
};

}  // namespace orcd::kernels::host::ORCD_ISA
