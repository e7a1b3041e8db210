// Log probabilities against double precision, and the cases where a softmax has no number of its own.
#include "engine/sampling/logprobs.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "test/unit/sampling/sample_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

double exact_logprob(const std::vector<float>& logits, std::size_t token) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - best);
  return logits[token] - best - std::log(sum);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(logprobs)

BOOST_AUTO_TEST_CASE(they_match_double_precision) {
  for (const std::size_t vocab : {1U, 2U, 50U, 5000U, 151'936U}) {
    for (const double spread : {0.01, 4.0, 30.0}) {
      const auto logits = random_logits(vocab, vocab, spread);
      const auto got = logprobs_of(logits, static_cast<token_id>(vocab / 2), 20);
      BOOST_TEST(std::abs(got.chosen - exact_logprob(logits, vocab / 2)) < 4e-6);
      BOOST_TEST(got.listed == std::min<std::size_t>(vocab, 20));
      for (std::uint32_t i = 0; i < got.listed; ++i) {
        const auto [token, logprob] = got.top[i];
        BOOST_TEST(std::abs(logprob - exact_logprob(logits, static_cast<std::size_t>(token))) < 4e-6);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_most_likely_come_first_and_ties_by_lower_id) {
  std::vector<float> logits(1000, -1.0F);
  logits[700] = logits[30] = logits[500] = 3.0F;
  logits[999] = 4.0F;
  const auto got = logprobs_of(logits, 0, 6);
  const std::vector<token_id> expected{999, 30, 500, 700, 0, 1};
  BOOST_REQUIRE(got.listed == 6U);
  for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(got.top[i].token == expected[i]);
  BOOST_TEST(got.chosen == got.top[4].logprob);
}

BOOST_AUTO_TEST_CASE(a_rank_is_the_place_in_the_order_of_the_list) {
  auto logits = random_logits(500, 3, 4.0);
  for (std::size_t i = 0; i < 500; i += 7) logits[i] = 1.25F;  // ties
  logits[40] = inf;
  logits[41] = logits[300] = nan_value;
  logits[42] = -inf;
  const auto number = [](float logit) { return std::isnan(logit) ? -inf : logit; };
  std::vector<token_id> order(500);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](token_id a, token_id b) {
    return number(logits[static_cast<std::size_t>(a)]) > number(logits[static_cast<std::size_t>(b)]);
  });
  for (std::uint32_t i = 0; i < 500; ++i) BOOST_TEST(rank_of(logits, order[i]) == i + 1);
  const auto listed = logprobs_of(logits, 0, 20);
  for (std::uint32_t i = 0; i < 20; ++i) BOOST_TEST(rank_of(logits, listed.top[i].token) == i + 1);
  const sampling_params ranked{.tells_rank = true};
  BOOST_TEST((ranked.needs_logits() && !ranked.uses_usual_order()));
  BOOST_TEST(logprobs_after(logits, ranked, {}, order[77], 3).rank == 78U);
  BOOST_TEST(logprobs_after(logits, {}, {}, order[77], 3).rank == 0U);
}

BOOST_AUTO_TEST_CASE(infinite_and_missing_logits_have_a_meaning) {
  const auto shared = logprobs_of({{1.0F, inf, nan_value, inf, 2.0F}}, 1, 5);
  BOOST_TEST(std::abs(shared.chosen - std::log(0.5)) < 1e-6);
  BOOST_REQUIRE(shared.listed == 4U);
  BOOST_TEST(shared.top[0].token == 1);
  BOOST_TEST(shared.top[1].token == 3);
  BOOST_TEST(shared.top[2].logprob == -inf);
  const auto some = logprobs_of({{-inf, 0.0F, nan_value}}, 1, 3);
  BOOST_TEST(some.chosen == 0.0F);
  BOOST_TEST(some.listed == 1U);
  BOOST_TEST(logprobs_of({{nan_value, -inf}}, 0, 3).listed == 0U);
}

BOOST_AUTO_TEST_CASE(none_are_listed_unless_asked_for) {
  const auto got = logprobs_of({{0.0F, 0.0F}}, 1, 0);
  BOOST_TEST(got.listed == 0U);
  BOOST_TEST(std::abs(got.chosen - std::log(0.5)) < 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
