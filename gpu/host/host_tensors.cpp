#include "gpu/host/host_tensors.hpp"

#include <string>

#include "kernels/host/attention.hpp"
#include "kernels/host/moe.hpp"

namespace orcd::gpu {
namespace {

using engine::layer_weights;
using engine::tensor_view;

using layer_tensor = tensor_view layer_weights::*;

constexpr layer_tensor matrices[] = {
    &layer_weights::attn_qkv,    &layer_weights::attn_q,      &layer_weights::attn_k,
    &layer_weights::attn_v,      &layer_weights::attn_output, &layer_weights::ffn_gate_up,
    &layer_weights::ffn_gate,    &layer_weights::ffn_up,      &layer_weights::ffn_down,
    &layer_weights::router,      &layer_weights::expert_gate, &layer_weights::expert_up,
    &layer_weights::expert_down, &layer_weights::shared_gate, &layer_weights::shared_up,
    &layer_weights::shared_down,
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
};

using model_tensor = tensor_view engine::model_weights::*;

constexpr model_tensor encoder_tensors[] = {
    &engine::model_weights::position_embd,
    &engine::model_weights::token_types,
    &engine::model_weights::token_embd_norm,
    &engine::model_weights::token_embd_norm_bias,
    &engine::model_weights::cls,
    &engine::model_weights::cls_bias,
    &engine::model_weights::cls_output,
    &engine::model_weights::cls_output_bias,
};

engine::result<void> check_vector(const tensor_view& tensor) {
  if (!tensor || tensor.type == engine::ggml_type::f32) return {};
  return engine::error(engine::errc::model_load_failed, "tensor " + std::string(tensor.name) + " has type " +
                                                            std::string(engine::traits_of(tensor.type).name) +
                                                            ", the host backend needs F32");
}

engine::result<void> check_limit(const char* what, std::uint64_t value, std::uint64_t limit) {
  if (value <= limit) return {};
  return engine::error(engine::errc::model_load_failed, std::string(what) + " is " + std::to_string(value) +
                                                            ", the host backend's limit is " +
                                                            std::to_string(limit));
}

}  // namespace

void for_each_tensor(const engine::model_weights& weights,
                     const std::function<void(const tensor_view&)>& visit) {
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
  for (const model_tensor tensor : encoder_tensors) visit_present(weights.*tensor);
  for (const layer_weights& layer : weights.layers) {
    for (const layer_tensor tensor : matrices) visit_present(layer.*tensor);
    for (const layer_tensor tensor : vectors) visit_present(layer.*tensor);
  }
}

std::vector<tensor_view*> tensors_of(engine::model_weights& weights) {
  std::vector<tensor_view*> out;
  // They are members of `weights`, which the caller may change.
  for_each_tensor(weights,
                  [&](const tensor_view& tensor) { out.push_back(const_cast<tensor_view*>(&tensor)); });
  return out;
}

std::uint64_t weights_bytes(const engine::model_weights& weights) {
  std::uint64_t bytes = 0;
  for_each_tensor(weights, [&](const tensor_view& tensor) { bytes += tensor.bytes; });
  return bytes;
}

engine::result<void> check_host_support(const engine::model& m) {
  const auto width = check_limit("the head dimension", std::max(m.spec.key_length, m.spec.value_length),
                                 kernels::attention_head_width_max);
  if (!width) return width;
  const auto experts = check_limit("the number of experts", m.spec.experts, kernels::moe_experts_max);
  if (!experts) return experts;
  for (const tensor_view* vector : {&m.weights.output_norm, &m.weights.output_norm_bias}) {
    if (const auto checked = check_vector(*vector); !checked) return checked;
  }
  for (const layer_weights& layer : m.weights.layers) {
    for (const layer_tensor tensor : vectors) {
      if (const auto checked = check_vector(layer.*tensor); !checked) return checked;
    }
  }
  return {};
}

kernels::weight_matrix matrix_of(const tensor_view& tensor, std::uint64_t expert) {
  const std::uint64_t matrix_bytes =
      tensor.rows() * engine::row_bytes(engine::traits_of(tensor.type), tensor.cols());
  return {.data = tensor.data + expert * matrix_bytes,
          .type = tensor.type,
          .rows = static_cast<std::uint32_t>(tensor.rows()),
          .cols = static_cast<std::uint32_t>(tensor.cols()),
          .factor = tensor.factor,
          .code_scale = tensor.code_scale.value_or(0.0F)};
}

const float* floats_of(const tensor_view& tensor) noexcept {
  return reinterpret_cast<const float*>(tensor.data);
}

}  // namespace orcd::gpu
