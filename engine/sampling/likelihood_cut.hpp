// Finds where top_k and top_p cut the tokens in order of likelihood, by radix selection: linear in the number
// of tokens, whatever the scores, and without a sort. Private to engine/sampling.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine {

/// An integer key: larger for a larger score; equal only for equal scores (-0 counts as 0). Not for NaN.
[[nodiscard]] inline std::uint32_t likelihood_key(float score) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  return (bits & 0x8000'0000U) != 0 ? ~bits : bits | 0x8000'0000U;
}

/// The least likely token that is kept, in the order "higher score first, then lower id".
struct likelihood_cut {
  std::uint32_t key = 0;
  token_id id = 0;

  [[nodiscard]] bool keeps(float score, token_id token) const noexcept {
    const std::uint32_t other = likelihood_key(score);
    return other > key || (other == key && token <= id);
  }
};

/// Cuts after `count` tokens; there must be more than that.
[[nodiscard]] likelihood_cut cut_after_count(std::span<const token_id> tokens, std::span<const float> scores,
                                             std::uint64_t count, std::vector<token_id>& narrowed);

/// Cuts after the first token at which the sum of weights reaches `share` (0, 1) of their total.
[[nodiscard]] likelihood_cut cut_after_share(std::span<const token_id> tokens, std::span<const float> scores,
                                             std::span<const std::uint64_t> weights, double share,
                                             std::vector<token_id>& narrowed);

}  // namespace orcd::engine
