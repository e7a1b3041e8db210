#include "kernels/host/recode.hpp"

#include <array>
#include <cstring>

#include "kernels/host/half.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels::host {
namespace {

using engine::ggml_type;

constexpr std::uint32_t block_values_max = 256;
using block_codes = std::array<std::uint8_t, block_values_max>;  ///< values of a block in units of d, plus 1

template <class Block>
Block read_block(const std::byte* from) {
  Block block;
  std::memcpy(&block, from, sizeof block);
  return block;
}

constexpr half_bytes one{{0x00, 0x3c}};

/// Value first + k * count + j is code k of byte j.
template <std::size_t count>
void five_codes(const std::uint8_t* bytes, unsigned codes, std::uint8_t* out) {
  for (std::size_t j = 0; j < count; ++j) {
    unsigned fraction = bytes[j];
    for (unsigned k = 0; k < codes; ++k, fraction = fraction * 3 % 256)
      out[k * count + j] = static_cast<std::uint8_t>(fraction * 3 / 256);
  }
}

half_bytes codes_of(const block_tq1_0& b, block_codes& out) {
  five_codes<32>(b.qs, 5, out.data());
  five_codes<16>(b.qs + 32, 5, out.data() + 160);
  five_codes<4>(b.qh, 4, out.data() + 240);
  return b.d;
}
half_bytes codes_of(const block_tq2_0& b, block_codes& out) {
  for (unsigned i = 0; i < 256; ++i)
    out[i] = static_cast<std::uint8_t>(b.qs[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4)) & 3);
  return b.d;
}
half_bytes codes_of(const block_i2_s& b, block_codes& out) {
  for (unsigned i = 0; i < 128; ++i)
    out[i] = static_cast<std::uint8_t>(b.qs[i % 32] >> (6 - 2 * (i / 32)) & 3);
  return one;
}
half_bytes codes_of(const block_q1_0& b, block_codes& out) {
  for (unsigned i = 0; i < 128; ++i) out[i] = static_cast<std::uint8_t>((b.qs[i / 8] >> (i % 8) & 1) * 2);
  return b.d;
}
half_bytes codes_of(const block_q2_0& b, block_codes& out) {
  for (unsigned i = 0; i < 64; ++i) out[i] = static_cast<std::uint8_t>(b.qs[i / 4] >> (2 * (i % 4)) & 3);
  return b.d;
}

/// Fills `out` and returns d.
half_bytes decode_block(ggml_type type, const std::byte* from, block_codes& out) {
  switch (type) {
    case ggml_type::tq1_0: return codes_of(read_block<block_tq1_0>(from), out);
    case ggml_type::tq2_0: return codes_of(read_block<block_tq2_0>(from), out);
    case ggml_type::i2_s: return codes_of(read_block<block_i2_s>(from), out);
    case ggml_type::q1_0: return codes_of(read_block<block_q1_0>(from), out);
    default: return codes_of(read_block<block_q2_0>(from), out);
  }
}

template <class Write>
void each_block(ggml_type type, const std::byte* row, std::uint32_t cols, Write write) {
  const engine::type_traits& traits = engine::traits_of(type);
  block_codes codes;
  for (std::uint32_t first = 0; first < cols; first += traits.block_elems, row += traits.block_bytes) {
    const half_bytes d = decode_block(type, row, codes);
    write(codes.data(), traits.block_elems, d);
  }
}

}  // namespace

void recode_as_q4_0(ggml_type type, const std::byte* row, std::uint32_t cols, std::byte* out) {
  constexpr std::uint32_t zero = 7;  // with the 1 that codes have more, Q4_0's 8
  each_block(type, row, cols, [&](const std::uint8_t* codes, std::uint32_t count, half_bytes d) {
    for (std::uint32_t i = 0; i < count; i += 32, out += sizeof(block_q4_0)) {
      block_q4_0 block{d, {}};
      for (std::uint32_t j = 0; j < 16; ++j)
        block.qs[j] = static_cast<std::uint8_t>((codes[i + j] + zero) | (codes[i + j + 16] + zero) << 4);
      std::memcpy(out, &block, sizeof block);
    }
  });
}

void recode_as_i2_s(ggml_type type, const std::byte* row, std::uint32_t cols, std::byte* out) {
  each_block(type, row, cols, [&](const std::uint8_t* codes, std::uint32_t count, half_bytes) {
    for (std::uint32_t i = 0; i < count; i += 128, out += sizeof(block_i2_s)) {
      for (std::uint32_t j = 0; j < 32; ++j)
        out[j] = static_cast<std::byte>(codes[i + j] << 6 | codes[i + j + 32] << 4 | codes[i + j + 64] << 2 |
                                        codes[i + j + 96]);
    }
  });
}

void recode_as_f16(ggml_type, const std::byte* row, std::uint32_t cols, std::byte* out) {
  for (std::uint32_t i = 0; i < cols; ++i) {
    float value = 0.0F;
    std::memcpy(&value, row + i * sizeof value, sizeof value);
    const std::uint16_t half = float_to_half(value);
    std::memcpy(out + i * sizeof half, &half, sizeof half);
  }
}

}  // namespace orcd::kernels::host
