#include "gpu/host/host_layer_ends.hpp"

#include <cmath>
#include <cstring>

#include "gpu/host/host_tensors.hpp"
#include "kernels/host/embed.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/scale.hpp"
#include "kernels/host/swiglu.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

void make_layer_inputs(const engine::model& m, host_workspace& work, std::uint32_t columns,
                       kernels::host::thread_pool& pool, const layer_tap& tap) {
  const engine::model_spec& spec = m.spec;
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const std::uint32_t width = layers * spec.layer_inputs;
  const std::uint64_t count = std::uint64_t{columns} * width;
  const kernels::matmul_args product = {.weights = matrix_of(m.weights.layer_input_proj),
                                        .x = work.residual,
                                        .y = work.layer_inputs,
                                        .x_stride = spec.embedding,
                                        .y_stride = width,
                                        .columns = columns};
  host::matmul({&product, 1}, pool);
  const auto scale = [&](float* rows, double factor) {
    host::scale(
        {.x = rows, .stride = width, .rows = columns, .width = width, .scale = static_cast<float>(factor)},
        pool);
  };
  scale(work.layer_inputs, 1.0 / std::sqrt(static_cast<double>(spec.embedding)));
  if (tap) tap("layer_projections", 0, {work.layer_inputs, count});
  host::rms_norm({.x = work.layer_inputs,
                  .out = work.layer_inputs,
                  .weight = floats_of(m.weights.layer_input_norm),
                  .x_stride = width,
                  .out_stride = width,
                  .rows = columns,
                  .heads = layers,
                  .width = spec.layer_inputs,
                  .eps = static_cast<float>(spec.rms_eps)},
                 pool);
  host::embed({.table = matrix_of(m.weights.layer_input_embd),
               .tokens = work.tokens,
               .out = work.input_rows,
               .columns = columns},
              pool);
  scale(work.input_rows, std::sqrt(static_cast<double>(spec.layer_inputs)));
  add_to(work.layer_inputs, work.input_rows, count);
  scale(work.layer_inputs, std::sqrt(0.5));
  if (tap) tap("layer_inputs", 0, {work.layer_inputs, count});
}

void add_layer_input(const engine::model& m, std::uint32_t layer, host_workspace& work, std::uint32_t columns,
                     kernels::host::thread_pool& pool, const layer_tap& tap) {
  const engine::model_spec& spec = m.spec;
  const engine::layer_weights& weights = m.weights.layers[layer];
  const std::uint32_t width = spec.layer_inputs;
  const std::size_t token = spec.layers.size() * std::size_t{width};
  const kernels::matmul_args gate = {.weights = matrix_of(weights.layer_input_gate),
                                     .x = work.residual,
                                     .y = work.input_gates,
                                     .x_stride = spec.embedding,
                                     .y_stride = 2 * std::size_t{width},
                                     .columns = columns};
  host::matmul({&gate, 1}, pool);
  for (std::uint32_t c = 0; c < columns; ++c) {
    std::memcpy(work.input_gates + (2 * std::size_t{c} + 1) * width,
                work.layer_inputs + c * token + std::size_t{layer} * width, width * sizeof(float));
  }
  host::swiglu({.gate = work.input_gates,
                .up = work.input_gates + width,
                .out = work.activated,
                .in_stride = 2 * std::size_t{width},
                .rows = columns,
                .width = width,
                .kind = kernels::gated_activation::gelu},
               pool);
  const kernels::matmul_args back = {.weights = matrix_of(weights.layer_input_proj),
                                     .x = work.activated,
                                     .y = work.half_out,
                                     .x_stride = width,
                                     .y_stride = spec.embedding,
                                     .columns = columns};
  host::matmul({&back, 1}, pool);
  host::rms_norm({.x = work.half_out,
                  .out = work.half_out,
                  .weight = floats_of(weights.layer_input_norm),
                  .x_stride = spec.embedding,
                  .out_stride = spec.embedding,
                  .rows = columns,
                  .width = spec.embedding,
                  .eps = static_cast<float>(spec.residual_eps())},
                 pool);
  const std::uint64_t count = std::uint64_t{columns} * spec.embedding;
  if (tap) tap("layer_input", layer, {work.half_out, count});
  add_to(work.residual, work.half_out, count);
}

}  // namespace orcd::gpu
