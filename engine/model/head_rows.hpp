// The order of a head's rows in Q and K. Trainers' files rotate the two halves of a head against each other;
// GGUF files of the llama family rotate neighbours, and their converter has moved the rows. Pure.
#pragma once

#include <cstdint>

namespace orcd::engine {

/// Where row `row` of heads of `head` rows each, which is even, goes: row i of a head's first half becomes
/// its row 2i, row i of the second half its row 2i + 1. With heads of 0 rows nothing moves.
[[nodiscard]] constexpr std::uint64_t regrouped_row(std::uint64_t row, std::uint64_t head) noexcept {
  if (head == 0) return row;
  const std::uint64_t in_head = row % head;
  const std::uint64_t half = head / 2;
  return row - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

}  // namespace orcd::engine
