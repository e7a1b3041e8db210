// How many pages of the KV cache running jobs will still need. A job holds the pages of its tokens so far and
// may come to need those of all that it asked for; most jobs end earlier, and give their pages back before
// others need theirs. A further job is admitted only if it leaves as many as the running ones are expected to
// need at once, so that none has to be preempted soon. Numbers alone, no clock. Source: the peak is that of
// LightLLM's "past-future" scheduler (arXiv 2507.10150), the share is what SGLang calls new-token ratio.
#pragma once

#include <cstdint>
#include <span>

namespace orcd::engine {

/// What one job has and will need.
struct job_growth {
  std::uint32_t own_pages = 0;  ///< that others can have when it ends
  /// What it may still fill of the pages that it holds: whole pages and a part of one.
  std::uint32_t room_pages = 0;
  std::uint32_t room_rest = 0;
  std::uint32_t further_pages = 0;  ///< that it is expected to need yet
  std::uint32_t steps = 0;          ///< until it is expected to end
};

/// Pages beyond all held ones that the jobs need at the worst moment, if each fills a position at a step
/// until it has what it is expected to need, and gives its pages back when its steps are over. In steps,
/// since jobs come to the ends of their pages at different ones: a job that needs a page just before another
/// one ends needs it in addition to that one's. Sorts `jobs`.
[[nodiscard]] std::uint64_t further_pages_at_peak(std::span<job_growth> jobs,
                                                  std::uint32_t page_positions) noexcept;

/// What share of what they asked for jobs use: at first none, then what they are seen to use.
class growth_forecast {
 public:
  /// Positions that a job is expected to fill of those that it has `left`: more than it has `room` for in its
  /// pages, unless it has pages for all.
  [[nodiscard]] std::uint32_t further(std::uint32_t left, std::uint64_t room) const noexcept;
  /// A job has ended with so many tokens of output, of the `most` that it asked for.
  void ended(std::uint32_t tokens, std::uint32_t most) noexcept;
  /// Pages have run out while the running jobs had made so many tokens, of the `most` of all of them.
  void ran_out(std::uint64_t tokens, std::uint64_t most) noexcept;
  [[nodiscard]] double share() const noexcept { return share_; }

 private:
  double share_ = 0.0;
};

}  // namespace orcd::engine
