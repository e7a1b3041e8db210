// What the tensors of layers with other mixers than attention may hold. Any thread.
#pragma once

#include "engine/model/model_spec.hpp"
#include "engine/model/problems.hpp"

namespace orcd::engine {

/// A state shrinks: rates of decay are at most 0; and no value of the gates is infinite or NaN. One problem a
/// tensor, with the first such value.
void check_mixers(const model_weights& weights, problem_list& problems);

}  // namespace orcd::engine
