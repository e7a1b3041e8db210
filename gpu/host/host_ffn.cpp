// The feed-forward half of a layer: dense, or a mixture of experts.
#include <algorithm>

#include "gpu/host/host_forward.hpp"
#include "gpu/host/host_tensors.hpp"
#include "gpu/plan/expert_groups_of.hpp"
#include "kernels/host/gelu.hpp"
#include "kernels/host/moe.hpp"
#include "kernels/host/swiglu.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

kernels::gated_activation gated_kind(engine::ffn_activation activation) {
  switch (activation) {
    case engine::ffn_activation::swiglu_clamped: return kernels::gated_activation::clamped;
    case engine::ffn_activation::relu_squared: return kernels::gated_activation::squared;
    case engine::ffn_activation::geglu_tanh: return kernels::gated_activation::gelu;
    default: return kernels::gated_activation::silu;
  }
}

kernels::expert_weighting weighting_of(engine::router_weighting weighting) {
  switch (weighting) {
    case engine::router_weighting::softmax_all_renormalised:
      return kernels::expert_weighting::all_renormalised;
    case engine::router_weighting::softmax_all: return kernels::expert_weighting::all;
    case engine::router_weighting::sigmoid_renormalised:
      return kernels::expert_weighting::sigmoid_renormalised;
    case engine::router_weighting::sigmoid: return kernels::expert_weighting::sigmoid;
    case engine::router_weighting::softmax_selected: break;
  }
  return kernels::expert_weighting::selected;
}

/// Lists, expert by expert, which token each chosen expert reads and which row it writes: row
/// token * experts_used + rank.
void group_by_expert(host_workspace& work, std::uint32_t columns, const engine::model_spec& spec,
                     std::vector<expert_group>& groups) {
  groups.clear();
  const std::uint32_t rows = columns * spec.experts_used;
  std::uint32_t placed = 0;
  for (std::uint32_t expert = 0; expert < spec.experts; ++expert) {
    const std::uint32_t first = placed;
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (work.chosen[row] != expert) continue;
      work.expert_in[placed] = row / spec.experts_used;
      work.expert_rows[placed] = row;
      ++placed;
    }
    if (placed != first) groups.push_back({expert, first, placed - first});
  }
}

}  // namespace

/// Leaves in half_out what both give, each behind a norm of its own.
void host_forward::dense_and_experts(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  dense_ffn(layer);
  normalise_in_place(weights.ffn_post_norm_1, work_.half_out, spec_.embedding, spec_.residual_eps());
  normalise(weights.router_norm, {});
  tap("router_norm", layer, work_.normed, std::uint64_t{columns_} * spec_.embedding);
  route(layer);
  normalise(weights.ffn_norm_2, {});
  tap("experts_norm", layer, work_.normed, std::uint64_t{columns_} * spec_.embedding);
  moe_ffn(layer);
  normalise_in_place(weights.ffn_post_norm_2, work_.normed, spec_.embedding, spec_.residual_eps());
  add_to(work_.half_out, work_.normed, std::uint64_t{columns_} * spec_.embedding);
}

void host_forward::dense_ffn(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const std::uint32_t ffn = spec_.layers[layer].ffn_size;
  const bool gated = has_gate(spec_.activation);
  const std::size_t gate_up = (gated ? 2 : 1) * std::size_t{ffn};
  const kernels::int8_rows ints =
      rounded(work_.normed, spec_.embedding, {&weights.ffn_gate_up, &weights.ffn_gate, &weights.ffn_up});
  const auto add = [&](const engine::tensor_view& matrix, const engine::tensor_view& bias,
                       std::uint32_t offset) {
    work_.products.push_back({.weights = matrix_of(matrix),
                              .x = work_.normed,
                              .ints = takes_ints(matrix) ? ints : kernels::int8_rows{},
                              .y = work_.gate_up + offset,
                              .x_stride = spec_.embedding,
                              .y_stride = gate_up,
                              .columns = columns_,
                              .bias = floats_of(bias)});
  };
  work_.products.clear();
  if (!gated) {
    add(weights.ffn_up, weights.ffn_up_bias, 0);
  } else if (weights.ffn_gate_up) {
    add(weights.ffn_gate_up, {}, 0);
  } else {
    add(weights.ffn_gate, weights.ffn_gate_bias, 0);
    add(weights.ffn_up, weights.ffn_up_bias, ffn);
  }
  host::matmul(work_.products, pool_);
  const auto add_lora_to = [&](engine::lora_target target, std::uint32_t offset) {
    add_lora(target, layer, work_.normed, spec_.embedding, work_.gate_up + offset, gate_up);
  };
  add_lora_to(engine::lora_target::ffn_gate_up, 0);
  add_lora_to(engine::lora_target::ffn_gate, 0);
  add_lora_to(engine::lora_target::ffn_up, gated ? ffn : 0);
  activate(layer, columns_, ffn);
  normalise_in_place(weights.ffn_sub_norm, work_.activated, ffn, spec_.activated_eps(spec_.layers[layer]));
  const kernels::matmul_args down = {.weights = matrix_of(weights.ffn_down),
                                     .x = work_.activated,
                                     .ints = rounded(work_.activated, ffn, {&weights.ffn_down}),
                                     .y = half_output(),
                                     .x_stride = ffn,
                                     .y_stride = spec_.embedding,
                                     .columns = columns_,
                                     .bias = floats_of(weights.ffn_down_bias),
                                     .accumulate = !spec_.post_norms};
  host::matmul({&down, 1}, pool_);
  add_lora(engine::lora_target::ffn_down, layer, work_.activated, ffn, half_output(), spec_.embedding);
}

/// gate_up -> activated, `rows` rows of them.
void host_forward::activate(std::uint32_t layer, std::uint32_t rows, std::uint32_t width) {
  if (has_gate(spec_.activation)) {
    host::swiglu({.gate = work_.gate_up,
                  .up = work_.gate_up + width,
                  .out = work_.activated,
                  .in_stride = 2 * std::size_t{width},
                  .rows = rows,
                  .width = width,
                  .kind = gated_kind(spec_.activation)},
                 pool_);
  } else {
    host::gelu({.x = work_.gate_up,
                .out = work_.activated,
                .rows = rows,
                .width = width,
                .form = gelu_form_of(spec_.activation),
                .squared_relu = spec_.activation == engine::ffn_activation::squared_relu},
               pool_);
  }
  tap("activated", layer, work_.activated, std::uint64_t{rows} * width);
}

void host_forward::route(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const kernels::matmul_args product = {.weights = matrix_of(weights.router),
                                        .x = work_.normed,
                                        .y = work_.router_logits,
                                        .x_stride = spec_.embedding,
                                        .y_stride = spec_.experts,
                                        .columns = columns_,
                                        .bias = floats_of(weights.router_bias)};
  host::matmul({&product, 1}, pool_);
  tap("router_logits", layer, work_.router_logits, std::uint64_t{columns_} * spec_.experts);
  host::moe_route({.logits = work_.router_logits,
                   .choice_bias = floats_of(weights.choice_bias),
                   .chosen = work_.chosen,
                   .weights = work_.expert_weights,
                   .columns = columns_,
                   .experts = spec_.experts,
                   .used = spec_.experts_used,
                   .weighting = weighting_of(spec_.routing),
                   .scale = static_cast<float>(spec_.expert_scale),
                   .groups = expert_groups_of(spec_)},
                  pool_);
  if (weights.expert_scale) {
    const float* const scales = floats_of(weights.expert_scale);
    for (std::uint32_t row = 0; row < columns_ * spec_.experts_used; ++row)
      work_.expert_weights[row] *= scales[work_.chosen[row]];
  }
  group_by_expert(work_, columns_, spec_, groups_);
}

void host_forward::moe_ffn(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const std::uint32_t ffn = spec_.layers[layer].width_of_expert();
  const bool gated = has_gate(spec_.activation);
  const std::size_t in_rows = (gated ? 2 : 1) * std::size_t{ffn};
  const auto bias_of = [](const engine::tensor_view& bias, std::uint32_t expert) -> const float* {
    return bias ? floats_of(bias) + std::uint64_t{expert} * bias.cols() : nullptr;
  };
  const auto add_input = [&](const engine::tensor_view& matrix, const engine::tensor_view& bias,
                             const expert_group& group, std::uint32_t offset) {
    work_.products.push_back({.weights = matrix_of(matrix, group.expert),
                              .x = work_.normed,
                              .y = work_.gate_up + offset,
                              .x_stride = spec_.embedding,
                              .y_stride = in_rows,
                              .columns = group.count,
                              .x_rows = work_.expert_in + group.first,
                              .y_rows = work_.expert_rows + group.first,
                              .bias = bias_of(bias, group.expert)});
  };
  work_.products.clear();
  for (const expert_group& group : groups_) {
    if (weights.expert_gate_up) {
      add_input(weights.expert_gate_up, {}, group, 0);
      continue;
    }
    if (gated) add_input(weights.expert_gate, weights.expert_gate_bias, group, 0);
    add_input(weights.expert_up, weights.expert_up_bias, group, gated ? ffn : 0);
  }
  host::matmul(work_.products, pool_);
  activate(layer, columns_ * spec_.experts_used, ffn);
  work_.products.clear();
  for (const expert_group& group : groups_) {
    work_.products.push_back({.weights = matrix_of(weights.expert_down, group.expert),
                              .x = work_.activated,
                              .y = work_.expert_out,
                              .x_stride = ffn,
                              .y_stride = spec_.embedding,
                              .columns = group.count,
                              .x_rows = work_.expert_rows + group.first,
                              .y_rows = work_.expert_rows + group.first,
                              .bias = bias_of(weights.expert_down_bias, group.expert)});
  }
  host::matmul(work_.products, pool_);
  // Beside a dense part the sum has a norm before it is added: it takes the place of the experts' input.
  float* const sum = spec_.dense_and_experts ? work_.normed : work_.residual;
  if (spec_.dense_and_experts) std::fill_n(sum, std::uint64_t{columns_} * spec_.embedding, 0.0F);
  host::moe_combine({.expert_out = work_.expert_out,
                     .weights = work_.expert_weights,
                     .residual = sum,
                     .columns = columns_,
                     .used = spec_.experts_used,
                     .width = spec_.embedding},
                    pool_);
}

/// The expert that every token has.
void host_forward::shared_ffn(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const std::uint32_t width = spec_.layers[layer].shared_size;
  if (width == 0) return;
  const bool gated = has_gate(spec_.activation);
  const auto add = [&](const engine::tensor_view& matrix, std::uint32_t offset) {
    work_.products.push_back({.weights = matrix_of(matrix),
                              .x = work_.normed,
                              .y = work_.gate_up + offset,
                              .x_stride = spec_.embedding,
                              .y_stride = (gated ? 2 : 1) * std::size_t{width},
                              .columns = columns_});
  };
  work_.products.clear();
  if (gated) add(weights.shared_gate, 0);
  add(weights.shared_up, gated ? width : 0);
  host::matmul(work_.products, pool_);
  activate(layer, columns_, width);
  const kernels::matmul_args down = {.weights = matrix_of(weights.shared_down),
                                     .x = work_.activated,
                                     .y = spec_.shared_gate ? work_.half_out : work_.residual,
                                     .x_stride = width,
                                     .y_stride = spec_.embedding,
                                     .columns = columns_,
                                     .accumulate = !spec_.shared_gate};
  host::matmul({&down, 1}, pool_);
  if (spec_.shared_gate) add_gated(weights.shared_router);
}

/// Adds half_out times the sigmoid of each token's gate to the residual stream.
void host_forward::add_gated(const engine::tensor_view& gate) {
  const kernels::matmul_args product = {.weights = matrix_of(gate),
                                        .x = work_.normed,
                                        .y = work_.shared_gates,
                                        .x_stride = spec_.embedding,
                                        .y_stride = 1,
                                        .columns = columns_};
  host::matmul({&product, 1}, pool_);
  host::moe_route({.logits = work_.shared_gates,
                   .chosen = work_.chosen,
                   .weights = work_.shared_gates,
                   .columns = columns_,
                   .experts = 1,
                   .used = 1,
                   .weighting = kernels::expert_weighting::sigmoid},
                  pool_);
  host::moe_combine({.expert_out = work_.half_out,
                     .weights = work_.shared_gates,
                     .residual = work_.residual,
                     .columns = columns_,
                     .used = 1,
                     .width = spec_.embedding},
                    pool_);
}

}  // namespace orcd::gpu
