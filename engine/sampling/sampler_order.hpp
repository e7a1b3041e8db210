// Whether a chain of samplers, as llama-server's clients order them, chooses what choose() chooses. That has
// two orders (sampling_params::uses_usual_order): penalties, temperature, top_k, top_p, min_p; and
// llama-server's own, penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "engine/sampling/sampling_params.hpp"

namespace orcd::engine {

enum class sampler { penalties, dry, top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature };

[[nodiscard]] std::string_view to_string(sampler which) noexcept;

/// The order of choose() with these parameters.
[[nodiscard]] std::span<const sampler> order_of(const sampling_params& params) noexcept;

/// The first difference that may change a choice with these parameters.
struct order_difference {
  sampler which = sampler::penalties;
  bool absent = true;                   ///< it is not in the chain at all
  sampler behind = sampler::penalties;  ///< else the one that must not be in front of it
};

/// What a chain makes different; nothing where it gives the same. A sampler that its parameters switch off is
/// anywhere or nowhere, and so is what a temperature of 0 leaves nothing to do.
[[nodiscard]] std::optional<order_difference> differs(std::span<const sampler> chain,
                                                      const sampling_params& params);

}  // namespace orcd::engine
