// phi3: Phi-3, Phi-3.5 and Phi-4. Q, K and V come as one matrix; so do gate and up, under the name ffn_up.
// The long-context variants carry LongRoPE factors. Attention is full: files may name a sliding window,
// but the GGUF ecosystem runs this architecture without one.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array feed_forward{
    layer_rule{&w::ffn_norm, "ffn_norm.weight", {embedding}, presence::required, types::f32},
    layer_rule{&w::ffn_gate_up, "ffn_up.weight", {embedding, ffn_twice}, presence::dense},
    layer_rule{&w::ffn_down, "ffn_down.weight", {ffn, embedding}, presence::dense},
};

void read_spec(hparam_reader&, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.activation = ffn_activation::swiglu;
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 3> all{attention_rules(), qkv_bias_optional(),
                                                              feed_forward};
  return all;
}

}  // namespace

const family phi3_family{"phi3", expert_use::never, read_spec, tables};

}  // namespace orcd::engine
