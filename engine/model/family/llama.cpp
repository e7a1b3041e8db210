// llama: Llama 2 and 3, Mistral, TinyLlama, SmolLM2, and Mixtral's experts. Converters permute the rows
// of Q and K so that RoPE rotates neighbours. Llama 3.1's frequency factors come as rope_freqs.weight.
// A sliding_window key is ignored, as every implementation of this architecture does.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

void read_spec(hparam_reader&, model_spec& spec) {
  set_pairing(spec, rope_pairing::interleaved);
  spec.activation = ffn_activation::swiglu;
  spec.routing = router_weighting::softmax_all_renormalised;
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 5> all{
      attention_rules(), qkv_bias_optional(), other_bias_optional(), gated_ffn_rules(), expert_rules()};
  return all;
}

}  // namespace

const family llama_family{"llama", expert_use::optional, read_spec, tables};

}  // namespace orcd::engine
