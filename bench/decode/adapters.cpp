#include "bench/decode/adapters.hpp"

#include <cmath>
#include <random>
#include <string>

namespace orcd::bench {
namespace {

using engine::lora_target;

constexpr std::pair<lora_target, engine::tensor_view engine::layer_weights::*> of_layers[] = {
    {lora_target::attn_qkv, &engine::layer_weights::attn_qkv},
    {lora_target::attn_q, &engine::layer_weights::attn_q},
    {lora_target::attn_k, &engine::layer_weights::attn_k},
    {lora_target::attn_v, &engine::layer_weights::attn_v},
    {lora_target::attn_output, &engine::layer_weights::attn_output},
    {lora_target::ffn_gate_up, &engine::layer_weights::ffn_gate_up},
    {lora_target::ffn_gate, &engine::layer_weights::ffn_gate},
    {lora_target::ffn_up, &engine::layer_weights::ffn_up},
    {lora_target::ffn_down, &engine::layer_weights::ffn_down},
};

}  // namespace

engine::lora_adapter make_adapter(const engine::model& m, std::uint32_t rank, std::uint32_t seed) {
  std::mt19937 random(seed);
  engine::lora_adapter out;
  out.digest = "bench " + std::to_string(rank) + " " + std::to_string(seed);
  out.rank_max = rank;
  const auto append = [&](std::uint64_t count, float size) {
    std::uniform_real_distribution<float> values(-size, size);
    const std::uint64_t at = out.values.size();
    for (std::uint64_t i = 0; i < count; ++i) out.values.push_back(values(random));
    return at;
  };
  for (std::uint32_t layer = 0; layer < m.weights.layers.size(); ++layer) {
    for (const auto& [target, matrix] : of_layers) {
      const engine::tensor_view& beside = m.weights.layers[layer].*matrix;
      if (!beside) continue;
      engine::lora_pair pair{target, layer, rank};
      pair.in = static_cast<std::uint32_t>(beside.cols());
      pair.out = static_cast<std::uint32_t>(beside.rows());
      pair.a_at = append(std::uint64_t{rank} * pair.in, std::sqrt(3.0F / static_cast<float>(pair.in)));
      pair.b_at = append(std::uint64_t{rank} * pair.out, 0.01F);
      out.pairs.push_back(pair);
    }
  }
  return out;
}

}  // namespace orcd::bench
