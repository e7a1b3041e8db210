// What a request says of how its tokens are chosen, and the memory that it takes to choose them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine {

/// The most tokens of one request that may have a bias.
inline constexpr std::size_t logit_biases_max = 1'024;

/// Added to a token's logit before anything else looks at it.
struct token_bias {
  token_id token = -1;
  float bias = 0.0F;
};

struct dry_breakers;

/// Of sampling_params::dry_last_n: all tokens of the sequence.
inline constexpr std::uint32_t whole_sequence = std::numeric_limits<std::uint32_t>::max();

/// Order of effects: biases, penalties, argmax when temperature is 0, temperature, top_k, top_p, min_p, draw.
/// Where uses_usual_order(), llama-server's: biases, penalties, DRY, top_n_sigma, top_k, typical_p, top_p,
/// min_p, XTC, temperature, argmax when that is 0, draw.
struct sampling_params {
  float temperature = 1.0F;          ///< 0..2; 0 is argmax of the penalised logits, ties to the lowest id
  std::uint32_t top_k = 0;           ///< keep the k most likely; 0 = off
  float top_p = 1.0F;                ///< (0,1]; smallest set whose probability reaches it; 1 = off
  float min_p = 0.0F;                ///< [0,1]; drop below min_p * highest probability; 0 = off
  float repetition_penalty = 1.0F;   ///< logit > 0 ? / p : * p for tokens in the window; 1 = off
  float presence_penalty = 0.0F;     ///< subtracted once per token in the window
  float frequency_penalty = 0.0F;    ///< subtracted per occurrence in the window
  std::uint32_t repeat_last_n = 64;  ///< look-back window in tokens of prompt + output; 0 = off
  /// At most logit_biases_max, ids ascending and each once; those outside the vocabulary are ignored.
  std::vector<token_bias> biases{};

  /// DRY: a token that would make a repetition of n tokens longer loses multiplier * base^(n - allowed
  /// length), if n is no less than that; 0 = off. rare_samplers.hpp has the definitions of all of these.
  float dry_multiplier = 0.0F;
  float dry_base = 1.75F;
  std::uint32_t dry_allowed_length = 2;
  std::uint32_t dry_last_n = whole_sequence;  ///< the window in which repetitions are looked for; 0 = off
  std::shared_ptr<const dry_breakers> breakers{};  ///< what a repetition does not reach across; null: nothing
  float xtc_probability = 0.0F;    ///< [0,1]; how often the most likely tokens are left out; 0 = off
  float xtc_threshold = 0.1F;      ///< of those above it all but the least likely; above 0.5 = off
  float typical_p = 1.0F;          ///< [0,1]; smallest set of the most typical that reaches it; 1 = off
  float top_n_sigma = -1.0F;       ///< keep logits within n standard deviations of the highest; <= 0 = off
  float dynatemp_range = 0.0F;     ///< the temperature moves by so much to both sides; 0 = off
  float dynatemp_exponent = 1.0F;  ///< how it follows the entropy
  bool temperature_last = false;   ///< in llama-server's order, also without any of these
  /// Log probabilities are of what the token was drawn from, not of the model's logits.
  bool tells_drawn = false;
  bool tells_rank = false;  ///< where the chosen token stands among all comes with its log probability

  [[nodiscard]] bool uses_dry() const noexcept { return dry_multiplier > 0.0F && dry_last_n > 0; }
  [[nodiscard]] bool uses_xtc() const noexcept { return xtc_probability > 0.0F && xtc_threshold <= 0.5F; }
  /// Whether choose() must have the whole logits, wherever they were computed.
  [[nodiscard]] bool needs_logits() const noexcept { return uses_usual_order() || tells_drawn || tells_rank; }
  [[nodiscard]] bool uses_usual_order() const noexcept {
    return uses_dry() || uses_xtc() || typical_p < 1.0F || top_n_sigma > 0.0F || dynatemp_range > 0.0F ||
           temperature_last;
  }
  [[nodiscard]] bool penalises() const noexcept {
    return repeat_last_n > 0 &&
           (repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F);
  }
};

/// Scratch memory, kept by its owner so that sampling allocates nothing after the first token. After
/// reserve(), 36 bytes per vocabulary row, the first token allocates nothing either.
struct sampling_workspace {
  std::vector<float> scores;           ///< [vocab] logits after penalties; -infinity = never chosen
  std::vector<std::uint64_t> weights;  ///< [vocab] probability in units of 2^-40 of the highest
  std::vector<token_id> kept;          ///< ids that have passed the filters, ascending; none: one was sure
  std::vector<token_id> narrowed;      ///< ids around a filter's cut; the window while penalties apply
  std::vector<std::pair<double, token_id>> ranked;            ///< tokens by how typical they are
  std::vector<std::uint32_t> repeated;                        ///< DRY: lengths of repetitions in the window,
  std::vector<std::pair<token_id, std::uint32_t>> repeating;  ///< and tokens that would make them longer

  void reserve(std::size_t vocab, std::size_t window) {
    scores.reserve(vocab);
    weights.reserve(vocab);
    kept.reserve(vocab);
    narrowed.reserve(std::max(vocab, window));
    ranked.reserve(vocab);
    repeated.reserve(window);
    repeating.reserve(window);
  }
};

}  // namespace orcd::engine
