// Files of Gemma 4 as converters write them, with one feature or another, for tests that change them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "test/support/gguf_writer.hpp"

namespace orcd::test {

struct gemma4_options {
  std::vector<bool> windowed = {true, false, true, false};
  std::uint32_t shared = 0;     ///< of the last layers
  bool values_are_keys = true;  ///< in full layers
  std::uint32_t experts = 0;
  bool fused_experts = true;
  std::uint32_t inputs = 0;  ///< values a layer
};

class gemma4_builder {
 public:
  explicit gemma4_builder(gemma4_options o) : o_(std::move(o)) {}

  gguf_writer build() {
    add_keys();
    tensor("token_embd.weight", {embedding, vocab});
    tensor("output_norm.weight", {embedding});
    tensor("rope_freqs.weight", {full_width / 2}, 1.0F);
    const std::uint64_t layers = o_.windowed.size();
    if (o_.inputs > 0) {
      tensor("per_layer_token_embd.weight", {o_.inputs * layers, vocab});
      tensor("per_layer_model_proj.weight", {embedding, o_.inputs * layers});
      tensor("per_layer_proj_norm.weight", {o_.inputs});
    }
    for (std::size_t i = 0; i < layers; ++i) add_layer(i);
    return std::move(writer_);
  }

  static constexpr std::uint64_t embedding = 32, vocab = 40, heads = 4, kv_heads = 2, width = 16,
                                 full_width = 32, ffn = 64, expert_ffn = 24;

 private:
  void key(const std::string& name, std::uint64_t value) {
    writer_.add("gemma4." + name, static_cast<std::uint32_t>(value));
  }

  void add_keys() {
    writer_.add("general.architecture", "gemma4");
    key("block_count", o_.windowed.size());
    key("context_length", 256);
    key("embedding_length", embedding);
    key("feed_forward_length", ffn);
    key("attention.head_count", heads);
    key("attention.head_count_kv", kv_heads);
    key("attention.key_length", full_width);
    key("attention.value_length", full_width);
    key("attention.key_length_swa", width);
    key("attention.value_length_swa", width);
    key("attention.sliding_window", 8);
    key("attention.shared_kv_layers", o_.shared);
    key("rope.dimension_count", full_width);
    key("rope.dimension_count_swa", width);
    key("embedding_length_per_layer_input", o_.inputs);
    writer_.add("gemma4.attention.layer_norm_rms_epsilon", 1e-6F);
    writer_.add("gemma4.rope.freq_base", 1e6F);
    writer_.add("gemma4.rope.freq_base_swa", 1e4F);
    writer_.add("gemma4.final_logit_softcapping", 30.0F);
    std::vector<std::uint8_t> pattern(o_.windowed.begin(), o_.windowed.end());
    writer_.add("gemma4.attention.sliding_window_pattern", pattern);
    if (o_.experts == 0) return;
    key("expert_count", o_.experts);
    key("expert_used_count", 2);
    key("expert_feed_forward_length", expert_ffn);
  }

  void add_layer(std::size_t i) {
    const std::string p = "blk." + std::to_string(i) + ".";
    const bool windowed = o_.windowed[i];
    const bool owns = i + o_.shared < o_.windowed.size();
    const std::uint64_t head = windowed ? width : full_width;
    for (const char* name : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"})
      tensor(p + name + ".weight", {embedding});
    tensor(p + "attn_q.weight", {embedding, heads * head});
    tensor(p + "attn_q_norm.weight", {head});
    if (owns) {
      tensor(p + "attn_k.weight", {embedding, kv_heads * head});
      tensor(p + "attn_k_norm.weight", {head});
      if (windowed || !o_.values_are_keys) tensor(p + "attn_v.weight", {embedding, kv_heads * head});
    }
    tensor(p + "attn_output.weight", {heads * head, embedding});
    tensor(p + "ffn_gate.weight", {embedding, ffn});
    tensor(p + "ffn_up.weight", {embedding, ffn});
    tensor(p + "ffn_down.weight", {ffn, embedding});
    tensor(p + "layer_output_scale.weight", {1});
    if (o_.experts > 0) add_experts(p);
    if (o_.inputs == 0) return;
    tensor(p + "inp_gate.weight", {embedding, o_.inputs});
    tensor(p + "proj.weight", {o_.inputs, embedding});
    tensor(p + "post_norm.weight", {embedding});
  }

  void add_experts(const std::string& p) {
    tensor(p + "ffn_gate_inp.weight", {embedding, o_.experts});
    tensor(p + "ffn_gate_inp.scale", {embedding});
    if (o_.fused_experts) {
      tensor(p + "ffn_gate_up_exps.weight", {embedding, 2 * expert_ffn, o_.experts});
    } else {
      tensor(p + "ffn_gate_exps.weight", {embedding, expert_ffn, o_.experts});
      tensor(p + "ffn_up_exps.weight", {embedding, expert_ffn, o_.experts});
    }
    tensor(p + "ffn_down_exps.weight", {expert_ffn, embedding, o_.experts});
    tensor(p + "ffn_down_exps.scale", {o_.experts});
    for (const char* name : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"})
      tensor(p + name + ".weight", {embedding});
  }

  /// Values between -1 and 1, or all alike.
  void tensor(const std::string& name, std::vector<std::uint64_t> extents, float all = 0.0F) {
    std::uint64_t count = 1;
    for (const std::uint64_t e : extents) count *= e;
    bytes data;
    for (std::uint64_t i = 0; i < count; ++i)
      append_number(data, all != 0.0F ? all : std::sin(static_cast<float>(++drawn_)));
    writer_.add_tensor(name, std::move(extents), engine::ggml_type::f32, std::move(data));
  }

  gemma4_options o_;
  gguf_writer writer_;
  std::uint32_t drawn_ = 0;
};

inline gguf_writer gemma4(gemma4_options options = {}) {
  return gemma4_builder(std::move(options)).build();
}

}  // namespace orcd::test
