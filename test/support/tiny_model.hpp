// Small random models of every family: valid GGUF images that load, tokenize and generate (noise),
// the same bytes for the same options everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/gguf/ggml_type.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd::test {

struct tiny_model_options {
  std::string family =
      "llama";  ///< llama, qwen2, qwen2vl, qwen3, qwen3vl, phi3, gpt-oss, bert, bitnet and its kin
  std::uint32_t layers = 2;
  std::uint32_t embedding = 64;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 0;   ///< 0 = embedding / heads
  std::uint32_t rope_dims = 0;  ///< 0 = head_dim; less = partial rotation
  std::uint32_t ffn = 128;
  std::uint32_t vocab = 0;  ///< 0 = what the tokenizer needs; more = padded with unused tokens
  std::uint32_t context = 256;
  std::uint32_t experts = 0;       ///< gpt-oss: 0 = 4; llama: more than 0 makes a Mixtral
  std::uint32_t experts_used = 0;  ///< 0 = 2
  std::uint32_t window = 0;        ///< gpt-oss: 0 = 8

  /// Type of the matrices. Columns that its block does not divide take the type that quantizers fall
  /// back to (Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0, Q2_K, Q3_K and IQ ones to IQ4_NL, ternary and one-bit
  /// ones to others of few bits, 32-blocks to F16).
  engine::ggml_type matrix_type = engine::ggml_type::f32;
  std::optional<engine::ggml_type> embedding_type;  ///< token_embd and output; default matrix_type
  std::optional<engine::ggml_type> expert_type;     ///< default matrix_type
  bool mixture = false;     ///< every matrix another type, cycling through all of them
  bool mixture_f32 = true;  ///< f32 among them

  bool tied_output = false;
  bool fused_qkv = false;      ///< phi3 always is
  bool biases = false;         ///< llama: biases on q, k, v, o, gate, up, down
  bool rope_freqs = false;     ///< llama: llama3 frequency factors
  bool longrope = false;       ///< phi3: long and short factors, original context = context / 4
  bool weight_scales = false;  ///< bitnet: a scale in a tensor beside each matrix
  bool expert_scales = false;  ///< beside each stack of experts a tensor with a scale for each of them
  bool yarn = false;           ///< YaRN keys, factor 4 (gpt-oss always has them, factor 32)
  /// The key pooling_type (engine/model/pooling.hpp); 4 comes with a classifier and, but for bert, a template
  /// and two classes. bert without it: mean.
  std::optional<std::uint32_t> pooling;
  /// Instead of all this: the name of a model in test/data/families, from the folder that tests run in.
  std::string file;
  bool picture_tokens = false;  ///< control tokens that projectors need
  bool sentencepiece = false;   ///< a SentencePiece vocabulary instead of byte-level BPE
  /// Widths that are padded to with zeros afterwards (test/support/padded_model.hpp); 0 = they are not.
  std::uint32_t padded_embedding = 0;
  std::uint32_t padded_ffn = 0;
  std::uint64_t seed = 1;
};

/// The writer with everything in it, for a test that wants to change or break something first.
[[nodiscard]] gguf_writer make_tiny_writer(const tiny_model_options& options);

/// The complete image.
[[nodiscard]] bytes make_tiny_model(const tiny_model_options& options);

}  // namespace orcd::test
