// Which tokens may come next in one sequence. The scheduler asks for a mask before each token and reports the
// token that was chosen; the accelerator sees only the mask. One object per job, used on the GPU thread
// alone.
//
// A mask is a function of the tokens accepted before it, so that it can be asked for again after a lost step,
// and the same request gives the same tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine {

/// Token t is allowed when bit t % 32 of word t / 32 is set; tokens beyond the last word are not allowed.
using token_mask = std::span<const std::uint32_t>;

[[nodiscard]] constexpr bool allows(token_mask mask, token_id token) noexcept {
  const auto row = static_cast<std::uint32_t>(token);
  return token >= 0 && row / 32 < mask.size() && (mask[row / 32] >> row % 32U & 1U) != 0;
}

class token_constraint {
 public:
  virtual ~token_constraint() = default;

  /// One word for every 32 rows of the vocabulary; never empty, though no bit may be set (then nothing can
  /// follow). Valid until accept(). End-of-generation tokens are allowed where the output may end.
  [[nodiscard]] virtual token_mask mask() = 0;

  /// Reports the token that was chosen; not an end-of-generation token. False when the mask did not allow it:
  /// then the constraint must not be used any more.
  [[nodiscard]] virtual bool accept(token_id token) = 0;

  /// An independent one that goes on as this one would, with the same masks and the same limits; null where
  /// it cannot be had or would be large. For looking at the masks behind tokens that are only guessed.
  [[nodiscard]] virtual std::shared_ptr<token_constraint> copy() const { return nullptr; }

  /// Appends tokens, at most `most`, of the one text with which the output must go on, if it has no choice:
  /// long ones, as a model usually writes it. Moves on over them, so that it is a copy's to be asked.
  virtual void force(std::uint32_t /*most*/, std::vector<token_id>& /*out*/) {}

  /// What it has taken of the thread so far, in a unit of its own; a copy begins with the same.
  [[nodiscard]] virtual std::uint64_t work() const { return 0; }

  /// Why no bit is set, if a limit was reached; empty if merely no token of the vocabulary fits.
  [[nodiscard]] virtual std::string failure() const { return {}; }

  /// Whether the output is complete, so that only its end can follow.
  [[nodiscard]] virtual bool complete() const = 0;

  /// Whether the output ends at an end-of-generation token even if the job ignores those: a grammar's output
  /// is over there.
  [[nodiscard]] virtual bool decides_end() const { return true; }

  /// Whether it will allow everything from now on, so that it may be dropped.
  [[nodiscard]] virtual bool spent() const { return false; }
};

}  // namespace orcd::engine
