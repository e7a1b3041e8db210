// What the accelerator holds of sequences: their pages from the first step on, and more as they grow. Private
// to engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <utility>

#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

class device_sequences {
 public:
  explicit device_sequences(accelerator& target) : accelerator_(target) {}

  /// Gives the accelerator a job's pages, where it has pages and not this job's yet. Must be the first call
  /// after the pages were reserved, so that the page to copy from still holds what it held then. If the
  /// accelerator's begin() throws, the job has to end: the copied positions are missing, and the page to copy
  /// from may soon be another job's.
  void begin(sequence& job);
  /// The job's lease has more pages of the group than those before index `had`, which the accelerator knows.
  /// If that throws, the job has to end: its table is not what its lease is.
  void extend(sequence& job, std::uint32_t group, std::uint32_t had);
  /// The accelerator forgets the sequence, which goes back to what is computed; its steps in progress mean
  /// nothing.
  void release(sequence& job) noexcept;

  /// The job for which the accelerator failed in begin() or extend(), if that is what failed; told once.
  [[nodiscard]] sequence* take_failed() noexcept { return std::exchange(under_way_, nullptr); }

 private:
  accelerator& accelerator_;
  sequence* under_way_ = nullptr;  ///< set while the accelerator is called for this job
};

}  // namespace orcd::engine
