// How the next token is chosen. `sample` is a pure function of logits, parameters, look-back window
// and one uniform draw, so that it is also the reference of the GPU sampler, and a job's draws depend
// only on its seed and the index of the token. Source: M0-W-1030, M0-W-1032, M0-W-1421, model-facts 7.3.
#pragma once

#include "engine/base/ids.hpp"

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace orcd::engine {

/// Order of effects: penalties, argmax when temperature is 0, temperature, top_k, top_p, min_p, draw.
struct sampling_params {
  float temperature = 1.0F;         ///< 0..2; 0 is argmax of the penalised logits, ties to the lowest id
  std::uint32_t top_k = 0;          ///< keep the k most likely; 0 = off
  float top_p = 1.0F;               ///< (0,1]; smallest set whose probability reaches it; 1 = off
  float min_p = 0.0F;               ///< [0,1]; drop below min_p * highest probability; 0 = off
  float repetition_penalty = 1.0F;  ///< logit > 0 ? / p : * p for tokens in the window; 1 = off
  float presence_penalty = 0.0F;    ///< subtracted once per token in the window
  float frequency_penalty = 0.0F;   ///< subtracted per occurrence in the window
  std::uint32_t repeat_last_n = 64;  ///< look-back window in tokens of prompt + output; 0 = off

  [[nodiscard]] bool penalises() const noexcept {
    return repeat_last_n > 0 && (repetition_penalty != 1.0F || presence_penalty != 0.0F ||
                                 frequency_penalty != 0.0F);
  }
};

/// One job's random numbers: mt19937_64 with the job's seed, one draw per sampled token.
class draw_source {
 public:
  explicit draw_source(std::uint64_t seed) : engine_(seed) {}
  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] double next() noexcept { return static_cast<double>(engine_() >> 11U) * 0x1.0p-53; }

 private:
  std::mt19937_64 engine_;
};

/// Scratch that lives as long as its owner so that sampling allocates nothing after the first token.
struct sampling_workspace {
  std::vector<float> scores;
  std::vector<token_id> order;
};

/// `logits` [vocab]; ids in `banned` are never chosen (unused vocabulary rows); `recent` is the
/// look-back window, oldest first, already cut to repeat_last_n. NaN logits are never chosen; if no
/// token can be chosen the result is -1.
[[nodiscard]] token_id sample(std::span<const float> logits, const sampling_params& params,
                              std::span<const token_id> recent, std::span<const token_id> banned,
                              double draw, sampling_workspace& workspace);

}  // namespace orcd::engine
