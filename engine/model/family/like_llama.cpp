// Families whose layers are Llama's, with another rotation, other names or biases.
//   internlm2   converters split its one QKV matrix and permute Q and K as they do for llama
//   smollm3     every fourth layer does not rotate
//   mistral3    YaRN with a magnitude of its own, and queries that grow with the position
//   seed_oss    rotates i with i + dims/2, biases on Q, K and V, and a norm with the original model's name
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

void read_neighbours(hparam_reader&, model_spec& spec) {
  set_pairing(spec, rope_pairing::interleaved);
}

void read_smollm3(hparam_reader&, model_spec& spec) {
  constexpr std::size_t period = 4;
  set_pairing(spec, rope_pairing::interleaved);
  for (std::size_t i = period - 1; i < spec.layers.size(); i += period) spec.layers[i].rope.dims = 0;
}

void read_mistral3(hparam_reader& from, model_spec& spec) {
  set_pairing(spec, rope_pairing::interleaved);
  const double multiplier = from.number("rope.scaling.yarn_log_multiplier", 0.0, 100.0, 0.0);
  for (layer_spec& layer : spec.layers) layer.rope.log_multiplier = multiplier;
  spec.query_scale = from.number("attention.temperature_scale", 0.0, 100.0, 0.0);
  spec.query_scale_period = spec.layers.front().rope.original_context;
}

void read_seed_oss(hparam_reader&, model_spec& spec) {
  set_pairing(spec, rope_pairing::half_split);
}

std::span<const std::span<const layer_rule>> tables() {
  static const std::array<std::span<const layer_rule>, 4> all{attention_rules(), qkv_bias_optional(),
                                                              other_bias_optional(), gated_ffn_rules()};
  return all;
}

std::span<const std::span<const layer_rule>> seed_oss_tables() {
  static const std::array<std::span<const layer_rule>, 5> all{
      attention_rules(), qkv_bias_optional(), other_bias_optional(), late_ffn_norm(), gated_matrices()};
  return all;
}

}  // namespace

const family internlm2_family{"internlm2", expert_use::never, read_neighbours, tables};
const family smollm3_family{"smollm3", expert_use::never, read_smollm3, tables};
const family mistral3_family{"mistral3", expert_use::never, read_mistral3, tables};
const family seed_oss_family{"seed_oss", expert_use::never, read_seed_oss, seed_oss_tables};

}  // namespace orcd::engine
