// nemotron_h and nemotron_h_moe: a layer is one of Mamba-2, attention without rotation, or a feed-forward,
// with one norm before it. Layers without key-value heads are Mamba-2 where they have no feed-forward either.
// Feed-forwards have no gate and a squared ReLU; experts are chosen by sigmoids with a bias, beside one for
// every token. transformers keeps the step of Mamba-2 above a least one, which files do not hold and
// llama.cpp does not do: neither is done here. Source: modeling_nemotron_h.py of transformers, llama.cpp.
#include <string>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using limits = hparam_limits;
using w = layer_weights;
using enum extent;

constexpr std::array feed_forward{
    layer_rule{&w::ffn_norm, "attn_norm.weight", {embedding}, presence::ffn_alone, types::f32},
    layer_rule{&w::ffn_up, "ffn_up.weight", {embedding, ffn}, presence::dense},
    layer_rule{&w::ffn_down, "ffn_down.weight", {ffn, embedding}, presence::dense},
};

constexpr std::array experts_of_layers{
    layer_rule{&w::router, "ffn_gate_inp.weight", {embedding, experts}, presence::moe},
    layer_rule{&w::choice_bias, "exp_probs_b.bias", {experts}, presence::moe, types::f32},
    layer_rule{&w::expert_up, "ffn_up_exps.weight", {embedding, ffn, experts}, presence::moe},
    layer_rule{&w::expert_down, "ffn_down_exps.weight", {ffn, embedding, experts}, presence::moe},
    layer_rule{&w::shared_up, "ffn_up_shexp.weight", {embedding, shared_ffn}, presence::shared_expert},
    layer_rule{&w::shared_down, "ffn_down_shexp.weight", {shared_ffn, embedding}, presence::shared_expert},
};

/// What a layer is, after its feed-forward's width: of experts the key for that has another value.
void read_kinds(hparam_reader& from, model_spec& spec) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const auto widths = from.per_layer("feed_forward_length", layers, 0, limits::ffn);
  for (std::uint32_t i = 0; i < layers; ++i) {
    layer_spec& layer = spec.layers[i];
    if (widths[i] > 0 && layer.kv_heads > 0) {
      from.problems().add("layer " + std::to_string(i) + " has key-value heads and a feed-forward of " +
                          std::to_string(widths[i]) + " values; it can have one of them");
    }
    if (widths[i] > 0) {
      set_mixer(layer, mixer_kind::none);
      if (layer.ffn_size == 0) from.problems().add("layer " + std::to_string(i) + " has experts of 0 values");
      continue;
    }
    if (layer.kv_heads == 0) set_mixer(layer, mixer_kind::mamba2);
    layer.rope.dims = 0;
    layer.ffn = ffn_kind::none;
    layer.ffn_size = 0;
  }
  require_attention(from, spec);
}

void read_dense(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  if (!from.has("attention.layer_norm_rms_epsilon"))
    spec.rms_eps = from.number("attention.layer_norm_epsilon", 1e-15, 1.0, 1e-5);
  from.count("nextn_predict_layers", 0, limits::layers, 0);  // load_model() has left them out
  spec.activation = ffn_activation::squared_relu;
  read_ssm_keys(from, spec, false);
  read_kinds(from, spec);
  if (from.count("moe_latent_size", 0, limits::embedding, 0) != 0) {
    from.problems().add("key '" + from.full("moe_latent_size") +
                        "' is set; experts of a narrower input are not supported");
  }
}

void read_with_experts(hparam_reader& from, model_spec& spec) {
  read_dense(from, spec);
  read_moe(from, spec);
  spec.routing = from.flag("expert_weights_norm", true) ? router_weighting::sigmoid_renormalised
                                                        : router_weighting::sigmoid;
  spec.expert_scale = from.number("expert_weights_scale", 1e-4, 1e4, 1.0);
  read_expert_groups(from, spec, group_ranking::two_best);
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 4> all{mixed_attention_rules(), mamba2_rules(),
                                                              feed_forward, experts_of_layers};
  return all;
}

}  // namespace

const family nemotron_h_family{.architecture = "nemotron_h",
                               .experts = expert_use::never,
                               .read_spec = read_dense,
                               .layer_tables = tables,
                               .predicting_layers = true,
                               .recurrent = true};
const family nemotron_h_moe_family{.architecture = "nemotron_h_moe",
                                   .experts = expert_use::always,
                                   .read_spec = read_with_experts,
                                   .layer_tables = tables,
                                   .predicting_layers = true,
                                   .recurrent = true};

}  // namespace orcd::engine
