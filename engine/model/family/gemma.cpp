// gemma2 and gemma3 (text): embeddings multiplied by the root of their width, norms before and after each
// half, a gate with GELU, and sliding windows: in Gemma 2 on every other layer, in Gemma 3 on five of six,
// which rotate with a base of their own. Gemma 2 caps scores and logits, Gemma 3 has norms of Q and K. Files
// hold the norms' weights with the 1 that the original adds. Source: 2408.00118 and 2503.19786.
#include <cmath>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

/// No key of the file says that the largest models scale scores by the width of a head that all would have if
/// they made up the embedding; their number of layers does.
void scale_scores(hparam_reader& from, model_spec& spec, std::size_t layers_of_largest) {
  if (from.has("attention.scale") || spec.layers.size() != layers_of_largest) return;
  spec.attention_scale =
      1.0 / std::sqrt(static_cast<double>(spec.embedding) / static_cast<double>(spec.layers.front().heads));
}

void read_both(model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.activation = ffn_activation::geglu_tanh;
  spec.post_norms = true;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.embedding));
}

/// A cap of 0 would make everything 0.
double read_cap(hparam_reader& from, std::string_view key, double fallback) {
  return from.has(key) ? from.number(key, 1e-3, 1e6, 1.0) : fallback;
}

void read_gemma2(hparam_reader& from, model_spec& spec) {
  constexpr std::size_t layers_of_27b = 46;
  read_both(spec);
  set_windows(from, spec, from.count("attention.sliding_window", 1, hparam_limits::context, 4096), 2);
  set_window_rotation(from, spec, 0.0, false);
  scale_scores(from, spec, layers_of_27b);
  spec.attention_softcap = read_cap(from, "attn_logit_softcapping", 50.0);
  spec.logit_softcap = read_cap(from, "final_logit_softcapping", 30.0);
}

void read_gemma3(hparam_reader& from, model_spec& spec) {
  constexpr std::size_t layers_of_27b = 62;
  read_both(spec);
  scale_scores(from, spec, layers_of_27b);
  spec.logit_softcap = read_cap(from, "final_logit_softcapping", 0.0);
  if (!from.has("attention.sliding_window")) return;
  set_windows(from, spec, from.count("attention.sliding_window", 1, hparam_limits::context), 6);
  set_window_rotation(from, spec, 10'000.0, true);
}

std::span<const std::span<const layer_rule>> gemma2_tables() {
  static const std::array<std::span<const layer_rule>, 3> all{attention_rules(), post_norm_rules(),
                                                              gated_ffn_rules()};
  return all;
}

std::span<const std::span<const layer_rule>> gemma3_tables() {
  static const std::array<std::span<const layer_rule>, 4> all{attention_rules(), head_norm_rules(),
                                                              post_norm_rules(), gated_ffn_rules()};
  return all;
}

}  // namespace

const family gemma2_family{"gemma2", expert_use::never, read_gemma2, gemma2_tables};
const family gemma3_family{"gemma3", expert_use::never, read_gemma3, gemma3_tables};

}  // namespace orcd::engine
