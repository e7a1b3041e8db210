// Models that people run, beside those of model_shapes.cpp: their true shapes, as their publishers'
// config.json says, with matrices in the mixture Q4_K_M.
#pragma once

#include <array>
#include <cstdint>

#include "bench/synth/vocabulary.hpp"

namespace orcd::bench {

/// What layers have beside Llama's.
struct layer_extras {
  bool qkv_biases = false;
  bool head_norms = false;      ///< of Q and K
  bool wide_norms = false;      ///< the same, each over all heads together
  bool own_norms = false;       ///< the same, with a row of weights for each head
  bool no_norm_before = false;  ///< halves read the stream itself
  bool one_norm = false;        ///< both halves read the same one
  bool norm_after = false;      ///< each half has a norm of what it gives
  bool late_norm = false;       ///< the norm before the feed-forward has the original model's name
  bool layer_norm = false;      ///< norms subtract the mean
  bool all_biases = false;      ///< of norms, of attention's output and of the feed-forward
  bool fused_gate = false;      ///< gate and up are one matrix
  bool no_gate = false;
};

struct expert_shape {
  std::uint64_t count = 0, used = 0, ffn = 0;
  std::uint64_t shared = 0;        ///< experts of every token, as one
  std::uint64_t dense_layers = 0;  ///< the first ones
  bool choice_bias = false;
  bool softmax = false;  ///< what that is added to; else sigmoids
  bool shared_gate = false;
};

/// Of attention with one cached row for all heads; a rank of 0: others.
struct latent_shape {
  std::uint64_t rank = 0, query_rank = 0, unrotated = 0, value = 0;
};

struct number_key {
  const char* name;
  double value;
};

struct model_shape {
  const char* name;
  const char* architecture;
  std::uint64_t embedding = 0, ffn = 0, layers = 0, heads = 0, kv_heads = 0, head_width = 128, vocab = 0;
  std::uint32_t context = 0;
  float rms_eps = 1e-5F, rope_base = 1e4F;
  std::uint64_t merges = 0;  ///< 0: the vocabulary is SentencePiece's
  bool tied = false;
  layer_extras extras{};
  expert_shape experts{};
  std::uint64_t window = 0;
  std::uint64_t rotated = 0;  ///< values of a head; 0: all
  std::array<number_key, 4> floats{};
  const char* rope_scaling = nullptr;  ///< by the factor among `floats`
  std::uint64_t original_context = 0;
  latent_shape latent{};

  [[nodiscard]] constexpr vocabulary_kind tokenizer() const noexcept {
    return merges == 0 ? vocabulary_kind::sentencepiece : vocabulary_kind::qwen2;
  }
};

extern const std::array<model_shape, 25> other_models;

}  // namespace orcd::bench
