// The samplers that llama-server has and other servers do not, and its order of all of them. Definitions, of
// the tokens that the sampler before has left, p being their probabilities:
//
//   top n sigma  keeps logits of at least max - n * (standard deviation of the logits) (Tang et al., 2024).
//   typical      keeps the tokens whose -log p is nearest to the entropy, until their probability exceeds
//                typical_p (Meister et al., 2022). It may drop the most likely token.
//   XTC          with the probability xtc_probability drops all tokens with p >= xtc_threshold but the least
//                likely of them (p-e-w). It decides by the token's one draw, hashed, so that a job's draws
//                are one for each token whatever its samplers.
//   dynamic temperature  is temperature - range + 2 * range * (entropy / the most there can be) ^ exponent,
//                and never below 0.
//   DRY          is in dry.hpp.
//
// With the same arithmetic as sampling.hpp, in f64 where it has none, so that the bits are the same on every
// CPU; ties go by id. Linear in the vocabulary but for typical, which then sorts the ids that it has kept.
// Source: llama.cpp's documentation. Private to engine/sampling.
#pragma once

#include <span>

#include "engine/sampling/sampling_params.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

/// choose() in llama-server's order.
[[nodiscard]] token_id choose_rarely(std::span<const float> logits, const sampling_params& params,
                                     std::span<const token_id> seen, std::span<const token_id> banned,
                                     double draw, sampling_workspace& work, token_mask allowed);

/// Uniform in [0, 1) as `draw` is, and as good as independent of it.
[[nodiscard]] double second_draw(double draw) noexcept;

}  // namespace orcd::engine
