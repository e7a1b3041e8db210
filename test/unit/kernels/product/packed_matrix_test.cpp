// Where the quanta of a packed matrix lie: every bit has a place of its own, and masks find what they are
// for.
#include "kernels/product/packed_matrix.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <utility>
#include <vector>

#include "kernels/product/quant_blocks.hpp"

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
    {"q4_0", packed_format::q4_0},     {"q4_1", packed_format::q4_1},   {"q5_0", packed_format::q5_0},
    {"q5_1", packed_format::q5_1},     {"q8_0", packed_format::q8_0},   {"q4_k", packed_format::q4_k},
    {"q5_k", packed_format::q5_k},     {"q6_k", packed_format::q6_k},   {"mxfp4", packed_format::mxfp4},
    {"q2_k", packed_format::q2_k},     {"q3_k", packed_format::q3_k},   {"iq4_nl", packed_format::iq4_nl},
    {"iq4_xs", packed_format::iq4_xs}, {"nvfp4", packed_format::nvfp4},
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
        for (const std::uint32_t distance : {0U, kernels::pair_distance(q.format)}) {
          BOOST_TEST(place.bit + distance < 32U);
          BOOST_TEST(taken.emplace(place.word, place.bit + distance).second);
        }
      }
    }
  }
  BOOST_TEST(taken.size() == words * 32U);  // none is wasted
  const kernels::unit_layout layout = kernels::layout_of(q.format);
  const std::uint32_t groups = layout.cols / kernels::group_cols;
  BOOST_TEST(layout.quant_bytes + layout.high_bytes == groups * words * 32 * 4);
}

BOOST_DATA_TEST_CASE(bits_said_to_lie_together_do, boost::unit_test::data::make(formats), q) {
  if (kernels::is_fp4_format(q.format)) return;  // has no integers
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

BOOST_AUTO_TEST_CASE(scales_of_k_formats_come_back) {
  for (std::uint32_t seed = 0; seed < 64; ++seed) {
    kernels::k_scales s{};
    for (std::uint32_t i = 0; i < 4; ++i) {
      s.scale[i] = static_cast<std::uint8_t>((seed * 5 + i * 19) % 64);
      s.minimum[i] = static_cast<std::uint8_t>((seed * 11 + i * 23 + 7) % 64);
    }
    std::uint32_t halves[3];
    for (std::uint32_t i = 0; i < 3; ++i) {
      halves[i] = kernels::k_scale_half(s, i);
      BOOST_TEST(halves[i] < 65536U);
    }
    BOOST_TEST((kernels::k_scales_of(halves[0], halves[1], halves[2]) == s));
  }
}

BOOST_AUTO_TEST_CASE(scales_of_six_bits_come_back) {
  for (std::uint32_t seed = 0; seed < 64; ++seed) {
    kernels::six_bit_scales s{};
    for (std::uint32_t i = 0; i < 4; ++i) s.of[i] = static_cast<std::uint8_t>((seed * 5 + i * 19) % 64);
    BOOST_TEST(s.half() < 65536U);
    BOOST_TEST(s.byte() < 256U);
    BOOST_TEST((kernels::six_bit_scales_of(s.half(), s.byte()) == s));
  }
}

// An instruction tells the two by their sign alone.
BOOST_AUTO_TEST_CASE(nibbles_that_differ_in_the_highest_bit_have_values_of_one_sign) {
  for (std::uint32_t n = 0; n < 8; ++n) {
    BOOST_TEST(kernels::exchange_upper_bits(kernels::exchange_upper_bits(n)) == n);
    BOOST_TEST((kernels::iq4_values[kernels::exchange_upper_bits(n)] < 0) ==
               (kernels::iq4_values[kernels::exchange_upper_bits(n + 8)] < 0));
  }
}

namespace {

/// Bytes of a unit's scales, each of which may be taken once.
class scale_places {
 public:
  explicit scale_places(packed_format format) : bytes_(kernels::layout_of(format).scale_bytes) {}
  ~scale_places() { BOOST_TEST(taken_.size() == bytes_); }

  void take(std::uint32_t at, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      BOOST_TEST(at + i < bytes_);
      BOOST_TEST(taken_.insert(at + i).second);
    }
  }

 private:
  std::uint32_t bytes_;
  std::set<std::uint32_t> taken_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(scales_have_places_of_their_own) {
  scale_places k(packed_format::q5_k);
  scale_places q6(packed_format::q6_k);
  scale_places blocks(packed_format::mxfp4);
  for (std::uint32_t row = 0; row < kernels::tile_rows; ++row) {
    for (std::uint32_t i = 0; i < 6; ++i) k.take(kernels::k_scale_at(row, i / 3, i % 3), 2);
    for (const bool of_minimums : {false, true}) k.take(kernels::k_factor_at(row, of_minimums), 2);
    for (std::uint32_t j = 0; j < 16; ++j) q6.take(kernels::q6_scale_at(row, j), 1);
    q6.take(kernels::q6_factor_at(row), 2);
    for (std::uint32_t block = 0; block < 2; ++block) blocks.take(kernels::scale_index(row, block), 1);
  }
}

BOOST_AUTO_TEST_CASE(scales_of_few_bits_have_places_of_their_own) {
  scale_places q2(packed_format::q2_k);
  scale_places nvfp4(packed_format::nvfp4);
  for (std::uint32_t row = 0; row < kernels::tile_rows; ++row) {
    for (std::uint32_t j = 0; j < 16; ++j) q2.take(kernels::q2_scale_at(row, j), 1);
    for (const bool of_minimums : {false, true}) q2.take(kernels::q2_factor_at(row, of_minimums), 2);
    for (std::uint32_t j = 0; j < 4; ++j) nvfp4.take(kernels::nvfp4_scale_at(row, j), 1);
  }
  for (const packed_format format : {packed_format::q3_k, packed_format::iq4_xs}) {
    scale_places places(format);
    for (std::uint32_t row = 0; row < kernels::tile_rows; ++row) {
      for (std::uint32_t set = 0; set < kernels::six_bit_sets(format); ++set) {
        places.take(kernels::six_bit_half_at(format, row, set), 2);
        places.take(kernels::six_bit_byte_at(format, row, set), 1);
      }
      places.take(kernels::six_bit_factor_at(format, row), 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(float_formats_have_no_row_scales) {
  BOOST_TEST(kernels::packed_row_scales(packed_format::f16, 100) == 0U);
  BOOST_TEST(kernels::packed_row_scales(packed_format::q6_k, 100) == 112U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
