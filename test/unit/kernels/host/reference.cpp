#include "test/unit/kernels/host/reference.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>

#include "kernels/product/quant_blocks.hpp"
#include "kernels/product/quant_grids.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;

unsigned byte_at(const std::byte* p, std::uint64_t i) {
  return std::to_integer<unsigned>(p[i]);
}

double half_at(const std::byte* p, std::uint64_t i) {
  return half_value(static_cast<std::uint16_t>(byte_at(p, i) | byte_at(p, i + 1) << 8));
}

/// Low nibbles for i < 16, high ones after.
unsigned nibble(const std::byte* qs, unsigned i) {
  return i < 16 ? byte_at(qs, i) & 15U : byte_at(qs, i - 16) >> 4;
}

reference_value sum_of(double product, double offset) {
  return {product + offset, std::fabs(product) + std::fabs(offset)};
}

reference_value five_bits(const std::byte* block, unsigned i, bool with_min) {
  const unsigned at = with_min ? 4 : 2;
  std::uint32_t high = 0;
  for (unsigned b = 0; b < 4; ++b) high |= byte_at(block, at + b) << (8 * b);
  const unsigned n = nibble(block + at + 4, i) | ((high >> i) & 1U) << 4;
  if (with_min) return sum_of(half_at(block, 0) * n, half_at(block, 2));
  return sum_of(half_at(block, 0) * (static_cast<int>(n) - 16), 0.0);
}

reference_value k_group(const std::byte* block, unsigned i, bool five) {
  const unsigned j = i / 32;
  const std::byte* s = block + 4;
  const unsigned scale =
      j < 4 ? byte_at(s, j) & 63U : (byte_at(s, j + 4) & 15U) | (byte_at(s, j - 4) >> 6) << 4;
  const unsigned min = j < 4 ? byte_at(s, j + 4) & 63U : (byte_at(s, j + 4) >> 4) | (byte_at(s, j) >> 6) << 4;
  const unsigned q = byte_at(block, (five ? 48 : 16) + 32 * (i / 64) + i % 32);
  unsigned n = j % 2 == 1 ? q >> 4 : q & 15U;
  if (five) n |= ((byte_at(block, 16 + i % 32) >> j) & 1U) << 4;
  return sum_of(half_at(block, 0) * scale * n, -half_at(block, 2) * min);
}

reference_value six_bits(const std::byte* block, unsigned i) {
  const unsigned n = i / 128, l = i % 32, g = (i % 128) / 32;
  const unsigned q = byte_at(block, 64 * n + l + 32 * (g & 1U));
  const unsigned low = g >= 2 ? q >> 4 : q & 15U;
  const unsigned high = (byte_at(block, 128 + 32 * n + l) >> (2 * g)) & 3U;
  const int scale = static_cast<std::int8_t>(byte_at(block, 192 + i / 16));
  return sum_of(half_at(block, 208) * scale * (static_cast<int>(low | high << 4) - 32), 0.0);
}

reference_value mxfp4(const std::byte* block, unsigned i) {
  static constexpr double doubled[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return sum_of(std::ldexp(doubled[nibble(block + 1, i)], static_cast<int>(byte_at(block, 0)) - 128), 0.0);
}

/// d times a code less one.
reference_value coded(double d, unsigned code) {
  return sum_of(d * (static_cast<int>(code) - 1), 0.0);
}

/// Code i of a byte that holds five, the first one the most significant: digits of a number in base three,
/// which the byte holds as a fraction of 256.
reference_value five_codes(const std::byte* block, unsigned i) {
  const unsigned r = i < 160 ? i : i < 240 ? i - 160 : i - 240;
  const unsigned width = i < 160 ? 32 : i < 240 ? 16 : 4;
  const unsigned first = i < 160 ? 0 : i < 240 ? 32 : 48;
  unsigned fraction = byte_at(block, first + r % width);
  for (unsigned k = 0; k < r / width; ++k) fraction = fraction * 3 % 256;
  return coded(half_at(block, 52), fraction * 3 / 256);
}

reference_value ternary_or_few_bits(ggml_type type, const std::byte* block, unsigned i) {
  switch (type) {
    case ggml_type::tq1_0: return five_codes(block, i);
    case ggml_type::tq2_0:
      return coded(half_at(block, 64), byte_at(block, 32 * (i / 128) + i % 32) >> (2 * (i / 32 % 4)) & 3U);
    case ggml_type::i2_s: return coded(1.0, byte_at(block, i % 32) >> (6 - 2 * (i / 32)) & 3U);
    case ggml_type::q1_0: return coded(half_at(block, 0), 2 * (byte_at(block, 2 + i / 8) >> (i % 8) & 1U));
    default: return coded(half_at(block, 0), byte_at(block, 2 + i / 4) >> (2 * (i % 4)) & 3U);
  }
}

reference_value two_bits(const std::byte* block, unsigned i) {
  const unsigned pair = byte_at(block, i / 16);
  const unsigned n = byte_at(block, 16 + 32 * (i / 128) + i % 32) >> (2 * (i / 32 % 4)) & 3U;
  return sum_of(half_at(block, 80) * (pair & 15U) * n, -half_at(block, 82) * (pair >> 4));
}

reference_value three_bits(const std::byte* block, unsigned i) {
  const unsigned j = i / 16;
  const unsigned low = j < 8 ? byte_at(block, 96 + j) & 15U : byte_at(block, 88 + j) >> 4;
  const unsigned high = byte_at(block, 104 + j % 4) >> (2 * (j / 4)) & 3U;
  const unsigned two = byte_at(block, 32 + 32 * (i / 128) + i % 32) >> (2 * (i / 32 % 4)) & 3U;
  const unsigned third = byte_at(block, i % 32) >> (i / 32) & 1U;
  const int n = static_cast<int>(two | third << 2) - 4;
  return sum_of(half_at(block, 108) * (static_cast<int>(low | high << 4) - 32) * n, 0.0);
}

reference_value four_bits_of_a_table(const std::byte* block, unsigned i) {
  const unsigned j = i / 32;
  const unsigned high = (byte_at(block, 2) | byte_at(block, 3) << 8) >> (2 * j) & 3U;
  const unsigned low = byte_at(block, 4 + j / 2) >> (4 * (j % 2)) & 15U;
  const int value = kernels::iq4_values[nibble(block + 8 + 16 * j, i % 32)];
  return sum_of(half_at(block, 0) * (static_cast<int>(low | high << 4) - 32) * value, 0.0);
}

reference_value nvfp4(const std::byte* block, unsigned i) {
  static constexpr double magnitude[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const unsigned e = byte_at(block, i / 16);
  const unsigned exponent = e >> 3 & 15U;
  const double scale = e == 0x7F       ? 0.0
                       : exponent == 0 ? std::ldexp(e & 7U, -9)
                                       : std::ldexp(8 + (e & 7U), static_cast<int>(exponent) - 10);
  const unsigned byte = byte_at(block, 4 + i / 16 * 8 + i % 8);
  const unsigned code = i % 16 < 8 ? byte & 15U : byte >> 4;
  return sum_of((code >= 8 ? -scale : scale) * magnitude[code % 8], 0.0);
}

/// 2^-shift d (1 + 2 s) times a magnitude that a grid has, negative where the sign bit is set.
reference_value of_grid(const std::byte* block, unsigned s, int shift, unsigned magnitude,
                        unsigned negative) {
  const double value = std::ldexp(half_at(block, 0) * (1 + 2 * s), -shift) * magnitude;
  return sum_of(negative != 0 ? -value : value, 0.0);
}

/// Bit i of eight, of which the last makes the number of ones even.
unsigned even_sign(unsigned seven, unsigned i) {
  if (i < 7) return seven >> i & 1U;
  return static_cast<unsigned>(std::popcount(seven)) & 1U;
}
unsigned word_at(const std::byte* p, unsigned at) {
  return byte_at(p, at) | byte_at(p, at + 1) << 8 | byte_at(p, at + 2) << 16 | byte_at(p, at + 3) << 24;
}

reference_value grid_of_eight(ggml_type type, const std::byte* block, unsigned i) {
  const unsigned nth = i / 8;
  const auto code = [&](std::uint16_t entry) {
    return unsigned{kernels::grid_levels_of_eight[entry >> (2 * (i % 8)) & 3U]};
  };
  if (type == ggml_type::iq2_xxs) {
    const unsigned word = word_at(block, 6 + 8 * (i / 32));
    const unsigned index = byte_at(block, 2 + 8 * (i / 32) + nth % 4);
    return of_grid(block, word >> 28, 3, code(kernels::iq2_xxs_grid[index]),
                   even_sign(word >> (7 * (nth % 4)) & 127U, i % 8));
  }
  if (type == ggml_type::iq2_xs) {
    const unsigned word = byte_at(block, 2 + 2 * nth) | byte_at(block, 3 + 2 * nth) << 8;
    const unsigned s = byte_at(block, 66 + i / 32) >> (4 * (i / 16 % 2)) & 15U;
    return of_grid(block, s, 3, code(kernels::iq2_xs_grid[word & 511U]), even_sign(word >> 9, i % 8));
  }
  const unsigned index = byte_at(block, 2 + nth) | (byte_at(block, 66 + nth / 4) >> (2 * (nth % 4)) & 3U)
                                                       << 8;
  const unsigned s = byte_at(block, 74 + i / 32) >> (4 * (i / 16 % 2)) & 15U;
  return of_grid(block, s, 3, code(kernels::iq2_s_grid[index]), byte_at(block, 34 + nth) >> (i % 8) & 1U);
}

reference_value grid_of_four(ggml_type type, const std::byte* block, unsigned i) {
  const unsigned nth = i / 4;
  const unsigned place = 3 * (i % 4);
  if (type == ggml_type::iq3_xxs) {
    const unsigned word = word_at(block, 66 + 4 * (i / 32));
    const unsigned magnitude =
        kernels::iq3_xxs_levels[kernels::iq3_xxs_grid[byte_at(block, 2 + nth)] >> place & 7U];
    return of_grid(block, word >> 28, 2, magnitude, even_sign(word >> (7 * (i / 8 % 4)) & 127U, i % 8));
  }
  const unsigned index = byte_at(block, 2 + nth) | (byte_at(block, 66 + nth / 8) >> (nth % 8) & 1U) << 8;
  const unsigned s = byte_at(block, 106 + i / 64) >> (4 * (i / 32 % 2)) & 15U;
  return of_grid(block, s, 0, kernels::iq3_s_levels[kernels::iq3_s_grid[index] >> place & 7U],
                 byte_at(block, 74 + i / 8) >> (i % 8) & 1U);
}

reference_value plain(ggml_type type, const std::byte* row, std::uint64_t index) {
  if (type == ggml_type::f16) return sum_of(half_at(row, 2 * index), 0.0);
  std::uint32_t bits = 0;
  if (type == ggml_type::bf16) {
    bits = (byte_at(row, 2 * index) | byte_at(row, 2 * index + 1) << 8) << 16;
  } else {
    std::memcpy(&bits, row + 4 * index, 4);
  }
  return sum_of(std::bit_cast<float>(bits), 0.0);
}

}  // namespace

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

reference_value decode_value(ggml_type type, const std::byte* row, std::uint64_t index) {
  const engine::type_traits& traits = engine::traits_of(type);
  const std::byte* block = row + index / traits.block_elems * traits.block_bytes;
  const auto i = static_cast<unsigned>(index % traits.block_elems);
  switch (type) {
    case ggml_type::q4_0:
      return sum_of(half_at(block, 0) * (static_cast<int>(nibble(block + 2, i)) - 8), 0.0);
    case ggml_type::q4_1: return sum_of(half_at(block, 0) * nibble(block + 4, i), half_at(block, 2));
    case ggml_type::q5_0: return five_bits(block, i, false);
    case ggml_type::q5_1: return five_bits(block, i, true);
    case ggml_type::q8_0:
      return sum_of(half_at(block, 0) * static_cast<std::int8_t>(byte_at(block, 2 + i)), 0.0);
    case ggml_type::q4_k: return k_group(block, i, false);
    case ggml_type::q5_k: return k_group(block, i, true);
    case ggml_type::q6_k: return six_bits(block, i);
    case ggml_type::mxfp4: return mxfp4(block, i);
    case ggml_type::q2_k: return two_bits(block, i);
    case ggml_type::q3_k: return three_bits(block, i);
    case ggml_type::iq4_nl: return sum_of(half_at(block, 0) * kernels::iq4_values[nibble(block + 2, i)], 0.0);
    case ggml_type::iq4_xs: return four_bits_of_a_table(block, i);
    case ggml_type::nvfp4: return nvfp4(block, i);
    case ggml_type::iq3_s:
    case ggml_type::iq3_xxs: return grid_of_four(type, block, i);
    case ggml_type::iq2_s:
    case ggml_type::iq2_xs:
    case ggml_type::iq2_xxs: return grid_of_eight(type, block, i);
    case ggml_type::tq1_0:
    case ggml_type::tq2_0:
    case ggml_type::i2_s:
    case ggml_type::q1_0:
    case ggml_type::q2_0: return ternary_or_few_bits(type, block, i);
    default: return plain(type, row, index);
  }
}

namespace {

/// Where a block holds halves that must stay finite, and where an exponent.
std::vector<unsigned> half_offsets(ggml_type type) {
  switch (type) {
    case ggml_type::q4_0:
    case ggml_type::q5_0:
    case ggml_type::q1_0:
    case ggml_type::q2_0:
    case ggml_type::iq4_nl:
    case ggml_type::iq4_xs:
    case ggml_type::iq3_s:
    case ggml_type::iq3_xxs:
    case ggml_type::iq2_s:
    case ggml_type::iq2_xs:
    case ggml_type::iq2_xxs:
    case ggml_type::q8_0: return {0};
    case ggml_type::q2_k: return {80, 82};
    case ggml_type::q3_k: return {108};
    case ggml_type::tq1_0: return {52};
    case ggml_type::tq2_0: return {64};
    case ggml_type::q4_1:
    case ggml_type::q5_1:
    case ggml_type::q4_k:
    case ggml_type::q5_k: return {0, 2};
    case ggml_type::q6_k: return {208};
    default: return {};
  }
}

/// A half of either sign between 2^-7 and 2^-3, with a random fraction.
std::uint16_t moderate_half(std::mt19937_64& random) {
  const std::uint64_t r = random();
  return static_cast<std::uint16_t>((r & 0x83ffU) | (8U + (r >> 16) % 4U) << 10);
}

void make_moderate(ggml_type type, std::byte* block, std::mt19937_64& random) {
  const auto put = [&](unsigned at, std::uint16_t half) { std::memcpy(block + at, &half, 2); };
  for (const unsigned at : half_offsets(type)) put(at, moderate_half(random));
  if (type == ggml_type::f16) put(0, moderate_half(random));
  if (type == ggml_type::mxfp4) block[0] = static_cast<std::byte>(120 + random() % 6);
  if (type == ggml_type::bf16 || type == ggml_type::f32) {
    const float value = static_cast<float>(half_value(moderate_half(random)));
    const auto bits = std::bit_cast<std::uint32_t>(value) | (type == ggml_type::f32 ? random() % 8192U : 0U);
    if (type == ggml_type::f32) std::memcpy(block, &bits, 4);
    if (type == ggml_type::bf16) put(0, static_cast<std::uint16_t>(bits >> 16));
  }
}

}  // namespace

std::vector<std::byte> random_rows(ggml_type type, std::uint32_t rows, std::uint32_t cols,
                                   std::mt19937_64& random) {
  const engine::type_traits& traits = engine::traits_of(type);
  std::vector<std::byte> bytes(rows * engine::row_bytes(traits, cols));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() >> 24 & 255U);
  for (std::size_t at = 0; at < bytes.size(); at += traits.block_bytes) {
    make_moderate(type, bytes.data() + at, random);
  }
  return bytes;
}

std::vector<float> random_floats(std::size_t count, std::mt19937_64& random) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-23 - 1.0);
  return values;
}

namespace {

void on_levels(std::initializer_list<kernels::host::isa_level> levels,
               const std::function<void(kernels::host::isa_level)>& body) {
  const kernels::host::kernel_table& before = kernels::host::kernels();
  for (const auto level : levels) {
    if (const auto* table = kernels::host::kernels_of(level)) {
      kernels::host::use_kernels(*table);
      body(level);
    } else {
      BOOST_TEST_MESSAGE("not on this processor: " << isa_name(level));
    }
  }
  kernels::host::use_kernels(before);
}

}  // namespace

void on_every_level(const std::function<void(kernels::host::isa_level)>& body) {
  using enum kernels::host::isa_level;
  on_levels({baseline, v3, v4}, body);
}

void on_every_product_level(const std::function<void(kernels::host::isa_level)>& body) {
  using enum kernels::host::isa_level;
  on_levels({baseline, v3, v3_vnni, v4, v4_vnni}, body);
}

}  // namespace orcd::test
