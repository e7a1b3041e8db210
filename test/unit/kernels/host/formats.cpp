// Every block format on every x86 level against the f64 reference.
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "kernels/host/half.hpp"
#include "kernels/host/matmul.hpp"
#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;
using engine::ggml_type;

std::vector<std::byte> stored_bytes(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA) + "/blocks/" + name, std::ios::binary);
  const std::string raw{std::istreambuf_iterator<char>(in), {}};
  BOOST_REQUIRE_MESSAGE(!raw.empty(), name);
  std::vector<std::byte> bytes(raw.size());
  std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

/// Each of the two operations that make a value rounds once.
void check_row(ggml_type type, const std::vector<std::byte>& row, std::uint32_t cols) {
  std::vector<float> got(cols + 1, -77.0F);
  kernels::host::dequantize_row(type, row.data(), cols, got.data());
  BOOST_TEST(got[cols] == -77.0F, "wrote past the row");
  for (std::uint32_t i = 0; i < cols; ++i) {
    const test::reference_value want = test::decode_value(type, row.data(), i);
    if (std::isnan(want.value)) {
      BOOST_TEST_REQUIRE(std::isnan(got[i]));
      continue;
    }
    if (std::isinf(want.value)) {
      BOOST_TEST_REQUIRE(got[i] == static_cast<float>(want.value));
      continue;
    }
    const double bound = want.magnitude * 0x1p-23;
    BOOST_TEST_REQUIRE(std::fabs(got[i] - want.value) <= bound, engine::traits_of(type).name
                                                                    << " value " << i << ": " << got[i]
                                                                    << ", not " << want.value);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(formats)

BOOST_AUTO_TEST_CASE(random_blocks_decode_to_the_reference) {
  test::on_every_level([](kernels::host::isa_level) {
    std::mt19937_64 random(7);
    for (const ggml_type type : test::every_type) {
      for (int round = 0; round < 40; ++round)
        check_row(type, test::random_rows(type, 1, 1024, random), 1024);
    }
  });
}

// Blocks that ggml quantized, and others with every index of a grid (test/oracle/make_block_goldens.py).
BOOST_AUTO_TEST_CASE(stored_blocks_decode_to_the_bits_of_the_gguf_package) {
  const std::pair<ggml_type, std::string> all[] = {
      {ggml_type::q2_k, "q2_k"},       {ggml_type::q3_k, "q3_k"},   {ggml_type::iq4_nl, "iq4_nl"},
      {ggml_type::iq4_xs, "iq4_xs"},   {ggml_type::nvfp4, "nvfp4"}, {ggml_type::iq3_s, "iq3_s"},
      {ggml_type::iq3_xxs, "iq3_xxs"}, {ggml_type::iq2_s, "iq2_s"}, {ggml_type::iq2_xs, "iq2_xs"},
      {ggml_type::iq2_xxs, "iq2_xxs"}};
  test::on_every_level([&](kernels::host::isa_level) {
    for (const auto& [type, name] : all) {
      const std::vector<std::byte> blocks = stored_bytes(name + ".bin");
      const std::vector<std::byte> want = stored_bytes(name + ".f32");
      const engine::type_traits& traits = engine::traits_of(type);
      const std::size_t count = blocks.size() / traits.block_bytes * traits.block_elems;
      BOOST_REQUIRE_MESSAGE(count >= 2048 && want.size() == count * sizeof(float), name);
      std::vector<float> got(count);
      kernels::host::dequantize_row(type, blocks.data(), static_cast<std::uint32_t>(count), got.data());
      BOOST_TEST(std::memcmp(got.data(), want.data(), want.size()) == 0, name);
    }
  });
}

BOOST_AUTO_TEST_CASE(plain_formats_take_any_number_of_columns) {
  test::on_every_level([](kernels::host::isa_level) {
    std::mt19937_64 random(8);
    for (const ggml_type type : {ggml_type::f32, ggml_type::f16, ggml_type::bf16}) {
      for (std::uint32_t cols = 1; cols <= 50; ++cols) {
        check_row(type, test::random_rows(type, 1, cols, random), cols);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(hand_computed_values) {
  // d = 0.5 (0x3800), m = -1 (0xbc00); byte 0x2f: value 0 has nibble 15, value 16 nibble 2.
  std::vector<std::byte> q4_1(20, std::byte{0});
  q4_1[1] = std::byte{0x38};
  q4_1[3] = std::byte{0xbc};
  q4_1[4] = std::byte{0x2f};
  std::vector<std::byte> mxfp4(17, std::byte{0});
  mxfp4[0] = std::byte{128};   // 2^0
  mxfp4[1] = std::byte{0xf7};  // 12 and -12
  mxfp4[2] = std::byte{0x98};  // code 8 is zero, code 9 is -1
  test::on_every_level([&](kernels::host::isa_level) {
    float v[32];
    kernels::host::dequantize_row(ggml_type::q4_1, q4_1.data(), 32, v);
    BOOST_TEST(v[0] == 6.5F);
    BOOST_TEST(v[16] == 0.0F);
    BOOST_TEST(v[1] == -1.0F);
    kernels::host::dequantize_row(ggml_type::mxfp4, mxfp4.data(), 32, v);
    BOOST_TEST(v[0] == 12.0F);
    BOOST_TEST(v[16] == -12.0F);
    BOOST_TEST(v[1] == 0.0F);
    BOOST_TEST(v[17] == -1.0F);
  });
}

BOOST_AUTO_TEST_CASE(mxfp4_is_exact_for_every_exponent_and_code) {
  test::on_every_level([](kernels::host::isa_level) {
    for (unsigned e = 0; e < 256; ++e) {
      std::vector<std::byte> block(17);
      block[0] = static_cast<std::byte>(e);
      for (unsigned i = 0; i < 16; ++i) block[1 + i] = static_cast<std::byte>(i | (15 - i) << 4);
      float got[32];
      kernels::host::dequantize_row(ggml_type::mxfp4, block.data(), 32, got);
      for (unsigned i = 0; i < 32; ++i) {
        // 12 * 2^127 is beyond f32: infinity there, as in every f32 implementation.
        const auto want = static_cast<float>(test::decode_value(ggml_type::mxfp4, block.data(), i).value);
        BOOST_TEST_REQUIRE(got[i] == want, "e " << e << " value " << i << ": " << got[i] << ", not " << want);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(every_half_and_bfloat_pattern_is_exact) {
  std::vector<std::byte> all(2 * 65536);
  for (unsigned i = 0; i < 65536; ++i) {
    all[2 * i] = static_cast<std::byte>(i & 255U);
    all[2 * i + 1] = static_cast<std::byte>(i >> 8);
  }
  std::vector<float> first;
  test::on_every_level([&](kernels::host::isa_level) {
    for (const ggml_type type : {ggml_type::f16, ggml_type::bf16}) {
      std::vector<float> got(65536);
      kernels::host::dequantize_row(type, all.data(), 65536, got.data());
      for (unsigned i = 0; i < 65536; ++i) {
        const double want = test::decode_value(type, all.data(), i).value;
        BOOST_TEST_REQUIRE((std::isnan(want) ? std::isnan(got[i]) : got[i] == want), "pattern " << i);
      }
      if (type != ggml_type::f16) continue;
      // NaN payloads too are the same on every level.
      if (first.empty()) first = got;
      BOOST_TEST(std::memcmp(first.data(), got.data(), 65536 * sizeof(float)) == 0);
    }
  });
}

BOOST_AUTO_TEST_CASE(scales_of_the_blocks_decode_like_halves) {
  // A scale takes the scalar path, the F16 format the vector path.
  test::on_every_level([](kernels::host::isa_level) {
    for (unsigned bits = 0; bits < 65536; bits += 7) {
      std::vector<std::byte> block(34, std::byte{1});
      block[0] = static_cast<std::byte>(bits & 255U);
      block[1] = static_cast<std::byte>(bits >> 8);
      check_row(ggml_type::q8_0, block, 32);
    }
  });
}

BOOST_AUTO_TEST_CASE(rounding_to_half_is_to_nearest_even) {
  using kernels::host::float_to_half;
  for (unsigned bits = 0; bits < 0x7c00U; ++bits) {
    const double here = test::half_value(static_cast<std::uint16_t>(bits));
    const double next = bits == 0x7bffU ? 65536.0 : test::half_value(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((here + next) / 2.0);  // exact: one bit more than a half has
    BOOST_TEST_REQUIRE(float_to_half(static_cast<float>(here)) == bits);
    BOOST_TEST_REQUIRE(float_to_half(middle) == bits + (bits & 1U));
    BOOST_TEST_REQUIRE(float_to_half(std::nextafterf(middle, 0.0F)) == bits);
    BOOST_TEST_REQUIRE(float_to_half(std::nextafterf(middle, 1e9F)) == bits + 1);
    BOOST_TEST_REQUIRE(float_to_half(-static_cast<float>(here)) == (bits | 0x8000U));
  }
  BOOST_TEST(float_to_half(1e30F) == 0x7c00U);
  BOOST_TEST(float_to_half(-std::numeric_limits<float>::infinity()) == 0xfc00U);
  BOOST_TEST((float_to_half(std::numeric_limits<float>::quiet_NaN()) & 0x7fffU) > 0x7c00U);
}

BOOST_AUTO_TEST_SUITE_END()
