// How many drafts a step takes: what pays by the cost of more tokens, and by what was accepted before.
#include "engine/schedule/draft_plan.hpp"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <vector>

namespace orcd::test {
namespace {

using engine::draft_offer;

double flat(std::uint32_t) {
  return 1.0;
}
double linear(std::uint32_t tokens) {
  return tokens;
}
/// A step of up to eight tokens takes hardly longer than one of a single token, more take much longer.
double with_cliff(std::uint32_t tokens) {
  return tokens <= 8 ? 1.0 + 0.05 * (tokens - 1) : 2.2;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(draft_plan)

BOOST_AUTO_TEST_CASE(where_tokens_are_free_all_are_taken_and_where_they_cost_as_much_none) {
  std::vector<draft_offer> offers{{7, 0.5}, {0, 0.9}, {3, 0.1}};
  engine::choose_drafts(offers, 3, 64, flat);
  BOOST_TEST((offers[0].taken == 7U && offers[1].taken == 0U && offers[2].taken == 3U));
  engine::choose_drafts(offers, 3, 64, linear);
  for (const draft_offer& offer : offers) BOOST_TEST(offer.taken == 0U);
}

BOOST_AUTO_TEST_CASE(what_gains_most_comes_first_when_there_is_little_room) {
  std::vector<draft_offer> offers{{15, 0.5}, {15, 0.9}};
  engine::choose_drafts(offers, 2, 4, flat);
  BOOST_TEST((offers[0].taken == 0U && offers[1].taken == 4U));  // 0.9 to the fourth is 0.66
  engine::choose_drafts(offers, 2, 8, flat);
  BOOST_TEST((offers[0].taken == 1U && offers[1].taken == 7U));
}

BOOST_AUTO_TEST_CASE(a_cliff_is_passed_only_where_it_pays) {
  std::vector<draft_offer> offers{{15, 0.8}};
  engine::choose_drafts(offers, 1, 64, with_cliff);
  BOOST_TEST(offers[0].taken == 7U);
  offers[0].likely = 0.9;
  engine::choose_drafts(offers, 1, 64, with_cliff);
  BOOST_TEST(offers[0].taken == 7U);  // 5.7 tokens at 1.35, 8.1 at 2.2
  offers[0].likely = 0.99;
  engine::choose_drafts(offers, 1, 64, with_cliff);
  BOOST_TEST(offers[0].taken == 15U);  // 7.7 at 1.35, 14.9 at 2.2
  std::vector<draft_offer> many(4, {15, 0.99});
  engine::choose_drafts(many, 4, 64, with_cliff);
  BOOST_TEST(std::accumulate(many.begin(), many.end(), 0U,
                             [](auto sum, const auto& o) { return sum + o.taken; }) == 60U);
}

BOOST_AUTO_TEST_CASE(room_bounds_what_is_always_taken) {
  std::vector<draft_offer> offers{{3, 0.0}, {0, 0.0}, {5, 0.0}, {2, 0.0}};
  engine::take_drafts(offers, 6);
  BOOST_TEST((offers[0].taken == 3U && offers[2].taken == 3U && offers[3].taken == 0U));
}

BOOST_AUTO_TEST_CASE(drafts_that_are_always_wrong_soon_do_not_pay_and_are_tried_again_much_later) {
  engine::draft_record record;
  const auto pays = [&] {
    std::vector<draft_offer> offers{{7, record.likely(0)}};
    engine::choose_drafts(offers, 1, 64, [](std::uint32_t n) { return 1.0 + 0.25 * (n - 1); });
    return offers[0].taken;
  };
  std::uint32_t first = 0;
  while (pays() > 0 && ++first < 100) record.note(0, pays(), 0);
  BOOST_TEST((first > 0U && first < 10U));
  std::uint32_t again = 0;
  for (int guess = 0; guess < 1000; ++guess) {
    if (pays() == 0) {
      record.pass(0);
    } else {
      record.note(0, pays(), 0);
      ++again;
    }
  }
  BOOST_TEST((again > 2U && again < 30U));
}

BOOST_AUTO_TEST_CASE(kinds_are_told_apart_and_what_is_right_is_learnt) {
  engine::draft_record record;
  const double before = record.likely(1);
  for (int i = 0; i < 30; ++i) record.note(2, 4, 4);
  BOOST_TEST(record.likely(2) > 0.95);
  BOOST_TEST(record.likely(1) == before);
  for (int i = 0; i < 120; ++i) record.note(2, 4, 2);  // two right, one wrong, one that says nothing
  BOOST_TEST((record.likely(2) > 0.6 && record.likely(2) < 0.72));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
