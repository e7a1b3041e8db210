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
static_assert(sizeof(block_q4_k) == 144 && sizeof(block_q5_k) == 176 && sizeof(block_q6_k) == 210);

}  // namespace orcd::kernels
