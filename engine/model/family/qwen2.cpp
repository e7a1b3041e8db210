// qwen2: Qwen2 and Qwen2.5, with biases on Q, K and V. qwen3: no biases, but a norm on each head of Q and
// K before RoPE. Both rotate dimension i with i + dims/2.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

void read_spec(hparam_reader&, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.activation = ffn_activation::swiglu;
}

std::span<const std::span<const layer_rule>> qwen2_tables() {
  static const std::array<std::span<const layer_rule>, 3> all{attention_rules(), qkv_bias_required(),
                                                              gated_ffn_rules()};
  return all;
}

std::span<const std::span<const layer_rule>> qwen3_tables() {
  static const std::array<std::span<const layer_rule>, 4> all{attention_rules(), qkv_bias_optional(),
                                                              head_norm_rules(), gated_ffn_rules()};
  return all;
}

}  // namespace

const family qwen2_family{"qwen2", expert_use::never, read_spec, qwen2_tables};
const family qwen3_family{"qwen3", expert_use::never, read_spec, qwen3_tables};

}  // namespace orcd::engine
