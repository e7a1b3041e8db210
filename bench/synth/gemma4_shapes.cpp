#include "bench/synth/gemma4_shapes.hpp"

#include "bench/synth/tensor_list.hpp"
#include "bench/synth/vocabulary.hpp"

namespace orcd::bench {
namespace {

using engine::ggml_type;

struct gemma4_shape {
  const char* name;
  std::uint64_t embedding = 0, ffn = 0, layers = 0, heads = 0;
  std::uint64_t kv_heads = 0, full_kv_heads = 0;  ///< of windowed and of full layers
  std::uint64_t period = 6;                       ///< the last layer of each period is full
  std::uint64_t window = 1'024;
  std::uint64_t experts = 0, experts_used = 0, expert_ffn = 0;
  std::uint64_t inputs = 0;       ///< of each layer, beside the stream
  std::uint64_t readers = 0;      ///< last layers that read the cache of others
  bool wider_readers = false;     ///< their feed-forward is twice as wide
  bool values_from_keys = false;  ///< in full layers
  std::uint32_t context = 262'144;
  std::uint64_t vocab = 262'144;
  float rms_eps = 1e-6F, rope_base = 1e6F;
};

constexpr std::uint64_t head_width = 256, full_head_width = 512;

constexpr gemma4_shape shapes[]{
    {.name = "gemma-4-31b",
     .embedding = 5376,
     .ffn = 21504,
     .layers = 60,
     .heads = 32,
     .kv_heads = 16,
     .full_kv_heads = 4,
     .values_from_keys = true},
    {.name = "gemma-4-26b-a4b",
     .embedding = 2816,
     .ffn = 2112,
     .layers = 30,
     .heads = 16,
     .kv_heads = 8,
     .full_kv_heads = 2,
     .experts = 128,
     .experts_used = 8,
     .expert_ffn = 704,
     .values_from_keys = true},
    {.name = "gemma-4-12b",
     .embedding = 3840,
     .ffn = 15360,
     .layers = 48,
     .heads = 16,
     .kv_heads = 8,
     .full_kv_heads = 1,
     .values_from_keys = true},
    {.name = "gemma-4-e4b",
     .embedding = 2560,
     .ffn = 10240,
     .layers = 42,
     .heads = 8,
     .kv_heads = 2,
     .full_kv_heads = 2,
     .window = 512,
     .inputs = 256,
     .readers = 18,
     .context = 131'072},
    {.name = "gemma-4-e2b",
     .embedding = 1536,
     .ffn = 6144,
     .layers = 35,
     .heads = 8,
     .kv_heads = 1,
     .full_kv_heads = 1,
     .period = 5,
     .window = 512,
     .inputs = 256,
     .readers = 20,
     .wider_readers = true,
     .context = 131'072},
};

class planner : tensor_list {
 public:
  planner(const gemma4_shape& s, std::uint64_t layers, std::uint64_t vocab)
      : tensor_list("gemma4"), s_(s), layers_(layers), vocab_(vocab) {}

  engine::result<planned_model> plan() {
    add_metadata();
    const auto words = add_tokenizer(out_.header, vocabulary_kind::sentencepiece, vocab_, 0);
    if (!words) return words.error();
    matrix("token_embd.weight", {s_.embedding, vocab_}, ggml_type::q6_k);
    vector("rope_freqs.weight", {full_head_width / 2}, 1.0F);
    if (s_.inputs > 0) {
      matrix("per_layer_token_embd.weight", {s_.inputs * layers_, vocab_}, ggml_type::q6_k);
      matrix("per_layer_model_proj.weight", {s_.embedding, s_.inputs * layers_}, ggml_type::bf16);
      vector("per_layer_proj_norm.weight", {s_.inputs}, 1.0F);
    }
    for (std::uint64_t layer = 0; layer < layers_; ++layer) add_layer(layer);
    vector("output_norm.weight", {s_.embedding}, 1.0F);
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is_full(std::uint64_t layer) const {
    return layer % s_.period == s_.period - 1 || layer + 1 == layers_;
  }
  [[nodiscard]] bool reads_other(std::uint64_t layer) const { return layer + s_.readers >= layers_; }
  [[nodiscard]] std::uint64_t ffn_of(std::uint64_t layer) const {
    return s_.wider_readers && reads_other(layer) ? 2 * s_.ffn : s_.ffn;
  }

  void add_metadata() {
    constexpr std::uint32_t q4_k_m = 15;
    add_first_keys(s_, layers_, q4_k_m);
    number("attention.head_count", s_.heads);
    key("attention.layer_norm_rms_epsilon", s_.rms_eps);
    key("rope.freq_base", s_.rope_base);
    key("rope.freq_base_swa", 1e4F);
    number("rope.dimension_count", full_head_width);
    number("rope.dimension_count_swa", head_width);
    number("attention.key_length", full_head_width);
    number("attention.value_length", full_head_width);
    number("attention.key_length_swa", head_width);
    number("attention.value_length_swa", head_width);
    number("attention.sliding_window", s_.window);
    number("attention.shared_kv_layers", s_.readers);
    number("embedding_length_per_layer_input", s_.inputs);
    key("final_logit_softcapping", 30.0F);
    number("vocab_size", vocab_);
    std::vector<std::int32_t> kv, ffn;
    std::vector<bool> windowed;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      windowed.push_back(!is_full(layer));
      kv.push_back(static_cast<std::int32_t>(is_full(layer) ? s_.full_kv_heads : s_.kv_heads));
      ffn.push_back(static_cast<std::int32_t>(ffn_of(layer)));
    }
    key("attention.sliding_window_pattern", windowed);
    key("attention.head_count_kv", kv);
    key("feed_forward_length", ffn);
    if (s_.experts == 0) return;
    number("expert_count", s_.experts);
    number("expert_used_count", s_.experts_used);
    number("expert_feed_forward_length", s_.expert_ffn);
  }

  void norm(const std::string& name, std::uint64_t width) { vector(prefix_ + name, {width}, 1.0F); }

  /// What quantizers fall back to where a row is no multiple of 256 values.
  static ggml_type of_rows(std::uint64_t width, ggml_type type) {
    if (width % 256 == 0) return type;
    return type == ggml_type::q6_k ? ggml_type::q8_0 : ggml_type::q5_0;
  }

  void add_attention(std::uint64_t layer, ggml_type some) {
    const std::uint64_t width = is_full(layer) ? full_head_width : head_width;
    const std::uint64_t kv = (is_full(layer) ? s_.full_kv_heads : s_.kv_heads) * width;
    norm("attn_norm.weight", s_.embedding);
    linear("attn_q", s_.embedding, s_.heads * width, ggml_type::q4_k);
    norm("attn_q_norm.weight", width);
    if (!reads_other(layer)) {
      linear("attn_k", s_.embedding, kv, ggml_type::q4_k);
      norm("attn_k_norm.weight", width);
      if (!s_.values_from_keys || !is_full(layer)) linear("attn_v", s_.embedding, kv, some);
    }
    linear("attn_output", s_.heads * width, s_.embedding, ggml_type::q4_k);
    norm("post_attention_norm.weight", s_.embedding);
  }

  void add_experts(ggml_type down) {
    matrix(prefix_ + "ffn_gate_inp.weight", {s_.embedding, s_.experts}, ggml_type::f32);
    norm("ffn_gate_inp.scale", s_.embedding);
    matrix(prefix_ + "ffn_gate_up_exps.weight", {s_.embedding, 2 * s_.expert_ffn, s_.experts},
           ggml_type::q4_k);
    matrix(prefix_ + "ffn_down_exps.weight", {s_.expert_ffn, s_.embedding, s_.experts},
           of_rows(s_.expert_ffn, down));
    norm("ffn_down_exps.scale", s_.experts);
    for (const char* name : {"pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"})
      norm(name, s_.embedding);
  }

  void add_layer(std::uint64_t layer) {
    begin_layer(layer);
    const ggml_type some = more_bits(layer, layers_) ? ggml_type::q6_k : ggml_type::q4_k;
    add_attention(layer, some);
    norm("ffn_norm.weight", s_.embedding);
    linear("ffn_gate", s_.embedding, ffn_of(layer), ggml_type::q4_k);
    linear("ffn_up", s_.embedding, ffn_of(layer), ggml_type::q4_k);
    linear("ffn_down", ffn_of(layer), s_.embedding, of_rows(ffn_of(layer), some));
    norm("post_ffw_norm.weight", s_.embedding);
    norm("layer_output_scale.weight", 1);
    if (s_.experts > 0) add_experts(some);
    if (s_.inputs == 0) return;
    linear("inp_gate", s_.embedding, s_.inputs, ggml_type::q4_k);
    linear("proj", s_.inputs, s_.embedding, ggml_type::q4_k);
    norm("post_norm.weight", s_.embedding);
  }

  const gemma4_shape& s_;
  std::uint64_t layers_;
  std::uint64_t vocab_;
};

}  // namespace

std::optional<engine::result<planned_model>> plan_gemma4_model(const model_choice& choice) {
  return plan_of<planner>(shapes, choice);
}

std::string gemma4_model_names() {
  return names_of(shapes);
}

}  // namespace orcd::bench
