// glm4: norms before and after each half, neighbours rotated in a part of each head, gate and up as one
// matrix. glm4moe: no norms after; a router of sigmoids with a bias for the choice, experts for all tokens,
// dense layers first, and i rotated with i + dims/2. Source: GLM-4.5 2508.06471.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array fused_ffn{
    layer_rule{&w::ffn_norm, "ffn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_gate_up, "ffn_up.weight", {embedding, ffn_twice}, presence::dense},
    layer_rule{&w::ffn_down, "ffn_down.weight", {ffn, embedding}, presence::dense},
};

/// The larger models have norms of Q and K, the smaller ones do not.
constexpr std::array own{
    layer_rule{&w::attn_q_norm, "attn_q_norm.weight", {key_length}, presence::optional, types::f32},
    layer_rule{&w::attn_k_norm, "attn_k_norm.weight", {key_length}, presence::optional, types::f32},
    layer_rule{&w::choice_bias, "exp_probs_b.bias", {experts}, presence::moe_optional, types::f32},
};

void read_glm4(hparam_reader& from, model_spec& spec) {
  refuse_sections(from);
  from.count("nextn_predict_layers", 0, hparam_limits::layers, 0);  // load_model() has left them out
  set_pairing(spec, rope_pairing::interleaved);
  spec.regrouped_heads = false;
  spec.post_norms = true;
}

void read_glm4moe(hparam_reader& from, model_spec& spec) {
  constexpr std::uint32_t softmax = 1;
  constexpr std::uint32_t sigmoid = 2;
  set_pairing(spec, rope_pairing::half_split);
  refuse_sections(from);
  read_moe(from, spec);
  from.count("nextn_predict_layers", 0, hparam_limits::layers, 0);  // load_model() has left them out
  const bool renormalised = from.flag("expert_weights_norm", true);
  if (from.count("expert_gating_func", softmax, sigmoid, sigmoid) == sigmoid) {
    spec.routing = renormalised ? router_weighting::sigmoid_renormalised : router_weighting::sigmoid;
  } else {
    from.problems().add("key '" + from.full("expert_gating_func") +
                        "' is 1 (softmax); this architecture is supported with 2 (sigmoid)");
  }
  spec.expert_scale = from.number("expert_weights_scale", 1e-4, 1e4, 1.0);
  read_expert_groups(from, spec, group_ranking::two_best);
}

std::span<const std::span<const layer_rule>> glm4_tables() {
  static const std::array<std::span<const layer_rule>, 4> all{attention_rules(), qkv_bias_optional(),
                                                              post_norm_rules(), fused_ffn};
  return all;
}

std::span<const std::span<const layer_rule>> glm4moe_tables() {
  static const std::array<std::span<const layer_rule>, 7> all{
      attention_rules(), qkv_bias_optional(),  own, late_ffn_norm(), gated_matrices(),
      expert_rules(),    shared_expert_rules()};
  return all;
}

}  // namespace

const family glm4_family{"glm4", expert_use::never, read_glm4, glm4_tables, false, {}, true};
const family glm4moe_family{"glm4moe", expert_use::always, read_glm4moe, glm4moe_tables, false, {}, true};

}  // namespace orcd::engine
