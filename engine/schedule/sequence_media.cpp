#include "engine/schedule/sequence_media.hpp"

#include <algorithm>
#include <utility>

namespace orcd::engine {
namespace {

std::uint32_t end_of(const media_run& run) noexcept {
  return run.position + run.count;
}

}  // namespace

const job_medium* sequence_media::next(std::uint32_t computed) const noexcept {
  for (const job_medium& medium : media_)
    if (end_of(medium.runs.back()) > computed) return &medium;
  return nullptr;
}

void sequence_media::keep(const job_medium* wanted) noexcept {
  if (medium_ == wanted) return;
  medium_ = nullptr;
  rows_.reset();
}

void sequence_media::hold(const job_medium& medium, std::shared_ptr<stored_medium> rows) noexcept {
  medium_ = &medium;
  rows_ = std::move(rows);
}

std::uint32_t sequence_media::fit(std::uint32_t position, std::uint32_t tokens,
                                  std::uint32_t most) const noexcept {
  for (const job_medium& medium : media_) {
    const bool ready = &medium == medium_ && rows_->ready;
    for (const media_run& run : medium.runs) {
      if (end_of(run) <= position) continue;
      if (run.position >= position + tokens) return tokens;
      if (!ready) return run.position > position ? run.position - position : 0;
      if (!medium.see_each_other || end_of(run) <= position + tokens) continue;
      if (run.position > position) return run.position - position;
      return end_of(run) - position <= most ? end_of(run) - position : 0;
    }
  }
  return tokens;
}

std::span<const media_rows> sequence_media::rows(std::uint32_t position, std::uint32_t tokens) {
  parts_.clear();
  for (const job_medium& medium : media_) {
    for (const media_run& run : medium.runs) {
      if (end_of(run) <= position || run.position >= position + tokens) continue;
      parts_.push_back(
          {run.position, run.count, run.first, rows_->blocks, medium.see_each_other, medium.columns});
    }
  }
  return parts_;
}

std::uint32_t sequence_media::rotary_shift(std::uint32_t position) const noexcept {
  std::uint32_t out = 0;
  for (const job_medium& medium : media_)
    if (medium.columns > 0 && end_of(medium.runs.back()) <= position)
      out += shift_behind_grid(medium.rows, medium.columns);
  return out;
}

}  // namespace orcd::engine
