// starcoder2: LayerNorm, biases on everything, and a feed-forward with GELU and no gate. Files do not carry
// the sliding window of the original, which is as long as what they were trained with. Source: 2402.19173.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array own{
    layer_rule{&w::attn_norm_bias, "attn_norm.bias", {embedding}, presence::required, types::f32},
    layer_rule{&w::attn_output_bias, "attn_output.bias", {embedding}, presence::optional, types::f32},
    layer_rule{&w::ffn_norm, "ffn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_norm_bias, "ffn_norm.bias", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_up, "ffn_up.weight", {embedding, ffn}},
    layer_rule{&w::ffn_up_bias, "ffn_up.bias", {ffn}, presence::optional, types::f32},
    layer_rule{&w::ffn_down, "ffn_down.weight", {ffn, embedding}},
    layer_rule{&w::ffn_down_bias, "ffn_down.bias", {embedding}, presence::optional, types::f32},
};

void read_spec(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.norm = norm_kind::layer;
  spec.rms_eps = from.number("attention.layer_norm_epsilon", 1e-15, 1.0, 1e-5);
  spec.activation = ffn_activation::gelu_tanh;
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 3> all{attention_rules(), qkv_bias_optional(), own};
  return all;
}

}  // namespace

const family starcoder2_family{"starcoder2", expert_use::never, read_spec, tables};

}  // namespace orcd::engine
