// The tables shared by families. Names and shapes are those that GGUF converters write.
#include "engine/model/tensor_rules.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array attention{
    layer_rule{&w::attn_norm, "attn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::attn_qkv, "attn_qkv.weight", {embedding, qkv_rows}, presence::fused_qkv},
    layer_rule{&w::attn_q, "attn_q.weight", {embedding, q_rows}, presence::split_qkv},
    layer_rule{&w::attn_k, "attn_k.weight", {embedding, k_rows}, presence::split_qkv},
    layer_rule{&w::attn_v, "attn_v.weight", {embedding, v_rows}, presence::split_qkv},
    layer_rule{&w::attn_output, "attn_output.weight", {attention_out, embedding}},
};

constexpr std::array bias_optional{
    layer_rule{&w::attn_qkv_bias, "attn_qkv.bias", {qkv_rows}, presence::optional, types::f32},
    layer_rule{&w::attn_q_bias, "attn_q.bias", {q_rows}, presence::split_qkv_optional, types::f32},
    layer_rule{&w::attn_k_bias, "attn_k.bias", {k_rows}, presence::split_qkv_optional, types::f32},
    layer_rule{&w::attn_v_bias, "attn_v.bias", {v_rows}, presence::split_qkv_optional, types::f32},
};

constexpr std::array bias_required{
    layer_rule{&w::attn_qkv_bias, "attn_qkv.bias", {qkv_rows}, presence::fused_qkv, types::f32},
    layer_rule{&w::attn_q_bias, "attn_q.bias", {q_rows}, presence::split_qkv, types::f32},
    layer_rule{&w::attn_k_bias, "attn_k.bias", {k_rows}, presence::split_qkv, types::f32},
    layer_rule{&w::attn_v_bias, "attn_v.bias", {v_rows}, presence::split_qkv, types::f32},
};

constexpr std::array gated_ffn{
    layer_rule{&w::ffn_norm, "ffn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_gate, "ffn_gate.weight", {embedding, ffn}, presence::dense},
    layer_rule{&w::ffn_up, "ffn_up.weight", {embedding, ffn}, presence::dense},
    layer_rule{&w::ffn_down, "ffn_down.weight", {ffn, embedding}, presence::dense},
};

constexpr std::array other_biases{
    layer_rule{&w::attn_output_bias, "attn_output.bias", {embedding}, presence::optional, types::f32},
    layer_rule{&w::ffn_gate_bias, "ffn_gate.bias", {ffn}, presence::dense_optional, types::f32},
    layer_rule{&w::ffn_up_bias, "ffn_up.bias", {ffn}, presence::dense_optional, types::f32},
    layer_rule{&w::ffn_down_bias, "ffn_down.bias", {embedding}, presence::dense_optional, types::f32},
};

constexpr std::array head_norms{
    layer_rule{&w::attn_q_norm, "attn_q_norm.weight", {key_length}, presence::required, types::f32},
    layer_rule{&w::attn_k_norm, "attn_k_norm.weight", {key_length}, presence::required, types::f32},
};

/// Some converters keep the name that a norm has in the original model, where it comes after attention.
constexpr std::array late_norm{
    layer_rule{&w::ffn_norm, "post_attention_norm.weight", {embedding}, presence::required, types::f32},
};

constexpr std::array post_norms{
    layer_rule{&w::attn_post_norm, "post_attention_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_post_norm, "post_ffw_norm.weight", {embedding}, presence::required, types::f32},
};

constexpr std::array shared{
    layer_rule{&w::shared_gate, "ffn_gate_shexp.weight", {embedding, shared_ffn}, presence::shared_expert},
    layer_rule{&w::shared_up, "ffn_up_shexp.weight", {embedding, shared_ffn}, presence::shared_expert},
    layer_rule{&w::shared_down, "ffn_down_shexp.weight", {shared_ffn, embedding}, presence::shared_expert},
    layer_rule{
        &w::shared_router, "ffn_gate_inp_shexp.weight", {embedding}, presence::shared_gate, types::f32},
};

constexpr std::array moe{
    layer_rule{&w::router, "ffn_gate_inp.weight", {embedding, experts}, presence::moe},
    layer_rule{&w::expert_gate, "ffn_gate_exps.weight", {embedding, ffn, experts}, presence::moe},
    layer_rule{&w::expert_up, "ffn_up_exps.weight", {embedding, ffn, experts}, presence::moe},
    layer_rule{&w::expert_down, "ffn_down_exps.weight", {ffn, embedding, experts}, presence::moe},
};

constexpr std::array either_moe{
    layer_rule{&w::router, "ffn_gate_inp.weight", {embedding, experts}, presence::moe},
    layer_rule{&w::expert_gate_up,
               "ffn_gate_up_exps.weight",
               {embedding, ffn_twice, experts},
               presence::fused_experts},
    layer_rule{&w::expert_gate, "ffn_gate_exps.weight", {embedding, ffn, experts}, presence::split_experts},
    layer_rule{&w::expert_up, "ffn_up_exps.weight", {embedding, ffn, experts}, presence::split_experts},
    layer_rule{&w::expert_down, "ffn_down_exps.weight", {ffn, embedding, experts}, presence::moe},
};

constexpr std::array mixed_attention{
    layer_rule{&w::attn_norm, "attn_norm.weight", {embedding}, presence::mixes, types::f32},
    layer_rule{&w::attn_q, "attn_q.weight", {embedding, q_rows}, presence::attends},
    layer_rule{&w::attn_k, "attn_k.weight", {embedding, k_rows}, presence::attends},
    layer_rule{&w::attn_v, "attn_v.weight", {embedding, v_rows}, presence::attends},
    layer_rule{&w::attn_output, "attn_output.weight", {attention_out, embedding}, presence::attends},
};

constexpr std::array mamba{
    layer_rule{&w::mix_in, "ssm_in.weight", {embedding, mix_rows}, presence::mamba2},
    layer_rule{&w::conv, "ssm_conv1d.weight", {conv_kernel, conv_channels}, presence::mamba2, types::f32},
    layer_rule{&w::conv_bias, "ssm_conv1d.bias", {conv_channels}, presence::mamba2_optional, types::f32},
    layer_rule{&w::decay_bias, "ssm_dt.bias", {value_heads}, presence::mamba2, types::f32},
    layer_rule{&w::decay_rate, "ssm_a", {single, value_heads}, presence::mamba2, types::f32},
    layer_rule{&w::skip, "ssm_d", {single, value_heads}, presence::mamba2, types::f32},
    layer_rule{&w::mix_norm, "ssm_norm.weight", {norm_width, norm_groups}, presence::mamba2, types::f32},
    layer_rule{&w::mix_out, "ssm_out.weight", {mix_values, embedding}, presence::mamba2},
};

}  // namespace

std::span<const layer_rule> attention_rules() noexcept {
  return attention;
}
std::span<const layer_rule> projection_rules() noexcept {
  return std::span(attention).subspan(1);
}
std::span<const layer_rule> qkv_bias_optional() noexcept {
  return bias_optional;
}
std::span<const layer_rule> qkv_bias_required() noexcept {
  return bias_required;
}
std::span<const layer_rule> other_bias_optional() noexcept {
  return other_biases;
}
std::span<const layer_rule> gated_ffn_rules() noexcept {
  return gated_ffn;
}
std::span<const layer_rule> gated_matrices() noexcept {
  return std::span(gated_ffn).subspan(1);
}
std::span<const layer_rule> head_norm_rules() noexcept {
  return head_norms;
}
std::span<const layer_rule> late_ffn_norm() noexcept {
  return late_norm;
}
std::span<const layer_rule> post_norm_rules() noexcept {
  return post_norms;
}
std::span<const layer_rule> expert_rules() noexcept {
  return moe;
}
std::span<const layer_rule> shared_expert_rules() noexcept {
  return shared;
}
std::span<const layer_rule> either_expert_rules() noexcept {
  return either_moe;
}
std::span<const layer_rule> mixed_attention_rules() noexcept {
  return mixed_attention;
}
std::span<const layer_rule> mamba2_rules() noexcept {
  return mamba;
}

}  // namespace orcd::engine
