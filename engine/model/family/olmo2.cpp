// olmo2 (OLMo 2 and 3) and exaone4: the halves of a layer read the residual stream itself, and what they give
// has a norm before it is added. Q and K have norms: OLMo's over all heads together, EXAONE's over each. In
// models with sliding windows, three layers of four have one; OLMo scales the rotation of the others alone,
// EXAONE does not rotate the others. Source: 2 OLMo 2 Furious 2501.00656; EXAONE 4.0 2507.11407.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::uint32_t period = 4;

constexpr std::array wide_norms{
    layer_rule{&w::attn_q_norm, "attn_q_norm.weight", {q_rows}, presence::required, types::f32},
    layer_rule{&w::attn_k_norm, "attn_k_norm.weight", {k_rows}, presence::required, types::f32},
};

bool read_both(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.post_norms = true;
  return from.has("attention.sliding_window");
}

void read_windows(hparam_reader& from, model_spec& spec, std::uint32_t usual) {
  set_windows(from, spec, from.count("attention.sliding_window", 1, hparam_limits::context, usual), period);
}

void read_olmo2(hparam_reader& from, model_spec& spec) {
  spec.wide_head_norms = true;
  if (!read_both(from, spec)) return;
  read_windows(from, spec, hparam_limits::context);
  set_window_rotation(from, spec, 0.0, true);
}

/// Files of the largest model may leave its window out.
void read_exaone4(hparam_reader& from, model_spec& spec) {
  constexpr std::size_t layers_of_32b = 64;
  if (!read_both(from, spec) && spec.layers.size() != layers_of_32b) return;
  read_windows(from, spec, 4096);
  set_window_rotation(from, spec, 0.0, false);
  for (layer_spec& layer : spec.layers) {
    if (layer.window == 0) layer.rope.dims = 0;
  }
}

std::span<const std::span<const layer_rule>> olmo2_tables() {
  static const std::array<std::span<const layer_rule>, 4> all{projection_rules(), wide_norms,
                                                              post_norm_rules(), gated_matrices()};
  return all;
}

std::span<const std::span<const layer_rule>> exaone4_tables() {
  static const std::array<std::span<const layer_rule>, 4> all{projection_rules(), head_norm_rules(),
                                                              post_norm_rules(), gated_matrices()};
  return all;
}

}  // namespace

const family olmo2_family{"olmo2", expert_use::never, read_olmo2, olmo2_tables};
const family exaone4_family{"exaone4", expert_use::never, read_exaone4, exaone4_tables};

}  // namespace orcd::engine
