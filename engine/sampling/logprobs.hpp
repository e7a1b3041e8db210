// Log probabilities of tokens under the softmax of the logits as the model gave them: before anything is
// banned or penalised and whatever the temperature, so that they do not depend on the sampler's settings.
//
// The sum of the softmax is one of integers, as in sampling.hpp: the weight of a token is exp(gap) in units
// of 2^-40, where its gap is the distance of its logit from the highest one. The GPU computes gaps and the
// total to the same bits; the logarithm is taken here, with plain operations, for both.
// NaN counts as -infinity; tokens at +infinity share the whole probability.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/base/ids.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace orcd::engine {

/// The most tokens that are listed besides the chosen one (the OpenAI API's limit).
inline constexpr std::uint32_t top_logprobs_max = 20;

struct token_logprob {
  token_id token = -1;
  float logprob = 0.0F;
};

struct token_logprobs {
  float chosen = 0.0F;
  /// Where the chosen token stands among all, 1 for the most likely, in the order of `top`; 0: not asked for
  /// (sampling_params::tells_rank).
  std::uint32_t rank = 0;
  std::uint32_t listed = 0;
  /// The most likely tokens: by logit, then by lower id. Tokens at -infinity or NaN are left out.
  std::array<token_logprob, top_logprobs_max> top{};
};

/// The maximum and the sum of a row of logits, from which the softmax of each token follows.
struct logit_scale {
  float best = 0.0F;
  std::uint64_t total = 0;  ///< 0 when every logit is NaN or -infinity

  [[nodiscard]] float gap(float logit) const noexcept;
};
[[nodiscard]] logit_scale measure_logits(std::span<const float> logits) noexcept;

/// log of exp(gap) / (total * 2^-40); `total` is at least 2^40.
[[nodiscard]] float logprob_of(float gap, std::uint64_t total) noexcept;

/// The log probabilities of `chosen` and of the `count` most likely tokens (at most top_logprobs_max).
[[nodiscard]] token_logprobs logprobs_of(std::span<const float> logits, token_id chosen, std::uint32_t count);

/// Where `token` stands in the order of token_logprobs::top, from 1; a NaN is as -infinity.
[[nodiscard]] std::uint32_t rank_of(std::span<const float> logits, token_id token) noexcept;

/// logprobs_of, or the same of what choose() has just drawn `chosen` from, where that is what the parameters
/// ask for; tokens that could not be drawn are not listed. `work` is as choose() left it. With the rank among
/// the logits, where they ask for that.
[[nodiscard]] token_logprobs logprobs_after(std::span<const float> logits, const sampling_params& params,
                                            const sampling_workspace& work, token_id chosen,
                                            std::uint32_t count);

}  // namespace orcd::engine
