// lfm2 and lfm2moe (Liquid): layers without key-value heads are short convolutions, whose products are gated
// on both sides; the others attend, with norms of Q and K. The last norm has the name that embeddings' norms
// have elsewhere. With experts: dense layers first, then a router of sigmoids with a bias for the choice.
// Source: modeling_lfm2.py and modeling_lfm2_moe.py of transformers.
#include <string>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using limits = hparam_limits;
using w = layer_weights;
using enum extent;

constexpr std::array own{
    layer_rule{&w::attn_q_norm, "attn_q_norm.weight", {key_length}, presence::attends, types::f32},
    layer_rule{&w::attn_k_norm, "attn_k_norm.weight", {key_length}, presence::attends, types::f32},
    layer_rule{&w::mix_in, "shortconv.in_proj.weight", {embedding, mix_rows}, presence::short_conv},
    layer_rule{
        &w::conv, "shortconv.conv.weight", {conv_kernel, conv_channels}, presence::short_conv, types::f32},
    layer_rule{&w::mix_out, "shortconv.out_proj.weight", {short_channels, embedding}, presence::short_conv},
    layer_rule{&w::choice_bias, "exp_probs_b.bias", {experts}, presence::moe, types::f32},
};

void read_dense(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.recurrence.conv_kernel = from.count("shortconv.l_cache", 2, conv_kernel_max);
  spec.recurrence.short_channels = spec.embedding;
  for (layer_spec& layer : spec.layers) {
    if (layer.kv_heads == 0) set_mixer(layer, mixer_kind::short_conv);
  }
  require_feed_forward(from, spec);
  require_attention(from, spec);
  for (const char* key : {"attention.sliding_window", "attention.sliding_window_pattern"}) {
    if (from.has(key) && from.count(key, 0, limits::context, 0) != 0)
      from.problems().add("key '" + from.full(key) + "' is set; it is not supported for this architecture");
  }
}

void read_with_experts(hparam_reader& from, model_spec& spec) {
  constexpr std::uint32_t sigmoid = 2;
  read_dense(from, spec);
  read_moe(from, spec);
  spec.routing = router_weighting::sigmoid_renormalised;
  if (from.count("expert_gating_func", 1, sigmoid, sigmoid) != sigmoid) {
    from.problems().add("key '" + from.full("expert_gating_func") +
                        "' is 1 (softmax); this architecture is supported with 2 (sigmoid)");
  }
  spec.expert_scale = from.number("expert_weights_scale", 1e-4, 1e4, 1.0);
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 4> all{mixed_attention_rules(), own, gated_ffn_rules(),
                                                              expert_rules()};
  return all;
}

}  // namespace

const family lfm2_family{.architecture = "lfm2",
                         .experts = expert_use::never,
                         .read_spec = read_dense,
                         .layer_tables = tables,
                         .recurrent = true,
                         .output_norm = "token_embd_norm.weight"};
const family lfm2moe_family{.architecture = "lfm2moe",
                            .experts = expert_use::always,
                            .read_spec = read_with_experts,
                            .layer_tables = tables,
                            .recurrent = true,
                            .output_norm = "token_embd_norm.weight"};

}  // namespace orcd::engine
