// gpt-oss: every layer has experts with biases, attention has sinks and biases, and even layers see a
// sliding window only. post_attention_norm is the norm before the experts, not one on the attention's
// output. YaRN's correction dimensions stay unrounded, as in the reference implementation.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array own{
    layer_rule{&w::attn_output_bias, "attn_output.bias", {embedding}, presence::required, types::f32},
    layer_rule{&w::attn_sinks, "attn_sinks.weight", {heads}, presence::required, types::f32},
    layer_rule{&w::ffn_norm, "post_attention_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::router_bias, "ffn_gate_inp.bias", {experts}, presence::required, types::f32},
    layer_rule{&w::expert_gate_bias, "ffn_gate_exps.bias", {ffn, experts}, presence::required, types::f32},
    layer_rule{&w::expert_up_bias, "ffn_up_exps.bias", {ffn, experts}, presence::required, types::f32},
    layer_rule{
        &w::expert_down_bias, "ffn_down_exps.bias", {embedding, experts}, presence::required, types::f32},
};

void read_spec(hparam_reader& from, model_spec& spec) {
  constexpr std::uint32_t every_other = 2;
  set_pairing(spec, rope_pairing::half_split);
  spec.activation = ffn_activation::swiglu_clamped;
  spec.routing = router_weighting::softmax_selected;
  for (layer_spec& layer : spec.layers) layer.rope.round_correction_dims = false;
  set_windows(from, spec, from.count("attention.sliding_window", 1, hparam_limits::context, 128),
              every_other);
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 4> all{attention_rules(), qkv_bias_required(), own,
                                                              expert_rules()};
  return all;
}

}  // namespace

const family gpt_oss_family{"gpt-oss", expert_use::always, read_spec, tables};

}  // namespace orcd::engine
