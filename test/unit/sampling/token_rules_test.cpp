// Rules on single tokens, alone and on top of another constraint.
#include "engine/sampling/token_rules.hpp"

#include <boost/test/unit_test.hpp>
#include <utility>
#include <vector>

using namespace orcd::engine;

namespace {

constexpr std::uint32_t rows = 40;

std::vector<token_id> allowed_by(token_constraint& rules) {
  const token_mask mask = rules.mask();
  std::vector<token_id> out;
  for (token_id t = 0; t < static_cast<token_id>(rows); ++t) {
    if (allows(mask, t)) out.push_back(t);
  }
  return out;
}

/// Allows a fixed set; complete after `length` tokens.
class fixed final : public token_constraint {
 public:
  fixed(std::vector<token_id> tokens, std::size_t length) : words_(2, 0U), left_(length) {
    for (const token_id t : tokens) words_[static_cast<std::size_t>(t) / 32] |= 1U << t % 32;
  }
  token_mask mask() override { return words_; }
  bool accept(token_id token) override {
    --left_;
    return allows(words_, token);
  }
  bool complete() const override { return left_ == 0; }
  std::string failure() const override { return "why"; }

 private:
  std::vector<std::uint32_t> words_;
  std::size_t left_;
};

token_rules least(std::uint32_t min_tokens, std::vector<token_id> ends) {
  token_rules out;
  out.min_tokens = min_tokens;
  out.ends = std::move(ends);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(token_rules_alone)

BOOST_AUTO_TEST_CASE(no_end_before_the_least_number_of_tokens_and_any_token_after_it) {
  const auto rules = make_token_rules(least(2, {3, 39, 70, -1}), rows);
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(!rules->spent());
    const auto allowed = allowed_by(*rules);
    BOOST_TEST(allowed.size() == rows - 2);
    BOOST_TEST(!allows(rules->mask(), 3));
    BOOST_TEST(!allows(rules->mask(), 39));
    BOOST_TEST(rules->accept(7));
  }
  BOOST_TEST(rules->spent());
  BOOST_TEST(allowed_by(*rules).size() == rows);
  BOOST_TEST(!rules->complete());
  BOOST_TEST(!rules->decides_end());
}

BOOST_AUTO_TEST_CASE(only_what_is_allowed_and_never_what_is_banned) {
  token_rules asked;
  asked.allowed = {1, 33, 5, 99};
  asked.banned = {5, 6};
  const auto rules = make_token_rules(asked, rows);
  BOOST_TEST(allowed_by(*rules) == (std::vector<token_id>{1, 33}), boost::test_tools::per_element());
  BOOST_TEST(rules->accept(1));
  BOOST_TEST(!rules->spent());
}

BOOST_AUTO_TEST_CASE(tokens_that_must_not_come_in_a_row) {
  token_rules asked;
  asked.banned_rows = {{4}, {1, 2, 3}, {2, 5}};
  BOOST_TEST(asked.bind());
  const auto rules = make_token_rules(asked, rows);
  const auto forbidden = [&](token_id token) { return !allows(rules->mask(), token); };
  BOOST_TEST((forbidden(4) && !forbidden(3) && !forbidden(5)));
  for (const token_id token : {2, 1, 2}) BOOST_TEST(rules->accept(token));
  BOOST_TEST((forbidden(4) && forbidden(3) && forbidden(5) && !forbidden(1)));
  const auto ahead = rules->copy();
  BOOST_TEST_REQUIRE(ahead != nullptr);
  BOOST_TEST(ahead->accept(6));
  BOOST_TEST(allows(ahead->mask(), 3));
  BOOST_TEST(forbidden(3));
  BOOST_TEST(!rules->spent());
}

BOOST_AUTO_TEST_CASE(rules_that_leave_nothing_allow_nothing) {
  auto asked = least(1, {1});
  asked.allowed = {1};
  const auto rules = make_token_rules(asked, rows);
  BOOST_TEST(rules->failure().empty());
  BOOST_TEST(allowed_by(*rules).empty());
  BOOST_TEST(!rules->failure().empty());  // the request's fault, which a client is told
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(token_rules_with_a_grammar)

BOOST_AUTO_TEST_CASE(what_both_allow) {
  auto asked = least(1, {2});
  asked.banned = {7};
  const auto rules = make_token_rules(asked, rows, std::make_shared<fixed>(std::vector{2, 7, 8}, 2));
  BOOST_TEST(allowed_by(*rules) == std::vector{8}, boost::test_tools::per_element());
  BOOST_TEST(rules->accept(8));
  BOOST_TEST((allowed_by(*rules) == std::vector{2, 8}));
  BOOST_TEST(!rules->spent());
  BOOST_TEST(!rules->complete());
  BOOST_TEST(rules->decides_end());
  BOOST_TEST(!rules->accept(9));
  BOOST_TEST(rules->complete());
  BOOST_TEST(rules->failure() == "why");
}

BOOST_AUTO_TEST_CASE(the_end_that_alone_may_follow_comes_early) {
  const auto rules = make_token_rules(least(9, {2}), rows, std::make_shared<fixed>(std::vector{2}, 5));
  BOOST_TEST(allowed_by(*rules) == std::vector{2}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
