// granite, and granitemoe with experts and, in some models, one more for all tokens. Llama's layers with four
// multipliers: of the embeddings, of what a half adds to the residual stream, of attention's scores, and a
// divisor of the logits. Source: IBM Granite 3.0 Language Models. granitehybrid (Granite 4.0 H): layers
// without key-value heads are Mamba-2.
#include <string>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

/// The stream is kept divided by the multiplier m of what is added to it: halves are then added as they are,
/// and embeddings are multiplied by 1/m more. Norms do not see a factor, but for their epsilon.
void divide_stream(double multiplier, model_spec& spec) {
  spec.embedding_scale /= multiplier;
  spec.rms_eps /= multiplier * multiplier;
}

void read_spec(hparam_reader& from, model_spec& spec) {
  constexpr double least = 1e-4;
  constexpr double most = 1e6;
  set_pairing(spec, rope_pairing::interleaved);
  spec.embedding_scale = from.number("embedding_scale", least, most, 1.0);
  spec.logit_scale = 1.0 / from.number("logit_scale", least, most, 1.0);
  divide_stream(from.number("residual_scale", least, most, 1.0), spec);
  // The key says whether heads are rotated at all.
  if (from.flag("rope.scaling.finetuned", true)) return;
  for (layer_spec& layer : spec.layers) layer.rope.dims = 0;
}

void read_with_experts(hparam_reader& from, model_spec& spec) {
  read_spec(from, spec);
  spec.routing = router_weighting::softmax_selected;
  read_moe(from, spec);
}

void read_hybrid(hparam_reader& from, model_spec& spec) {
  if (spec.experts > 0) {
    read_with_experts(from, spec);
  } else {
    read_spec(from, spec);
  }
  read_ssm_keys(from, spec, false);
  for (layer_spec& layer : spec.layers) {
    if (layer.kv_heads == 0) set_mixer(layer, mixer_kind::mamba2);
  }
  require_feed_forward(from, spec);
  require_attention(from, spec);
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 6> all{attention_rules(),     qkv_bias_optional(),
                                                              other_bias_optional(), gated_ffn_rules(),
                                                              expert_rules(),        shared_expert_rules()};
  return all;
}

std::span<const std::span<const layer_rule>> hybrid_tables() {
  static const std::array<std::span<const layer_rule>, 5> all{
      mixed_attention_rules(), mamba2_rules(), gated_ffn_rules(), expert_rules(), shared_expert_rules()};
  return all;
}

}  // namespace

const family granite_family{"granite", expert_use::never, read_spec, tables};
const family granitemoe_family{"granitemoe", expert_use::always, read_with_experts, tables};
const family granitehybrid_family{.architecture = "granitehybrid",
                                  .experts = expert_use::optional,
                                  .read_spec = read_hybrid,
                                  .layer_tables = hybrid_tables,
                                  .recurrent = true};

}  // namespace orcd::engine
