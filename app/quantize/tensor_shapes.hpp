// The shape that a tensor of a role must have, as a trainer stores it and as it is written. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "app/quantize/arguments.hpp"
#include "app/quantize/tensor_names.hpp"

namespace orcd::app {

struct tensor_shape {
  std::uint64_t rows = 0;  ///< of the matrix, not of what it is packed in
  std::uint64_t cols = 1;  ///< 1 for what has one dimension
  std::uint64_t padded_rows = 0;
  std::uint64_t padded_cols = 1;
};

/// `vocabulary` is the rows of the embedding.
[[nodiscard]] constexpr tensor_shape shape_of(tensor_role role, const model_sizes& s,
                                              std::uint64_t vocabulary) noexcept {
  using enum tensor_role;
  const std::uint64_t q = std::uint64_t{s.heads} * s.head_dim;
  const std::uint64_t kv = std::uint64_t{s.kv_heads} * s.head_dim;
  switch (role) {
    case token_embd:
    case output: return {vocabulary, s.hidden_original, vocabulary, s.hidden};
    case output_norm:
    case attn_norm:
    case ffn_norm: return {s.hidden_original, 1, s.hidden, 1};
    case attn_sub_norm: return {q, 1, q, 1};
    case ffn_sub_norm: return {s.ffn_original, 1, s.ffn, 1};
    case attn_k:
    case attn_v: return {kv, s.hidden_original, kv, s.hidden};
    case attn_q: return {q, s.hidden_original, q, s.hidden};
    case attn_output: return {s.hidden_original, q, s.hidden, q};
    case ffn_gate:
    case ffn_up: return {s.ffn_original, s.hidden_original, s.ffn, s.hidden};
    case ffn_down: return {s.hidden_original, s.ffn_original, s.hidden, s.ffn};
  }
  return {};
}

/// Whether, and in heads of how many rows, rows are written in another order: GGUF's Llama rotates neighbours
/// where trainers rotate halves. 0: they stay.
[[nodiscard]] constexpr std::uint32_t regrouping_of(tensor_role role, const model_sizes& s) noexcept {
  const bool rotated = role == tensor_role::attn_q || role == tensor_role::attn_k;
  return rotated && s.arch == model_arch::llama ? s.head_dim : 0;
}

[[nodiscard]] inline std::string extents_text(std::uint64_t rows, std::uint64_t cols) {
  return "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]";
}

}  // namespace orcd::app
