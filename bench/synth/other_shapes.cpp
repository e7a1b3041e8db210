#include "bench/synth/other_shapes.hpp"

#include <array>

#include "bench/synth/tensor_list.hpp"
#include "bench/synth/vocabulary.hpp"

namespace orcd::bench {
namespace {

using engine::ggml_type;

/// What layers have beside Llama's.
struct layer_extras {
  bool qkv_biases = false;
  bool head_norms = false;  ///< of Q and K
  bool norm_after = false;  ///< each half has a norm of what it gives
  bool late_norm = false;   ///< the norm before the feed-forward has the original model's name
};

struct expert_shape {
  std::uint64_t count = 0, used = 0, ffn = 0, shared = 0;
  std::uint64_t dense_layers = 0;  ///< the first ones
  bool choice_bias = false;
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
  std::uint64_t embedding, ffn, layers, heads, kv_heads, head_width, vocab;
  std::uint32_t context;
  float rms_eps, rope_base;
  vocabulary_kind tokenizer;
  std::uint64_t merges;
  bool tied = false;
  layer_extras extras{};
  expert_shape experts{};
  std::uint64_t window = 0;
  std::uint64_t rotated = 0;  ///< values of a head; 0: all
  std::array<number_key, 4> floats{};
  latent_shape latent{};
};

constexpr layer_extras plain{};
constexpr expert_shape no_experts{};

constexpr std::array models{
    model_shape{"llama-3.1-8b", "llama", 4096, 14336, 32, 32, 8, 128, 128256, 131072, 1e-5F, 500'000.0F,
                vocabulary_kind::qwen2, 280147},
    model_shape{"mistral-small-3.2-24b", "llama", 5120, 32768, 40, 32, 8, 128, 131072, 131072, 1e-5F,
                1'000'000'000.0F, vocabulary_kind::qwen2, 269443},
    model_shape{"smollm3-3b", "smollm3", 2048, 11008, 36, 16, 4, 128, 128256, 65536, 1e-6F, 5'000'000.0F,
                vocabulary_kind::qwen2, 280147, true},
    model_shape{"seed-oss-36b",
                "seed_oss",
                5120,
                27648,
                64,
                80,
                8,
                128,
                155136,
                524288,
                1e-6F,
                10'000'000.0F,
                vocabulary_kind::qwen2,
                154732,
                false,
                {.qkv_biases = true, .late_norm = true}},
    model_shape{"granite-4-micro",
                "granite",
                2560,
                8192,
                40,
                40,
                8,
                64,
                100352,
                131072,
                1e-5F,
                10'000'000.0F,
                vocabulary_kind::qwen2,
                100000,
                true,
                plain,
                no_experts,
                0,
                0,
                {{{"embedding_scale", 12.0},
                  {"residual_scale", 0.22},
                  {"attention.scale", 0.015625},
                  {"logit_scale", 10.0}}}},
    model_shape{"gemma-3-12b",
                "gemma3",
                3840,
                15360,
                48,
                16,
                8,
                256,
                262208,
                131072,
                1e-6F,
                1'000'000.0F,
                vocabulary_kind::sentencepiece,
                0,
                true,
                {.head_norms = true, .norm_after = true},
                no_experts,
                1024,
                0,
                {{{"rope.scaling.factor", 8.0}}}},
    model_shape{"qwen3-30b-a3b",
                "qwen3moe",
                2048,
                6144,
                48,
                32,
                4,
                128,
                151936,
                40960,
                1e-6F,
                1'000'000.0F,
                vocabulary_kind::qwen2,
                151387,
                false,
                {.head_norms = true},
                {.count = 128, .used = 8, .ffn = 768}},
    // 20 of 46 layers, so that it fits a card of 80 GB beside its cache.
    model_shape{"glm-4.5-air-20-layers",
                "glm4moe",
                4096,
                10944,
                20,
                96,
                8,
                128,
                151552,
                131072,
                1e-5F,
                1'000'000.0F,
                vocabulary_kind::qwen2,
                151000,
                false,
                {.qkv_biases = true, .late_norm = true},
                {.count = 128, .used = 8, .ffn = 1408, .shared = 1, .dense_layers = 1, .choice_bias = true},
                0,
                64,
                {{{"expert_weights_scale", 1.0}}}},
    model_shape{"deepseek-v2-lite",
                "deepseek2",
                2048,
                10944,
                27,
                16,
                1,
                576,
                102400,
                163840,
                1e-6F,
                10'000.0F,
                vocabulary_kind::qwen2,
                99757,
                false,
                plain,
                {.count = 64, .used = 6, .ffn = 1408, .shared = 2, .dense_layers = 1},
                0,
                64,
                {},
                {.rank = 512, .query_rank = 0, .unrotated = 128, .value = 128}},
    model_shape{"glm-4.7-flash",
                "deepseek2",
                2048,
                10240,
                47,
                20,
                1,
                576,
                154880,
                202752,
                1e-5F,
                1'000'000.0F,
                vocabulary_kind::qwen2,
                154000,
                false,
                plain,
                {.count = 64, .used = 4, .ffn = 1536, .shared = 1, .dense_layers = 1, .choice_bias = true},
                0,
                64,
                {{{"expert_weights_scale", 1.8}}},
                {.rank = 512, .query_rank = 768, .unrotated = 192, .value = 256}},
};

class planner : tensor_list {
 public:
  planner(const model_shape& s, std::uint64_t layers, std::uint64_t vocab)
      : tensor_list(s.architecture), s_(s), layers_(layers), vocab_(vocab) {}

  engine::result<planned_model> plan() {
    add_metadata();
    if (s_.experts.count > 0) add_expert_metadata();
    const auto words = add_tokenizer(out_.header, s_.tokenizer, vocab_, s_.merges);
    if (!words) return words.error();
    matrix("token_embd.weight", {s_.embedding, vocab_}, s_.tied ? ggml_type::q6_k : ggml_type::q4_k);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) add_layer(layer);
    vector("output_norm.weight", {s_.embedding}, 1.0F);
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
    for (const number_key& one : s_.floats) {
      if (one.name == nullptr) continue;
      key(one.name, static_cast<float>(one.value));
      if (std::string_view(one.name) == "rope.scaling.factor") key("rope.scaling.type", "linear");
    }
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
    if (e.shared > 0) number("expert_shared_count", e.shared);
    if (!e.choice_bias) return;
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
    if (!s_.extras.qkv_biases) return;
    vector(prefix_ + "attn_q.bias", {q}, 0.0F);
    vector(prefix_ + "attn_k.bias", {kv}, 0.0F);
    vector(prefix_ + "attn_v.bias", {kv}, 0.0F);
  }

  void add_layer(std::uint64_t layer) {
    begin_layer(layer);
    const bool more = more_bits(layer, layers_);
    const ggml_type some = more ? ggml_type::q6_k : ggml_type::q4_k;
    norm("attn_norm", s_.embedding);
    if (s_.latent.rank > 0)
      add_latents();
    else
      add_attention(some);
    if (s_.extras.head_norms) {
      norm("attn_q_norm", s_.head_width);
      norm("attn_k_norm", s_.head_width);
    }
    norm(s_.extras.late_norm ? "post_attention_norm" : "ffn_norm", s_.embedding);
    if (s_.extras.norm_after) {
      norm("post_attention_norm", s_.embedding);
      norm("post_ffw_norm", s_.embedding);
    }
    if (s_.experts.count > 0 && layer >= s_.experts.dense_layers) return add_experts(some);
    add_gated("", s_.ffn, some);
  }

  /// What quantizers fall back to where a row is no multiple of 256 values.
  static ggml_type of_rows(std::uint64_t width, ggml_type type) {
    if (width % 256 == 0) return type;
    return type == ggml_type::q6_k ? ggml_type::q8_0 : ggml_type::q5_0;
  }

  void norm(const std::string& name, std::uint64_t width) {
    vector(prefix_ + name + ".weight", {width}, 1.0F);
  }

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
  }

  const model_shape& s_;
  std::uint64_t layers_;
  std::uint64_t vocab_;
};

}  // namespace

std::optional<engine::result<planned_model>> plan_other_model(const model_choice& choice) {
  for (const model_shape& s : models) {
    if (choice.model != s.name) continue;
    const auto layers = layers_of(choice, s.layers);
    if (!layers) return layers.error();
    return planner(s, *layers, choice.vocab.value_or(static_cast<std::uint32_t>(s.vocab))).plan();
  }
  return std::nullopt;
}

std::string other_model_names() {
  std::string out;
  for (const model_shape& s : models) out += std::string(out.empty() ? "" : ", ") + s.name;
  return out;
}

}  // namespace orcd::bench
