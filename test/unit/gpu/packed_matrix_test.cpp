// Where the quanta of a packed matrix lie: every bit has a place of its own, and masks find what they are
// for.
#include "kernels/packed_matrix.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <utility>
#include <vector>

namespace orcd::test {
namespace {

using kernels::packed_format;
using kernels::quantum_place;

struct quantized {
  const char* name;
  packed_format format;
};
std::ostream& operator<<(std::ostream& out, const quantized& q) {
  return out << q.name;
}
const std::vector<quantized> formats{
    {"q4_0", packed_format::q4_0}, {"q4_1", packed_format::q4_1}, {"q5_0", packed_format::q5_0},
    {"q5_1", packed_format::q5_1}, {"q8_0", packed_format::q8_0}, {"q4_k", packed_format::q4_k},
    {"q5_k", packed_format::q5_k}, {"q6_k", packed_format::q6_k}, {"mxfp4", packed_format::mxfp4},
};

BOOST_AUTO_TEST_SUITE(packed_matrix)

BOOST_DATA_TEST_CASE(every_bit_has_a_place_of_its_own, boost::unit_test::data::make(formats), q) {
  const std::uint32_t words = kernels::quant_words(q.format) + kernels::high_words(q.format);
  const std::uint32_t bits = kernels::quantum_bits(q.format);
  std::set<std::pair<std::uint32_t, std::uint32_t>> taken;
  for (std::uint32_t s = 0; s < 4; ++s) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      for (std::uint32_t b = 0; b < bits; ++b) {
        const quantum_place place = kernels::place_of_bit(q.format, s, i, b);
        BOOST_TEST(place.word < words);
        BOOST_TEST(place.bit < 16U);
        BOOST_TEST(taken.emplace(place.word, place.bit).second);
      }
    }
  }
  BOOST_TEST(taken.size() == words * 16U);  // none is wasted
  const kernels::unit_layout layout = kernels::layout_of(q.format);
  const std::uint32_t groups = layout.cols / kernels::group_cols;
  BOOST_TEST(layout.quant_bytes + layout.high_bytes == groups * words * 32 * 4);
}

BOOST_DATA_TEST_CASE(bits_said_to_lie_together_do, boost::unit_test::data::make(formats), q) {
  if (q.format == packed_format::mxfp4) return;  // has no integers
  for (std::uint32_t s = 0; s < 4; ++s) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t together = kernels::bits_together(q.format, s, i);
      const quantum_place first = kernels::place_of_bit(q.format, s, i, 0);
      for (std::uint32_t b = 1; b < together; ++b) {
        BOOST_TEST(kernels::place_of_bit(q.format, s, i, b).word == first.word);
        BOOST_TEST(kernels::place_of_bit(q.format, s, i, b).bit == first.bit + b);
      }
    }
  }
}

// A half has ten bits below its exponent: an integer that stays below them is a subnormal.
BOOST_DATA_TEST_CASE(integers_of_the_upper_rows_are_subnormal_too, boost::unit_test::data::make(formats), q) {
  BOOST_TEST(kernels::quantum_bits(q.format) + kernels::upper_shift(q.format) <= 10U);
  BOOST_TEST(kernels::quantum_bias(q.format) << kernels::upper_shift(q.format) < 1024U);
}

BOOST_AUTO_TEST_CASE(float_formats_have_no_row_scales) {
  BOOST_TEST(kernels::packed_row_scales(packed_format::f16, 100) == 0U);
  BOOST_TEST(kernels::packed_row_scales(packed_format::q6_k, 100) == 112U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
