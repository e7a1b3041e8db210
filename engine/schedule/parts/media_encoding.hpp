// Encodes the media of running jobs, a slice between two steps, before their prompts reach them; one at a
// time, in the order in which the jobs were admitted. A job holds the rows of one medium until its positions
// are computed, so that a step that is lost finds them again. Private to engine/schedule; the scheduler's
// thread only.
#pragma once

#include <memory>
#include <optional>

#include "engine/accelerator.hpp"
#include "engine/schedule/media_store.hpp"
#include "engine/schedule/parts/slot_table.hpp"

namespace orcd::engine {

class media_encoding {
 public:
  media_encoding(accelerator& target, slot_table& running) : accelerator_(target), running_(running) {}

  /// Whether the job's media can be encoded here. Errors: invalid_request.
  [[nodiscard]] result<void> check(const job_request& request);

  /// Gives back rows that are not needed any more, asks for those that come next, and does one slice. Without
  /// media it does nothing. Throws accelerator_failure and std::bad_alloc.
  void advance();
  /// The accelerator has failed: what is under way is begun again.
  void forget() noexcept;
  [[nodiscard]] media_counts counts() const noexcept;

 private:
  void ask();
  void begin();
  /// One slice of what is under way; whether that was the last one.
  [[nodiscard]] bool encode_slice();

  accelerator& accelerator_;
  slot_table& running_;
  std::optional<media_store> store_;  ///< made for the first job with media: the accelerator is loaded then
  std::shared_ptr<stored_medium> under_way_;
  double encode_seconds_ = 0;
  std::shared_ptr<const prepared_medium> content_;  ///< of under_way_, which outlives its job
};

}  // namespace orcd::engine
