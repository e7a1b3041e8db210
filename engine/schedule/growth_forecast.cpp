#include "engine/schedule/growth_forecast.hpp"

#include <algorithm>
#include <cmath>

namespace orcd::engine {

namespace {

double share_of(std::uint64_t tokens, std::uint64_t most) noexcept {
  return std::min(1.0, static_cast<double>(tokens) / static_cast<double>(most));
}

}  // namespace

std::uint64_t further_pages_at_peak(std::span<job_pages> jobs) noexcept {
  std::sort(jobs.begin(), jobs.end(),
            [](const job_pages& a, const job_pages& b) { return a.further > b.further; });
  std::uint64_t held = 0;
  std::uint64_t peak = 0;
  std::uint64_t running = 0;
  // When one has its pages, those that need more are still there, and have grown as much.
  for (const job_pages& job : jobs) {
    held += job.held;
    peak = std::max(peak, held + ++running * job.further);
  }
  return peak - held;
}

std::uint32_t growth_forecast::further(std::uint32_t held, std::uint32_t most) const noexcept {
  if (held >= most) return 0;
  const std::uint32_t left = most - held;
  return std::clamp(static_cast<std::uint32_t>(std::ceil(share_ * left)), 1U, left);
}

void growth_forecast::ended(std::uint32_t tokens, std::uint32_t most) noexcept {
  constexpr double of_one_job = 1.0 / 16;
  if (most > 0) share_ += (share_of(tokens, most) - share_) * of_one_job;
}

void growth_forecast::ran_out(std::uint64_t tokens, std::uint64_t most) noexcept {
  if (most > 0) share_ = std::max(share_, share_of(tokens, most));
}

}  // namespace orcd::engine
