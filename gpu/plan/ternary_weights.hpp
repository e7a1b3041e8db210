// Reads the ternary matrices of a model once, before a backend uses them as they are: products of theirs are
// exact only if every code is one, and take int8 activations only if one scale serves a whole matrix.
#pragma once

#include <functional>

#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

/// An error (model_load_failed) names the tensor and the offset in its file of the first I2_S byte that has a
/// code of 3. Otherwise sets tensor_view::code_scale of each matrix whose products take int8 activations:
/// those of layers in a model with spec.integer_activations, in I2_S, or in TQ1_0 or TQ2_0 with one d for all
/// blocks. `threads`: as for thread_pool. `codes_known`: the codes of the same file have been checked
/// already. `tell` is called on this thread after every 64 MiB at most; what it throws ends the work.
[[nodiscard]] engine::result<void> prepare_ternary_weights(engine::model& m, unsigned threads,
                                                           bool codes_known,
                                                           const std::function<void()>& tell);

/// An error for a model with integer activations of which a matrix has no scale that is one for all of it,
/// which the CUDA kernels need. After prepare_ternary_weights.
[[nodiscard]] engine::result<void> require_code_scales(const engine::model& m);

}  // namespace orcd::gpu
