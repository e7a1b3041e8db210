// Short words for sampling tests.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "engine/sampling/sampling.hpp"

namespace orcd::test {

using engine::sampling_params;
using engine::token_id;

inline constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
inline constexpr float inf = std::numeric_limits<float>::infinity();

inline token_id choose(const std::vector<float>& logits, const sampling_params& params, double draw = 0.5,
                       const std::vector<token_id>& recent = {}, const std::vector<token_id>& banned = {}) {
  engine::sampling_workspace workspace;
  return engine::sample(logits, params, recent, banned, draw, workspace);
}

/// Every token that some draw out of `steps` evenly spaced ones chooses, with its share of them.
inline std::map<token_id, double> reachable(const std::vector<float>& logits, const sampling_params& params,
                                            const std::vector<token_id>& recent = {}, int steps = 4000) {
  std::map<token_id, double> out;
  engine::sampling_workspace workspace;
  for (int i = 0; i < steps; ++i) {
    const double draw = (i + 0.5) / steps;
    out[engine::sample(logits, params, recent, {}, draw, workspace)] += 1.0 / steps;
  }
  return out;
}

inline std::set<token_id> ids(const std::map<token_id, double>& shares) {
  std::set<token_id> out;
  for (const auto& [id, share] : shares) out.insert(id);
  return out;
}

/// Logits whose softmax is these probabilities.
inline std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

inline std::vector<float> random_logits(std::size_t count, std::uint64_t seed, double spread = 4.0) {
  engine::draw_source draws(seed);
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>((draws.next() - 0.5) * 2.0 * spread));
  return out;
}

}  // namespace orcd::test
