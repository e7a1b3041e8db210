#include "app/quantize/ternary_codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "app/quantize/number_formats.hpp"
#include "engine/base/ensure.hpp"

namespace orcd::app {
namespace {

constexpr std::size_t lanes = 16;
constexpr float least_mean = 1e-5F;

/// The sum of whole groups of `lanes` values and of what is left, in an order that the type does not change.
template <class Load>
double sum_with(std::size_t count, Load magnitude) noexcept {
  std::array<double, lanes> sums{};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += magnitude(i + lane);
  }
  for (; i < count; ++i) sums[i % lanes] += magnitude(i);
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

/// 0, 1 or 2 of a product with the inverse scale. Exactly one half rounds to even, which is 0.
std::uint8_t code_of(float product) noexcept {
  return static_cast<std::uint8_t>(1 + (product > 0.5F ? 1 : 0) - (product < -0.5F ? 1 : 0));
}

/// Eight codes in one word: byte by byte, whatever the order of bytes in a word is.
constexpr std::size_t word_codes = 8;
constexpr std::uint64_t ones = 0x0101010101010101U;

std::uint64_t load_word(const void* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

void pack_i2_s(std::span<const std::uint8_t> codes, std::byte* out) noexcept {
  for (std::size_t block = 0; block < codes.size(); block += 128, out += 32) {
    const std::uint8_t* c = codes.data() + block;
    for (std::size_t j = 0; j < 32; j += word_codes) {
      // Codes have two bits, so that no shift moves one into the next byte.
      const std::uint64_t word = load_word(c + j) << 6U | load_word(c + j + 32) << 4U |
                                 load_word(c + j + 64) << 2U | load_word(c + j + 96);
      std::memcpy(out + j, &word, sizeof word);
    }
  }
}

void put_scale(std::byte* out, std::uint16_t d) noexcept {
  std::memcpy(out, &d, sizeof d);
}

void pack_tq2_0(std::span<const std::uint8_t> codes, std::uint16_t d, std::byte* out) noexcept {
  for (std::size_t block = 0; block < codes.size(); block += 256, out += 66) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::uint8_t* c = codes.data() + block + 128 * half;
      for (std::size_t j = 0; j < 32; ++j) {
        out[32 * half + j] = static_cast<std::byte>(c[j] | c[j + 32] << 2 | c[j + 64] << 4 | c[j + 96] << 6);
      }
    }
    put_scale(out + 64, d);
  }
}

/// Five codes as one byte whose products with 3^k have them in their top: the number in base 3, first code
/// first, as a fraction of 3^5 in 256ths, rounded up.
std::byte five_codes(const std::uint8_t* first, std::size_t stride, std::size_t count) noexcept {
  unsigned q = 0;
  for (std::size_t k = 0; k < 5; ++k) q = q * 3 + (k < count ? first[k * stride] : 0U);
  return static_cast<std::byte>((q * 256 + 242) / 243);
}

void pack_tq1_0(std::span<const std::uint8_t> codes, std::uint16_t d, std::byte* out) noexcept {
  for (std::size_t block = 0; block < codes.size(); block += 256, out += 54) {
    const std::uint8_t* c = codes.data() + block;
    for (std::size_t j = 0; j < 32; ++j) out[j] = five_codes(c + j, 32, 5);
    for (std::size_t j = 0; j < 16; ++j) out[32 + j] = five_codes(c + 160 + j, 16, 5);
    for (std::size_t j = 0; j < 4; ++j) out[48 + j] = five_codes(c + 240 + j, 4, 4);
    put_scale(out + 52, d);
  }
}

}  // namespace

double sum_of_magnitudes(source_type type, std::span<const std::byte> values) noexcept {
  const std::byte* from = values.data();
  const std::size_t count = values.size() / bytes_of(type);
  if (type == source_type::f32) {
    return sum_with(count,
                    [from](std::size_t i) { return std::fabs(double{load_number<float>(from + 4 * i)}); });
  }
  if (type == source_type::f16) {
    return sum_with(count, [from](std::size_t i) {
      return std::fabs(double{half_to_float(load_number<std::uint16_t>(from + 2 * i))});
    });
  }
  return sum_with(count, [from](std::size_t i) {
    const std::uint32_t bits = load_number<std::uint16_t>(from + 2 * i) & 0x7fffU;
    return double{std::bit_cast<float>(bits << 16U)};
  });
}

float mean_scale(double sum, std::uint64_t count) noexcept {
  return std::max(static_cast<float>(sum / static_cast<double>(count)), least_mean);
}

ternary_rounding::ternary_rounding(source_type type, float scale) noexcept
    : type_(type), inverse_(1.0F / scale), least_(0x8000U) {
  if (type != source_type::bf16) return;
  // The product grows with the magnitude, so that one comparison of bits says whether it is over one half.
  std::uint32_t least = 0;
  std::uint32_t most = 0x7f80U;  // infinity: its product is over it
  while (least < most) {
    const std::uint32_t middle = (least + most) / 2;
    if (bfloat_to_float(static_cast<std::uint16_t>(middle)) * inverse_ > 0.5F) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  least_ = least;
}

void ternary_rounding::operator()(std::span<const std::byte> values,
                                  std::span<std::uint8_t> codes) const noexcept {
  const std::byte* from = values.data();
  if (type_ == source_type::bf16) {
    const auto least = static_cast<std::int16_t>(least_);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const auto bits = load_number<std::int16_t>(from + 2 * i);
      const auto over = static_cast<std::int16_t>((bits & 0x7fff) >= least ? -1 : 0);
      // 1 where positive, -1 where negative, and 0 where it is not over.
      const auto sign = static_cast<std::int16_t>((bits >> 15) | 1);
      codes[i] = static_cast<std::uint8_t>(1 + (sign & over));
    }
    return;
  }
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = code_of(value_at(type_, from, i) * inverse_);
}

std::optional<std::size_t> codes_of_bytes(std::span<const std::byte> values,
                                          std::span<std::uint8_t> codes) noexcept {
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(static_cast<unsigned>(values[i]) + 1U);
    largest = std::max(largest, codes[i]);
  }
  if (largest <= 2) return std::nullopt;
  const auto at = std::find_if(codes.begin(), codes.end(), [](std::uint8_t c) { return c > 2; });
  return static_cast<std::size_t>(at - codes.begin());
}

std::optional<std::size_t> codes_of_packed(std::span<const std::byte> packed, unsigned group,
                                           std::span<std::uint8_t> codes) noexcept {
  std::uint64_t threes = 0;  // a bit for each byte that had both
  std::size_t i = 0;
  for (; i + word_codes <= codes.size(); i += word_codes) {
    const std::uint64_t word = load_word(packed.data() + i) >> (2U * group) & 3U * ones;
    threes |= word & word >> 1U;
    std::memcpy(codes.data() + i, &word, sizeof word);
  }
  for (; i < codes.size(); ++i) {
    const unsigned code = static_cast<unsigned>(packed[i]) >> (2U * group) & 3U;
    threes |= code & code >> 1U;
    codes[i] = static_cast<std::uint8_t>(code);
  }
  if ((threes & ones) == 0) return std::nullopt;
  const auto at = std::find(codes.begin(), codes.end(), std::uint8_t{3});
  return static_cast<std::size_t>(at - codes.begin());
}

void pack_codes(engine::ggml_type type, std::uint16_t d, std::span<const std::uint8_t> codes,
                std::span<std::byte> out) noexcept {
  const engine::type_traits& traits = engine::traits_of(type);
  ORCD_ENSURE(codes.size() % traits.block_elems == 0);
  ORCD_ENSURE(out.size() == engine::row_bytes(traits, codes.size()));
  if (type == engine::ggml_type::tq1_0) return pack_tq1_0(codes, d, out.data());
  if (type == engine::ggml_type::tq2_0) return pack_tq2_0(codes, d, out.data());
  pack_i2_s(codes, out.data());
}

}  // namespace orcd::app
