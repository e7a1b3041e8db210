// A model's RoPE parameters: from the file's keys, then from the operator's overrides.
#pragma once

#include <cstdint>

#include "engine/model/hparams.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::engine {

/// The "<architecture>.rope.*" keys. A scaling type that is absent is LongRoPE when the file carries
/// LongRoPE's factors, linear when it has a factor, else none. A factor of 0 means that none was given.
[[nodiscard]] rope_spec read_rope(hparam_reader& from, const model_spec& spec);

/// Applies `overrides` to every layer, and chooses a factor where none was given: context / original_context,
/// at least 1. `context` is what the worker serves. Overrides outside their ranges are problems.
void apply_rope_overrides(const rope_overrides& overrides, std::uint32_t context, model_spec& spec,
                          problem_list& problems);

/// Multiplies attention_scale by what YaRN does to scores (rope_spec::score_log_multiplier), once factors are
/// settled.
void scale_scores(model_spec& spec);

}  // namespace orcd::engine
