#include "bench/synth/other_shapes.hpp"

#include "bench/synth/other_models.hpp"
#include "bench/synth/tensor_list.hpp"

namespace orcd::bench {
namespace {

using engine::ggml_type;

class planner : tensor_list {
 public:
  planner(const model_shape& s, std::uint64_t layers, std::uint64_t vocab)
      : tensor_list(s.architecture), s_(s), layers_(layers), vocab_(vocab) {}

  engine::result<planned_model> plan() {
    add_metadata();
    if (s_.experts.count > 0) add_expert_metadata();
    const auto words = add_tokenizer(out_.header, s_.tokenizer(), vocab_, s_.merges);
    if (!words) return words.error();
    matrix("token_embd.weight", {s_.embedding, vocab_}, s_.tied ? ggml_type::q6_k : ggml_type::q4_k);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) add_layer(layer);
    vector("output_norm.weight", {s_.embedding}, 1.0F);
    if (s_.extras.all_biases) vector("output_norm.bias", {s_.embedding}, 0.0F);
    if (!s_.tied) matrix("output.weight", {s_.embedding, vocab_}, ggml_type::q6_k);
    return std::move(out_);
  }

 private:
  void add_metadata() {
    constexpr std::uint32_t q4_k_m = 15;
    add_common_keys(s_, layers_, q4_k_m);
    number("attention.key_length", s_.head_width);
    number("attention.value_length", s_.latent.rank > 0 ? s_.latent.rank : s_.head_width);
    if (s_.latent.rank > 0) add_latent_metadata();
    number("rope.dimension_count", s_.rotated == 0 ? s_.head_width : s_.rotated);
    number("vocab_size", vocab_);
    if (s_.window > 0) number("attention.sliding_window", s_.window);
    if (s_.extras.layer_norm) key("attention.layer_norm_epsilon", s_.rms_eps);
    for (const number_key& one : s_.floats) {
      if (one.name != nullptr) key(one.name, static_cast<float>(one.value));
    }
    if (s_.rope_scaling != nullptr) key("rope.scaling.type", s_.rope_scaling);
    if (s_.original_context > 0) number("rope.scaling.original_context_length", s_.original_context);
  }

  void add_latent_metadata() {
    const latent_shape& latent = s_.latent;
    number("attention.kv_lora_rank", latent.rank);
    if (latent.query_rank > 0) number("attention.q_lora_rank", latent.query_rank);
    number("attention.key_length_mla", latent.unrotated + s_.rotated);
    number("attention.value_length_mla", latent.value);
  }

  void add_expert_metadata() {
    constexpr std::uint32_t sigmoid = 2;
    const expert_shape& e = s_.experts;
    number("expert_count", e.count);
    number("expert_used_count", e.used);
    number("expert_feed_forward_length", e.ffn);
    if (e.dense_layers > 0) number("leading_dense_block_count", e.dense_layers);
    if (e.shared > 0 && (e.shared_gate || e.softmax))
      number("expert_shared_feed_forward_length", e.shared * e.ffn);
    if (e.shared > 0 && !e.shared_gate) number("expert_shared_count", e.shared);
    if (e.softmax) number("interleave_moe_layer_step", 1);
    if (!e.choice_bias || e.softmax) return;
    number("expert_gating_func", sigmoid);
    key("expert_weights_norm", true);
  }

  void add_latents() {
    const latent_shape& latent = s_.latent;
    const std::uint64_t q = s_.heads * (latent.unrotated + s_.rotated);
    if (latent.query_rank > 0) {
      linear("attn_q_a", s_.embedding, latent.query_rank, ggml_type::q4_k);
      norm("attn_q_a_norm", latent.query_rank);
      linear("attn_q_b", latent.query_rank, q, ggml_type::q4_k);
    } else {
      linear("attn_q", s_.embedding, q, ggml_type::q4_k);
    }
    linear("attn_kv_a_mqa", s_.embedding, latent.rank + s_.rotated, ggml_type::q8_0);
    norm("attn_kv_a_norm", latent.rank);
    matrix(prefix_ + "attn_k_b.weight", {latent.unrotated, latent.rank, s_.heads}, ggml_type::q8_0);
    matrix(prefix_ + "attn_v_b.weight", {latent.rank, latent.value, s_.heads}, ggml_type::q8_0);
    linear("attn_output", s_.heads * latent.value, s_.embedding, ggml_type::q4_k);
  }

  void add_attention(ggml_type values) {
    const std::uint64_t q = s_.heads * s_.head_width;
    const std::uint64_t kv = s_.kv_heads * s_.head_width;
    linear("attn_q", s_.embedding, q, ggml_type::q4_k);
    linear("attn_k", s_.embedding, kv, ggml_type::q4_k);
    linear("attn_v", s_.embedding, kv, values);
    linear("attn_output", q, s_.embedding, ggml_type::q4_k);
    if (s_.extras.all_biases) bias("attn_output", s_.embedding);
    if (!s_.extras.qkv_biases) return;
    bias("attn_q", q);
    bias("attn_k", kv);
    bias("attn_v", kv);
  }

  void add_norms_of_heads() {
    if (s_.extras.own_norms) {
      vector(prefix_ + "attn_q_norm.weight", {s_.head_width, s_.heads}, 1.0F);
      return vector(prefix_ + "attn_k_norm.weight", {s_.head_width, s_.kv_heads}, 1.0F);
    }
    const bool wide = s_.extras.wide_norms;
    if (!wide && !s_.extras.head_norms) return;
    norm("attn_q_norm", s_.head_width * (wide ? s_.heads : 1));
    norm("attn_k_norm", s_.head_width * (wide ? s_.kv_heads : 1));
  }

  void add_norm_before(const std::string& name) {
    if (s_.extras.no_norm_before) return;
    norm(name, s_.embedding);
    if (s_.extras.all_biases) bias(name, s_.embedding);
  }

  void add_layer(std::uint64_t layer) {
    begin_layer(layer);
    const bool more = more_bits(layer, layers_);
    const ggml_type some = more ? ggml_type::q6_k : ggml_type::q4_k;
    add_norm_before("attn_norm");
    if (s_.latent.rank > 0)
      add_latents();
    else
      add_attention(some);
    add_norms_of_heads();
    if (!s_.extras.one_norm) add_norm_before(s_.extras.late_norm ? "post_attention_norm" : "ffn_norm");
    if (s_.extras.norm_after) {
      norm("post_attention_norm", s_.embedding);
      norm("post_ffw_norm", s_.embedding);
    }
    if (s_.experts.count > 0 && layer >= s_.experts.dense_layers) return add_experts(some);
    if (s_.extras.no_gate || s_.extras.fused_gate) return add_one_matrix_up(some);
    add_gated("", s_.ffn, some);
  }

  /// Either gate and up at once, or no gate.
  void add_one_matrix_up(ggml_type down) {
    linear("ffn_up", s_.embedding, s_.extras.fused_gate ? 2 * s_.ffn : s_.ffn, ggml_type::q4_k);
    linear("ffn_down", s_.ffn, s_.embedding, of_rows(s_.ffn, down));
    if (!s_.extras.all_biases) return;
    bias("ffn_up", s_.ffn);
    bias("ffn_down", s_.embedding);
  }

  /// What quantizers fall back to where a row is no multiple of 256 values.
  static ggml_type of_rows(std::uint64_t width, ggml_type type) {
    if (width % 256 == 0) return type;
    return type == ggml_type::q6_k ? ggml_type::q8_0 : ggml_type::q5_0;
  }

  void norm(const std::string& name, std::uint64_t width) {
    vector(prefix_ + name + ".weight", {width}, 1.0F);
  }

  void bias(const std::string& name, std::uint64_t width) { vector(prefix_ + name + ".bias", {width}, 0.0F); }

  void add_gated(const std::string& ending, std::uint64_t width, ggml_type down) {
    linear("ffn_gate" + ending, s_.embedding, width, ggml_type::q4_k);
    linear("ffn_up" + ending, s_.embedding, width, ggml_type::q4_k);
    linear("ffn_down" + ending, width, s_.embedding, of_rows(width, down));
  }

  void add_experts(ggml_type down) {
    const expert_shape& e = s_.experts;
    matrix(prefix_ + "ffn_gate_inp.weight", {s_.embedding, e.count}, ggml_type::f32);
    if (e.choice_bias) vector(prefix_ + "exp_probs_b.bias", {e.count}, 0.0F);
    matrix(prefix_ + "ffn_gate_exps.weight", {s_.embedding, e.ffn, e.count}, ggml_type::q4_k);
    matrix(prefix_ + "ffn_up_exps.weight", {s_.embedding, e.ffn, e.count}, ggml_type::q4_k);
    matrix(prefix_ + "ffn_down_exps.weight", {e.ffn, s_.embedding, e.count}, of_rows(e.ffn, down));
    if (e.shared > 0) add_gated("_shexp", e.shared * e.ffn, down);
    if (e.shared_gate) vector(prefix_ + "ffn_gate_inp_shexp.weight", {s_.embedding}, 0.0F);
  }

  const model_shape& s_;
  std::uint64_t layers_;
  std::uint64_t vocab_;
};

}  // namespace

std::optional<engine::result<planned_model>> plan_other_model(const model_choice& choice) {
  return plan_of<planner>(other_models, choice);
}

std::string other_model_names() {
  return names_of(other_models);
}

}  // namespace orcd::bench
