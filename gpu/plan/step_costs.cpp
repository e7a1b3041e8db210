#include "gpu/plan/step_costs.hpp"

#include <algorithm>

namespace orcd::gpu {

void step_costs::add(std::uint32_t tokens, double time) {
  if (points_.empty()) unit_ = std::max(time, 1e-9);
  const double least = points_.empty() ? 1.0 : points_.back().cost;
  points_.push_back({tokens, std::max(time / unit_, least)});
}

double step_costs::of(std::uint32_t tokens) const noexcept {
  if (points_.size() < 2) return std::max(tokens, 1U);
  if (tokens <= points_.front().tokens) return 1.0;
  auto after =
      std::find_if(points_.begin() + 1, points_.end(), [&](const point& p) { return p.tokens >= tokens; });
  if (after == points_.end()) --after;
  const point& to = *after;
  const point& from = *(after - 1);
  return from.cost + (to.cost - from.cost) * (tokens - from.tokens) / (to.tokens - from.tokens);
}

}  // namespace orcd::gpu
