// How many pages of the KV cache running jobs will still need. A job holds the pages of its tokens so far and
// may come to need those of all that it asked for; most jobs end earlier, and give their pages back before
// others need theirs. Whoever admits a further job leaves as many pages as the running ones are expected to
// need at once, so that none has to be set back soon. Numbers alone, no clock. Source: the peak is that of
// LightLLM's "past-future" scheduler (arXiv 2507.10150), the share is what SGLang calls new-token ratio.
#pragma once

#include <cstdint>
#include <span>

namespace orcd::engine {

/// Pages of one job.
struct job_pages {
  std::uint32_t held = 0;     ///< that others can have when it ends
  std::uint32_t further = 0;  ///< that it is expected to need yet
};

/// Pages beyond all held ones that the jobs need at the worst moment, if they grow at the same pace and each
/// gives all of its pages back when it has what it is expected to need. Sorts `jobs`.
[[nodiscard]] std::uint64_t further_pages_at_peak(std::span<job_pages> jobs) noexcept;

/// What share of what they asked for jobs use: at first none, then what they are seen to use.
class growth_forecast {
 public:
  /// Pages that a job is expected to need beyond the `held` ones, of `most` altogether: at least one, unless
  /// it has all.
  [[nodiscard]] std::uint32_t further(std::uint32_t held, std::uint32_t most) const noexcept;
  /// A job has ended with so many tokens of output, of the `most` that it asked for.
  void ended(std::uint32_t tokens, std::uint32_t most) noexcept;
  /// Pages have run out while the running jobs had made so many tokens, of the `most` of all of them.
  void ran_out(std::uint64_t tokens, std::uint64_t most) noexcept;
  [[nodiscard]] double share() const noexcept { return share_; }

 private:
  double share_ = 0.0;
};

}  // namespace orcd::engine
