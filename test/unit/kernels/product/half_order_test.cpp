// The order of activations that the throughput product copies, and the tiles of experts that take it.
#include <boost/test/unit_test.hpp>
#include <set>

#include "kernels/layer/experts.hpp"
#include "kernels/product/packed_matmul_args.hpp"

namespace orcd::test {

using kernels::half_order;
using kernels::place_of_half;

BOOST_AUTO_TEST_SUITE(half_orders)

BOOST_AUTO_TEST_CASE(natural_order_leaves_halves_where_they_are) {
  for (std::uint32_t i = 0; i < 256; ++i) BOOST_TEST(place_of_half(half_order::natural, i) == i);
}

/// A row of operand B has for each mma step two pieces of four words, of which lane t of four reads the t-th.
BOOST_AUTO_TEST_CASE(packed_order_gives_each_lane_of_four_its_quarter) {
  for (std::uint32_t group = 0; group < 3; ++group) {
    std::set<std::uint32_t> places;
    for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
      for (std::uint32_t word = 0; word < 8; ++word) {
        const std::uint32_t natural = group * 64 + quarter * 16 + word * 2;
        const std::uint32_t packed = group * 64 + (word * 4 + quarter) * 2;
        BOOST_TEST(place_of_half(half_order::packed, natural) == packed);
        BOOST_TEST(place_of_half(half_order::packed, natural + 1) == packed + 1);
        places.insert({packed, packed + 1});
      }
    }
    BOOST_TEST(places.size() == 64U);
  }
}

BOOST_AUTO_TEST_CASE(experts_with_some_pairs_have_tiles_in_packed_order) {
  constexpr std::uint32_t experts = 32;
  BOOST_TEST(kernels::packed_tile_columns(8 * experts, experts) == 0U);
  BOOST_TEST(kernels::packed_tile_columns(8 * experts + 1, experts) == 32U);
  BOOST_TEST(kernels::packed_tile_columns(24 * experts - 1, experts) == 32U);
  BOOST_TEST(kernels::packed_tile_columns(24 * experts, experts) == 64U);
  BOOST_TEST(kernels::packed_tile_columns(192 * experts - 1, experts) == 64U);
  BOOST_TEST(kernels::packed_tile_columns(192 * experts, experts) == 128U);
}

BOOST_AUTO_TEST_CASE(other_experts_have_tiles_in_natural_order) {
  constexpr std::uint32_t experts = 32;
  for (const std::uint32_t pairs : {4 * experts, 32 * experts, 200 * experts}) {
    const kernels::expert_tiles natural = kernels::expert_tiles_of(pairs, experts, false);
    BOOST_TEST(natural.columns == kernels::expert_tile_columns(pairs, experts));
    BOOST_TEST((natural.order == half_order::natural));
    const kernels::expert_tiles tiles = kernels::expert_tiles_of(pairs, experts, true);
    const bool packed = pairs > 8 * experts;
    BOOST_TEST((tiles.order == (packed ? half_order::packed : half_order::natural)));
    BOOST_TEST(tiles.columns == (packed ? kernels::packed_tile_columns(pairs, experts) : natural.columns));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
