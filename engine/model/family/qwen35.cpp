// qwen35, qwen35moe (Qwen3.5 and Qwen3.6) and qwen3next: three layers of four are gated delta nets, the
// fourth attends, with a gate on what its heads give. The first two have heads of values in the order of key
// heads (0, 1, 2, 0, 1, 2), which their converter makes; the third one in the original's, and beta and decay
// in one matrix. Source: modeling_qwen3_5.py and modeling_qwen3_next.py of transformers, llama.cpp's
// converter.
#include <algorithm>
#include <string>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using limits = hparam_limits;
using w = layer_weights;
using enum extent;

constexpr std::array head_norms{
    layer_rule{&w::attn_q_norm, "attn_q_norm.weight", {key_length}, presence::attends, types::f32},
    layer_rule{&w::attn_k_norm, "attn_k_norm.weight", {key_length}, presence::attends, types::f32},
};

constexpr std::array delta{
    layer_rule{&w::mix_in, "attn_qkv.weight", {embedding, mix_rows}, presence::delta_net},
    layer_rule{&w::mix_gate, "attn_gate.weight", {embedding, mix_values}, presence::delta_net},
    layer_rule{&w::mix_beta, "ssm_beta.weight", {embedding, value_heads}, presence::split_beta_decay},
    layer_rule{&w::mix_decay, "ssm_alpha.weight", {embedding, value_heads}, presence::split_beta_decay},
    layer_rule{
        &w::mix_beta_decay, "ssm_ba.weight", {embedding, value_heads_twice}, presence::joint_beta_decay},
    layer_rule{&w::conv, "ssm_conv1d.weight", {conv_kernel, conv_channels}, presence::delta_net, types::f32},
    layer_rule{&w::decay_bias, "ssm_dt.bias", {value_heads}, presence::delta_net, types::f32},
    layer_rule{&w::decay_rate, "ssm_a", {value_heads}, presence::delta_net, types::f32},
    layer_rule{&w::mix_norm, "ssm_norm.weight", {norm_width}, presence::delta_net, types::f32},
    layer_rule{&w::mix_out, "ssm_out.weight", {mix_values, embedding}, presence::delta_net},
};

/// An array wins over the interval.
void read_kinds(hparam_reader& from, model_spec& spec) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  std::vector<std::uint32_t> recurrent(layers);
  const std::uint32_t interval = from.count("full_attention_interval", 1, limits::layers, 4);
  if (from.has("attention.recurrent_layers")) {
    recurrent = from.per_layer("attention.recurrent_layers", layers, 0, 1);
  } else {
    for (std::uint32_t i = 0; i < layers; ++i) recurrent[i] = (i + 1) % interval == 0 ? 0 : 1;
  }
  for (std::uint32_t i = 0; i < layers; ++i) {
    layer_spec& layer = spec.layers[i];
    if (recurrent[i] != 0) {
      set_mixer(layer, mixer_kind::delta_net);
    } else if (layer.kv_heads == 0) {
      from.problems().add("layer " + std::to_string(i) + " attends, but has no key-value heads");
    } else {
      layer.query_gate = true;
    }
  }
  require_attention(from, spec);
}

/// Files of the first converters have one matrix for all that a layer's input is multiplied by.
void refuse_old_layout(hparam_reader& from) {
  for (const tensor_view& tensor : from.file().tensors()) {
    if (!tensor.name.ends_with(".ssm_in.weight")) continue;
    return from.problems().add("tensor '" + std::string(tensor.name) +
                               "' is of a layout of 2025, with q, k, v and z in one matrix by key head, "
                               "which is not supported; convert the model again");
  }
}

void read_layers(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  from.count("nextn_predict_layers", 0, limits::layers, 0);  // load_model() has left them out
  read_ssm_keys(from, spec, true);
  read_kinds(from, spec);
  refuse_old_layout(from);
  require_feed_forward(from, spec);
}

void read_experts(hparam_reader& from, model_spec& spec) {
  spec.routing = router_weighting::softmax_all_renormalised;
  spec.shared_gate = true;
  read_moe(from, spec);
  if (from.has("expert_shared_feed_forward_length")) return;
  const std::uint32_t size = from.count("feed_forward_length", 1, limits::ffn);
  for (layer_spec& layer : spec.layers) layer.shared_size = size;
}

void read_dense(hparam_reader& from, model_spec& spec) {
  read_layers(from, spec);
  spec.recurrence.sharing = head_sharing::in_turn;
  read_sections(from, spec, rope_axes::in_turn, false);
}

void read_with_experts(hparam_reader& from, model_spec& spec) {
  read_dense(from, spec);
  read_experts(from, spec);
}

void read_next(hparam_reader& from, model_spec& spec) {
  read_layers(from, spec);
  spec.recurrence.sharing = head_sharing::neighbours;
  spec.recurrence.joint_beta_decay = true;
  read_experts(from, spec);
}

std::span<const std::span<const layer_rule>> dense_tables() {
  static const std::array<std::span<const layer_rule>, 5> all{mixed_attention_rules(), head_norms, delta,
                                                              late_ffn_norm(), gated_matrices()};
  return all;
}

std::span<const std::span<const layer_rule>> expert_tables() {
  static const std::array<std::span<const layer_rule>, 6> all{
      mixed_attention_rules(), head_norms,           delta, late_ffn_norm(),
      either_expert_rules(),   shared_expert_rules()};
  return all;
}

}  // namespace

const family qwen35_family{.architecture = "qwen35",
                           .experts = expert_use::never,
                           .read_spec = read_dense,
                           .layer_tables = dense_tables,
                           .predicting_layers = true,
                           .recurrent = true};
const family qwen35moe_family{.architecture = "qwen35moe",
                              .experts = expert_use::always,
                              .read_spec = read_with_experts,
                              .layer_tables = expert_tables,
                              .predicting_layers = true,
                              .recurrent = true};
const family qwen3next_family{.architecture = "qwen3next",
                              .experts = expert_use::always,
                              .read_spec = read_next,
                              .layer_tables = expert_tables,
                              .predicting_layers = true,
                              .recurrent = true};

}  // namespace orcd::engine
