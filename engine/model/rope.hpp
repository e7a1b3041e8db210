// RoPE angle tables, built on the host in f64 and rounded once, so that every backend rotates by the
// same numbers. Source: Su et al. 2104.09864; YaRN, Peng et al. 2309.00071; LongRoPE 2402.13753.
//
// A pair (x0, x1) at position p becomes m * (x0 cos a - x1 sin a, x0 sin a + x1 cos a), a = p * w_i:
//   trained   t_i = base^(-2i/dims) / f_i      f_i = freq_factors[i], 1 without any
//   none      w_i = t_i,                       m = 1
//   linear    w_i = t_i / factor,              m = attn_factor
//   longrope  w_i = t_i / factor,              m = attn_factor  (the file's; factor is 1 unless overridden)
//   yarn      w_i = t_i * ((1 - k_i) / factor + k_i),  k_i = ext_factor * ramp_i
//             m = attn_factor * (1 + 0.1 ln factor) / (1 + 0.1 log_multiplier ln factor), both brackets 1
//             when ext_factor is 0 or factor <= 1 ramp_i = 1 - clamp((i - low) / max(0.001, high - low), 0,
//             1) low = max(0, d(beta_fast)), high = min(dims - 1, d(beta_slow)), where d(r) = dims *
//             ln(original_context / (2 pi r)) / (2 ln base), and low is rounded down and high up when
//             round_correction_dims is set: the usual form; gpt-oss was trained without.
#pragma once

#include <vector>

#include "engine/model/model_spec.hpp"

namespace orcd::engine {

/// Per-pair rotation of one layer kind: angle = position * inv_freq[i]; cos and sin are multiplied
/// by `magnitude`. Layers without rotation have no pairs.
struct rope_table {
  std::vector<float> inv_freq;  ///< [dims/2]
  /// Of each pair, which of a token's positions turns it: 0 time, 1 line, 2 column. Empty: there is one.
  std::vector<std::uint8_t> axes;
  float magnitude = 1.0F;
};

/// `freq_factors` is empty or holds dims/2 divisors, which a layer without rope_spec::file_factors leaves;
/// `context` selects LongRoPE's long or short set before the call and does not appear here.
[[nodiscard]] rope_table make_rope_table(const rope_spec& rope, const std::vector<float>& freq_factors);

/// What a query at `position` is multiplied by (model_spec::query_scale).
[[nodiscard]] double query_scale_at(const model_spec& spec, std::uint32_t position) noexcept;

/// The frequency factors of `m` when it serves `context` tokens per sequence; empty when there are none.
[[nodiscard]] std::vector<float> rope_freq_factors(const model& m, std::uint32_t context);

}  // namespace orcd::engine
