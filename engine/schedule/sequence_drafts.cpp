#include "engine/schedule/sequence_drafts.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

constexpr std::uint32_t constrained_drafts_max = 7;
/// What copies of a constraint may take of the thread that all jobs share, in the constraint's unit: half of
/// what a grammar may (matcher::work_ahead). Drafts end there, the output does not depend on it.
constexpr std::uint64_t wasted_max = 12'000'000;
constexpr std::uint64_t wasted_a_token = 100'000;

}  // namespace

// The last output token is never a draft: nothing is computed after it. Nor is a token that ends the output.
draft_offer sequence_drafts::guess(const basis& from) {
  guessed_.clear();
  if (!source_ || from.left <= from.pending + 1) return {};
  if (from.constraint != nullptr && wasted_work_ > wasted_max + from.tokens_out * wasted_a_token) return {};
  // Each needs a mask, which takes time of the thread that all jobs share.
  const std::uint32_t most = from.constraint != nullptr ? constrained_drafts_max : drafts_max;
  kind_ = source_->guess(from.tokens, std::min(from.pending + most, from.left - 1), guessed_);
  if (guessed_.empty() && from.constraint != nullptr) force(*from.constraint, std::min(most, from.left - 1));
  guessed_.erase(std::find_if(guessed_.begin(), guessed_.end(), from.ends_output), guessed_.end());
  const auto count = static_cast<std::uint32_t>(guessed_.size());
  return {count - std::min(count, from.pending), acceptance_.likely(kind_)};
}

/// Guesses what the constraint forces. The mask is the next step's own, so that asking for it changes
/// nothing.
void sequence_drafts::force(token_constraint& constraint, std::uint32_t most) {
  constexpr int beginnings_max = 64;
  int allowed = 0;
  for (const std::uint32_t word : constraint.mask()) allowed += std::popcount(word);
  if (allowed == 0 || allowed > beginnings_max) return;
  kind_ = forced_kind;
  const auto copy = constraint.copy();
  if (!copy) return;
  const std::uint64_t before = copy->work();
  copy->force(most, guessed_);
  wasted_work_ += copy->work() - before;
}

const sample_request* sequence_drafts::ask(std::uint32_t count, token_id last, token_constraint* constraint,
                                           const request_maker& request_of) {
  drafts_.assign(guessed_.begin(), guessed_.begin() + count);
  if (constraint != nullptr) constrain(*constraint);
  requests_.clear();
  for (std::uint32_t i = 0; i <= drafts_.size(); ++i) {
    requests_.push_back(request_of(i));
    if (constraint != nullptr) requests_.back().allowed = masks_[i];
  }
  fed_.assign(1, last);
  fed_.insert(fed_.end(), drafts_.begin(), drafts_.end());
  return requests_.data();
}

/// Asks for the masks after the drafts, as if they were output, up to one that may not come or that ends what
/// the constraint has to say. That is done by a copy, so that the constraint itself is where it was if the
/// step is lost.
void sequence_drafts::constrain(const token_constraint& constraint) {
  copy_ = constraint.copy();
  if (!copy_) return drafts_.clear();
  const std::uint64_t before = copy_->work();
  masks_.resize(drafts_.size() + 1);
  std::uint32_t right = 0;
  while (true) {
    const token_mask mask = copy_->mask();
    masks_[right].assign(mask.begin(), mask.end());
    copy_work_ = copy_->work() - before;
    if (right == drafts_.size() || !allows(mask, drafts_[right])) break;
    if (!copy_->accept(drafts_[right]) || copy_->complete() || copy_->spent()) {
      copy_.reset();  // it is past the last draft that is left
      break;
    }
    ++right;
  }
  drafts_.resize(right);
  wasted_work_ += copy_work_;
}

void sequence_drafts::keep_copy(std::shared_ptr<token_constraint>& constraint) noexcept {
  if (!copy_) return;
  constraint = std::exchange(copy_, nullptr);
  wasted_work_ -= copy_work_;
}

sequence_drafts::verdict sequence_drafts::judge(std::span<const sampled_token> results) noexcept {
  ORCD_ENSURE(results.size() == drafts_.size() + 1);
  verdict found{count(), 0};
  while (found.right < found.drafts && results[found.right].token == drafts_[found.right]) ++found.right;
  drafts_.clear();
  tried_ += found.drafts;
  right_ += found.right;
  acceptance_.note(kind_, found.drafts, found.right);
  return found;
}

// Where all drafts were right, the copy is there already, and the other one is followed up to the last of
// them only.
void sequence_drafts::follow(std::uint32_t index, const verdict& found,
                             std::shared_ptr<token_constraint>& constraint) {
  if (!constraint) return;
  if (found.right == found.drafts && copy_) {
    if (index == found.right) keep_copy(constraint);
    return;
  }
  (void)constraint->mask();
}

void sequence_drafts::forget_step() noexcept {
  drafts_.clear();
  copy_.reset();
}

}  // namespace orcd::engine
