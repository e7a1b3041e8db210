// Drafts: guesses of the tokens that a sequence gets next, which one step of the accelerator checks all at
// once. A guess costs time when it is wrong and saves time when it is right; it never changes a token. The
// source of guesses is an interface, so that a model may be one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine {

/// Guesses are told apart by how much speaks for them, so that each kind gets an acceptance of its own.
inline constexpr std::uint32_t draft_kinds = 5;
/// What a constraint leaves no choice about, but for how it is cut into tokens.
inline constexpr std::uint32_t forced_kind = 4;

class draft_source {
 public:
  virtual ~draft_source() = default;

  /// Guesses up to `most` tokens that follow `tokens`, a sequence's prompt and output so far, of which
  /// everything that was there at the last call is still there. Writes them to `guess`, nothing if
  /// there is no guess. Returns the kind, below draft_kinds. Takes microseconds, however long the
  /// sequence is. Throws std::bad_alloc.
  virtual std::uint32_t guess(std::span<const token_id> tokens, std::uint32_t most,
                              std::vector<token_id>& guess) = 0;
};

}  // namespace orcd::engine
