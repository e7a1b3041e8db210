// command-r and cohere2: both halves of a layer read the same LayerNorm, which has no bias, and logits have a
// multiplier. cohere2 has sliding windows on three layers of four, and does not rotate the others. Neither is
// permuted: neighbours are rotated.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

void read_both(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::interleaved);
  spec.regrouped_heads = false;
  spec.norm = norm_kind::layer;
  spec.rms_eps = from.number("attention.layer_norm_epsilon", 1e-15, 1.0, 1e-5);
  spec.parallel_halves = true;
  spec.logit_scale = from.number("logit_scale", 1e-4, 1e4, 1.0);
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

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 3> all{attention_rules(), qkv_bias_optional(),
                                                              gated_matrices()};
  return all;
}

}  // namespace

const family command_r_family{"command-r", expert_use::never, read_both, tables};
const family cohere2_family{"cohere2", expert_use::never, read_cohere2, tables};

}  // namespace orcd::engine
