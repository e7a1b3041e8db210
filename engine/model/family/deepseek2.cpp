// deepseek2: multi-head latent attention (latent_spec), dense layers first, then experts with shared ones.
// GLM-4.7-Flash and Kimi's Moonlight have this architecture name, too. Converters have written two layouts:
// at first each layer had attn_kv_b, and the keys told the widths of a head; then attn_k_b and attn_v_b, head
// by head, the widths of what is cached, and those of a head in "_mla" keys. Sources: DeepSeek-V2 2405.04434,
// DeepSeek-V3 2412.19437; YaRN 2309.00071 as DeepSeek's own code applies it.
#include <cmath>
#include <string>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;
using limits = hparam_limits;

constexpr std::array attention{
    layer_rule{&w::attn_norm, "attn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::attn_q, "attn_q.weight", {embedding, q_rows}, presence::whole_query},
    layer_rule{&w::attn_q_a, "attn_q_a.weight", {embedding, query_rank}, presence::factored_query},
    layer_rule{&w::attn_q_a_norm, "attn_q_a_norm.weight", {query_rank}, presence::factored_query, types::f32},
    layer_rule{&w::attn_q_b, "attn_q_b.weight", {query_rank, q_rows}, presence::factored_query},
    layer_rule{&w::attn_kv_a, "attn_kv_a_mqa.weight", {embedding, latent_row}},
    layer_rule{&w::attn_kv_a_norm, "attn_kv_a_norm.weight", {latent_rank}, presence::required, types::f32},
    layer_rule{&w::attn_kv_b, "attn_kv_b.weight", {latent_rank, joined_rows}, presence::joined_latents},
    layer_rule{&w::attn_k_b, "attn_k_b.weight", {unrotated, latent_rank, heads}, presence::split_latents},
    layer_rule{&w::attn_v_b, "attn_v_b.weight", {latent_rank, head_value, heads}, presence::split_latents},
    layer_rule{&w::attn_output, "attn_output.weight", {attention_out, embedding}},
};

constexpr std::array own{
    layer_rule{&w::choice_bias, "exp_probs_b.bias", {experts}, presence::moe_optional, types::f32},
};

/// What is cached, in the keys of the second layout, must be the latent and the rotated part.
void check_cached_widths(hparam_reader& from, const model_spec& spec) {
  const auto check = [&](const char* key, std::uint32_t value, std::uint32_t expected, const char* made_of) {
    if (value == expected) return;
    from.problems().add("key '" + from.full(key) + "' is " + std::to_string(value) + "; " + made_of +
                        " make it " + std::to_string(expected));
  };
  const latent_spec& latent = spec.latent;
  check("attention.key_length", spec.layers.front().key_length, latent.rank + latent.rotated,
        "kv_lora_rank and rope.dimension_count");
  check("attention.value_length", spec.layers.front().value_length, latent.rank, "kv_lora_rank");
}

void read_latents(hparam_reader& from, model_spec& spec) {
  latent_spec& latent = spec.latent;
  latent.rank = from.count("attention.kv_lora_rank", 2, limits::head_dim);
  latent.query_rank = from.count("attention.q_lora_rank", 1, limits::embedding, 0);
  latent.rotated = spec.layers.front().rope.dims;
  latent.key_length = spec.layers.front().key_length;
  latent.value_length = spec.layers.front().value_length;
  if (from.has("attention.key_length_mla") || from.has("attention.value_length_mla")) {
    check_cached_widths(from, spec);
    latent.key_length = from.count("attention.key_length_mla", 2, limits::head_dim);
    latent.value_length = from.count("attention.value_length_mla", 1, limits::head_dim);
  }
  if (latent.rotated >= latent.key_length) {
    from.problems().add("key '" + from.full("rope.dimension_count") + "' is " +
                        std::to_string(latent.rotated) + "; it must be less than the " +
                        std::to_string(latent.key_length) + " values of a head's query");
    latent.rotated = 0;
  }
  if (latent.rank % 2 != 0 || latent.rank + latent.rotated > limits::head_dim) {
    from.problems().add("key '" + from.full("attention.kv_lora_rank") + "' is " +
                        std::to_string(latent.rank) + "; it must be even, and at most " +
                        std::to_string(limits::head_dim) + " with rope.dimension_count");
  }
  if (from.number("attention.scale", 0.0, 1e3, 0.0) == 0.0)
    spec.attention_scale = 1.0 / std::sqrt(static_cast<double>(latent.key_length));
  for (layer_spec& layer : spec.layers) {
    layer.kv_heads = 1;
    layer.key_length = latent.rank + latent.rotated;
    layer.value_length = latent.rank;
  }
}

/// The key holds a tenth of the multiplier. Queries and keys keep their length then: their magnitudes' ratio
/// is 1 in every published model, and scores grow by the square of one of them instead.
void read_score_growth(hparam_reader& from, model_spec& spec) {
  const double multiplier = 10.0 * from.number("rope.scaling.yarn_log_multiplier", 0.0, 1e2, 0.0);
  if (multiplier == 0.0) return;
  for (layer_spec& layer : spec.layers) {
    layer.rope.log_multiplier = 1.0;
    layer.rope.score_log_multiplier = multiplier;
  }
}

/// Files that do not say how experts are weighed have a router of sigmoids if they have a bias for the
/// choice.
void read_router(hparam_reader& from, model_spec& spec) {
  constexpr std::uint32_t softmax = 1;
  constexpr std::uint32_t sigmoid = 2;
  bool biased = false;
  for (const tensor_view& tensor : from.file().tensors())
    biased |= tensor.name.ends_with(".exp_probs_b.bias");
  const bool renormalised = from.flag("expert_weights_norm", false);
  if (from.count("expert_gating_func", softmax, sigmoid, biased ? sigmoid : softmax) == sigmoid) {
    spec.routing = renormalised ? router_weighting::sigmoid_renormalised : router_weighting::sigmoid;
  } else {
    spec.routing = renormalised ? router_weighting::softmax_all_renormalised : router_weighting::softmax_all;
    if (biased) {
      from.problems().add("key '" + from.full("expert_gating_func") +
                          "' is 1 (softmax), and there are exp_probs_b tensors, which need 2 (sigmoid)");
    }
  }
  spec.expert_scale = from.number("expert_weights_scale", 0.0, 1e4, 1.0);
  if (spec.expert_scale == 0.0) spec.expert_scale = 1.0;  // "none" to converters
  // V2 orders groups by their best expert, V3 by the sum of two.
  read_expert_groups(from, spec, is_sigmoid(spec.routing) ? group_ranking::two_best : group_ranking::best);
}

/// Parting it would lose where a code is that has no value.
void check_joined_types(hparam_reader& from) {
  for (const tensor_view& tensor : from.file().tensors()) {
    if (tensor.type == ggml_type::i2_s && tensor.name.ends_with(".attn_kv_b.weight"))
      from.problems().add("tensor '" + std::string(tensor.name) +
                          "' has type I2_S, which is not supported there");
  }
}

void read(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::interleaved);
  spec.regrouped_heads = false;
  read_latents(from, spec);
  check_joined_types(from);
  read_score_growth(from, spec);
  if (spec.experts > 0) {
    read_moe(from, spec);
    read_router(from, spec);
  }
  from.count("nextn_predict_layers", 0, limits::layers, 0);  // load_model() has left them out
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 5> all{attention, gated_ffn_rules(), expert_rules(),
                                                              shared_expert_rules(), own};
  return all;
}

}  // namespace

const family deepseek2_family{"deepseek2", expert_use::optional, read, tables, false, {}, true};

}  // namespace orcd::engine
