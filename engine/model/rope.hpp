// RoPE angle tables, built on the host in f64 and rounded once, so that every backend rotates by the
// same numbers. Source: Su et al. 2104.09864; YaRN, Peng et al. 2309.00071; LongRoPE 2402.13753.
#pragma once

#include "engine/model/model_spec.hpp"

#include <vector>

namespace orcd::engine {

/// Per-pair rotation of one layer kind: angle = position * inv_freq[i]; cos and sin are multiplied
/// by `magnitude`.
struct rope_table {
  std::vector<float> inv_freq;  ///< [dims/2]
  float magnitude = 1.0F;
};

/// `freq_factors` is empty or holds dims/2 divisors; `context` selects LongRoPE's long or short set
/// before the call and does not appear here.
[[nodiscard]] rope_table make_rope_table(const rope_spec& rope, const std::vector<float>& freq_factors);

/// The divisors that apply to `m` when it serves `context` tokens per sequence; empty when none do.
[[nodiscard]] std::vector<float> rope_freq_factors(const model& m, std::uint32_t context);

}  // namespace orcd::engine
