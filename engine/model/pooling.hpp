// How the final states of an input's tokens become one result. A model with a pooling is served for
// embeddings or, with `rank`, for scores, and generates nothing. The numbers are those of GGUF's
// ARCHITECTURE.pooling_type.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace orcd::engine {

enum class pooling_kind : std::uint8_t {
  none = 0,  ///< the state of every token
  mean = 1,
  cls = 2,   ///< the first token's
  last = 3,  ///< the last token's
  rank = 4,  ///< a classifier's outputs for a state: how well a document answers a query
};

inline constexpr std::array<std::string_view, 5> pooling_names{"none", "mean", "cls", "last", "rank"};

[[nodiscard]] constexpr std::string_view to_string(pooling_kind kind) noexcept {
  return pooling_names[static_cast<std::size_t>(kind)];
}

[[nodiscard]] constexpr std::optional<pooling_kind> pooling_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < pooling_names.size(); ++i) {
    if (pooling_names[i] == name) return static_cast<pooling_kind>(i);
  }
  return std::nullopt;
}

/// One input's result: [tokens][embedding] for pooling none, [classes] for rank, else [embedding]; not
/// normalised.
using pooled_values = std::shared_ptr<const std::vector<float>>;

}  // namespace orcd::engine
