// gemma4 (text): Gemma 3's halves with windowed and full layers that differ in the width and number of their
// heads. Values have a norm without weights, and in full layers of the larger models are the raw keys; scores
// are not scaled. Full layers rotate some pairs of a head alone, which the file says by factors so large that
// the others stand still. The last layers may read the cache of the last layer of their kind that has one.
// Layers may have experts beside their dense feed-forward, and inputs of their own. Files hold norms' weights
// as the original does. Source: modeling_gemma4.py of transformers 5.24.0 and llama.cpp's converter.
#include <cmath>
#include <string>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using limits = hparam_limits;
using w = layer_weights;
using enum extent;

constexpr std::array attention{
    layer_rule{&w::attn_norm, "attn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::attn_qkv, "attn_qkv.weight", {embedding, qkv_rows}, presence::fused_qkv},
    layer_rule{&w::attn_q, "attn_q.weight", {embedding, q_rows}, presence::split_qkv},
    layer_rule{&w::attn_k, "attn_k.weight", {embedding, k_rows}, presence::own_keys},
    layer_rule{&w::attn_v, "attn_v.weight", {embedding, v_rows}, presence::own_values},
    layer_rule{&w::attn_q_norm, "attn_q_norm.weight", {key_length}, presence::required, types::f32},
    layer_rule{&w::attn_k_norm, "attn_k_norm.weight", {key_length}, presence::own_cache, types::f32},
    layer_rule{&w::attn_output, "attn_output.weight", {attention_out, embedding}},
};

constexpr std::array feed_forward{
    layer_rule{&w::ffn_norm, "ffn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_gate, "ffn_gate.weight", {embedding, ffn}},
    layer_rule{&w::ffn_up, "ffn_up.weight", {embedding, ffn}},
    layer_rule{&w::ffn_down, "ffn_down.weight", {ffn, embedding}},
    layer_rule{&w::layer_output_scale, "layer_output_scale.weight", {single}, presence::optional, types::f32},
};

constexpr std::array experts_beside{
    layer_rule{&w::router, "ffn_gate_inp.weight", {embedding, experts}, presence::moe},
    layer_rule{&w::router_norm, "ffn_gate_inp.scale", {embedding}, presence::moe, types::f32},
    layer_rule{&w::expert_gate_up,
               "ffn_gate_up_exps.weight",
               {embedding, expert_ffn_twice, experts},
               presence::fused_experts},
    layer_rule{
        &w::expert_gate, "ffn_gate_exps.weight", {embedding, expert_ffn, experts}, presence::split_experts},
    layer_rule{
        &w::expert_up, "ffn_up_exps.weight", {embedding, expert_ffn, experts}, presence::split_experts},
    layer_rule{&w::expert_down, "ffn_down_exps.weight", {expert_ffn, embedding, experts}, presence::moe},
    layer_rule{&w::expert_scale, "ffn_down_exps.scale", {experts}, presence::moe_optional, types::f32},
    layer_rule{&w::ffn_norm_2, "pre_ffw_norm_2.weight", {embedding}, presence::moe, types::f32},
    layer_rule{&w::ffn_post_norm_1, "post_ffw_norm_1.weight", {embedding}, presence::moe, types::f32},
    layer_rule{&w::ffn_post_norm_2, "post_ffw_norm_2.weight", {embedding}, presence::moe, types::f32},
};

constexpr std::array inputs_of_layers{
    layer_rule{
        &w::layer_input_gate, "inp_gate.weight", {embedding, extent::layer_inputs}, presence::layer_inputs},
    layer_rule{
        &w::layer_input_proj, "proj.weight", {extent::layer_inputs, embedding}, presence::layer_inputs},
    layer_rule{&w::layer_input_norm, "post_norm.weight", {embedding}, presence::layer_inputs, types::f32},
};

std::string layer_text(std::size_t layer) {
  return "layer " + std::to_string(layer);
}

/// The keys without an ending are those of full layers.
void read_kinds(hparam_reader& from, model_spec& spec) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const auto windowed = from.per_layer("attention.sliding_window_pattern", layers, 0, 1);
  const std::uint32_t window = from.count("attention.sliding_window", 1, spec.context_length);
  const layer_spec& full = spec.layers.front();
  const std::uint32_t key = from.count("attention.key_length_swa", 2, limits::head_dim, full.key_length);
  const std::uint32_t value =
      from.count("attention.value_length_swa", 2, limits::head_dim, full.value_length);
  const std::uint32_t dims = from.count("rope.dimension_count_swa", 2, std::max(2U, key), key);
  for (const auto& [size, name] :
       {std::pair{key, "attention.key_length_swa"}, std::pair{value, "attention.value_length_swa"},
        std::pair{dims, "rope.dimension_count_swa"}}) {
    if (size % 2 != 0)
      from.problems().add("key '" + from.full(name) + "' is " + std::to_string(size) + "; it must be even");
  }
  bool some_full = false;
  for (std::uint32_t i = 0; i < layers; ++i) {
    layer_spec& layer = spec.layers[i];
    some_full = some_full || windowed[i] == 0;
    if (windowed[i] == 0) continue;
    layer.window = window;
    layer.key_length = key;
    layer.value_length = value;
    layer.rope.dims = dims;
    layer.rope.file_factors = false;
  }
  set_window_rotation(from, spec, 10'000.0, true);
  if (some_full && from.file().find_tensor("rope_freqs.weight") == nullptr) {
    from.problems().add(
        "tensor 'rope_freqs.weight' is missing: it says which pairs of a full layer's heads rotate");
  }
}

/// The last owner of a cache of the same kind as layer `reader`.
const layer_spec* find_source(const model_spec& spec, std::size_t owners, std::size_t reader) {
  const bool windowed = spec.layers[reader].window != 0;
  for (std::size_t i = owners; i-- > 0;) {
    if ((spec.layers[i].window != 0) == windowed) return &spec.layers[i];
  }
  return nullptr;
}

void read_shared_caches(hparam_reader& from, model_spec& spec) {
  constexpr std::string_view key = "attention.shared_kv_layers";
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const std::uint32_t shared = from.count(key, 0, layers - 1, 0);
  for (std::size_t i = layers - shared; i < layers; ++i) {
    layer_spec& layer = spec.layers[i];
    const layer_spec* const source = find_source(spec, layers - shared, i);
    if (source == nullptr) {
      from.problems().add("key '" + from.full(key) + "' is " + std::to_string(shared) + ": " + layer_text(i) +
                          " has no layer before those whose cache it could read, since none of them is " +
                          (layer.window != 0 ? "windowed" : "full"));
      continue;
    }
    layer.reads_other_cache = true;
    layer.kv_source = source->kv_source;
    if (layer.kv_heads == source->kv_heads) continue;
    from.problems().add(layer_text(i) + " reads the cache of " + layer_text(source->kv_source) +
                        ", but has " + std::to_string(layer.kv_heads) + " key-value heads for its " +
                        std::to_string(source->kv_heads));
  }
}

/// No key says it: the tensor is not there.
void find_values_from_keys(hparam_reader& from, model_spec& spec) {
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    layer_spec& layer = spec.layers[i];
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const auto has = [&](const char* name) { return from.file().find_tensor(prefix + name) != nullptr; };
    if (layer.reads_other_cache || has("attn_v.weight") || has("attn_qkv.weight")) continue;
    layer.values_from_keys = true;
    if (layer.key_length == layer.value_length) continue;
    from.problems().add(
        "tensor '" + prefix + "attn_v.weight' is missing, so that values are keys, but keys have " +
        std::to_string(layer.key_length) + " values a head and values " + std::to_string(layer.value_length));
  }
}

/// read_common_spec() has taken the experts' width for the feed-forward's.
void read_experts(hparam_reader& from, model_spec& spec) {
  if (spec.experts == 0) return;
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  if (!from.has("expert_feed_forward_length")) {
    from.problems().add("key '" + from.full("expert_feed_forward_length") + "' is missing");
    return;
  }
  const auto dense = from.per_layer("feed_forward_length", layers, 1, limits::ffn);
  for (std::uint32_t i = 0; i < layers; ++i) {
    spec.layers[i].expert_size = spec.layers[i].ffn_size;
    spec.layers[i].ffn_size = dense[i];
  }
  spec.dense_and_experts = spec.router_norm = true;
}

void read_spec(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.activation = ffn_activation::geglu_tanh;
  spec.post_norms = true;
  spec.value_norm = true;
  spec.pictures_in_windows_alone = true;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.embedding));
  if (from.number("attention.scale", 0.0, 1e3, 0.0) == 0.0) spec.attention_scale = 1.0;
  // A cap of 0 would make everything 0.
  if (from.has("final_logit_softcapping"))
    spec.logit_softcap = from.number("final_logit_softcapping", 1e-3, 1e6, 1.0);
  read_experts(from, spec);
  read_kinds(from, spec);
  read_shared_caches(from, spec);
  find_values_from_keys(from, spec);
  spec.layer_inputs = from.count("embedding_length_per_layer_input", 0, limits::embedding, 0);
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 5> all{attention, post_norm_rules(), feed_forward,
                                                              experts_beside, inputs_of_layers};
  return all;
}

}  // namespace

const family gemma4_family{.architecture = "gemma4",
                           .experts = expert_use::optional,
                           .read_spec = read_spec,
                           .layer_tables = tables,
                           .senses = true};

}  // namespace orcd::engine
