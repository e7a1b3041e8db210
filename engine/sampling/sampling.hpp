// How the next token is chosen. `sample` is a pure function of logits, parameters, look-back window
// and one uniform draw, so that it is also the reference of the GPU sampler, and a job's draws depend
// only on its seed and the index of the token.
//
// The bits are the same on every CPU and, by construction, on a GPU:
// - Scores are f32 and every operation is a single IEEE one; exp is portable_exp.hpp, not libm's.
// - A token's weight is exp((score - highest score) / temperature) as an integer in units of 2^-40,
//   rounded down. Integer sums do not depend on their order, so any reduction gives the same total.
// - The order of likelihood, which top_k and top_p cut, is by score, ties to the lower id.
// - The draw always walks the kept tokens by id: the choice is the first whose cumulative weight
//   exceeds floor(draw * total), computed in integers. No sort is needed unless a filter is on.
// Source: M0-W-1030, M0-W-1032, M0-W-1421.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

/// The most tokens of one request that may have a bias.
inline constexpr std::size_t logit_biases_max = 1'024;

/// Added to a token's logit before anything else looks at it.
struct token_bias {
  token_id token = -1;
  float bias = 0.0F;
};

/// Order of effects: biases, penalties, argmax when temperature is 0, temperature, top_k, top_p, min_p, draw.
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

  [[nodiscard]] bool penalises() const noexcept {
    return repeat_last_n > 0 &&
           (repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F);
  }
};

/// One job's random numbers: mt19937_64 with the job's seed, one draw per sampled token.
class draw_source {
 public:
  explicit draw_source(std::uint64_t seed) : engine_(seed) {}
  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] double next() noexcept { return static_cast<double>(engine_() >> 11U) * 0x1.0p-53; }
  /// Leaves out the draws of `count` tokens, one each, whatever their sampling was. The generator has no
  /// shortcut: 4 to 8 ns a draw.
  void discard(std::uint64_t count) noexcept { engine_.discard(count); }

 private:
  std::mt19937_64 engine_;
};

/// Scratch memory, kept by its owner so that sampling allocates nothing after the first token. After
/// reserve(), 20 bytes per vocabulary row, the first token allocates nothing either.
struct sampling_workspace {
  std::vector<float> scores;           ///< [vocab] logits after penalties; -infinity = never chosen
  std::vector<std::uint64_t> weights;  ///< [vocab] probability in units of 2^-40 of the highest
  std::vector<token_id> kept;          ///< ids that have passed the filters, ascending
  std::vector<token_id> narrowed;      ///< ids around a filter's cut; the window while penalties apply

  void reserve(std::size_t vocab, std::size_t window);
};

/// Chooses a token. `logits` is [vocab], 1 to 2^23 rows. Never chosen are: ids in `banned` (unused vocabulary
/// rows), those that `allowed` leaves out unless it is empty, NaN and -infinity; tokens at +infinity share
/// the whole probability. `recent` is the look-back window, oldest first, already cut to repeat_last_n. Ids
/// outside the vocabulary are ignored in both. `draw` is in [0, 1). Returns -1 if no token can be chosen. Any
/// thread, with a workspace of its own.
[[nodiscard]] token_id sample(std::span<const float> logits, const sampling_params& params,
                              std::span<const token_id> recent, std::span<const token_id> banned, double draw,
                              sampling_workspace& workspace, token_mask allowed = {});

}  // namespace orcd::engine
