// Ternary codes against stored vectors and against their definitions.
#include "app/quantize/ternary_codes.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "app/quantize/number_formats.hpp"
#include "kernels/host/half.hpp"

using namespace orcd;
using namespace orcd::app;
using engine::ggml_type;

namespace {

constexpr std::size_t rows = 8;
constexpr std::size_t cols = 512;

std::vector<std::byte> stored(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA) + "/" + name, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  BOOST_REQUIRE(!text.empty());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::uint8_t> stored_codes() {
  const auto values = stored("ternary/codes_i8.bin");
  std::vector<std::uint8_t> codes(values.size());
  BOOST_REQUIRE(!codes_of_bytes(values, codes));
  return codes;
}

std::vector<std::byte> packed(ggml_type type, float scale) {
  const auto codes = stored_codes();
  std::vector<std::byte> out(engine::row_bytes(engine::traits_of(type), codes.size()));
  pack_codes(type, kernels::host::float_to_half(scale), codes, out);
  return out;
}

/// The stored blocks, whose writer gave those of zeros no scale.
std::vector<std::byte> with_scales(std::vector<std::byte> blocks, std::size_t block_bytes, float scale) {
  const std::uint16_t d = kernels::host::float_to_half(scale);
  for (std::size_t end = block_bytes; end <= blocks.size(); end += block_bytes) {
    if (load_number<std::uint16_t>(blocks.data() + end - 2) == 0) std::memcpy(blocks.data() + end - 2, &d, 2);
  }
  return blocks;
}

/// The codes as the definition says, one value at a time.
std::vector<std::uint8_t> plain_codes(source_type type, const std::vector<std::byte>& values, float scale) {
  const std::size_t count = values.size() / bytes_of(type);
  std::vector<std::uint8_t> out(count);
  const float inverse = 1.0F / scale;
  for (std::size_t i = 0; i < count; ++i) {
    const float product = value_at(type, values.data(), i) * inverse;
    out[i] = static_cast<std::uint8_t>(
        1 + static_cast<int>(std::fmin(1.0F, std::fmax(-1.0F, std::nearbyint(product)))));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ternary_codes)

BOOST_AUTO_TEST_CASE(blocks_are_the_stored_ones) {
  auto i2_s = stored("ternary/i2_s_x86.bin");
  i2_s.resize(rows * cols / 4);  // without the scale behind them
  BOOST_TEST((packed(ggml_type::i2_s, 0.6875F) == i2_s));
  BOOST_TEST((packed(ggml_type::tq1_0, 0.6875F) == with_scales(stored("ternary/tq1_0.bin"), 54, 0.6875F)));
  BOOST_TEST((packed(ggml_type::tq2_0, 0.6875F) == with_scales(stored("ternary/tq2_0.bin"), 66, 0.6875F)));
}

BOOST_AUTO_TEST_CASE(packed_rows_are_quarters_of_the_matrix) {
  const auto bytes = stored("quantize/hf_u8.bin");
  BOOST_REQUIRE_EQUAL(bytes.size(), rows / 4 * cols);
  const auto all = stored_codes();
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t quarter = rows / 4;
    std::vector<std::uint8_t> codes(cols);
    const auto from = std::span(bytes).subspan(row % quarter * cols, cols);
    BOOST_REQUIRE(!codes_of_packed(from, static_cast<unsigned>(row / quarter), codes));
    BOOST_TEST(std::equal(codes.begin(), codes.end(), all.begin() + static_cast<std::ptrdiff_t>(row * cols)));
  }
}

BOOST_AUTO_TEST_CASE(codes_that_are_none) {
  std::vector<std::byte> bytes(100, std::byte{1});
  std::vector<std::uint8_t> codes(100);
  BOOST_TEST(!codes_of_bytes(bytes, codes));
  bytes[77] = std::byte{2};
  BOOST_REQUIRE(codes_of_bytes(bytes, codes));
  BOOST_TEST(*codes_of_bytes(bytes, codes) == 77U);
  bytes[77] = std::byte{0xfe};  // -2
  BOOST_TEST(!!codes_of_bytes(bytes, codes));
  bytes[77] = std::byte{0x30};
  BOOST_TEST(!codes_of_packed(bytes, 0, codes));
  BOOST_REQUIRE(codes_of_packed(bytes, 2, codes));
  BOOST_TEST(*codes_of_packed(bytes, 2, codes) == 77U);
}

BOOST_AUTO_TEST_CASE(masters_become_the_stored_codes) {
  const auto values = stored("quantize/master_bf16.bin");
  const float scale = mean_scale(sum_of_magnitudes(source_type::bf16, values), rows * cols);
  BOOST_TEST(scale == 0.016346311196684837F);
  std::vector<std::uint8_t> codes(rows * cols);
  ternary_rounding(source_type::bf16, scale)(values, codes);
  const auto wanted = stored("quantize/master_codes_i8.bin");
  for (std::size_t i = 0; i < codes.size(); ++i) {
    BOOST_REQUIRE_EQUAL(static_cast<int>(codes[i]) - 1,
                        static_cast<int>(static_cast<std::int8_t>(wanted[i])));
  }
}

BOOST_AUTO_TEST_CASE(every_bf16_value_is_rounded_as_the_definition_says) {
  std::vector<std::byte> values;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7f80U) == 0x7f80U) continue;
    values.push_back(static_cast<std::byte>(bits & 0xffU));
    values.push_back(static_cast<std::byte>(bits >> 8U));
  }
  // With 2.0, 1.0 is exactly one half of the scale, and rounds to 0.
  for (const float scale : {1e-5F, 0.0163463F, 0.6875F, 1.0F, 2.0F, 3.0F, 1e30F}) {
    std::vector<std::uint8_t> codes(values.size() / 2);
    ternary_rounding(source_type::bf16, scale)(values, codes);
    BOOST_TEST((codes == plain_codes(source_type::bf16, values, scale)), scale);
  }
}

BOOST_AUTO_TEST_CASE(other_types_and_ties) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0F, 0.7F);
  std::vector<float> values{0.5F,  -0.5F, std::nextafter(0.5F, 1.0F), -std::nextafter(0.5F, 1.0F), 0.0F,
                            -0.0F, 9.0F};
  while (values.size() < 1003) values.push_back(normal(random));
  std::vector<std::byte> f32(4 * values.size());
  std::vector<std::byte> f16(2 * values.size());
  std::memcpy(f32.data(), values.data(), f32.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = kernels::host::float_to_half(values[i]);
    std::memcpy(f16.data() + 2 * i, &half, 2);
  }
  std::vector<std::uint8_t> codes(values.size());
  ternary_rounding(source_type::f32, 1.0F)(f32, codes);
  BOOST_TEST((codes == plain_codes(source_type::f32, f32, 1.0F)));
  BOOST_TEST(
      (std::vector(codes.begin(), codes.begin() + 7) == std::vector<std::uint8_t>{1, 1, 2, 0, 1, 1, 2}));
  ternary_rounding(source_type::f16, 1.0F)(f16, codes);
  BOOST_TEST((codes == plain_codes(source_type::f16, f16, 1.0F)));
}

BOOST_AUTO_TEST_CASE(sums) {
  std::vector<float> values(1000, -0.25F);
  const auto sum = [&] { return sum_of_magnitudes(source_type::f32, std::as_bytes(std::span(values))); };
  BOOST_TEST(sum() == 250.0);
  values[999] = std::nanf("");
  BOOST_TEST(!std::isfinite(sum()));
  values[999] = -INFINITY;
  BOOST_TEST(!std::isfinite(sum()));
  BOOST_TEST(mean_scale(0.0, 10) == 1e-5F);
}

BOOST_AUTO_TEST_CASE(every_half_is_read_exactly) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    const unsigned exponent = bits >> 10U & 31U;
    const unsigned fraction = bits & 0x3ffU;
    if (exponent == 31) {
      BOOST_REQUIRE(fraction == 0 ? std::isinf(value) : std::isnan(value));
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
    BOOST_REQUIRE_EQUAL(value, (bits & 0x8000U) != 0 ? -magnitude : magnitude);
    BOOST_REQUIRE_EQUAL(kernels::host::float_to_half(value), bits);
  }
}

BOOST_AUTO_TEST_SUITE_END()
