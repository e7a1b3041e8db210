// How many blocks a product of few columns has, and how many of them share activations.
#include "kernels/product/balanced_blocks.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>

namespace orcd::test {
namespace {

using kernels::block_choice;
using kernels::choose_blocks;

/// What an H200 said.
kernels::device_room room_of_h200() {
  kernels::device_room room;
  room.multiprocessors = 132;
  room.clusters[2] = 66;
  room.clusters[4] = 30;
  room.clusters[8] = 15;
  return room;
}

constexpr std::uint32_t narrow = 2 * 896;
constexpr std::uint32_t wide = 2 * 3072;

bool is(block_choice choice, std::uint32_t blocks, std::uint32_t cluster_blocks) {
  return choice.blocks == blocks && choice.cluster_blocks == cluster_blocks;
}

std::uint32_t most_tiles(std::uint32_t tiles, std::uint32_t blocks) {
  return (tiles + blocks - 1) / blocks;
}

BOOST_AUTO_TEST_CASE(the_largest_clusters_that_all_run_at_once_share) {
  const kernels::device_room room = room_of_h200();
  BOOST_TEST(is(choose_blocks(72, narrow, room), 72, 8));
  BOOST_TEST(is(choose_blocks(12, narrow, room), 12, 4));
  BOOST_TEST(is(choose_blocks(30, narrow, room), 30, 2));
  BOOST_TEST(is(choose_blocks(304, narrow, room), 132, 2));  // 33 clusters of four have no room
  BOOST_TEST(is(choose_blocks(3, narrow, room), 3, 1));
  BOOST_TEST(is(choose_blocks(1, wide, room), 1, 1));
}

BOOST_AUTO_TEST_CASE(of_long_columns_no_more_blocks_than_take_as_long) {
  const kernels::device_room room = room_of_h200();
  BOOST_TEST(is(choose_blocks(192, wide, room), 96, 8));   // two tiles each, as of 132
  BOOST_TEST(is(choose_blocks(576, wide, room), 120, 8));  // five
  BOOST_TEST(is(choose_blocks(512, wide, room), 128, 2));  // four; 16 clusters of eight have no room, nor 32
}

BOOST_AUTO_TEST_CASE(without_clusters_every_multiprocessor_has_a_block) {
  kernels::device_room room;
  room.multiprocessors = 132;
  BOOST_TEST(is(choose_blocks(576, wide, room), 132, 1));
  BOOST_TEST(is(choose_blocks(100, narrow, room), 100, 1));
}

BOOST_AUTO_TEST_CASE(no_choice_takes_longer_or_has_blocks_without_tiles) {
  const kernels::device_room room = room_of_h200();
  for (const std::uint32_t bytes : {narrow, wide}) {
    for (std::uint32_t tiles = 1; tiles <= 3000; ++tiles) {
      const block_choice c = choose_blocks(tiles, bytes, room);
      const std::uint32_t all = std::min(tiles, room.multiprocessors);
      BOOST_REQUIRE(c.blocks > 0 && c.blocks <= all && c.blocks % c.cluster_blocks == 0);
      BOOST_REQUIRE(c.cluster_blocks == 1 || c.blocks / c.cluster_blocks <= room.clusters[c.cluster_blocks]);
      BOOST_REQUIRE(most_tiles(tiles, c.blocks) == most_tiles(tiles, all));
    }
  }
}

}  // namespace
}  // namespace orcd::test
