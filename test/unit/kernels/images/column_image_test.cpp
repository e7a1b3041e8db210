// Where halves lie in an image of operand B, and how many columns tiles of sorted pairs take.
#include "kernels/images/column_image.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

using namespace orcd::kernels;

BOOST_AUTO_TEST_SUITE(column_image)

BOOST_AUTO_TEST_CASE(each_half_has_a_place_of_its_own) {
  constexpr std::uint32_t columns = 24;
  constexpr std::uint32_t cols = 192;
  std::vector<std::uint64_t> places;
  for (std::uint32_t m = 0; m < columns; ++m) {
    for (std::uint32_t i = 0; i < cols; ++i) places.push_back(place_in_image(columns, m, i));
  }
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < places.size(); ++i) BOOST_REQUIRE_EQUAL(places[i], i);
}

/// Word w of the four quarters of 16 is piece w, which column c has at piece w ^ (c % 8).
BOOST_AUTO_TEST_CASE(pieces_are_permuted_as_the_swizzle_demands) {
  BOOST_TEST(place_in_image(16, 0, 0) == 0U);
  BOOST_TEST(place_in_image(16, 0, 16) == 2U);
  BOOST_TEST(place_in_image(16, 0, 3) == 9U);
  BOOST_TEST(place_in_image(16, 5, 0) == 5U * 64 + 5 * 8);
  BOOST_TEST(place_in_image(16, 13, 2) == 13U * 64 + (1 ^ 5) * 8);
  BOOST_TEST(place_in_image(16, 13, 64 + 50) == 16U * 64 + 13U * 64 + (1 ^ 5) * 8 + 6);
}

BOOST_AUTO_TEST_CASE(columns_of_tiles_are_aligned) {
  BOOST_TEST(image_columns(1) == 8U);
  BOOST_TEST(image_columns(128) == 128U);
  BOOST_TEST(sorted_image_columns(100, 4) >= 100U + 4 * 7 - 4);
  BOOST_TEST(sorted_image_columns(3, 128) >= 3U * 8);  // each in an expert of its own
  BOOST_TEST(sorted_image_columns(8'192, 32) % 8 == 0U);
  BOOST_TEST(sorted_image_columns(8'192, 32) <= 8'192U + 32 * 8);
}

BOOST_AUTO_TEST_SUITE_END()
