// How many prompt tokens a step carries. The more, the less time each takes, because weights are read and
// unpacked once a step; but whoever decodes waits for the whole step, and so does a cancel. What a step has
// at most depends on the model; beside few sequences that decode it has fewer, so that the wait is short.
// With many, each waits for the prompts of all others, and they all are done sooner by longer steps.
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

/// Of a step, for each expert that has its share: tiles of tokens are full then, and reading an expert's
/// weights takes less time than multiplying by them.
inline constexpr std::uint32_t prompt_tokens_an_expert = 256;
/// What a step may take, so that neither a cancel nor a request that comes waits longer.
inline constexpr double prompt_step_seconds_max = 0.25;
/// Products, each a multiplication and an addition, that an H100 makes in a second of such steps at least.
/// Measured were 305 to 400 TFLOP/s of dense models, of models with experts 170 (Qwen3-30B-A3B) to 325
/// (docs/performance.md).
inline constexpr double dense_products_a_second = 300e12 / 2;
inline constexpr double expert_products_a_second = 170e12 / 2;

/// The most of a step on a GPU. `experts` of which each token has `used`; none of a dense model. `products`:
/// weights of the layers that a token is multiplied by.
[[nodiscard]] constexpr std::uint32_t prompt_tokens_of(std::uint32_t experts, std::uint32_t used,
                                                       std::uint64_t products) noexcept {
  const std::uint64_t wanted = experts == 0
                                   ? prompt_tokens_most
                                   : std::uint64_t{prompt_tokens_an_expert} * experts / std::max(used, 1U);
  const auto tokens =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, prompt_tokens_least, prompt_tokens_limit));
  const double most =
      prompt_step_seconds_max * (experts == 0 ? dense_products_a_second : expert_products_a_second);
  std::uint32_t in_time = prompt_tokens_limit;
  while (in_time > prompt_tokens_least && static_cast<double>(products) * in_time > most) in_time /= 2;
  return std::min(tokens, in_time);
}

/// The best for so many sequences that run beside one that decodes: measured with 1 to 256
/// (docs/performance/load.md).
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
