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
//
// Samplers that llama-server alone has (DRY, XTC, typical, top n sigma, a dynamic temperature) are not on the
// GPU: choose() gets the whole logits there too (sampling_params::needs_logits). They come in llama-server's
// order, in which the temperature is the last.
// Source: M0-W-1030, M0-W-1032, M0-W-1421.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "engine/base/ids.hpp"
#include "engine/sampling/sampling_params.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

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

/// Chooses a token. `logits` is [vocab], 1 to 2^23 rows. Never chosen are: ids in `banned` (unused vocabulary
/// rows), those that `allowed` leaves out unless it is empty, NaN and -infinity; tokens at +infinity share
/// the whole probability. `recent` is the look-back window, oldest first, already cut to repeat_last_n. Ids
/// outside the vocabulary are ignored in both. `draw` is in [0, 1). Returns -1 if no token can be chosen. Any
/// thread, with a workspace of its own.
[[nodiscard]] token_id sample(std::span<const float> logits, const sampling_params& params,
                              std::span<const token_id> recent, std::span<const token_id> banned, double draw,
                              sampling_workspace& workspace, token_mask allowed = {});

}  // namespace orcd::engine
