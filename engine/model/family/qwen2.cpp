// qwen2: Qwen2 and Qwen2.5, with biases on Q, K and V. qwen3: no biases, but a norm on each head of Q and K
// before RoPE. Both rotate dimension i with i + dims/2. qwen2vl and qwen3vl are the same behind pictures,
// whose rows are turned by line and column (Qwen2-VL, arXiv 2409.12191; modeling_qwen3_vl.py of
// transformers).
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

void read_spec(hparam_reader&, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.activation = ffn_activation::swiglu;
}

void read_two_with_pictures(hparam_reader& from, model_spec& spec) {
  read_spec(from, spec);
  read_sections(from, spec, rope_axes::by_section, true);
}

void read_three_with_pictures(hparam_reader& from, model_spec& spec) {
  read_spec(from, spec);
  read_sections(from, spec, rope_axes::in_turn, true);
  read_deepstack(from, spec);
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
const family qwen2vl_family{"qwen2vl", expert_use::never, read_two_with_pictures, qwen2_tables};
const family qwen3vl_family{"qwen3vl", expert_use::never, read_three_with_pictures, qwen3_tables};

}  // namespace orcd::engine
