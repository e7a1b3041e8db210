// Pages of known tokens: what matches, what is replaced, what goes first.
#include "engine/schedule/prefix_tree.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "engine/schedule/page_pool.hpp"
#include "engine/schedule/pin_table.hpp"

using namespace orcd::engine;

namespace {

constexpr std::uint32_t page_size = 4;
using tokens = std::vector<token_id>;

struct bench {
  std::vector<const prefix_tree::node*> dropped;
  prefix_tree tree{page_size, [this](const prefix_tree::node* at) { dropped.push_back(at); }};
  kv_page next_page = 0;

  /// Adds all pages of a sequence; returns the nodes.
  std::vector<prefix_tree::node*> add(const tokens& all, const std::string& salt = {}) {
    std::vector<prefix_tree::node*> path;
    for (std::size_t at = 0; at < all.size(); at += page_size) {
      const auto piece = std::span(all).subspan(at, std::min<std::size_t>(page_size, all.size() - at));
      path.push_back(tree.insert(salt, path.empty() ? nullptr : path.back(), piece, next_page++).at);
    }
    return path;
  }
  /// Tokens that the tree has of a sequence's beginning.
  [[nodiscard]] std::size_t known(const tokens& all, const std::string& salt = {}) const {
    const auto found = tree.find(salt, all);
    return found.whole.size() * page_size + found.positions;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(prefix_trees)

BOOST_AUTO_TEST_CASE(the_longest_beginning_is_found_token_by_token) {
  bench b;
  b.add({1, 2, 3, 4, 5, 6, 7, 8, 9});
  b.add({1, 2, 3, 4, 5, 6, 9, 9});
  b.add({1, 2, 8});
  BOOST_TEST(b.known({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) == 9U);
  BOOST_TEST(b.known({1, 2, 3, 4, 5, 6, 9}) == 7U);
  BOOST_TEST(b.known({1, 2, 3, 4, 5, 6, 8}) == 6U);
  BOOST_TEST(b.known({1, 2, 3, 4}) == 4U);
  BOOST_TEST(b.known({1, 2, 8, 8}) == 3U);
  BOOST_TEST(b.known({1, 2, 7}) == 2U);
  BOOST_TEST(b.known({2, 1}) == 0U);
  BOOST_TEST(b.known({}) == 0U);
  const auto found = b.tree.find("", tokens{1, 2, 3, 4, 5, 6, 9, 1});
  BOOST_TEST(found.whole.size() == 1U);
  BOOST_TEST(found.positions == 3U);
  BOOST_TEST(prefix_tree::page_of(found.part) == 4);
}

BOOST_AUTO_TEST_CASE(another_salt_finds_nothing) {
  bench b;
  b.add({1, 2, 3, 4, 5}, "a");
  BOOST_TEST(b.known({1, 2, 3, 4, 5}, "a") == 5U);
  BOOST_TEST(b.known({1, 2, 3, 4, 5}, "b") == 0U);
  BOOST_TEST(b.known({1, 2, 3, 4, 5}) == 0U);
}

BOOST_AUTO_TEST_CASE(a_page_that_is_known_is_not_needed_and_a_shorter_one_is_replaced) {
  bench b;
  const tokens whole{1, 2, 3, 4};
  const auto first = b.tree.insert("", nullptr, std::span(whole).first(2), 10);
  BOOST_TEST(!first.unused);
  const auto shorter = b.tree.insert("", nullptr, std::span(whole).first(1), 11);
  BOOST_TEST(shorter.at == first.at);
  BOOST_TEST(*shorter.unused == 11);
  const auto longer = b.tree.insert("", nullptr, whole, 12);
  BOOST_TEST(longer.at == first.at);
  BOOST_TEST(*longer.unused == 10);
  BOOST_TEST(prefix_tree::page_of(longer.at) == 12);
  const auto again = b.tree.insert("", nullptr, whole, 13);
  BOOST_TEST(*again.unused == 13);
  BOOST_TEST(b.tree.pages() == 1U);
  BOOST_TEST(b.known(whole) == 4U);
}

BOOST_AUTO_TEST_CASE(leaves_go_first_then_the_least_recently_used) {
  bench b;
  b.add({1, 2, 3, 4, 5, 6, 7, 8});         // pages 0, 1
  const auto other = b.add({9, 9, 9, 9});  // page 2
  for (auto* at : other) b.tree.use(at);
  BOOST_TEST(b.tree.idle() == 2U);
  const auto path = b.tree.find("", tokens{1, 2, 3, 4, 5, 6, 7, 8}).whole;
  for (auto* at : path) b.tree.use(at);
  BOOST_TEST(b.tree.idle() == 0U);
  BOOST_TEST(!b.tree.evict());
  for (auto* at : other) b.tree.release(at);
  for (auto at = path.rbegin(); at != path.rend(); ++at) b.tree.release(*at);
  BOOST_TEST(*b.tree.evict() == 2);
  BOOST_TEST(*b.tree.evict() == 1);
  BOOST_TEST(*b.tree.evict() == 0);
  BOOST_TEST(!b.tree.evict());
  BOOST_TEST(b.tree.pages() == 0U);
  BOOST_TEST(b.known({1, 2, 3, 4}) == 0U);
}

BOOST_AUTO_TEST_CASE(what_is_pinned_goes_last_and_its_owner_is_told) {
  bench b;
  const auto pinned = b.add({1, 2, 3, 4, 5});
  b.add({7, 7});
  b.tree.pin(pinned.back());
  BOOST_TEST(*b.tree.evict() == 2);
  BOOST_TEST(b.dropped.empty());
  BOOST_TEST(*b.tree.evict() == 1);
  BOOST_TEST(b.dropped.size() == 1U);
  BOOST_TEST(b.dropped.front() == pinned.back());
}

BOOST_AUTO_TEST_CASE(a_pin_moves_with_its_name_and_the_oldest_makes_room) {
  bench b;
  pin_table pins(b.tree, 2);
  const auto one = b.add({1}), two = b.add({2}), three = b.add({3}), four = b.add({4});
  pins.set("a", one.back());
  pins.set("b", two.back());
  pins.set("a", three.back());  // one is free again
  pins.set("c", four.back());   // so is two
  BOOST_TEST(pins.size() == 2U);
  BOOST_TEST(*b.tree.evict() == 0);
  BOOST_TEST(*b.tree.evict() == 1);
  BOOST_TEST(b.dropped.empty());
  pins.forget(three.back());
  BOOST_TEST(pins.size() == 1U);
  pin_table none(b.tree, 0);
  none.set("a", four.back());
  BOOST_TEST(none.size() == 0U);
}

BOOST_AUTO_TEST_CASE(a_pool_hands_out_every_page_once) {
  page_pool pool(5);
  std::vector<kv_page> taken;
  pool.take(3, taken);
  pool.take(2, taken);
  BOOST_TEST(pool.free() == 0U);
  std::sort(taken.begin(), taken.end());
  std::vector<kv_page> all(5);
  std::iota(all.begin(), all.end(), 0);
  BOOST_TEST(taken == all, boost::test_tools::per_element());
  pool.give(std::span(taken).first(2));
  BOOST_TEST(pool.free() == 2U);
  BOOST_TEST(pool.size() == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
