// Which tokens may come next in one sequence. The scheduler asks before each token and tells what was chosen;
// the accelerator sees only the mask. One object per job, used on the gpu thread alone.
//
// A mask is a function of the tokens accepted before it, so that a step that was lost can be asked again, and
// the same request gives the same tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>

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

  /// The token that was chosen, not an end-of-generation token. False when the mask did not allow it;
  /// the constraint is then used up.
  [[nodiscard]] virtual bool accept(token_id token) = 0;

  /// Why no bit is set any more, if it is not that the vocabulary cannot go on: a limit that was reached.
  [[nodiscard]] virtual std::string failure() const { return {}; }

  /// The output is complete and nothing but its end can follow.
  [[nodiscard]] virtual bool complete() const = 0;
};

}  // namespace orcd::engine
