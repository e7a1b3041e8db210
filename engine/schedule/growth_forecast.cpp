#include "engine/schedule/growth_forecast.hpp"

#include <algorithm>
#include <cmath>

namespace orcd::engine {

namespace {

double share_of(std::uint64_t tokens, std::uint64_t most) noexcept {
  return std::min(1.0, static_cast<double>(tokens) / static_cast<double>(most));
}

/// Pages that jobs hold after so many steps, if all of them still run: own ones and those that they got. It
/// is asked once for each of up to 256 jobs, so that the loop has no division.
std::uint64_t pages_after(std::span<const job_growth> jobs, std::uint32_t steps,
                          std::uint32_t page_positions) noexcept {
  const std::uint32_t whole = steps / page_positions;
  const std::uint32_t rest = steps % page_positions;
  std::uint64_t pages = 0;
  for (const job_growth& job : jobs) {
    const std::uint32_t wanted = whole + (rest > job.room_rest ? 1 : 0);
    const std::uint32_t got = wanted > job.room_pages ? wanted - job.room_pages : 0;
    pages += job.own_pages + std::min(got, job.further_pages);
  }
  return pages;
}

}  // namespace

std::uint64_t further_pages_at_peak(std::span<job_growth> jobs, std::uint32_t page_positions) noexcept {
  std::sort(jobs.begin(), jobs.end(),
            [](const job_growth& a, const job_growth& b) { return a.steps > b.steps; });
  const std::uint64_t held = pages_after(jobs, 0, page_positions);
  std::uint64_t peak = held;
  // It is just before a job ends; those that need more still run then.
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    peak = std::max(peak, pages_after(jobs.first(i + 1), jobs[i].steps, page_positions));
  }
  return peak - held;
}

std::uint32_t growth_forecast::further(std::uint32_t left, std::uint64_t room) const noexcept {
  const auto usual = static_cast<std::uint32_t>(std::ceil(share_ * left));
  return left <= room ? usual : std::clamp(usual, static_cast<std::uint32_t>(room + 1), left);
}

void growth_forecast::ended(std::uint32_t tokens, std::uint32_t most) noexcept {
  constexpr double of_one_job = 1.0 / 16;
  if (most > 0) share_ += (share_of(tokens, most) - share_) * of_one_job;
}

void growth_forecast::ran_out(std::uint64_t tokens, std::uint64_t most) noexcept {
  if (most > 0) share_ = std::max(share_, share_of(tokens, most));
}

}  // namespace orcd::engine
