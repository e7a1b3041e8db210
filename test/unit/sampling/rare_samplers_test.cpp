// The samplers of llama-server against an oracle that is written from their definitions with sorts and f64,
// draw by draw, and against their statistics.
#include "engine/sampling/rare_samplers.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "engine/sampling/choice.hpp"
#include "engine/sampling/dry.hpp"
#include "engine/sampling/logprobs.hpp"
#include "test/unit/sampling/sample_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

struct weighted {
  token_id token;
  double logit;
  double p = 0.0;
};
using left_over = std::vector<weighted>;  ///< most likely first

void softmax(left_over& all) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  double sum = 0.0;
  for (auto& one : all) sum += one.p = std::exp(one.logit - all.front().logit);
  for (auto& one : all) one.p /= sum;
}

double entropy_of(const left_over& all) {
  return std::accumulate(all.begin(), all.end(), 0.0, [](double sum, const auto& one) {
    return one.p > 0.0 ? sum - one.p * std::log(one.p) : sum;
  });
}

void keep_near_highest(left_over& all, double n) {
  const auto count = static_cast<double>(all.size());
  double mean = 0.0, variance = 0.0;
  for (const auto& one : all) mean += one.logit / count;
  for (const auto& one : all) variance += (one.logit - mean) * (one.logit - mean) / count;
  const double least = all.front().logit - n * std::sqrt(variance);
  std::erase_if(all, [&](const auto& one) { return one.logit < least; });
}

void keep_typical(left_over& all, double share) {
  const double usual = entropy_of(all);
  const auto off = [&](const weighted& one) { return std::abs(-std::log(one.p) - usual); };
  std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return off(a) < off(b); });
  double sum = 0.0;
  std::size_t count = 0;
  while (count < all.size() && !(sum > share)) sum += all[count++].p;
  all.resize(count);
}

void keep_share(left_over& all, double share) {
  double sum = 0.0;
  std::size_t count = 0;
  while (count < all.size() && sum < share) sum += all[count++].p;
  all.resize(count);
}

void leave_out_top(left_over& all, double threshold) {
  std::size_t top = 0;
  while (top < all.size() && all[top].p >= threshold) ++top;
  if (top >= 2) all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(top) - 1);
}

/// The probabilities of tokens, by id. `applies`: what XTC's own draw says.
left_over oracle(const std::vector<float>& logits, const sampling_params& params, bool applies) {
  left_over all;
  for (std::size_t i = 0; i < logits.size(); ++i) all.push_back({static_cast<token_id>(i), logits[i]});
  softmax(all);
  if (params.top_n_sigma > 0) keep_near_highest(all, params.top_n_sigma);
  if (params.top_k > 0 && all.size() > params.top_k) all.resize(params.top_k);
  softmax(all);
  if (params.typical_p < 1) keep_typical(all, params.typical_p);
  softmax(all);
  if (params.top_p < 1) keep_share(all, params.top_p);
  softmax(all);
  std::erase_if(all, [&, most = all.front().p](const auto& one) { return one.p < params.min_p * most; });
  softmax(all);
  if (applies) leave_out_top(all, params.xtc_threshold);
  softmax(all);
  double temperature = params.temperature;
  if (params.dynatemp_range > 0 && all.size() > 1) {
    const double share = entropy_of(all) / std::log(static_cast<double>(all.size()));
    const double low = std::max(0.0, temperature - params.dynatemp_range);
    const double high = temperature + params.dynatemp_range;
    temperature = low + (high - low) * std::pow(share, params.dynatemp_exponent);
  }
  if (temperature <= 0) all.resize(1);
  for (auto& one : all) one.logit /= temperature > 0 ? temperature : 1.0;
  softmax(all);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  return all;
}

/// Whether the token is the one at which the sum of probabilities passes the draw, but for rounding.
bool follows(const left_over& expected, token_id token, double draw) {
  constexpr double slack = 1e-6;
  double sum = 0.0;
  for (const auto& one : expected) {
    if (one.token == token) return sum - slack <= draw && draw < sum + one.p + slack;
    sum += one.p;
  }
  return false;
}

token_id drawn(const std::vector<float>& logits, const sampling_params& params, double draw,
               const std::vector<token_id>& seen = {}) {
  static sampling_workspace workspace;
  return orcd::engine::choose(logits, params, seen, {}, draw, workspace);
}

sampling_params some_of(std::uint64_t seed) {
  draw_source random(seed);
  const auto one_in = [&](int n) { return random.next() * n < 1.0; };
  const auto between = [&](double low, double high) {
    return static_cast<float>(low + random.next() * (high - low));
  };
  sampling_params out;
  out.temperature_last = true;
  out.temperature = one_in(5) ? 0.0F : between(0.2, 2.0);
  if (one_in(2)) out.top_n_sigma = between(0.2, 3.0);
  if (one_in(3)) out.top_k = 1 + static_cast<std::uint32_t>(random.next() * 40);
  if (one_in(2)) out.typical_p = between(0.05, 0.99);
  if (one_in(3)) out.top_p = between(0.1, 0.99);
  if (one_in(3)) out.min_p = between(0.0, 0.5);
  if (one_in(2)) out.xtc_probability = between(0.1, 1.0);
  out.xtc_threshold = between(0.0, 0.6);
  if (one_in(3)) out.dynatemp_range = between(0.1, 2.0);
  out.dynatemp_exponent = between(0.2, 3.0);
  return out;
}

/// DRY as it is defined, without any shortcut: of every earlier place the longest common end.
std::vector<double> dry_oracle(const std::vector<token_id>& seen, const sampling_params& params,
                               std::size_t vocab) {
  std::vector<double> out(vocab, 0.0);
  const std::size_t size = std::min<std::size_t>(seen.size(), params.dry_last_n);
  const std::vector<token_id> window(seen.end() - static_cast<std::ptrdiff_t>(size), seen.end());
  std::size_t most = size;
  for (std::size_t behind = 0; params.breakers && behind < size && most == size; ++behind) {
    for (const auto& [head, rest] : params.breakers->rows) {
      std::vector<token_id> row{head};
      row.insert(row.end(), rest.begin(), rest.end());
      const std::size_t at = size - 1 - behind;
      if (row.size() > behind + 1 ||
          !std::equal(row.begin(), row.end(), window.begin() + static_cast<std::ptrdiff_t>(at)))
        continue;
      most = std::min(most, behind - rest.size());
    }
  }
  if (size <= params.dry_allowed_length || most < params.dry_allowed_length) return out;
  for (std::size_t end = 1; end < size; ++end) {
    std::size_t length = 0;
    while (length < end && length < most && window[end - 1 - length] == window[size - 1 - length]) ++length;
    if (length < params.dry_allowed_length) continue;
    const auto token = static_cast<std::size_t>(window[end]);
    const auto breaks = [&](const auto& row) { return row.first == window[end] && row.second.empty(); };
    if (params.breakers && std::any_of(params.breakers->rows.begin(), params.breakers->rows.end(), breaks))
      continue;
    const double loss =
        params.dry_multiplier * std::pow(static_cast<double>(params.dry_base),
                                         static_cast<double>(length) - params.dry_allowed_length);
    out.at(token) = std::max(out.at(token), loss);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rare_samplers)

BOOST_AUTO_TEST_CASE(every_draw_is_the_oracles) {
  int applied = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    const auto params = some_of(round);
    const auto logits = random_logits(3 + round * 7 % 300, round, round % 2 == 0 ? 4.0 : 9.0);
    draw_source draws(round);
    for (int i = 0; i < 30; ++i) {
      const double draw = draws.next();
      const bool applies =
          params.xtc_threshold <= 0.5F && second_draw(draw) < static_cast<double>(params.xtc_probability);
      applied += applies ? 1 : 0;
      const token_id token = drawn(logits, params, draw);
      BOOST_REQUIRE_MESSAGE(follows(oracle(logits, params, applies), token, draw),
                            round << " " << i << ": " << token);
    }
  }
  BOOST_TEST(applied > 1000);
}

BOOST_AUTO_TEST_CASE(each_does_what_its_paper_says) {
  const auto logits = logits_of({0.05, 0.4, 0.3, 0.15, 0.1});
  sampling_params params;
  params.temperature = 0.0F;
  params.typical_p = 0.2F;  // the entropy is 1.39 nats, -log 0.3 is 1.2
  BOOST_TEST(drawn(logits, params, 0.5) == 2);
  params = {};
  params.temperature = 0.0F;
  params.xtc_probability = 1.0F;
  params.xtc_threshold = 0.12F;
  BOOST_TEST(drawn(logits, params, 0.5) == 3);
  params.xtc_threshold = 0.35F;  // one alone is never left out
  BOOST_TEST(drawn(logits, params, 0.5) == 1);
  params = {};
  params.top_n_sigma = 0.1F;
  for (const double draw : {0.0, 0.5, 0.999}) BOOST_TEST(drawn(logits, params, draw) == 1);
  params = {};
  params.temperature = 1.0F;
  params.dynatemp_range = 1.0F;
  params.dynatemp_exponent = 100.0F;  // next to 0, so that the most likely token is sure
  for (const double draw : {0.0, 0.5, 0.999}) BOOST_TEST(drawn(logits, params, draw) == 1);
}

BOOST_AUTO_TEST_CASE(what_is_off_does_nothing) {
  sampling_params params;
  for (const auto& off :
       {std::pair{&sampling_params::xtc_threshold, 0.2F}, std::pair{&sampling_params::dry_base, 3.0F},
        std::pair{&sampling_params::dynatemp_exponent, 2.0F}, std::pair{&sampling_params::top_n_sigma, 0.0F}})
    params.*off.first = off.second;
  params.dry_allowed_length = 1;
  BOOST_TEST(!params.needs_logits());
  params.dry_multiplier = 1.0F;
  params.dry_last_n = 0;
  params.xtc_probability = 1.0F;
  params.xtc_threshold = 0.51F;
  BOOST_TEST(!params.needs_logits());
  // With nothing to do, llama-server's order draws as the other does.
  sampling_params last;
  last.temperature_last = true;
  const auto logits = random_logits(2'000, 4);
  draw_source draws(9);
  for (int i = 0; i < 200; ++i) {
    const double draw = draws.next();
    BOOST_REQUIRE_EQUAL(drawn(logits, last, draw), drawn(logits, {}, draw));
  }
}

BOOST_AUTO_TEST_CASE(the_temperature_comes_last) {
  const auto logits = logits_of({0.5, 0.3, 0.2});
  sampling_params params;
  params.temperature = 0.1F;  // alone enough for the first token to have all of top_p
  params.top_p = 0.75F;
  params.temperature_last = true;
  const auto left = oracle(logits, params, false);
  BOOST_TEST(left.size() == 2U);
  BOOST_TEST(drawn(logits, params, 1.0 - 1e-9) == 1);
  params.temperature_last = false;
  BOOST_TEST(drawn(logits, params, 1.0 - 1e-9) == 0);
}

// Eight tokens that are left by XTC, so 7 degrees of freedom: 24.3 is exceeded once in a thousand seeds; this
// seed is fixed. How often it applies is one more.
BOOST_AUTO_TEST_CASE(many_draws_follow_what_xtc_leaves) {
  const auto logits = logits_of({0.3, 0.22, 0.15, 0.08, 0.07, 0.06, 0.05, 0.04, 0.02, 0.01});
  sampling_params params;
  params.xtc_probability = 0.4F;
  params.xtc_threshold = 0.1F;
  const auto rest = oracle(logits, params, true);
  BOOST_TEST_REQUIRE(rest.size() == 8U);
  const auto all = oracle(logits, params, false);
  constexpr int count = 200'000;
  draw_source draws(2024);
  int applied = 0;
  std::vector<int> with(10, 0), without(10, 0);
  for (int i = 0; i < count; ++i) {
    const double draw = draws.next();
    const bool applies = second_draw(draw) < static_cast<double>(params.xtc_probability);
    applied += applies ? 1 : 0;
    ++(applies ? with : without).at(static_cast<std::size_t>(drawn(logits, params, draw)));
  }
  const auto chi_square = [](const std::vector<int>& counts, const left_over& expected, int drawn_in_all) {
    double sum = 0.0;
    for (const auto& one : expected) {
      const double difference = counts.at(static_cast<std::size_t>(one.token)) - one.p * drawn_in_all;
      sum += difference * difference / (one.p * drawn_in_all);
    }
    return sum;
  };
  BOOST_TEST(std::abs(applied - 0.4 * count) < 3.3 * std::sqrt(count * 0.4 * 0.6));
  BOOST_TEST((with[0] == 0 && with[1] == 0));
  BOOST_TEST(chi_square(with, rest, applied) < 24.3);
  BOOST_TEST(chi_square(without, all, count - applied) < 27.9);
  BOOST_TEST(chi_square(with, all, applied) > 300.0);  // else the test would prove nothing
}

BOOST_AUTO_TEST_CASE(a_repetition_costs_what_dry_says) {
  const std::vector<token_id> seen{1, 2, 3, 4, 9, 2, 3, 5, 9, 2, 3};
  sampling_params params;
  params.dry_multiplier = 1.0F;
  params.temperature = 0.0F;
  std::vector<float> logits(10, 0.0F);
  // "2 3" came before 4 once, and "9 2 3" before 5: 1 and 1.75.
  logits[4] = 1.5F;
  logits[5] = 1.7F;
  logits[6] = 0.4F;
  BOOST_TEST(drawn(logits, params, 0.5, seen) == 4);
  logits[4] = 1.3F;
  BOOST_TEST(drawn(logits, params, 0.5, seen) == 6);
  params.dry_allowed_length = 3;  // of "2 3" nothing is taken, of "9 2 3" 1
  BOOST_TEST(drawn(logits, params, 0.5, seen) == 4);
  params.dry_allowed_length = 2;
  auto breakers = std::make_shared<dry_breakers>();
  breakers->rows = {{9, {}}};
  params.breakers = breakers;  // what is behind the last 9 is "2 3"
  logits[4] = 1.3F;
  logits[5] = 1.35F;
  BOOST_TEST(drawn(logits, params, 0.5, seen) == 6);
  logits[6] = 0.3F;
  BOOST_TEST(drawn(logits, params, 0.5, seen) == 5);
  breakers = std::make_shared<dry_breakers>();
  breakers->rows = {{9, {2, 3}}};
  params.breakers = breakers;  // nothing is behind it
  logits[5] = 1.0F;
  BOOST_TEST(drawn(logits, params, 0.5, seen) == 4);
}

// Any sequence, window and breakers: each score is what the logit and the definition give.
BOOST_AUTO_TEST_CASE(dry_agrees_with_its_definition) {
  sampling_workspace work;
  int hit = 0;
  for (std::uint64_t round = 0; round < 500; ++round) {
    draw_source random(round);
    const auto below = [&](int most) { return static_cast<token_id>(random.next() * most); };
    std::vector<token_id> seen(static_cast<std::size_t>(below(80)));
    const int different = 2 + below(6);
    for (auto& token : seen) token = below(different);
    sampling_params params;
    params.dry_multiplier = 0.25F + static_cast<float>(random.next());
    params.dry_base = 1.0F + static_cast<float>(random.next());
    params.dry_allowed_length = static_cast<std::uint32_t>(below(5));
    if (below(2) == 0) params.dry_last_n = 1 + static_cast<std::uint32_t>(below(60));
    auto breakers = std::make_shared<dry_breakers>();
    for (int i = below(3); i > 0; --i) {
      std::vector<token_id> rest(static_cast<std::size_t>(below(3)));
      for (auto& token : rest) token = below(different);
      breakers->rows.emplace_back(below(different), std::move(rest));
    }
    std::sort(breakers->rows.begin(), breakers->rows.end());
    if (below(4) > 0) params.breakers = breakers;
    const auto expected = dry_oracle(seen, params, 8);
    work.scores.assign(8, 100.0F);
    penalise_repetitions(params, seen, work);
    for (std::size_t i = 0; i < 8; ++i) {
      hit += expected[i] > 0 ? 1 : 0;
      const double least = std::min(expected[i], 0x1p126);
      BOOST_REQUIRE_SMALL((static_cast<double>(work.scores[i]) - (100.0 - least)) / (1.0 + least), 1e-5);
    }
  }
  BOOST_TEST(hit > 300);
}

// One token again and again, over a long context: linear, and finite.
BOOST_AUTO_TEST_CASE(long_repetitions_are_cheap_and_bounded) {
  const std::vector<token_id> seen(200'000, 1);
  sampling_params params;
  params.dry_multiplier = 100.0F;
  params.dry_base = 100.0F;
  sampling_workspace work;
  work.scores.assign(4, 0.0F);
  penalise_repetitions(params, seen, work);
  BOOST_TEST((work.scores[1] < -1e37F && std::isfinite(work.scores[1]) && work.scores[2] == 0.0F));
  BOOST_TEST(drawn({0.0F, 50.0F, -1.0F, -2.0F}, params, 0.3, seen) == 0);
}

// What was drawn from is told: the oracle's probabilities, in either order of samplers.
BOOST_AUTO_TEST_CASE(probabilities_after_sampling) {
  sampling_workspace work;
  for (std::uint64_t round = 0; round < 100; ++round) {
    auto params = some_of(round);
    params.xtc_probability = 0.0F;
    if (round % 3 == 0) {  // the other order, where it leaves the same
      params = {};
      params.top_p = 0.2F + 0.01F * static_cast<float>(round % 60);
    }
    params.tells_drawn = true;
    const auto logits = random_logits(50, round, 4.0);
    const auto expected = oracle(logits, params, false);
    const token_id token = orcd::engine::choose(logits, params, {}, {}, 0.3, work);
    const auto told = logprobs_after(logits, params, work, token, 5);
    BOOST_TEST(told.listed == std::min<std::size_t>(5, expected.size()));
    auto ranked = expected;
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.p > b.p; });
    for (std::uint32_t i = 0; i < told.listed; ++i) {
      BOOST_TEST(told.top[i].token == ranked[i].token, round << " " << i);
      BOOST_REQUIRE_SMALL(std::exp(static_cast<double>(told.top[i].logprob)) - ranked[i].p, 1e-5);
    }
    const auto at =
        std::find_if(expected.begin(), expected.end(), [&](const auto& one) { return one.token == token; });
    BOOST_TEST_REQUIRE((at != expected.end()));
    BOOST_REQUIRE_SMALL(std::exp(static_cast<double>(told.chosen)) - at->p, 1e-5);
  }
  const auto logits = random_logits(50, 1, 4.0);
  const auto raw = logprobs_after(logits, {}, work, 3, 2);
  BOOST_TEST(raw.chosen == logprobs_of(logits, 3, 2).chosen);
}

// A mask, a ban and no number leave out what they do elsewhere, and nothing may be left.
BOOST_AUTO_TEST_CASE(what_may_not_be_chosen) {
  sampling_params params;
  params.typical_p = 0.5F;
  sampling_workspace work;
  const std::vector<float> logits{nan_value, 5.0F, -inf, 1.0F, 1.5F};
  const std::vector<std::uint32_t> mask{0b01011};
  const std::vector<token_id> banned{1};
  BOOST_TEST(orcd::engine::choose(logits, params, {}, banned, 0.4, work, mask) == 3);
  const std::vector<std::uint32_t> none{0b00101};
  BOOST_TEST(orcd::engine::choose(logits, params, {}, banned, 0.4, work, none) == -1);
  BOOST_TEST(orcd::engine::choose(std::vector<float>{1.0F, inf, inf}, params, {}, {}, 0.9, work) >= 1);
}

BOOST_AUTO_TEST_SUITE_END()
