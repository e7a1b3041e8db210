// A LoRA adapter of a model: pairs of small matrices, each beside one of the model's matrices W, so that
// products become y = W x + strength * scale * B (A x). Everything in f32; x is what W's product takes before
// it is rounded to integers. Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace orcd::engine {

/// The model's matrix that a pair is beside. Fused ones exist where the model's file has them fused.
enum class lora_target : std::uint8_t {
  attn_qkv,
  attn_q,
  attn_k,
  attn_v,
  attn_output,
  ffn_gate_up,
  ffn_gate,
  ffn_up,
  ffn_down,
  output,
  token_embd,  ///< the row of the token: embedding += strength * scale * B (column `token` of A)
  // Of layers with another mixer than attention; behind the others because digests count on the numbers.
  mix_in,
  mix_gate,
  mix_out,
};
inline constexpr std::size_t lora_targets = static_cast<std::size_t>(lora_target::mix_out) + 1;
/// The others are of the model: there is one of each.
[[nodiscard]] constexpr bool is_of_layer(lora_target target) noexcept {
  return target != lora_target::output && target != lora_target::token_embd;
}

struct lora_pair {
  lora_target target{};
  std::uint32_t layer = 0;  ///< 0 for output and token_embd
  std::uint32_t rank = 0;
  std::uint32_t in = 0;    ///< columns of the model's matrix; for token_embd the vocabulary
  std::uint32_t out = 0;   ///< its rows; for token_embd the embedding's width
  float scale = 1.0F;      ///< alpha / rank, or as the file says
  std::uint64_t a_at = 0;  ///< index in lora_adapter::values of A, [rank][in]
  std::uint64_t b_at = 0;  ///< of B, [out][rank]
};

/// In the order of layers and, within a layer, of lora_target; at most one pair for each matrix.
struct lora_adapter {
  std::string digest;  ///< SHA-256 of pairs and values, hexadecimal: the same content, however it is stored
  std::uint32_t rank_max = 0;
  std::vector<lora_pair> pairs;
  std::vector<float> values;  ///< finite, as read_adapter() makes sure

  [[nodiscard]] const float* a(const lora_pair& pair) const noexcept { return values.data() + pair.a_at; }
  [[nodiscard]] const float* b(const lora_pair& pair) const noexcept { return values.data() + pair.b_at; }
};

}  // namespace orcd::engine
