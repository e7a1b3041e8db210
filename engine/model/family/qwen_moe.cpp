// qwen3moe: Qwen3's attention with experts, whose weights are renormalised; qwen3vlmoe: the same behind
// pictures (family/qwen2.cpp). qwen2moe: Qwen2's attention with biases, experts whose weights are not, and
// one more expert for every token, behind a gate of its own.
#include <algorithm>
#include <string>

#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;
using enum extent;

constexpr std::array norm{
    layer_rule{&w::ffn_norm, "ffn_norm.weight", {embedding}, presence::required, types::f32},
};

void read_three(hparam_reader&, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.routing = router_weighting::softmax_all_renormalised;
}

void read_three_with_pictures(hparam_reader& from, model_spec& spec) {
  read_three(from, spec);
  read_sections(from, spec, rope_axes::in_turn, true);
  read_deepstack(from, spec);
}

/// Files of the first converters do not have the width of the shared expert, which is then that of the key
/// for dense layers.
void read_two(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
  spec.routing = router_weighting::softmax_all;
  spec.shared_gate = true;
  read_moe(from, spec);
  if (std::any_of(spec.layers.begin(), spec.layers.end(),
                  [](const layer_spec& layer) { return layer.ffn == ffn_kind::dense; })) {
    from.problems().add("key '" + from.full("leading_dense_block_count") +
                        "' is set; it is not supported for this architecture");
  }
  if (from.has("expert_shared_feed_forward_length")) return;
  const std::uint32_t size = from.count("feed_forward_length", 1, hparam_limits::ffn);
  for (layer_spec& layer : spec.layers) layer.shared_size = size;
}

std::span<const std::span<const layer_rule>> tables_of_three() {
  static const std::array<std::span<const layer_rule>, 5> all{attention_rules(), qkv_bias_optional(),
                                                              head_norm_rules(), norm, expert_rules()};
  return all;
}

std::span<const std::span<const layer_rule>> tables_of_two() {
  static const std::array<std::span<const layer_rule>, 5> all{attention_rules(), qkv_bias_required(), norm,
                                                              expert_rules(), shared_expert_rules()};
  return all;
}

}  // namespace

const family qwen3moe_family{"qwen3moe", expert_use::always, read_three, tables_of_three};
const family qwen3vlmoe_family{"qwen3vlmoe", expert_use::always, read_three_with_pictures, tables_of_three};
const family qwen2moe_family{"qwen2moe", expert_use::always, read_two, tables_of_two};

}  // namespace orcd::engine
