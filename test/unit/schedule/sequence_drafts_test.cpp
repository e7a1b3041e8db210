// One sequence's drafts: what is guessed, what a constraint leaves of it, and where that stands afterwards.
#include "engine/schedule/sequence_drafts.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>

using namespace orcd::engine;

namespace {

struct fixed_source final : draft_source {
  std::uint32_t guess(std::span<const token_id>, std::uint32_t most, std::vector<token_id>& out) override {
    asked = most;
    for (token_id t = 10; t < 10 + static_cast<token_id>(std::min<std::size_t>(most, count)); ++t)
      out.push_back(t);
    return 2;
  }
  std::size_t count = 20;
  std::uint32_t asked = 0;
};

/// Allows 10, 11, 12, ... in a row, up to `last`. Each mask costs 1.
struct counting final : token_constraint {
  explicit counting(token_id to) : last(to), words(4) {}
  token_mask mask() override {
    ++cost;
    std::fill(words.begin(), words.end(), 0U);
    if (next <= last) words[static_cast<std::size_t>(next) / 32] = 1U << next % 32;
    return words;
  }
  bool accept(token_id token) override { return token == next++; }
  bool complete() const override { return false; }
  std::shared_ptr<token_constraint> copy() const override { return std::make_shared<counting>(*this); }
  std::uint64_t work() const override { return cost; }
  void force(std::uint32_t most, std::vector<token_id>& out) override {
    cost += force_cost;
    for (std::uint32_t i = 0; i < most; ++i) out.push_back(next++);
  }
  token_id next = 10, last;
  std::uint64_t cost = 0, force_cost = 1;
  std::vector<std::uint32_t> words;
};

struct drafts_bench {
  drafts_bench() {
    auto made = std::make_unique<fixed_source>();
    source = made.get();
    drafts.set_source(std::move(made));
  }
  [[nodiscard]] sequence_drafts::basis basis(std::uint32_t left = 100, std::uint32_t pending = 0) const {
    return {tokens, 1, left, pending, constraint.get(), [this](token_id token) { return token == ends_at; }};
  }
  /// Guesses and takes so many; returns how many are left of them.
  std::uint32_t ask(std::uint32_t count) {
    BOOST_TEST_REQUIRE(drafts.guess(basis()).most >= count);
    requests = drafts.ask(count, tokens.back(), constraint.get(), [](std::uint32_t ahead) {
      sample_request out;
      out.draw = ahead;
      return out;
    });
    return drafts.count();
  }
  /// As if these had been chosen.
  sequence_drafts::verdict judge(const std::vector<token_id>& chosen) {
    std::vector<sampled_token> results;
    for (const token_id token : chosen) results.push_back({slot_id{}, token});
    return drafts.judge(results);
  }
  [[nodiscard]] token_id at() const { return dynamic_cast<const counting&>(*constraint).next; }

  std::vector<token_id> tokens{1, 2};
  token_id ends_at = -1;
  std::shared_ptr<token_constraint> constraint;
  sequence_drafts drafts;
  fixed_source* source = nullptr;
  const sample_request* requests = nullptr;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sequences_drafts)

BOOST_AUTO_TEST_CASE(the_last_token_of_the_output_is_no_draft_nor_is_one_that_ends_it) {
  drafts_bench b;
  BOOST_TEST(b.drafts.guess(b.basis(100)).most == drafts_max);
  BOOST_TEST(b.drafts.guess(b.basis(4)).most == 3U);
  BOOST_TEST(b.drafts.guess(b.basis(1)).most == 0U);
  BOOST_TEST(b.drafts.guess(b.basis(5, 2)).most == 2U);  // two of four are known by then
  b.ends_at = 12;
  BOOST_TEST(b.drafts.guess(b.basis()).most == 2U);
  b.drafts.drop_source();
  BOOST_TEST(b.drafts.guess(b.basis()).most == 0U);
  BOOST_TEST(!b.drafts.has_source());
}

BOOST_AUTO_TEST_CASE(a_step_feeds_the_last_token_and_the_drafts_and_asks_after_each) {
  drafts_bench b;
  BOOST_TEST(b.ask(3) == 3U);
  BOOST_TEST(b.drafts.in_step());
  const std::vector<token_id> fed{2, 10, 11, 12};
  BOOST_TEST(b.drafts.fed() == fed, boost::test_tools::per_element());
  for (int i = 0; i < 4; ++i) BOOST_TEST(b.requests[i].draw == i);
  const auto found = b.judge({10, 11, 99, 13});
  BOOST_TEST(found.drafts == 3U);
  BOOST_TEST(found.right == 2U);
  BOOST_TEST(!b.drafts.in_step());
  BOOST_TEST(b.drafts.tried() == 3U);
  BOOST_TEST(b.drafts.right() == 2U);
}

BOOST_AUTO_TEST_CASE(what_was_right_before_is_expected_to_be_right_again) {
  drafts_bench b;
  const double before = b.drafts.guess(b.basis()).likely;
  b.ask(4);
  (void)b.judge({99, 99, 99, 99, 99});
  const double after = b.drafts.guess(b.basis()).likely;
  BOOST_TEST(after < before);
  for (int i = 0; i < 100; ++i) b.drafts.pass();
  BOOST_TEST(b.drafts.guess(b.basis()).likely > after);
}

BOOST_AUTO_TEST_CASE(a_constraint_leaves_the_drafts_that_it_allows_and_stays_where_it_is) {
  drafts_bench b;
  b.constraint = std::make_shared<counting>(11);
  BOOST_TEST(b.ask(4) == 2U);
  BOOST_TEST(b.at() == 10);
  BOOST_TEST(allows(b.requests[1].allowed, 11));
  BOOST_TEST(!allows(b.requests[2].allowed, 12));
  b.drafts.forget_step();  // it is lost
  BOOST_TEST(b.at() == 10);
  BOOST_TEST(!b.drafts.in_step());
}

BOOST_AUTO_TEST_CASE(the_copy_takes_over_where_all_drafts_were_right) {
  drafts_bench b;
  b.constraint = std::make_shared<counting>(40);
  BOOST_TEST(b.ask(2) == 2U);
  const auto found = b.judge({10, 11, 12});
  b.drafts.follow(0, found, b.constraint);
  BOOST_TEST(b.at() == 10);
  b.drafts.follow(1, found, b.constraint);
  BOOST_TEST(b.at() == 10);
  b.drafts.follow(2, found, b.constraint);
  BOOST_TEST(b.at() == 12);  // what follows is told to it as ever
}

BOOST_AUTO_TEST_CASE(where_none_is_left_the_copy_has_the_mask_already) {
  drafts_bench b;
  b.constraint = std::make_shared<counting>(5);
  const auto* before = b.constraint.get();
  BOOST_TEST(b.ask(3) == 0U);
  b.drafts.keep_copy(b.constraint);
  BOOST_TEST(b.constraint.get() != before);
  BOOST_TEST(b.constraint->work() == 1U);
}

BOOST_AUTO_TEST_CASE(what_has_no_choice_is_guessed_until_that_was_in_vain_for_too_long) {
  drafts_bench b;
  b.source->count = 0;
  auto constraint = std::make_shared<counting>(40);
  constraint->force_cost = 13'000'000;
  b.constraint = constraint;
  BOOST_TEST(b.drafts.guess(b.basis()).most == 7U);
  BOOST_TEST(b.at() == 10);
  BOOST_TEST(b.drafts.guess(b.basis()).most == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
