// A number that is not finite is found in every format, at every place, and nothing else is.
#include "kernels/host/finite.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/product/quant_blocks.hpp"
#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;
using engine::ggml_type;
using engine::traits_of;
using kernels::host::find_not_finite;

struct place {
  ggml_type type;
  std::size_t offset;  ///< of the number in its block
  std::size_t width;
  std::uint32_t infinity;
  const char* part;
};

const std::vector<place> places{
    {ggml_type::f32, 0, 4, 0x7f800000, "value"},
    {ggml_type::f16, 0, 2, 0x7c00, "value"},
    {ggml_type::bf16, 0, 2, 0x7f80, "value"},
    {ggml_type::q4_0, offsetof(kernels::block_q4_0, d), 2, 0x7c00, "d"},
    {ggml_type::q4_1, offsetof(kernels::block_q4_1, d), 2, 0x7c00, "d"},
    {ggml_type::q4_1, offsetof(kernels::block_q4_1, m), 2, 0x7c00, "m"},
    {ggml_type::q5_0, offsetof(kernels::block_q5_0, d), 2, 0x7c00, "d"},
    {ggml_type::q5_1, offsetof(kernels::block_q5_1, d), 2, 0x7c00, "d"},
    {ggml_type::q5_1, offsetof(kernels::block_q5_1, m), 2, 0x7c00, "m"},
    {ggml_type::q8_0, offsetof(kernels::block_q8_0, d), 2, 0x7c00, "d"},
    {ggml_type::q4_k, offsetof(kernels::block_q4_k, d), 2, 0x7c00, "d"},
    {ggml_type::q4_k, offsetof(kernels::block_q4_k, dmin), 2, 0x7c00, "dmin"},
    {ggml_type::q5_k, offsetof(kernels::block_q5_k, d), 2, 0x7c00, "d"},
    {ggml_type::q5_k, offsetof(kernels::block_q5_k, dmin), 2, 0x7c00, "dmin"},
    {ggml_type::q6_k, offsetof(kernels::block_q6_k, d), 2, 0x7c00, "d"},
    {ggml_type::q2_k, offsetof(kernels::block_q2_k, d), 2, 0x7c00, "d"},
    {ggml_type::q2_k, offsetof(kernels::block_q2_k, dmin), 2, 0x7c00, "dmin"},
    {ggml_type::q3_k, offsetof(kernels::block_q3_k, d), 2, 0x7c00, "d"},
    {ggml_type::iq4_nl, offsetof(kernels::block_iq4_nl, d), 2, 0x7c00, "d"},
    {ggml_type::iq4_xs, offsetof(kernels::block_iq4_xs, d), 2, 0x7c00, "d"},
    {ggml_type::iq3_s, offsetof(kernels::block_iq3_s, d), 2, 0x7c00, "d"},
    {ggml_type::iq3_xxs, offsetof(kernels::block_iq3_xxs, d), 2, 0x7c00, "d"},
    {ggml_type::iq2_s, offsetof(kernels::block_iq2_s, d), 2, 0x7c00, "d"},
    {ggml_type::iq2_xs, offsetof(kernels::block_iq2_xs, d), 2, 0x7c00, "d"},
    {ggml_type::iq2_xxs, offsetof(kernels::block_iq2_xxs, d), 2, 0x7c00, "d"},
    {ggml_type::tq1_0, offsetof(kernels::block_tq1_0, d), 2, 0x7c00, "d"},
    {ggml_type::tq2_0, offsetof(kernels::block_tq2_0, d), 2, 0x7c00, "d"},
    {ggml_type::q1_0, offsetof(kernels::block_q1_0, d), 2, 0x7c00, "d"},
    {ggml_type::q2_0, offsetof(kernels::block_q2_0, d), 2, 0x7c00, "d"},
};
constexpr std::uint64_t blocks = 67;

/// Blocks whose every byte is `fill`, which makes no number NaN or infinite.
std::vector<std::byte> filled(ggml_type type, unsigned char fill) {
  return std::vector<std::byte>(blocks * traits_of(type).block_bytes, std::byte{fill});
}

void put(std::vector<std::byte>& data, const place& p, std::uint64_t block, std::uint32_t bits) {
  std::memcpy(data.data() + block * traits_of(p.type).block_bytes + p.offset, &bits, p.width);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(finite_numbers)

BOOST_AUTO_TEST_CASE(a_bad_number_is_found_wherever_it_is) {
  for (const place& p : places) {
    const std::uint32_t sign = p.width == 4 ? 0x80000000U : 0x8000U;
    for (const std::uint64_t block : {std::uint64_t{0}, std::uint64_t{31}, blocks - 1}) {
      for (const std::uint32_t bits :
           {p.infinity, p.infinity | sign, p.infinity + 1, p.infinity | sign | 1U}) {
        auto data = filled(p.type, 0x3b);
        BOOST_REQUIRE(!find_not_finite(p.type, data.data(), blocks));
        put(data, p, block, bits);
        const auto found = find_not_finite(p.type, data.data(), blocks);
        BOOST_REQUIRE_MESSAGE(found, traits_of(p.type).name << " block " << block << " bits " << bits);
        BOOST_TEST(found->block == block);
        BOOST_TEST(found->part == std::string(p.part));
        BOOST_TEST(found->what == std::string((bits & ~sign) == p.infinity ? "infinite" : "NaN"));
        BOOST_TEST(!find_not_finite(p.type, data.data(), block));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_largest_finite_number_is_one) {
  for (const place& p : places) {
    auto data = filled(p.type, 0);
    put(data, p, 5, p.infinity - 1);
    BOOST_TEST(!find_not_finite(p.type, data.data(), blocks), traits_of(p.type).name);
  }
}

BOOST_AUTO_TEST_CASE(quanta_are_no_numbers_of_their_own) {
  // Every bit set in everything but the scales.
  for (const place& p : places) {
    auto data = filled(p.type, 0xff);
    for (const place& other : places) {
      if (other.type != p.type) continue;
      for (std::uint64_t block = 0; block < blocks; ++block) put(data, other, block, 0);
    }
    BOOST_TEST(!find_not_finite(p.type, data.data(), blocks), traits_of(p.type).name);
  }
}

BOOST_AUTO_TEST_CASE(an_mxfp4_scale_of_255_is_nan) {
  auto data = filled(ggml_type::mxfp4, 0xff);
  for (std::uint64_t block = 0; block < blocks; ++block) data[block * sizeof(kernels::block_mxfp4)] = {};
  BOOST_TEST(!find_not_finite(ggml_type::mxfp4, data.data(), blocks));
  data[9 * sizeof(kernels::block_mxfp4)] = std::byte{254};
  data[40 * sizeof(kernels::block_mxfp4)] = std::byte{255};
  const auto found = find_not_finite(ggml_type::mxfp4, data.data(), blocks);
  BOOST_REQUIRE(found);
  BOOST_TEST(found->block == 40U);
  BOOST_TEST(found->part == std::string("scale"));
  BOOST_TEST(found->what == std::string("NaN"));
}

BOOST_AUTO_TEST_CASE(an_nvfp4_scale_of_127_is_nan) {
  for (std::size_t group = 0; group < 4; ++group) {
    auto data = filled(ggml_type::nvfp4, 0xff);
    BOOST_TEST(!find_not_finite(ggml_type::nvfp4, data.data(), blocks));
    data[40 * sizeof(kernels::block_nvfp4) + group] = std::byte{127};
    const auto found = find_not_finite(ggml_type::nvfp4, data.data(), blocks);
    BOOST_REQUIRE(found);
    BOOST_TEST(found->block == 40U);
    BOOST_TEST(found->part == std::string("scale"));
    BOOST_TEST(found->what == std::string("NaN"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
