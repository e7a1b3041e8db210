// What some models do at the end of each layer with values of the token's own (model_spec::layer_inputs), on
// the workspace of a step.
#pragma once

#include <cstdint>

#include "engine/model/model_spec.hpp"
#include "gpu/host/host_memory.hpp"
#include "gpu/layer_tap.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

/// to[i] += what[i]
inline void add_to(float* to, const float* what, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) to[i] += what[i];
}

/// The inputs of all layers, from the tokens and their embeddings, which are in work.residual.
void make_layer_inputs(const engine::model& m, host_workspace& work, std::uint32_t columns,
                       kernels::host::thread_pool& pool, const layer_tap& tap);

/// Adds to the stream what becomes of one layer's input.
void add_layer_input(const engine::model& m, std::uint32_t layer, host_workspace& work, std::uint32_t columns,
                     kernels::host::thread_pool& pool, const layer_tap& tap);

}  // namespace orcd::gpu
