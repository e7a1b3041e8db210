// How many prompt tokens a step carries. The more, the less time each takes, because weights are read and
// unpacked once a step; but whoever decodes waits for the whole step. With few sequences the wait is kept
// short. With many, each waits for the prompts of all others, and they all are done sooner by longer steps.
#pragma once

#include <algorithm>
#include <cstdint>

namespace orcd::engine {

inline constexpr std::uint32_t prompt_tokens_least = 512;
inline constexpr std::uint32_t prompt_tokens_most = 2'048;
inline constexpr std::uint32_t prompt_tokens_a_sequence = 16;
/// What may be asked for instead.
inline constexpr std::uint32_t prompt_tokens_lowest = 64;
inline constexpr std::uint32_t prompt_tokens_limit = 8'192;

/// The best for so many sequences on a GPU: measured with 1 to 256 (docs/performance/load.md).
[[nodiscard]] constexpr std::uint32_t prompt_tokens_for(std::uint32_t sequences) noexcept {
  const std::uint32_t most = prompt_tokens_most / prompt_tokens_a_sequence;
  return std::max(prompt_tokens_least, prompt_tokens_a_sequence * std::min(sequences, most));
}

/// For prompts in a step beside `decoding` sequences, where `running` have slots and the accelerator takes
/// `most`: all where nobody waits for a next token.
[[nodiscard]] constexpr std::uint32_t prompt_tokens_beside(std::uint32_t decoding, std::uint32_t running,
                                                           std::uint32_t most) noexcept {
  return decoding == 0 ? most : std::min(most, prompt_tokens_for(running));
}

}  // namespace orcd::engine
