// The drafts of one sequence: what is guessed of its next tokens, what the step in progress carries of that,
// and the copy of the job's constraint that says what may follow each of them. Private to engine/schedule;
// the scheduler's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/sampling/token_constraint.hpp"
#include "engine/schedule/draft_plan.hpp"

namespace orcd::engine {

class sequence_drafts {
 public:
  /// What a guess is made from.
  struct basis {
    std::span<const token_id> tokens;        ///< prompt and output so far
    std::uint32_t tokens_out = 0;            ///< of them, those of the output
    std::uint32_t left = 0;                  ///< tokens that the output may still get
    std::uint32_t pending = 0;               ///< of these, those that were asked for and are not known
    token_constraint* constraint = nullptr;  ///< null: none
    std::function<bool(token_id)> ends_output;
  };
  /// What became of the drafts of a step.
  struct verdict {
    std::uint32_t drafts = 0;
    std::uint32_t right = 0;  ///< so many from the first on
  };
  /// The request for the token that comes so many tokens after the last known one.
  using request_maker = std::function<sample_request(std::uint32_t ahead)>;

  void set_source(std::unique_ptr<draft_source> source) noexcept { source_ = std::move(source); }
  /// The sequence goes on without further guesses.
  void drop_source() noexcept { source_.reset(); }
  /// Whether the sequence may have drafts at all.
  [[nodiscard]] bool has_source() const noexcept { return source_ != nullptr; }

  /// Guesses what comes next and tells how much of it a step may take. Pending tokens are left out. Throws
  /// std::bad_alloc, after which a constraint that was asked for its mask may be half changed.
  [[nodiscard]] draft_offer guess(const basis& from);
  /// Nothing is guessed for now.
  void forget_guess() noexcept { guessed_.clear(); }
  /// The last guess was not worth a step.
  void pass() noexcept { acceptance_.pass(kind_); }

  /// Makes the first `count` guessed tokens the drafts of the next step, which begins with the `last` known
  /// token, and returns the requests for what follows that and each draft. No token is pending. A constraint
  /// may leave fewer drafts, or none. Throws std::bad_alloc; then the job has to end.
  [[nodiscard]] const sample_request* ask(std::uint32_t count, token_id last, token_constraint* constraint,
                                          const request_maker& request_of);
  /// Whether the step in progress has drafts of this sequence, and how many.
  [[nodiscard]] bool in_step() const noexcept { return !drafts_.empty(); }
  [[nodiscard]] std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(drafts_.size()); }
  /// The tokens of that step: the last known one, then the drafts.
  [[nodiscard]] std::span<const token_id> fed() const noexcept { return fed_; }
  /// After ask() has left no draft: the constraint becomes its copy, which was asked for the mask already.
  void keep_copy(std::shared_ptr<token_constraint>& constraint) noexcept;

  /// Compares the drafts of the step with what was chosen, and counts them. The step is over then.
  [[nodiscard]] verdict judge(std::span<const sampled_token> results) noexcept;
  /// Before the result at `index` of a judged step is taken: brings the constraint to where it would be
  /// before a step for that token alone.
  void follow(std::uint32_t index, const verdict& found, std::shared_ptr<token_constraint>& constraint);
  /// The step in progress is over or lost: nothing of it is known any more.
  void forget_step() noexcept;

  [[nodiscard]] std::uint32_t tried() const noexcept { return tried_; }
  [[nodiscard]] std::uint32_t right() const noexcept { return right_; }

 private:
  void constrain(const token_constraint& constraint);
  void force(token_constraint& constraint, std::uint32_t most);

  std::unique_ptr<draft_source> source_;  ///< null: no guesses
  draft_record acceptance_;
  std::vector<token_id> guessed_;                  ///< what the source said last,
  std::uint32_t kind_ = 0;                         ///< and its kind
  std::vector<token_id> drafts_;                   ///< of the step in progress; the first guessed ones
  std::vector<token_id> fed_;                      ///< that step's tokens,
  std::vector<sample_request> requests_;           ///< its requests,
  std::vector<std::vector<std::uint32_t>> masks_;  ///< and their masks
  /// The constraint as it is after all drafts of the step in progress; the job's own is not.
  std::shared_ptr<token_constraint> copy_;
  std::uint64_t copy_work_ = 0;    ///< what the copy has taken in addition to the job's
  std::uint64_t wasted_work_ = 0;  ///< of copies whose drafts were not all right
  std::uint32_t tried_ = 0;        ///< drafts so far
  std::uint32_t right_ = 0;        ///< of them, those that were right
};

}  // namespace orcd::engine
