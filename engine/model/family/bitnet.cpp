// BitNet b1.58, under the three names that its files have had: bitnet-b1.58 (Microsoft's own), bitnet-25 (an
// earlier upload of the same) and bitnet (other converters). Norms on the inputs of the output and down
// projections, and activations in int8 where weights are ternary. Converters do not permute Q and K. A matrix
// may have its scale in a tensor beside it. Source: Ma et al. 2402.17764; Microsoft 2504.12285 for the
// squared ReLU.
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array sub_norms{
    layer_rule{&w::attn_sub_norm, "attn_sub_norm.weight", {attention_out}, presence::required, types::f32},
    layer_rule{&w::ffn_sub_norm, "ffn_sub_norm.weight", {ffn}, presence::required, types::f32},
};

/// The id of MXFP4 was that of another format in the forks that wrote these files.
constexpr foreign_type tl2{ggml_type::mxfp4,
                           "TL2, whose layout depends on kernels generated for one model, and which is not "
                           "supported; convert the model to I2_S or TQ2_0"};

void read_with(hparam_reader& from, model_spec& spec, ffn_activation usual) {
  set_pairing(spec, rope_pairing::half_split);
  spec.integer_activations = true;
  spec.activation = usual;
  constexpr std::string_view key = "hidden_activation";
  if (!from.has(key)) return;
  const std::string_view name = from.text(key, to_string(usual));
  if (const auto named = gated_activation_named(name)) {
    spec.activation = *named;
  } else {
    from.problems().add("key '" + from.full(key) + "' is '" + std::string(name.substr(0, 32)) +
                        "'; it must be relu2 or silu");
  }
}

void read_squared(hparam_reader& from, model_spec& spec) {
  read_with(from, spec, ffn_activation::relu_squared);
}

/// Files without the key are those of the first models, which had SiLU.
void read_named(hparam_reader& from, model_spec& spec) {
  read_with(from, spec, ffn_activation::swiglu);
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 3> all{attention_rules(), gated_ffn_rules(),
                                                              sub_norms};
  return all;
}

}  // namespace

const family bitnet_158_family{"bitnet-b1.58", expert_use::never, read_squared, tables, true, tl2};
const family bitnet_25_family{"bitnet-25", expert_use::never, read_squared, tables, true, tl2};
const family bitnet_family{"bitnet", expert_use::never, read_named, tables, true, tl2};

}  // namespace orcd::engine
