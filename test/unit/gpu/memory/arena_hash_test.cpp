// Hashes that tell arenas apart: any byte, any field of the plan; the same for any number of threads.
#include "gpu/memory/arena_hash.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/sha256.hpp"
#include "kernels/device/sha256_block.hpp"
#include "test/support/some_bytes.hpp"

namespace orcd::test {
namespace {

using engine::sha256_of;

constexpr std::size_t tile = gpu::hash_tile_bytes;

/// As a thread of the GPU does it.
std::string by_blocks(const std::vector<std::byte>& bytes) {
  kernels::sha256_blocks hash;
  for (std::size_t at = 0; at < bytes.size(); at += kernels::sha256_block_bytes) {
    std::uint32_t words[16] = {};
    for (std::size_t i = 0; i < kernels::sha256_block_bytes; ++i) {
      words[i / 4] = words[i / 4] << 8U | static_cast<std::uint32_t>(bytes[at + i]);
    }
    hash.add(words);
  }
  hash.finish(bytes.size());
  std::string out;
  for (int i = 0; i < 8; ++i) {
    char word[9];
    std::snprintf(word, sizeof word, "%08x", hash.state(i));
    out += word;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(arena_hash)

BOOST_AUTO_TEST_CASE(the_content_hash_is_sha256_over_the_tiles_hashes) {
  const auto bytes = some_bytes(2 * tile + 640);
  const std::span<const std::byte> all(bytes);
  const std::string parts =
      sha256_of(all.first(tile)) + sha256_of(all.subspan(tile, tile)) + sha256_of(all.subspan(2 * tile));
  engine::sha256 whole;
  whole.update(parts);
  BOOST_TEST(gpu::content_hash(bytes, 1) == whole.finish());
}

BOOST_AUTO_TEST_CASE(the_number_of_threads_does_not_matter) {
  const auto bytes = some_bytes(5 * tile + 64);
  const auto one = gpu::content_hash(bytes, 1);
  for (const unsigned threads : {0U, 2U, 3U, 64U, 1000U})
    BOOST_TEST(gpu::content_hash(bytes, threads) == one);
}

BOOST_AUTO_TEST_CASE(it_tells_how_far_it_is_on_the_thread_that_asked) {
  const auto bytes = some_bytes(7 * tile);
  const auto caller = std::this_thread::get_id();
  std::vector<unsigned> told;
  bool elsewhere = false;
  const auto listen = [&](unsigned percent) {
    elsewhere = elsewhere || std::this_thread::get_id() != caller;
    told.push_back(percent);
  };
  BOOST_TEST(gpu::content_hash(bytes, 1, listen) == gpu::content_hash(bytes));
  BOOST_TEST((told.size() == 7U && told.front() == 14U && told.back() == 100U));
  told.clear();
  static_cast<void>(gpu::content_hash(bytes, 3, listen));
  BOOST_TEST((!elsewhere && std::is_sorted(told.begin(), told.end())));
}

BOOST_AUTO_TEST_CASE(one_spoilt_bit_of_any_tile_is_found) {
  auto bytes = some_bytes(3 * tile + 100);
  const auto good = gpu::content_hash(bytes);
  for (const std::size_t at : {std::size_t{0}, tile - 1, tile, 2 * tile + 77, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    BOOST_TEST(gpu::content_hash(bytes) != good);
    bytes[at] ^= std::byte{1};
  }
  BOOST_TEST(gpu::content_hash(bytes) == good);
}

BOOST_AUTO_TEST_CASE(tiles_that_change_places_are_found) {
  auto bytes = some_bytes(2 * tile);
  const auto good = gpu::content_hash(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + tile, bytes.begin() + tile);
  BOOST_TEST(gpu::content_hash(bytes) != good);
}

BOOST_AUTO_TEST_CASE(blocks_on_the_device_give_the_same_sha256) {
  for (const std::size_t count : {64U, 128U, 256U, 4096U, 65'600U}) {
    const auto bytes = some_bytes(count);
    BOOST_TEST(by_blocks(bytes) == sha256_of(bytes));
  }
}

BOOST_AUTO_TEST_CASE(the_length_of_a_long_message_counts_in_64_bits) {
  // 512 MiB are 2^32 bits. Only the length is long: what was added before does not matter to the padding.
  kernels::sha256_blocks short_one, long_one;
  short_one.finish(64);
  long_one.finish(64 + (std::uint64_t{1} << 29));
  BOOST_TEST(short_one.state(0) != long_one.state(0));
}

BOOST_AUTO_TEST_CASE(every_field_of_the_plan_counts) {
  using change = std::function<void(gpu::placed_tensor&)>;
  const std::vector<gpu::placed_tensor> plan{{"a.weight", "Q4_K", {64, 32, 1, 1}, 0, 1152},
                                             {"b.weight", "F32", {64, 1, 1, 1}, 1280, 256}};
  const auto good = gpu::layout_hash("blocks 1", plan, 4096);
  BOOST_TEST(good.size() == 64U);
  BOOST_TEST(gpu::layout_hash("blocks 1", plan, 4096) == good);
  BOOST_TEST(gpu::layout_hash("blocks 2", plan, 4096) != good);
  BOOST_TEST(gpu::layout_hash("blocks 1", plan, 8192) != good);
  BOOST_TEST(gpu::layout_hash("blocks 1", std::span(plan).first(1), 4096) != good);
  const std::vector<change> changes{
      [](auto& t) { t.name = "c.weight"; },
      [](auto& t) { t.form = "Q5_K"; },
      [](auto& t) {
        t.extents = {32, 64, 1, 1};
      },
      [](auto& t) { t.offset = 256; },
      [](auto& t) { t.bytes = 1151; },
  };
  for (const auto& apply : changes) {
    auto other = plan;
    apply(other[0]);
    BOOST_TEST(gpu::layout_hash("blocks 1", other, 4096) != good);
  }
}

BOOST_AUTO_TEST_CASE(names_that_run_into_each_other_differ) {
  const std::vector<gpu::placed_tensor> one{{"ab", "c"}}, other{{"a", "bc"}};
  BOOST_TEST(gpu::layout_hash("x", one, 0) != gpu::layout_hash("x", other, 0));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
