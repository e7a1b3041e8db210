// bert: BERT, MiniLM, BGE, GTE and E5 in their WordPiece variants. Learned positions and token types instead
// of RoPE, no mask, LayerNorm after each half of a layer, a feed-forward with GELU and no gate, and biases
// everywhere. Source: Devlin et al. 1810.04805.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array halves{
    layer_rule{&w::attn_output_bias, "attn_output.bias", {embedding}, presence::required, types::f32},
    layer_rule{&w::attn_output_norm, "attn_output_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{
        &w::attn_output_norm_bias, "attn_output_norm.bias", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_up, "ffn_up.weight", {embedding, ffn}},
    layer_rule{&w::ffn_up_bias, "ffn_up.bias", {ffn}, presence::required, types::f32},
    layer_rule{&w::ffn_down, "ffn_down.weight", {ffn, embedding}},
    layer_rule{&w::ffn_down_bias, "ffn_down.bias", {embedding}, presence::required, types::f32},
    layer_rule{
        &w::layer_output_norm, "layer_output_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{
        &w::layer_output_norm_bias, "layer_output_norm.bias", {embedding}, presence::required, types::f32},
};

void read_spec(hparam_reader& from, model_spec& spec) {
  spec.causal = from.flag("attention.causal", false);
  spec.norms = norm_placement::after;
  spec.rms_eps = from.number("attention.layer_norm_epsilon", 1e-15, 1.0, 1e-12);
  spec.learned_positions = true;
  spec.activation = ffn_activation::gelu;
  for (layer_spec& layer : spec.layers) layer.rope.dims = 0;
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 3> all{projection_rules(), qkv_bias_required(),
                                                              halves};
  return all;
}

}  // namespace

const family bert_family{"bert", expert_use::never, read_spec, tables};

}  // namespace orcd::engine
