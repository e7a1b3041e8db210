#include "test/support/random_blocks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/base/ensure.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;

void append_half(bytes& out, float value) {
  append_number(out, to_half(value));
}

void append_random(bytes& out, std::size_t count, std::mt19937_64& engine) {
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<std::byte>(engine() >> 56U));
}

/// A scale within a quarter of `value`, so that blocks differ.
float jitter(float value, std::mt19937_64& engine) {
  return value * (1.0F + 0.25F * random_unit(engine));
}

/// The twelve bytes of eight 6-bit scales and eight 6-bit minima; minima follow the scales closely
/// enough that the decoded values stay centred.
void append_k_scales(bytes& out, std::mt19937_64& engine) {
  std::array<unsigned, 8> scale{};
  std::array<unsigned, 8> minimum{};
  for (std::size_t j = 0; j < 8; ++j) {
    scale[j] = 12 + static_cast<unsigned>(engine() % 48);
    minimum[j] = scale[j] - 4 + static_cast<unsigned>(engine() % 8);
  }
  std::array<unsigned, 12> packed{};
  for (std::size_t j = 0; j < 4; ++j) {
    packed[j] = scale[j] | (scale[j + 4] >> 4U) << 6U;
    packed[j + 4] = minimum[j] | (minimum[j + 4] >> 4U) << 6U;
    packed[j + 8] = (scale[j + 4] & 15U) | (minimum[j + 4] & 15U) << 4U;
  }
  for (const unsigned value : packed) out.push_back(static_cast<std::byte>(value));
}

/// `count` bytes of four codes 0, 1 or 2 each.
void append_codes(bytes& out, std::size_t count, std::mt19937_64& engine) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t r = engine() >> 32U;
    unsigned codes = 0;
    for (unsigned k = 0; k < 4; ++k, r /= 3) codes = codes << 2U | static_cast<unsigned>(r % 3);
    out.push_back(static_cast<std::byte>(codes));
  }
}

/// Bytes of five codes each (four in the last four), as fractions of 256 rounded up.
void append_five_codes(bytes& out, std::mt19937_64& engine) {
  for (std::size_t i = 0; i < 52; ++i) {
    const auto number = static_cast<unsigned>((engine() >> 32U) % (i < 48 ? 243 : 81) * (i < 48 ? 1 : 3));
    out.push_back(static_cast<std::byte>((number * 256 + 242) / 243));
  }
}

/// Blocks of one scale for all: as conversions of ternary models write them.
void append_ternary(bytes& out, ggml_type type, float spread, std::mt19937_64& engine) {
  const float d = spread / 0.82F;
  switch (type) {
    case ggml_type::tq1_0: append_five_codes(out, engine); return append_half(out, d);
    case ggml_type::tq2_0: append_codes(out, 64, engine); return append_half(out, d);
    case ggml_type::i2_s: return append_codes(out, 32, engine);
    case ggml_type::q1_0: append_half(out, jitter(spread, engine)); return append_random(out, 16, engine);
    default: append_half(out, jitter(spread / 1.12F, engine)); return append_random(out, 16, engine);
  }
}

void append_q2_k(bytes& out, float spread, std::mt19937_64& engine) {
  const float d = spread / 1.12F / 10.0F;
  for (std::size_t group = 0; group < 16; ++group) {
    const auto scale = 5 + static_cast<unsigned>(engine() % 10);
    const unsigned minimum = scale - 1 + static_cast<unsigned>(engine() % 3);
    out.push_back(static_cast<std::byte>(scale | std::min(minimum, 15U) << 4U));
  }
  append_random(out, 64, engine);
  append_half(out, d);
  append_half(out, 1.5F * d);
}

void append_nvfp4(bytes& out, float spread, std::mt19937_64& engine) {
  const int exponent = std::clamp(7 + static_cast<int>(std::lround(std::log2(spread / 2.9F))), 1, 14);
  for (int group = 0; group < 4; ++group)
    out.push_back(static_cast<std::byte>(exponent << 3 | static_cast<int>(engine() % 8)));
  append_random(out, 32, engine);
}

/// A scale, then random bits: the mean magnitudes of tables and grids, times those of the scales of groups.
void append_looked_up(bytes& out, ggml_type type, float spread, std::mt19937_64& engine) {
  constexpr float six_bits = 18.5F;  // standard deviation less the middle
  constexpr float odd = 18.4F;       // root of the mean square of 1, 3 .. 31
  const auto block = [&](float mean) {
    append_half(out, jitter(spread / mean, engine));
    append_random(out, engine::traits_of(type).block_bytes - 2, engine);
  };
  switch (type) {
    case ggml_type::iq4_nl: return block(70.0F);
    case ggml_type::iq4_xs: return block(70.0F * six_bits);
    case ggml_type::iq3_s:
    case ggml_type::iq3_xxs: return block(9.0F * odd);
    default: return block(3.4F * odd);
  }
}

/// Standard deviations of uniform codes: 0..15 has 4.6, 0..31 has 9.2, -128..127 has 74, 0..63 has 18.5.
void append_block(bytes& out, ggml_type type, float spread, std::mt19937_64& engine) {
  switch (type) {
    case ggml_type::q4_0:
      append_half(out, jitter(spread / 4.6F, engine));
      return append_random(out, 16, engine);
    case ggml_type::q4_1:
      append_half(out, spread / 4.6F);
      append_half(out, jitter(-7.5F * spread / 4.6F, engine));
      return append_random(out, 16, engine);
    case ggml_type::q5_0:
      append_half(out, jitter(spread / 9.2F, engine));
      return append_random(out, 20, engine);
    case ggml_type::q5_1:
      append_half(out, spread / 9.2F);
      append_half(out, jitter(-15.5F * spread / 9.2F, engine));
      return append_random(out, 20, engine);
    case ggml_type::q8_0:
      append_half(out, jitter(spread / 74.0F, engine));
      return append_random(out, 32, engine);
    case ggml_type::q4_k:
    case ggml_type::q5_k: {
      const bool five = type == ggml_type::q5_k;
      const float d = spread / (five ? 9.2F : 4.6F) / 36.0F;
      append_half(out, d);
      append_half(out, (five ? 15.5F : 7.5F) * d);
      append_k_scales(out, engine);
      return append_random(out, five ? 160 : 128, engine);
    }
    case ggml_type::q6_k:
      append_random(out, 208, engine);
      return append_half(out, jitter(spread / 18.5F / 74.0F, engine));
    case ggml_type::mxfp4: {
      const int exponent = 127 + static_cast<int>(std::lround(std::log2(spread / 2.9F)));
      out.push_back(static_cast<std::byte>(exponent - 1 + static_cast<int>(engine() % 3)));
      return append_random(out, 16, engine);
    }
    case ggml_type::q2_k: return append_q2_k(out, spread, engine);
    case ggml_type::q3_k:
      append_random(out, 108, engine);
      return append_half(out, jitter(spread / 2.29F / 18.5F, engine));
    case ggml_type::nvfp4: return append_nvfp4(out, spread, engine);
    case ggml_type::iq4_nl:
    case ggml_type::iq4_xs:
    case ggml_type::iq3_s:
    case ggml_type::iq3_xxs:
    case ggml_type::iq2_s:
    case ggml_type::iq2_xs:
    case ggml_type::iq2_xxs: return append_looked_up(out, type, spread, engine);
    case ggml_type::tq1_0:
    case ggml_type::tq2_0:
    case ggml_type::i2_s:
    case ggml_type::q1_0:
    case ggml_type::q2_0: return append_ternary(out, type, spread, engine);
    default: ORCD_ENSURE(!"append_block is for block types");
  }
}

}  // namespace

std::uint16_t to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const float magnitude = std::fabs(value);
  if (!(magnitude < 65520.0F)) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x1.0p-14F) {  // subnormal halves count in steps of 2^-24
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1.0p24F)));
  }
  const std::uint32_t shifted = (bits & 0x7FFFFFFFU) - 0x38000000U;  // exponent bias 127 to 15
  const std::uint32_t rounded = shifted + 0xFFFU + ((shifted >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(rounded >> 13U));
}

float random_unit(std::mt19937_64& engine) {
  return static_cast<float>(static_cast<double>(engine() >> 11U) * 0x1.0p-52 - 1.0);
}

bytes random_payload(ggml_type type, std::uint64_t elements, float spread, std::mt19937_64& engine) {
  const engine::type_traits& traits = engine::traits_of(type);
  ORCD_ENSURE(elements % traits.block_elems == 0);
  bytes out;
  out.reserve(elements / traits.block_elems * traits.block_bytes + traits.trailer_bytes);
  for (std::uint64_t block = 0; block < elements / traits.block_elems; ++block) {
    if (traits.block_elems > 1) {
      append_block(out, type, spread, engine);
      continue;
    }
    const float value = random_unit(engine) * spread * std::sqrt(3.0F);
    if (type == ggml_type::f32) append_number(out, value);
    if (type == ggml_type::f16) append_half(out, value);
    if (type == ggml_type::bf16) {
      append_number(out, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U));
    }
  }
  ORCD_ENSURE(out.size() == elements / traits.block_elems * traits.block_bytes);
  if (traits.trailer_bytes != 0) {
    append_number(out, spread / 0.82F);
    out.resize(out.size() + traits.trailer_bytes - sizeof(float));
  }
  return out;
}

}  // namespace orcd::test
