// Drafts by looking up: where the last tokens of a sequence have stood before, in its own prompt and output
// or in a text that the request expects (`prediction`), what followed there is guessed to follow again. The
// longest match wins, of equally long ones the latest. Nothing of another job is looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/schedule/draft_source.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::engine {

class lookup_drafts final : public draft_source {
 public:
  /// `output_from`: where in the sequence its output begins, which is expected to be `prediction`.
  lookup_drafts(std::vector<token_id> prediction, std::uint32_t output_from);

  std::uint32_t guess(std::span<const token_id> tokens, std::uint32_t most,
                      std::vector<token_id>& guess) override;

 private:
  /// The prediction and the sequence behind it are one text, whose positions are counted from the
  /// prediction's first token on.
  [[nodiscard]] std::uint32_t predicted() const noexcept {
    return static_cast<std::uint32_t>(prediction_.size());
  }
  [[nodiscard]] token_id at(std::span<const token_id> tokens, std::uint32_t position) const noexcept {
    return position < predicted() ? prediction_[position] : tokens[position - predicted()];
  }
  [[nodiscard]] bool index(std::span<const token_id> tokens);
  [[nodiscard]] std::uint32_t bucket_of(token_id first, token_id second) const noexcept;
  [[nodiscard]] std::uint32_t match_at(std::span<const token_id> tokens,
                                       std::uint32_t position) const noexcept;
  [[nodiscard]] bool begins_as_predicted(std::span<const token_id> tokens) const noexcept;
  void copy_from(std::span<const token_id> tokens, std::uint32_t position, std::uint32_t most,
                 std::vector<token_id>& guess) const;

  std::vector<token_id> prediction_;
  std::uint32_t output_from_;
  /// By hash of a pair of neighbours: one more than the latest position of the second. Then, by position, one
  /// more than the position before it in the same bucket. 0: there is none.
  std::vector<std::uint32_t> latest_, before_;
};

/// A job's own text and its prediction, which is taken out of it.
[[nodiscard]] std::unique_ptr<draft_source> make_lookup_drafts(job_request& job, std::uint32_t prompt_tokens);

}  // namespace orcd::engine
