// ernie4_5: Llama's layers, which rotate neighbours without being permuted. ernie4_5-moe: the same attention;
// dense layers first and between others, a softmax router with a bias for the choice, one expert for all
// tokens. Source: the ERNIE 4.5 technical report (Baidu, 2025) and Ernie4_5_MoeTopKRouter of transformers.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array own{
    layer_rule{&w::choice_bias, "exp_probs_b.bias", {experts}, presence::moe_optional, types::f32},
};

void read_dense(hparam_reader& from, model_spec& spec) {
  refuse_sections(from);
  set_pairing(spec, rope_pairing::interleaved);
  spec.regrouped_heads = false;
}

void read_experts(hparam_reader& from, model_spec& spec) {
  constexpr std::uint32_t softmax = 1;
  read_dense(from, spec);
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  read_moe(from, spec, from.count("interleave_moe_layer_step", 1, layers, 1));
  from.count("expert_gating_func", softmax, softmax, softmax);
  spec.routing = router_weighting::softmax_all_renormalised;
}

std::span<const std::span<const layer_rule>> dense_tables() {
  static const std::array<std::span<const layer_rule>, 4> all{attention_rules(), qkv_bias_optional(),
                                                              other_bias_optional(), gated_ffn_rules()};
  return all;
}

std::span<const std::span<const layer_rule>> expert_tables() {
  static const std::array<std::span<const layer_rule>, 6> all{
      attention_rules(), qkv_bias_optional(), gated_ffn_rules(), expert_rules(), shared_expert_rules(), own};
  return all;
}

}  // namespace

const family ernie4_5_family{"ernie4_5", expert_use::never, read_dense, dense_tables};
const family ernie4_5_moe_family{"ernie4_5-moe", expert_use::always, read_experts, expert_tables};

}  // namespace orcd::engine
