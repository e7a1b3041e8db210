// Boundaries: found by tokens, the deepest first; who goes first; all of one at a time.
#include "engine/schedule/boundary_store.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd::engine;

namespace {

constexpr std::uint32_t page_size = 4;
using tokens = std::vector<token_id>;

struct bench {
  prefix_tree tree{page_size, [this](const prefix_tree::node* at) { dropped.push_back(at); }};
  boundary_store store;
  std::vector<const prefix_tree::node*> dropped;
  kv_page next_page = 0;

  /// The nodes of a sequence, the last one of a page that may not be full.
  std::vector<prefix_tree::node*> add(const tokens& all, const std::string& salt = "") {
    std::vector<prefix_tree::node*> out;
    for (std::size_t i = 0; i < all.size(); i += page_size) {
      const auto page = std::span(all).subspan(i, std::min<std::size_t>(page_size, all.size() - i));
      auto* const parent = out.empty() ? nullptr : out.back();
      out.push_back(tree.insert(salt, parent, page, next_page++).at);
    }
    return out;
  }
  void keep(prefix_tree::node* at, std::uint32_t offset, std::uint32_t position, kv_page page = 0) {
    boundary made{at, offset, position};
    made.pages[0] = {page};
    store.add(std::move(made));
    prefix_tree::mark(at);
  }
  [[nodiscard]] std::uint32_t deepest(const tokens& all, const std::string& salt = "") const {
    const boundary* found = store.deepest(tree.find(salt, all), salt, all, page_size);
    return found == nullptr ? 0 : found->position;
  }
  /// Positions in the order in which they would go.
  std::vector<std::uint32_t> go() {
    std::vector<std::uint32_t> out;
    while (const boundary* next = store.next_to_go([](const boundary&) { return true; }))
      out.push_back(store.take(next).position);
    return out;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(boundary_stores)

BOOST_AUTO_TEST_CASE(the_deepest_that_the_tokens_lead_to_is_found) {
  bench b;
  BOOST_TEST(b.deepest({1, 2, 3}) == 0U);
  const auto path = b.add({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  b.keep(path[0], 2, 2);
  b.keep(path[1], 4, 8);
  b.keep(path[2], 1, 9);
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) == 9U);
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5, 6, 7, 8}) == 8U);
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5, 6, 7}) == 2U);
  BOOST_TEST(b.deepest({1, 2}) == 2U);
  BOOST_TEST(b.deepest({1}) == 0U);
  BOOST_TEST(b.deepest({1, 3, 3, 4, 5, 6, 7, 8, 9}) == 0U);
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5, 6, 7, 8, 9}, "other") == 0U);
  const auto other = b.add({1, 2, 3}, "other");
  b.keep(other[0], 3, 3);
  BOOST_TEST(b.deepest({1, 2, 3, 4}, "other") == 3U);
  BOOST_TEST(b.deepest({1, 2, 3, 4}) == 2U);
}

BOOST_AUTO_TEST_CASE(one_in_a_page_that_goes_on_otherwise_is_found_too) {
  bench b;
  const auto one = b.add({1, 2, 3, 4, 5, 6, 7, 8});
  const auto two = b.add({1, 2, 3, 4, 5, 6, 9, 9});
  b.keep(one[1], 2, 6);
  // The tree knows more of the second one, which has no boundary of its own.
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5, 6, 9, 9, 10}) == 6U);
  b.keep(two[1], 3, 7);
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5, 6, 9, 9, 10}) == 7U);
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5, 6, 7, 7, 10}) == 6U);
}

BOOST_AUTO_TEST_CASE(a_page_that_grows_keeps_its_boundaries) {
  bench b;
  const auto path = b.add({1, 2, 3});
  b.keep(path[0], 3, 3);
  (void)b.add({1, 2, 3, 4});
  BOOST_TEST(b.deepest({1, 2, 3, 4, 5}) == 3U);
  BOOST_TEST(b.store.find(path[0], 3) != nullptr);
  BOOST_TEST(b.store.find(path[0], 2) == nullptr);
}

BOOST_AUTO_TEST_CASE(the_least_recently_used_goes_first_and_pinned_ones_last) {
  bench b;
  const auto path = b.add({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  b.keep(path[0], 2, 2);
  b.keep(path[1], 2, 6);
  b.keep(path[2], 2, 10);
  b.keep(path[2], 3, 11);
  b.tree.pin(path[1]);
  b.store.touch(b.store.find(path[0], 2), true);
  BOOST_TEST(b.store.size() == 4U);
  BOOST_TEST(b.go() == (std::vector<std::uint32_t>{10, 11, 2, 6}), boost::test_tools::per_element());
  BOOST_TEST(b.store.size() == 0U);
  b.tree.unpin(path[1]);
}

BOOST_AUTO_TEST_CASE(those_that_were_passed_go_before_all_others_until_they_are_used) {
  bench b;
  const auto path = b.add({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  for (const std::uint32_t position : {1U, 5U, 6U, 9U, 10U})
    b.keep(path[(position - 1) / 4], (position - 1) % 4 + 1, position);
  const auto at = [&](std::uint32_t position) {
    return b.store.find_like(path[(position - 1) / 4], (position - 1) % 4 + 1);
  };
  for (const std::uint32_t position : {5U, 9U, 10U}) b.store.pass(at(position), 1);
  b.store.touch(at(5), true);
  b.store.touch(at(6), true);
  b.store.touch(at(6), true);
  b.store.pass(at(6), 1);  // two began there
  b.tree.pin(path[2]);
  BOOST_TEST(b.go() == (std::vector<std::uint32_t>{1, 5, 6, 9, 10}), boost::test_tools::per_element());
  b.tree.unpin(path[2]);
  b.keep(path[0], 1, 1);
  b.keep(path[0], 2, 2);
  b.store.pass(at(2), 0);
  BOOST_TEST(b.go() == (std::vector<std::uint32_t>{2, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(one_behind_the_same_tokens_is_found_in_another_node_too) {
  bench b;
  const auto one = b.add({1, 2, 3, 4, 5, 6, 7, 8});
  const auto two = b.add({1, 2, 3, 4, 5, 6, 9, 9});
  const auto other = b.add({1, 2, 3, 4}, "other");
  b.keep(one[1], 2, 6);
  b.keep(one[0], 2, 2);
  BOOST_TEST(b.store.find_like(two[1], 2) == b.store.find(one[1], 2));
  BOOST_TEST(b.store.find_like(two[1], 3) == nullptr);
  BOOST_TEST(b.store.find_like(one[0], 2) != nullptr);
  BOOST_TEST(b.store.find_like(other[0], 2) == nullptr);
}

BOOST_AUTO_TEST_CASE(one_that_would_not_help_is_left_alone) {
  bench b;
  const auto path = b.add({1, 2, 3, 4, 5, 6, 7, 8});
  b.keep(path[0], 4, 4, 17);
  b.keep(path[1], 4, 8, 18);
  const auto* next = b.store.next_to_go([](const boundary& one) { return one.pages[0].front() == 18; });
  BOOST_REQUIRE(next != nullptr);
  BOOST_TEST(next->position == 8U);
  BOOST_TEST(b.store.next_to_go([](const boundary&) { return false; }) == nullptr);
}

BOOST_AUTO_TEST_CASE(the_tree_tells_of_nodes_that_had_some) {
  bench b;
  const auto path = b.add({1, 2, 3, 4, 5, 6});
  b.keep(path[0], 4, 4);
  BOOST_TEST(b.store.any_at(path[0]) != nullptr);
  BOOST_TEST(b.store.any_at(path[1]) == nullptr);
  BOOST_TEST(b.tree.evict().has_value());
  BOOST_TEST(b.dropped.empty());
  BOOST_TEST(b.tree.evict().has_value());
  BOOST_TEST((b.dropped == std::vector<const prefix_tree::node*>{path[0]}));
}

BOOST_AUTO_TEST_SUITE_END()
