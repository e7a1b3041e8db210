// What a router must have chosen, and how weighed it, from its logits in f64. Scores that differ by less than
// the rounding of f32 may be taken in either order; ties are another test's.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "kernels/layer/expert_groups.hpp"

namespace orcd::test {

struct route_rule {
  bool sigmoids = false;  ///< else softmax over all
  bool renormalised = false;
  double scale = 1.0;
  kernels::expert_groups groups = {};
  std::vector<float> bias = {};  ///< for the choice; or none
};

/// What one column's experts are weighed by, before the chosen ones are renormalised.
inline std::vector<double> route_scores(std::span<const float> logits, const route_rule& rule) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> scores;
  double total = 0.0;
  for (const double logit : logits) {
    scores.push_back(rule.sigmoids ? 1.0 / (1.0 + std::exp(-logit)) : std::exp(logit - largest));
    total += scores.back();
  }
  for (double& score : scores) score /= rule.sigmoids ? 1.0 : total;
  return scores;
}

/// The rank of each group.
inline std::vector<double> group_ranks(std::vector<double> ranks, const kernels::expert_groups& groups) {
  const std::size_t size = ranks.size() / groups.count;
  std::vector<double> out;
  for (auto first = ranks.begin(); first != ranks.end(); first += static_cast<std::ptrdiff_t>(size)) {
    std::sort(first, first + static_cast<std::ptrdiff_t>(size), std::greater<>());
    const bool two = groups.ranking == kernels::group_ranking::two_best && groups.count > 1;
    out.push_back(two ? first[0] + first[1] : first[0]);
  }
  return out;
}

/// `chosen` and `weights` of one column.
template <class Id>
void check_route(std::span<const float> logits, const route_rule& rule, std::span<const Id> chosen,
                 std::span<const float> weights, double tolerance) {
  constexpr double rounding = 2e-6;
  const std::vector<double> scores = route_scores(logits, rule);
  std::vector<double> ranks = scores;
  for (std::size_t e = 0; e < rule.bias.size(); ++e) ranks[e] += rule.bias[e];
  const std::vector<double> of_groups = group_ranks(ranks, rule.groups);
  std::vector<double> sorted = of_groups;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const double least_group = sorted[rule.groups.used - 1];
  const auto group_of = [&](std::size_t e) { return of_groups[e / (scores.size() / rule.groups.count)]; };
  double sum = 0.0;
  for (const Id id : chosen) sum += scores[static_cast<std::size_t>(id)];
  std::vector<bool> taken(scores.size(), false);
  double last = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto id = static_cast<std::size_t>(chosen[i]);
    BOOST_TEST_REQUIRE(id < scores.size());
    BOOST_TEST(!taken[id], "expert " << id << " twice");
    taken[id] = true;
    BOOST_TEST(ranks[id] <= last + rounding);
    last = ranks[id];
    BOOST_TEST(group_of(id) >= least_group - rounding, "expert " << id << " is of a group that is left out");
    const double want = rule.scale * scores[id] / (rule.renormalised ? sum : 1.0);
    BOOST_TEST(std::abs(weights[i] - want) < tolerance, weights[i] << " for " << want);
  }
  for (std::size_t e = 0; e < scores.size(); ++e) {
    if (!taken[e] && group_of(e) > least_group + rounding)
      BOOST_TEST(ranks[e] <= last + rounding, "expert " << e << " is better than one that was chosen");
  }
}

}  // namespace orcd::test
