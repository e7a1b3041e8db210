#include "bench/decode/traffic.hpp"

#include <algorithm>
#include <array>

namespace orcd::bench {
namespace {

using engine::layer_weights;
using engine::tensor_view;
using w = layer_weights;

constexpr std::array read_whole{
    &w::attn_norm,   &w::attn_qkv,      &w::attn_qkv_bias,    &w::attn_q,      &w::attn_k,
    &w::attn_v,      &w::attn_q_bias,   &w::attn_k_bias,      &w::attn_v_bias, &w::attn_q_norm,
    &w::attn_k_norm, &w::attn_output,   &w::attn_output_bias, &w::attn_sinks,  &w::ffn_norm,
    &w::ffn_gate_up, &w::ffn_gate,      &w::ffn_up,           &w::ffn_down,    &w::ffn_gate_bias,
    &w::ffn_up_bias, &w::ffn_down_bias, &w::router,           &w::router_bias,
};
constexpr std::array read_by_expert{
    &w::expert_gate,      &w::expert_up,      &w::expert_down,
    &w::expert_gate_bias, &w::expert_up_bias, &w::expert_down_bias,
};

std::uint64_t bytes_of(const tensor_view& tensor) {
  return tensor ? tensor.bytes : 0;
}

}  // namespace

std::uint64_t weight_bytes_per_token(const engine::model& m) {
  std::uint64_t total = bytes_of(m.weights.output) + bytes_of(m.weights.output_norm);
  for (const layer_weights& layer : m.weights.layers) {
    for (const auto member : read_whole) total += bytes_of(layer.*member);
    if (m.spec.experts == 0) continue;
    for (const auto member : read_by_expert)
      total += bytes_of(layer.*member) / m.spec.experts * m.spec.experts_used;
  }
  return total;
}

std::uint64_t kv_bytes_read(const engine::model_spec& spec, std::uint32_t positions) {
  constexpr std::uint64_t half_bytes = 2;
  std::uint64_t total = 0;
  for (const engine::layer_spec& layer : spec.layers) {
    const std::uint64_t seen = layer.window == 0 ? positions : std::min(positions, layer.window);
    total += seen * layer.kv_heads * (spec.key_length + spec.value_length) * half_bytes;
  }
  return total;
}

}  // namespace orcd::bench
