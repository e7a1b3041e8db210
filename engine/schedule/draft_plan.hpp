// How many drafts a step takes, and whose. Pure functions of what was accepted so far and of what a step of
// so many tokens costs; no clock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/schedule/draft_source.hpp"

namespace orcd::engine {

/// How often drafts of each kind turned out right in one sequence; what is long ago counts less.
class draft_record {
 public:
  /// The probability that a draft is right, if those before it are.
  [[nodiscard]] double likely(std::uint32_t kind) const noexcept;
  /// Of `drafts` in a row the first `accepted` were right.
  void note(std::uint32_t kind, std::uint32_t drafts, std::uint32_t accepted) noexcept;
  /// A guess was not worth a step; when that happens often, the record is forgotten, so that it is tried
  /// again.
  void pass(std::uint32_t kind) noexcept;

 private:
  struct counts {
    double tried = 0.0;
    double right = 0.0;
  };
  std::array<counts, draft_kinds> of_;
};

/// What one sequence may bring.
struct draft_offer {
  std::uint32_t most = 0;   ///< drafts; 0: it brings its one token
  double likely = 0.0;      ///< as draft_record has it
  std::uint32_t taken = 0;  ///< out: drafts that pay
};

/// Chooses the drafts that give the most tokens for the step's time: those that gain most first, none if none
/// pays. `tokens` are those of the step without drafts, at least one, and `room` is how many drafts it takes;
/// `cost` is accelerator::step_cost.
void choose_drafts(std::span<draft_offer> offers, std::uint32_t tokens, std::uint32_t room,
                   const std::function<double(std::uint32_t)>& cost);

/// The same without weighing: every offer is taken, as far as there is room.
void take_drafts(std::span<draft_offer> offers, std::uint32_t room) noexcept;

}  // namespace orcd::engine
