// The steps that every way of choosing a token has: from logits to scores, from scores to weights, from
// weights to a token. sampling.hpp says what they do. Private to engine/sampling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "engine/sampling/sampling_params.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

inline constexpr float weight_one = 0x1.0p40F;
inline constexpr float never = -std::numeric_limits<float>::infinity();  ///< the score of what is not chosen
inline constexpr std::size_t vocab_max = std::size_t{1} << 23U;  ///< so that a sum of weights fits 63 bits

[[nodiscard]] inline std::size_t row(token_id token) noexcept {
  return static_cast<std::size_t>(token);
}

[[nodiscard]] float highest(std::span<const float> values) noexcept;
/// The lowest id with the highest value; -1 when all are NaN or -infinity.
[[nodiscard]] token_id argmax(std::span<const float> values) noexcept;

void copy_choosable(std::span<const float> logits, std::span<const token_id> banned, token_mask allowed,
                    std::vector<float>& scores);
void add_biases(std::span<const token_bias> biases, std::vector<float>& scores) noexcept;
/// `window` is scratch.
void apply_penalties(const sampling_params& params, std::span<const token_id> recent,
                     std::vector<token_id>& window, std::vector<float>& scores);
/// The limit of softmax: tokens at +infinity are equally likely and no other token is possible.
void resolve_infinity(std::vector<float>& scores) noexcept;
void weigh(std::span<const float> scores, float best, float temperature, std::vector<std::uint64_t>& weights);

/// floor(draw * total), exactly: a draw has 53 bits and the product at most 116.
[[nodiscard]] std::uint64_t target_of(double draw, std::uint64_t total) noexcept;
[[nodiscard]] token_id draw_from_kept(std::span<const token_id> kept, std::span<const std::uint64_t> weights,
                                      double draw) noexcept;

}  // namespace orcd::engine
