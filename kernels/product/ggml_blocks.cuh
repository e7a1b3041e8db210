// Reads raw blocks of a GGUF file on the device, one quantum or one scale at a time; used only while weights
// are repacked. After the block table of the GGUF format; the f64 reference is in the tests.
#pragma once

#include <cuda_fp16.h>

#include "kernels/product/packed_matrix.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels {

/// Values and bytes of one file block.
struct raw_block {
  std::uint32_t elems;
  std::uint32_t bytes;
};

__host__ __device__ constexpr raw_block raw_block_of(packed_format f) {
  switch (f) {
    case packed_format::q4_0: return {32, 18};
    case packed_format::q4_1: return {32, 20};
    case packed_format::q5_0: return {32, 22};
    case packed_format::q5_1: return {32, 24};
    case packed_format::q8_0: return {32, 34};
    case packed_format::mxfp4: return {32, 17};
    case packed_format::q4_k: return {256, 144};
    case packed_format::q5_k: return {256, 176};
    case packed_format::q6_k: return {256, 210};
    case packed_format::q2_k: return {256, sizeof(block_q2_k)};
    case packed_format::q3_k: return {256, sizeof(block_q3_k)};
    case packed_format::iq4_nl: return {32, sizeof(block_iq4_nl)};
    case packed_format::iq4_xs: return {256, sizeof(block_iq4_xs)};
    case packed_format::nvfp4: return {64, sizeof(block_nvfp4)};
    case packed_format::iq3_s: return {256, sizeof(block_iq3_s)};
    case packed_format::iq3_xxs: return {256, sizeof(block_iq3_xxs)};
    case packed_format::iq2_s: return {256, sizeof(block_iq2_s)};
    case packed_format::iq2_xs: return {256, sizeof(block_iq2_xs)};
    case packed_format::iq2_xxs: return {256, sizeof(block_iq2_xxs)};
    case packed_format::f16: return {1, 2};
    case packed_format::bf16: return {1, 2};
    case packed_format::f32: return {1, 4};
  }
  return {1, 1};
}

__device__ inline std::uint32_t byte_at(const std::byte* p, std::uint32_t i) {
  return static_cast<std::uint32_t>(p[i]);
}
__device__ inline std::uint32_t u16_at(const std::byte* p, std::uint32_t i) {
  return byte_at(p, i) | byte_at(p, i + 1) << 8;
}
__device__ inline std::uint32_t u32_at(const std::byte* p, std::uint32_t i) {
  return u16_at(p, i) | u16_at(p, i + 2) << 16;
}

/// The scales and minimums of blocks h, h + 2, h + 4 and h + 6 of a Q4_K or Q5_K block.
__device__ inline k_scales raw_k_scales(const std::byte* b, std::uint32_t h) {
  k_scales s{};
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t j = 2 * i + h;
    const auto at = [&](std::uint32_t n) { return byte_at(b, 4 + n); };
    s.scale[i] = static_cast<std::uint8_t>(j < 4 ? at(j) & 63U : (at(j + 4) & 15U) | at(j - 4) >> 6 << 4);
    s.minimum[i] = static_cast<std::uint8_t>(j < 4 ? at(j + 4) & 63U : at(j + 4) >> 4 | at(j) >> 6 << 4);
  }
  return s;
}

/// Set `set` of a Q3_K or IQ4_XS block's scales: those of blocks set, set + six_bit_sets and so on.
template <packed_format F>
__device__ six_bit_scales raw_six_bit_scales(const std::byte* b, std::uint32_t set) {
  six_bit_scales s{};
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t j = six_bit_sets(F) * i + set;
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    if constexpr (F == packed_format::q3_k) {
      low = byte_at(b, 96 + j % 8) >> (j / 8 * 4) & 15U;
      high = byte_at(b, 104 + j % 4) >> (j / 4 * 2) & 3U;
    } else {
      low = byte_at(b, 4 + j / 2) >> (j % 2 * 4) & 15U;
      high = u16_at(b, 2) >> (j * 2) & 3U;
    }
    s.of[i] = static_cast<std::uint8_t>(low | high << 4);
  }
  return s;
}

/// The unsigned quantum of element i of a block; Q8_0 is biased by 128 and floats are their bits.
template <packed_format F>
__device__ std::uint32_t raw_quantum(const std::byte* b, std::uint32_t i) {
  if constexpr (F == packed_format::f16 || F == packed_format::bf16) return u16_at(b, 0);
  if constexpr (F == packed_format::f32) return u32_at(b, 0);
  if constexpr (F == packed_format::q8_0) return byte_at(b, 2 + i) ^ 0x80U;
  if constexpr (F == packed_format::q4_0 || F == packed_format::q4_1 || F == packed_format::mxfp4) {
    constexpr std::uint32_t quanta = F == packed_format::q4_0 ? 2 : F == packed_format::q4_1 ? 4 : 1;
    return byte_at(b, quanta + i % 16) >> (i / 16 * 4) & 15U;
  }
  if constexpr (F == packed_format::nvfp4)
    return byte_at(b, 4 + i / 16 * 8 + i % 8) >> (i % 16 / 8 * 4) & 15U;
  if constexpr (is_table_format(F)) {
    const std::uint32_t at = F == packed_format::iq4_nl ? 2 : 8 + i / 32 * 16;
    return exchange_upper_bits(byte_at(b, at + i % 16) >> (i % 32 / 16 * 4) & 15U);
  }
  if constexpr (F == packed_format::q2_k || F == packed_format::q3_k) {
    constexpr std::uint32_t quanta = F == packed_format::q2_k ? 16 : 32;
    const std::uint32_t two = byte_at(b, quanta + 32 * (i / 128) + i % 32) >> (i / 32 % 4 * 2) & 3U;
    if constexpr (F == packed_format::q2_k) return two;
    return two | (byte_at(b, i % 32) >> (i / 32) & 1U) << 2;
  }
  if constexpr (F == packed_format::q5_0 || F == packed_format::q5_1) {
    constexpr std::uint32_t high = F == packed_format::q5_0 ? 2 : 4;
    const std::uint32_t low = byte_at(b, high + 4 + i % 16) >> (i / 16 * 4) & 15U;
    return low | (u32_at(b, high) >> i & 1U) << 4;
  }
  if constexpr (F == packed_format::q4_k || F == packed_format::q5_k) {
    constexpr std::uint32_t quanta = F == packed_format::q4_k ? 16 : 48;
    const std::uint32_t q = byte_at(b, quanta + 32 * (i / 64) + i % 32) >> (i / 32 % 2 * 4) & 15U;
    if constexpr (F == packed_format::q4_k) return q;
    return q | (byte_at(b, 16 + i % 32) >> (i / 32) & 1U) << 4;
  }
  if constexpr (F == packed_format::q6_k) {
    const std::uint32_t half = i / 128;
    const std::uint32_t l = i % 32;
    const std::uint32_t quarter = i % 128 / 32;
    const std::uint32_t low = byte_at(b, 64 * half + l + 32 * (quarter & 1U)) >> (quarter >= 2 ? 4 : 0) & 15U;
    return low | (byte_at(b, 128 + 32 * half + l) >> 2 * quarter & 3U) << 4;
  }
  return 0;
}

}  // namespace orcd::kernels
