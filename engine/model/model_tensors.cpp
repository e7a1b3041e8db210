#include "engine/model/model_tensors.hpp"

#include <algorithm>
#include <cstring>

namespace orcd::engine {
namespace {

constexpr layer_tensor matrices[] = {
    &layer_weights::attn_qkv,         &layer_weights::attn_q,         &layer_weights::attn_k,
    &layer_weights::attn_v,           &layer_weights::attn_output,    &layer_weights::ffn_gate_up,
    &layer_weights::ffn_gate,         &layer_weights::ffn_up,         &layer_weights::ffn_down,
    &layer_weights::router,           &layer_weights::expert_gate,    &layer_weights::expert_up,
    &layer_weights::expert_down,      &layer_weights::shared_gate,    &layer_weights::shared_up,
    &layer_weights::shared_down,      &layer_weights::attn_q_a,       &layer_weights::attn_q_b,
    &layer_weights::attn_kv_a,        &layer_weights::attn_k_b,       &layer_weights::attn_v_b,
    &layer_weights::attn_kv_b,        &layer_weights::expert_gate_up, &layer_weights::layer_input_gate,
    &layer_weights::layer_input_proj, &layer_weights::mix_in,         &layer_weights::mix_gate,
    &layer_weights::mix_beta,         &layer_weights::mix_decay,      &layer_weights::mix_beta_decay,
    &layer_weights::mix_out,
};

constexpr layer_tensor vectors[] = {
    &layer_weights::attn_norm,
    &layer_weights::attn_qkv_bias,
    &layer_weights::attn_q_bias,
    &layer_weights::attn_k_bias,
    &layer_weights::attn_v_bias,
    &layer_weights::attn_q_norm,
    &layer_weights::attn_k_norm,
    &layer_weights::attn_output_bias,
    &layer_weights::attn_sinks,
    &layer_weights::ffn_norm,
    &layer_weights::ffn_gate_bias,
    &layer_weights::ffn_up_bias,
    &layer_weights::ffn_down_bias,
    &layer_weights::router_bias,
    &layer_weights::expert_gate_bias,
    &layer_weights::expert_up_bias,
    &layer_weights::expert_down_bias,
    &layer_weights::attn_output_norm,
    &layer_weights::attn_output_norm_bias,
    &layer_weights::layer_output_norm,
    &layer_weights::layer_output_norm_bias,
    &layer_weights::attn_sub_norm,
    &layer_weights::ffn_sub_norm,
    &layer_weights::attn_norm_bias,
    &layer_weights::ffn_norm_bias,
    &layer_weights::attn_post_norm,
    &layer_weights::ffn_post_norm,
    &layer_weights::choice_bias,
    &layer_weights::shared_router,
    &layer_weights::attn_q_a_norm,
    &layer_weights::attn_kv_a_norm,
    &layer_weights::router_norm,
    &layer_weights::ffn_norm_2,
    &layer_weights::ffn_post_norm_1,
    &layer_weights::ffn_post_norm_2,
    &layer_weights::expert_scale,
    &layer_weights::layer_input_norm,
    &layer_weights::layer_output_scale,
    &layer_weights::conv,
    &layer_weights::conv_bias,
    &layer_weights::decay_rate,
    &layer_weights::decay_bias,
    &layer_weights::skip,
    &layer_weights::mix_norm,
};

using model_tensor = tensor_view model_weights::*;

/// Those that few models have.
constexpr model_tensor rare_tensors[] = {
    &model_weights::position_embd,
    &model_weights::token_types,
    &model_weights::token_embd_norm,
    &model_weights::token_embd_norm_bias,
    &model_weights::cls,
    &model_weights::cls_bias,
    &model_weights::cls_output,
    &model_weights::cls_output_bias,
    &model_weights::layer_input_embd,
    &model_weights::layer_input_proj,
    &model_weights::layer_input_norm,
};

bool is_of_experts(const tensor_view& tensor) {
  return tensor.name.find("_exps.") != std::string_view::npos;
}

}  // namespace

std::span<const layer_tensor> layer_vectors() noexcept {
  return vectors;
}

void for_each_tensor(const model_weights& weights, const std::function<void(const tensor_view&)>& visit) {
  const auto visit_present = [&](const tensor_view& tensor) {
    if (tensor) visit(tensor);
  };
  visit_present(weights.token_embd);
  visit_present(weights.output_norm);
  visit_present(weights.output_norm_bias);
  if (weights.output.data != weights.token_embd.data) visit_present(weights.output);
  visit_present(weights.rope_freqs);
  visit_present(weights.rope_factors_long);
  visit_present(weights.rope_factors_short);
  for (const model_tensor tensor : rare_tensors) visit_present(weights.*tensor);
  for (const layer_weights& layer : weights.layers) {
    for (const layer_tensor tensor : matrices) visit_present(layer.*tensor);
    for (const layer_tensor tensor : vectors) visit_present(layer.*tensor);
  }
}

std::vector<tensor_view*> tensors_of(model_weights& weights) {
  std::vector<tensor_view*> out;
  // They are members of `weights`, which the caller may change.
  for_each_tensor(weights,
                  [&](const tensor_view& tensor) { out.push_back(const_cast<tensor_view*>(&tensor)); });
  return out;
}

std::uint64_t payload_bytes(const model_weights& weights) {
  std::uint64_t bytes = 0;
  for_each_tensor(weights, [&](const tensor_view& tensor) { bytes += tensor.bytes; });
  return bytes;
}

std::uint64_t bytes_read_per_token(const model& m) {
  std::uint64_t total = 0;
  for_each_tensor(m.weights, [&](const tensor_view& tensor) {
    if (is_of_experts(tensor) && m.spec.experts > 0)
      total += tensor.bytes / m.spec.experts * m.spec.experts_used;
    else
      total += tensor.bytes;
  });
  // Of tables by token one row is read.
  const tensor_view& rows = m.weights.token_embd;
  total -= m.weights.layer_input_embd.bytes;
  return m.weights.output.data == rows.data ? total : total - rows.bytes;
}

float output_scale_of(const layer_weights& layer) noexcept {
  float scale = 1.0F;
  if (layer.layer_output_scale) std::memcpy(&scale, layer.layer_output_scale.data, sizeof scale);
  return scale;
}

std::uint64_t kv_bytes_read(const model_spec& spec, std::uint32_t positions) {
  constexpr std::uint64_t half_bytes = 2;
  std::uint64_t total = 0;
  for (const layer_spec& layer : spec.layers) {
    const std::uint64_t seen = layer.window == 0 ? positions : std::min(positions, layer.window);
    total += seen * layer.kv_heads * (layer.key_length + spec.cached_value_length(layer)) * half_bytes;
  }
  return total;
}

}  // namespace orcd::engine
