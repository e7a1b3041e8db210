// The block layouts of GGUF tensors, byte for byte, shared by host and device code. Every member is
// made of bytes, so that a block may lie at any address: MXFP4 blocks start at odd ones.
// Source: the ggml block formats as described by the GGUF v3 documentation; OCP MX v1.0 for MXFP4.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// IEEE half, little-endian.
struct half_bytes {
  std::uint8_t b[2];
};

// The 32-value formats put value i < 16 in the low nibble of qs[i], value i >= 16 in the high nibble
// of qs[i - 16]. n is that nibble, h its fifth bit from qh.

/// d * (n - 8)
struct block_q4_0 {
  half_bytes d;
  std::uint8_t qs[16];
};

/// d * n + m
struct block_q4_1 {
  half_bytes d, m;
  std::uint8_t qs[16];
};

/// d * ((n | h << 4) - 16); bit i of the little-endian word qh belongs to value i
struct block_q5_0 {
  half_bytes d;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

/// d * (n | h << 4) + m
struct block_q5_1 {
  half_bytes d, m;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

/// d * qs[i], qs signed
struct block_q8_0 {
  half_bytes d;
  std::uint8_t qs[32];
};

/// V[n] * 2^(e - 128), V = 0 1 2 3 4 6 8 12 and, with bit 3 set, its negatives; e = 255 is 2^127
struct block_mxfp4 {
  std::uint8_t e;
  std::uint8_t qs[16];
};

/// Eight groups of 32: d * scale_j * n - dmin * min_j. Groups 2g and 2g+1 share qs[32g .. 32g+31],
/// the even one in the low nibbles.
struct block_q4_k {
  half_bytes d, dmin;
  std::uint8_t scales[12];  ///< eight pairs of 6-bit scale and minimum
  std::uint8_t qs[128];
};

/// Sixteen groups of 16: d * scale_j * n - dmin * min_j, n of 2 bits. Value i is at bits 2 (i / 32 % 4) of
/// qs[32 (i / 128) + i % 32].
struct block_q2_k {
  std::uint8_t scales[16];  ///< scale in the low nibble, minimum in the high one
  std::uint8_t qs[64];
  half_bytes d, dmin;
};

/// Sixteen groups of 16: d * (scale_j - 32) * ((n | h << 2) - 4). n lies as in Q2_K; h is bit i / 32 of
/// hmask[i % 32].
struct block_q3_k {
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];  ///< low nibbles of 0..7 and, high, of 8..15; then bits 4 and 5 of j, j + 4, ...
  half_bytes d;
};

/// As Q4_K with a fifth bit: bit j of qh[l] belongs to value l of group j.
struct block_q5_k {
  half_bytes d, dmin;
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};

/// Sixteen groups of 16: d * scale * (q - 32), q of 6 bits: four in ql, two in qh.
struct block_q6_k {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::uint8_t scales[16];  ///< signed
  half_bytes d;
};

/// d * V[n], nibbles as in Q4_0, V = iq4_values.
struct block_iq4_nl {
  half_bytes d;
  std::uint8_t qs[16];
};

/// Eight groups of 32: d * (scale_j - 32) * V[n]; the nibbles of each group as in Q4_0.
struct block_iq4_xs {
  half_bytes d;
  std::uint8_t scales_h[2];  ///< bits 4 and 5 of scale j at 2 j
  std::uint8_t scales_l[4];  ///< low nibbles, two a byte
  std::uint8_t qs[128];
};

inline constexpr std::int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

/// Four groups of 16: E2M1 values as MXFP4's, value i < 8 of a group in low nibbles, times an E4M3 number of
/// seven bits; the eighth is ignored, and nvfp4_no_scale is 0.
struct block_nvfp4 {
  std::uint8_t scales[4];
  std::uint8_t qs[32];
};
inline constexpr std::uint8_t nvfp4_no_scale = 0x7F;  ///< NaN, were it a number

// Formats whose values come from grids (quant_grids.hpp): an index stands for the magnitudes of eight values
// (IQ2) or four (IQ3). A byte has the signs of eight values, the first at bit 0; where only seven bits are
// stored, the eighth makes their number even.

/// Eight groups of 32: d (1 + 2 s) / 8. A group has four indices of a byte, then a word: four times seven
/// signs, and s in the highest four bits.
struct block_iq2_xxs {
  half_bytes d;
  std::uint8_t qs[64];
};

/// Sixteen groups of 16: d (1 + 2 s) / 8. A word of 16 bits for each eight values: nine of index, seven
/// signs.
struct block_iq2_xs {
  half_bytes d;
  std::uint8_t qs[64];
  std::uint8_t scales[8];  ///< s of two groups a byte
};

/// As IQ2_XS with ten bits of index: eight in qs, two in qh, four times a byte.
struct block_iq2_s {
  half_bytes d;
  std::uint8_t qs[32];
  std::uint8_t signs[32];
  std::uint8_t qh[8];
  std::uint8_t scales[8];
};

/// Eight groups of 32: d (1 + 2 s) / 4; a byte of index for each four values, signs and s as in IQ2_XXS.
struct block_iq3_xxs {
  half_bytes d;
  std::uint8_t qs[64];
  std::uint8_t signs[32];  ///< eight words
};

/// Eight groups of 32: d (1 + 2 s). Nine bits of index for each four values: eight in qs, one in qh.
struct block_iq3_s {
  half_bytes d;
  std::uint8_t qs[64];
  std::uint8_t qh[8];
  std::uint8_t signs[32];
  std::uint8_t scales[4];  ///< s of two groups a byte
};

// Ternary and other formats of one or two bits a value. A code c stands for c - 1.

/// c - 1, times the f32 behind the tensor's last row. Value i is at bits 6 - 2 (i / 32) of qs[i % 32]; 3 is
/// no code.
struct block_i2_s {
  std::uint8_t qs[32];
};

/// d * (c - 1), five codes a byte: with q = byte * 3^k mod 256, c = q * 3 / 256. Value i < 160 is k = i / 32
/// of qs[i % 32]; 160 + r with r < 80 is k = r / 16 of qs[32 + r % 16]; 240 + r is k = r / 4 of qh[r % 4].
struct block_tq1_0 {
  std::uint8_t qs[48];
  std::uint8_t qh[4];
  half_bytes d;
};

/// d * (c - 1). Value i is at bits 2 (i / 32 % 4) of qs[32 (i / 128) + i % 32].
struct block_tq2_0 {
  std::uint8_t qs[64];
  half_bytes d;
};

/// d where bit i % 8 of qs[i / 8] is set, else -d
struct block_q1_0 {
  half_bytes d;
  std::uint8_t qs[16];
};

/// d * (c - 1), with c = 3 for 2. Value i is at bits 2 (i % 4) of qs[i / 4].
struct block_q2_0 {
  half_bytes d;
  std::uint8_t qs[16];
};

// Activations that become int8 with one scale for a row (kernels/host/ternary.hpp).
inline constexpr float int8_largest = 127.0F;
inline constexpr float int8_least_range = 1e-5F;  ///< of a row's magnitudes

static_assert(sizeof(block_i2_s) == 32 && sizeof(block_tq1_0) == 54 && sizeof(block_tq2_0) == 66 &&
              sizeof(block_q1_0) == 18 && sizeof(block_q2_0) == 18);
static_assert(sizeof(block_q4_0) == 18 && sizeof(block_q4_1) == 20 && sizeof(block_q5_0) == 22 &&
              sizeof(block_q5_1) == 24 && sizeof(block_q8_0) == 34 && sizeof(block_mxfp4) == 17);
static_assert(sizeof(block_q2_k) == 84 && sizeof(block_q3_k) == 110 && sizeof(block_iq4_nl) == 18 &&
              sizeof(block_iq4_xs) == 136 && sizeof(block_nvfp4) == 36);
static_assert(sizeof(block_iq2_xxs) == 66 && sizeof(block_iq2_xs) == 74 && sizeof(block_iq2_s) == 82 &&
              sizeof(block_iq3_xxs) == 98 && sizeof(block_iq3_s) == 110);
static_assert(sizeof(block_q4_k) == 144 && sizeof(block_q5_k) == 176 && sizeof(block_q6_k) == 210);

}  // namespace orcd::kernels
