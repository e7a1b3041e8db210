// Widths that a converter has padded with zeros, so that they are multiples of what ternary kernels take at
// once. Kernels know nothing of it: their norms have the mean over the padded width P where that over the
// width before, W, is meant. Since sum / W + eps = (P / W) (sum / P + eps W / P), weights times sqrt(W / P)
// and eps times W / P give the same values, but for the rounding of the weights.
#pragma once

#include "engine/model/hparams.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/model/problems.hpp"

namespace orcd::engine {

/// Reads the widths before the padding: orcd.hidden_original and orcd.intermediate_original, where they are
/// there.
void read_padding(hparam_reader& from, model_spec& spec);

/// Replaces the weights of norms over padded widths; their values behind the width before must be zero.
void scale_padded_norms(const model_spec& spec, model_weights& weights, problem_list& problems);

}  // namespace orcd::engine
