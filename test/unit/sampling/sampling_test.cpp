// What each parameter does, on numbers worked out by hand.
#include "engine/sampling/sampling.hpp"

#include <boost/test/unit_test.hpp>

#include "test/unit/sampling/sample_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

const sampling_params greedy{.temperature = 0.0F};

}  // namespace

BOOST_AUTO_TEST_SUITE(greedy_choice)

BOOST_AUTO_TEST_CASE(takes_the_highest_logit) {
  BOOST_TEST(choose({0.1F, 3.0F, -2.0F, 2.9F}, greedy) == 1);
}

BOOST_AUTO_TEST_CASE(ties_go_to_the_lowest_id) {
  BOOST_TEST(choose({1.0F, 5.0F, 5.0F, 5.0F}, greedy) == 1);
  std::vector<float> far(10'000, 0.0F);
  far[3000] = far[3001] = far[9000] = 1.0F;
  BOOST_TEST(choose(far, greedy) == 3000);
  BOOST_TEST(choose({-0.0F, 0.0F}, greedy) == 0);
}

BOOST_AUTO_TEST_CASE(every_position_of_every_length_can_win) {
  for (std::size_t size = 1; size <= 70; ++size) {
    for (std::size_t winner = 0; winner < size; ++winner) {
      std::vector<float> logits(size, -1.0F);
      logits[winner] = 2.0F;
      BOOST_REQUIRE(choose(logits, greedy) == static_cast<token_id>(winner));
    }
  }
  std::vector<float> large(200'000, -1.0F);
  for (const std::size_t winner : {0U, 2047U, 2048U, 131'071U, 199'999U}) {
    auto logits = large;
    logits[winner] = 0.0F;
    BOOST_TEST(choose(logits, greedy) == static_cast<token_id>(winner));
  }
}

BOOST_AUTO_TEST_CASE(the_draw_and_the_filters_do_not_matter) {
  sampling_params params = greedy;
  params.top_k = 2;
  params.top_p = 0.1F;
  params.min_p = 0.9F;
  for (const double draw : {0.0, 0.3, 0.999999}) BOOST_TEST(choose({1.0F, 2.0F, 3.0F}, params, draw) == 2);
}

BOOST_AUTO_TEST_CASE(nan_is_never_chosen) {
  BOOST_TEST(choose({nan_value, 1.0F, nan_value}, greedy) == 1);
  BOOST_TEST(choose({nan_value, -inf, -5.0F, nan_value}, greedy) == 2);
}

BOOST_AUTO_TEST_CASE(nothing_choosable_gives_minus_one) {
  for (const auto& params : {greedy, sampling_params{}}) {
    BOOST_TEST(choose({nan_value, -inf}, params) == -1);
    BOOST_TEST(choose({1.0F, 2.0F}, params, 0.5, {}, {0, 1}) == -1);
  }
}

BOOST_AUTO_TEST_CASE(banned_rows_are_never_chosen) {
  BOOST_TEST(choose({9.0F, 1.0F, 8.0F, 2.0F}, greedy, 0.0, {}, {0}) == 2);
  BOOST_TEST(choose({9.0F, 1.0F, 8.0F, 2.0F}, greedy, 0.0, {}, {2, 0}) == 3);
  BOOST_TEST(choose({9.0F, 1.0F}, greedy, 0.0, {}, {-1, 7}) == 0);  // ids outside the vocabulary
}

BOOST_AUTO_TEST_CASE(infinity_wins) {
  BOOST_TEST(choose({3e38F, inf, inf}, greedy) == 1);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(penalties)

// Window {1, 1, 2}: token 1 twice, token 2 once.
const std::vector<token_id> window{1, 2, 1};

BOOST_AUTO_TEST_CASE(repetition_divides_positive_and_multiplies_negative_logits) {
  sampling_params params = greedy;
  params.repetition_penalty = 2.0F;
  BOOST_TEST(choose({2.6F, 5.0F, -1.0F}, params, 0, window) == 0);    // 5 / 2 < 2.6
  BOOST_TEST(choose({2.4F, 5.0F, -1.0F}, params, 0, window) == 1);    // once, however often it occurs
  BOOST_TEST(choose({-1.9F, -9.0F, -1.0F}, params, 0, window) == 0);  // -1 * 2 < -1.9
  BOOST_TEST(choose({-2.1F, -9.0F, -1.0F}, params, 0, window) == 2);
}

BOOST_AUTO_TEST_CASE(presence_is_subtracted_once) {
  sampling_params params = greedy;
  params.presence_penalty = 1.0F;
  BOOST_TEST(choose({3.9F, 5.0F, 0.0F}, params, 0, window) == 1);  // 5 - 1 > 3.9
  BOOST_TEST(choose({4.1F, 5.0F, 0.0F}, params, 0, window) == 0);
}

BOOST_AUTO_TEST_CASE(frequency_is_subtracted_per_occurrence) {
  sampling_params params = greedy;
  params.frequency_penalty = 1.0F;
  BOOST_TEST(choose({2.9F, 5.0F, 0.0F}, params, 0, window) == 1);  // 5 - 2 > 2.9
  BOOST_TEST(choose({3.1F, 5.0F, 0.0F}, params, 0, window) == 0);
  BOOST_TEST(choose({3.1F, 0.0F, 4.2F}, params, 0, window) == 2);  // 4.2 - 1 > 3.1
}

BOOST_AUTO_TEST_CASE(repetition_comes_before_the_subtractions) {
  sampling_params params = greedy;
  params.repetition_penalty = 2.0F;
  params.presence_penalty = 1.0F;
  params.frequency_penalty = 0.5F;
  // 8 / 2 - (1 + 2 * 0.5) = 2; the other order would give (8 - 2) / 2 = 3.
  BOOST_TEST(choose({2.1F, 8.0F, 0.0F}, params, 0, window) == 0);
  BOOST_TEST(choose({1.9F, 8.0F, 0.0F}, params, 0, window) == 1);
}

BOOST_AUTO_TEST_CASE(negative_penalties_favour_what_was_said) {
  sampling_params params = greedy;
  params.presence_penalty = -2.0F;
  BOOST_TEST(choose({5.0F, 3.5F, 0.0F}, params, 0, window) == 1);
}

BOOST_AUTO_TEST_CASE(a_look_back_of_zero_turns_penalties_off) {
  sampling_params params = greedy;
  params.presence_penalty = 2.0F;
  params.repeat_last_n = 0;
  BOOST_TEST(!params.penalises());
  BOOST_TEST(choose({4.0F, 5.0F, 0.0F}, params, 0, window) == 1);
}

BOOST_AUTO_TEST_CASE(they_apply_before_a_stochastic_draw_too) {
  sampling_params params;
  params.presence_penalty = 100.0F;
  const auto shares = reachable({0.0F, 5.0F, 5.0F}, params, window);
  BOOST_TEST(ids(shares) == std::set<token_id>{0}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(strange_windows_do_no_harm) {
  sampling_params params = greedy;
  params.repetition_penalty = 1.5F;
  params.frequency_penalty = 1.0F;
  BOOST_TEST(choose({nan_value, -inf, 1.0F}, params, 0, {-1, 3, 1'000'000, 0, 1}) == 2);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(filters)

const std::vector<double> five{0.1, 0.4, 0.25, 0.2, 0.05};

BOOST_AUTO_TEST_CASE(without_filters_every_token_has_its_probability) {
  const auto shares = reachable(logits_of(five), {});
  for (std::size_t i = 0; i < five.size(); ++i) {
    BOOST_TEST(shares.at(static_cast<token_id>(i)) == five[i], boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(top_k_keeps_the_k_most_likely) {
  sampling_params params;
  params.top_k = 2;
  const auto shares = reachable(logits_of(five), params);
  BOOST_TEST(ids(shares) == (std::set<token_id>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(shares.at(1) == 0.4 / 0.65, boost::test_tools::tolerance(0.01));
  params.top_k = 1;
  BOOST_TEST(ids(reachable(logits_of(five), params)) == std::set<token_id>{1},
             boost::test_tools::per_element());
  params.top_k = 5;
  BOOST_TEST(reachable(logits_of(five), params).size() == 5U);
  params.top_k = 0xFFFF'FFFF;
  BOOST_TEST(reachable(logits_of(five), params).size() == 5U);
}

BOOST_AUTO_TEST_CASE(top_k_breaks_ties_to_the_lowest_id) {
  sampling_params params;
  params.top_k = 3;
  const auto shares = reachable({1.0F, 2.0F, 1.0F, 1.0F, 1.0F}, params);
  BOOST_TEST(ids(shares) == (std::set<token_id>{0, 1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(top_p_keeps_the_smallest_set_that_reaches_it) {
  sampling_params params;
  params.top_p = 0.6F;
  const auto shares = reachable(logits_of(five), params);  // 0.4 + 0.25
  BOOST_TEST(ids(shares) == (std::set<token_id>{1, 2}), boost::test_tools::per_element());
  params.top_p = 0.7F;
  BOOST_TEST(ids(reachable(logits_of(five), params)) == (std::set<token_id>{1, 2, 3}),
             boost::test_tools::per_element());
  params.top_p = 1e-6F;
  BOOST_TEST(ids(reachable(logits_of(five), params)) == std::set<token_id>{1},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(top_p_of_equal_tokens_takes_the_lowest_ids) {
  sampling_params params;
  params.top_p = 0.5F;
  const auto shares = reachable(std::vector<float>(8, 1.0F), params);
  BOOST_TEST(ids(shares) == (std::set<token_id>{0, 1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(top_p_counts_what_top_k_left) {
  sampling_params params;
  params.top_k = 3;     // 0.4, 0.25, 0.2 of 0.85
  params.top_p = 0.7F;  // 0.65 / 0.85 = 0.76 reaches it; of the whole, 0.65 would not
  const auto shares = reachable(logits_of(five), params);
  BOOST_TEST(ids(shares) == (std::set<token_id>{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(min_p_is_relative_to_the_highest_probability) {
  sampling_params params;
  params.min_p = 0.45F;  // 0.18 of the highest, 0.4
  BOOST_TEST(ids(reachable(logits_of(five), params)) == (std::set<token_id>{1, 2, 3}),
             boost::test_tools::per_element());
  params.min_p = 1.0F;
  BOOST_TEST(ids(reachable(logits_of(five), params)) == std::set<token_id>{1},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(min_p_follows_the_temperature) {
  sampling_params params;
  params.min_p = 0.45F;
  params.temperature = 2.0F;  // square roots: 0.5, 1, 0.79, 0.71, 0.35 of the highest
  BOOST_TEST(ids(reachable(logits_of(five), params)) == (std::set<token_id>{0, 1, 2, 3}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(kept_tokens_are_drawn_in_the_order_of_their_ids) {
  sampling_params params;
  params.top_k = 3;
  const auto logits = logits_of(five);
  BOOST_TEST(choose(logits, params, 0.0) == 1);
  BOOST_TEST(choose(logits, params, 0.46) == 1);  // 0.4 / 0.85 = 0.4706
  BOOST_TEST(choose(logits, params, 0.48) == 2);
  BOOST_TEST(choose(logits, params, 0.76) == 2);  // 0.65 / 0.85 = 0.7647
  BOOST_TEST(choose(logits, params, 0.77) == 3);
  BOOST_TEST(choose(logits, params, 0x1.fffffffffffffp-1) == 3);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(temperature)

BOOST_AUTO_TEST_CASE(two_flattens_and_a_half_sharpens) {
  sampling_params params;
  params.temperature = 2.0F;  // weights 1, 2, 3 from probabilities 1, 4, 9
  auto shares = reachable(logits_of({1.0 / 14, 4.0 / 14, 9.0 / 14}), params);
  BOOST_TEST(shares[0] == 1.0 / 6, boost::test_tools::tolerance(0.01));
  BOOST_TEST(shares[2] == 3.0 / 6, boost::test_tools::tolerance(0.01));
  params.temperature = 0.5F;  // weights 1, 4, 9 from probabilities 1, 2, 3
  shares = reachable(logits_of({1.0 / 6, 2.0 / 6, 3.0 / 6}), params);
  BOOST_TEST(shares[0] == 1.0 / 14, boost::test_tools::tolerance(0.01));
  BOOST_TEST(shares[2] == 9.0 / 14, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(the_smallest_positive_values_choose_like_greedy) {
  for (const float tiny : {1e-3F, 1e-20F, 1e-38F, std::numeric_limits<float>::denorm_min()}) {
    sampling_params params;
    params.temperature = tiny;
    const auto shares = reachable({1.0F, 3.0F, 2.9F, -100.0F}, params, {}, 50);
    BOOST_TEST(ids(shares) == std::set<token_id>{1}, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(extreme_logits_stay_within_the_rules) {
  BOOST_TEST(ids(reachable({3e38F, -3e38F, 0.0F}, {}, {}, 50)) == std::set<token_id>{0},
             boost::test_tools::per_element());
  BOOST_TEST(ids(reachable({0.0F, inf, 5.0F, inf}, {}, {}, 50)) == (std::set<token_id>{1, 3}),
             boost::test_tools::per_element());
  BOOST_TEST(ids(reachable({nan_value, 1.0F, -inf, 1.0F}, {}, {}, 50)) == (std::set<token_id>{1, 3}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(biases)

BOOST_AUTO_TEST_CASE(a_bias_is_added_before_anything_else) {
  sampling_params params = greedy;
  params.biases = {{0, 2.5F}, {1, -100.0F}};
  BOOST_TEST(choose({1.0F, 9.0F, 3.0F}, params) == 0);
  params.repetition_penalty = 2.0F;  // (1 + 2.5) / 2 is below 3
  BOOST_TEST(choose({1.0F, 9.0F, 3.0F}, params, 0.0, {0}) == 2);
}

BOOST_AUTO_TEST_CASE(a_bias_moves_the_draw) {
  sampling_params params;
  params.biases = {{2, 100.0F}};
  for (const double draw : {0.0, 0.5, 0.999999}) BOOST_TEST(choose({1.0F, 1.0F, 1.0F}, params, draw) == 2);
  params.biases = {{2, -100.0F}};
  for (const double draw : {0.0, 0.5, 0.999999}) BOOST_TEST(choose({1.0F, 1.0F, 1.0F}, params, draw) != 2);
}

BOOST_AUTO_TEST_CASE(a_bias_frees_nothing_that_is_banned) {
  sampling_params params = greedy;
  params.biases = {{0, 100.0F}, {1, 100.0F}, {-1, 100.0F}, {7, 100.0F}};
  BOOST_TEST(choose({1.0F, -inf, 0.0F}, params, 0.0, {}, {0}) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
