// Formats of one or two bits in other blocks: the same values.
#include "kernels/host/recode.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;
using engine::ggml_type;

constexpr std::uint32_t cols = 1024;

}  // namespace

BOOST_AUTO_TEST_SUITE(recode)

BOOST_AUTO_TEST_CASE(q4_0_blocks_hold_the_same_values) {
  std::mt19937_64 random(3);
  for (const ggml_type type :
       {ggml_type::tq1_0, ggml_type::tq2_0, ggml_type::i2_s, ggml_type::q1_0, ggml_type::q2_0}) {
    const auto row = test::random_rows(type, 1, cols, random);
    std::vector<std::byte> blocks(cols / 32 * 18 + 1, std::byte{0xcc});
    kernels::host::recode_as_q4_0(type, row.data(), cols, blocks.data());
    BOOST_TEST((blocks.back() == std::byte{0xcc}), "wrote past the row");
    for (std::uint32_t i = 0; i < cols; ++i) {
      BOOST_TEST_REQUIRE(test::decode_value(ggml_type::q4_0, blocks.data(), i).value ==
                             test::decode_value(type, row.data(), i).value,
                         engine::traits_of(type).name << " value " << i);
    }
  }
}

BOOST_AUTO_TEST_CASE(i2_s_holds_the_same_codes) {
  std::mt19937_64 random(4);
  for (const ggml_type type : {ggml_type::tq1_0, ggml_type::tq2_0, ggml_type::i2_s}) {
    auto row = test::random_rows(type, 1, cols, random);
    const auto& traits = engine::traits_of(type);
    const std::uint16_t one = 0x3c00;
    for (std::size_t at = traits.block_bytes; at <= row.size() && type != ggml_type::i2_s;
         at += traits.block_bytes)
      std::memcpy(row.data() + at - 2, &one, 2);
    std::vector<std::byte> codes(cols / 4 + 1, std::byte{0xcc});
    kernels::host::recode_as_i2_s(type, row.data(), cols, codes.data());
    BOOST_TEST((codes.back() == std::byte{0xcc}), "wrote past the row");
    for (std::uint32_t i = 0; i < cols; ++i) {
      BOOST_TEST_REQUIRE(test::decode_value(ggml_type::i2_s, codes.data(), i).value ==
                             test::decode_value(type, row.data(), i).value,
                         traits.name << " value " << i);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
