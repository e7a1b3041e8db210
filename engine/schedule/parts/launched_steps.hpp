// The steps that were launched and not collected. Private to engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace orcd::engine {

/// One job's part of a launched step. The job may have ended since, and another may have its slot.
struct launched_part {
  std::uint32_t slot = 0;
  std::uint64_t admission = 0;
  std::uint64_t key = 0;
  std::uint32_t tokens = 0;
  std::uint32_t end = 0;  ///< position after them
  std::uint32_t samples = 0;
  bool scores = false;  ///< what it samples is known: a token of the prompt
  [[nodiscard]] std::uint32_t drafts() const noexcept { return samples > 1 ? samples - 1 : 0; }
};
using launched_step = std::vector<launched_part>;

class launched_steps {
 public:
  [[nodiscard]] bool empty() const noexcept { return steps_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  /// The oldest first.
  [[nodiscard]] const std::vector<launched_step>& all() const noexcept { return steps_; }
  /// The key of the job for which alone the steps work; 0: there is none, or several.
  [[nodiscard]] std::uint64_t only_key() const noexcept;

  void push(launched_step step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] launched_step take_oldest();
  void clear() noexcept { steps_.clear(); }

 private:
  std::vector<launched_step> steps_;  ///< at most the accelerator's launch_depth()
};

}  // namespace orcd::engine
