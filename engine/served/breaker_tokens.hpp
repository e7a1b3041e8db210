// The tokens by which DRY's breakers are found in a sequence, for a vocabulary.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/sampling/dry.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// Those of requests that name none: llama-server's.
inline constexpr std::array<std::string_view, 4> usual_breakers{"\n", ":", "\"", "*"};

inline constexpr std::size_t breaker_bytes_max = 40;
/// Of the rest of a breaker behind its first token so many tokens are looked at.
inline constexpr std::size_t breaker_tokens_max = 20;

/// Goes through the vocabulary: some milliseconds. A text that is empty breaks nothing; of a long one the
/// first breaker_bytes_max bytes count. Any thread.
[[nodiscard]] std::shared_ptr<const dry_breakers> make_dry_breakers(const tokenizer& vocabulary,
                                                                    std::span<const std::string> texts);
[[nodiscard]] std::shared_ptr<const dry_breakers> make_usual_breakers(const tokenizer& vocabulary);

}  // namespace orcd::engine
