// command-r and cohere2: both halves of a layer read the same LayerNorm, which has no bias, and logits have a
// multiplier. The larger command-r has LayerNorms of the heads of Q and K, too, with weights of each head's
// own. cohere2 has sliding windows on three layers of four, and does not rotate the others. Neither is
// permuted: neighbours are rotated.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array norms_of_heads{
    layer_rule{&w::attn_q_norm, "attn_q_norm.weight", {key_length, heads}, presence::optional, types::f32},
    layer_rule{&w::attn_k_norm, "attn_k_norm.weight", {key_length, kv_heads}, presence::optional, types::f32},
};

void read_both(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::interleaved);
  spec.regrouped_heads = false;
  spec.norm = norm_kind::layer;
  spec.rms_eps = from.number("attention.layer_norm_epsilon", 1e-15, 1.0, 1e-5);
  spec.parallel_halves = true;
  spec.logit_scale = from.number("logit_scale", 1e-4, 1e4, 1.0);
}

void read_command_r(hparam_reader& from, model_spec& spec) {
  read_both(from, spec);
  spec.head_norm = norm_kind::layer;
  spec.own_head_norms = true;
}

void read_cohere2(hparam_reader& from, model_spec& spec) {
  constexpr std::uint32_t period = 4;
  read_both(from, spec);
  set_windows(from, spec, from.count("attention.sliding_window", 1, hparam_limits::context, 4096), period);
  set_window_rotation(from, spec, 0.0, false);
  for (layer_spec& layer : spec.layers) {
    if (layer.window == 0) layer.rope.dims = 0;
  }
}

std::span<const std::span<const layer_rule>> command_r_tables() {
  static const std::array<std::span<const layer_rule>, 4> all{attention_rules(), qkv_bias_optional(),
                                                              norms_of_heads, gated_matrices()};
  return all;
}

std::span<const std::span<const layer_rule>> cohere2_tables() {
  static const std::array<std::span<const layer_rule>, 3> all{attention_rules(), qkv_bias_optional(),
                                                              gated_matrices()};
  return all;
}

}  // namespace

const family command_r_family{"command-r", expert_use::never, read_command_r, command_r_tables};
const family cohere2_family{"cohere2", expert_use::never, read_cohere2, cohere2_tables};

}  // namespace orcd::engine
