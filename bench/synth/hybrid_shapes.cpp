#include "bench/synth/hybrid_shapes.hpp"

#include <cstring>

#include "bench/synth/tensor_list.hpp"
#include "bench/synth/vocabulary.hpp"

namespace orcd::bench {
namespace {

using engine::ggml_type;

/// Letters of a period of layers: D a delta net, M Mamba-2, C a short convolution and A attention, each with
/// a feed-forward unless the model has them alone (F).
struct hybrid_shape {
  const char* name;
  const char* architecture;
  const char* period = "DDDA";
  std::uint64_t embedding = 0, ffn = 0, layers = 0;
  std::uint64_t heads = 0, kv_heads = 0, head_width = 128, rotated = 0;
  std::uint64_t key_heads = 0, value_heads = 0, key_length = 128, value_length = 128, taps = 4;
  struct {
    std::uint64_t count = 0, used = 0, ffn = 0, shared = 0;
  } experts = {};
  std::uint32_t context = 262'144;
  std::uint64_t vocab = 248'320, merges = 247'587;
  float rms_eps = 1e-6F, rope_base = 1e7F;
  bool tied = false;
};

constexpr hybrid_shape shapes[]{
    {.name = "qwen3.5-35b-a3b",
     .architecture = "qwen35moe",
     .embedding = 2048,
     .layers = 40,
     .heads = 16,
     .kv_heads = 2,
     .head_width = 256,
     .rotated = 64,
     .key_heads = 16,
     .value_heads = 32,
     .experts = {.count = 256, .used = 8, .ffn = 512, .shared = 512}},
    {.name = "qwen3.5-27b",
     .architecture = "qwen35",
     .embedding = 5120,
     .ffn = 17408,
     .layers = 64,
     .heads = 24,
     .kv_heads = 4,
     .head_width = 256,
     .rotated = 64,
     .key_heads = 16,
     .value_heads = 48},
    {.name = "qwen3.5-9b",
     .architecture = "qwen35",
     .embedding = 4096,
     .ffn = 12288,
     .layers = 32,
     .heads = 16,
     .kv_heads = 4,
     .head_width = 256,
     .rotated = 64,
     .key_heads = 16,
     .value_heads = 32},
    {.name = "nemotron-3-nano",
     .architecture = "nemotron_h_moe",
     .period = "MFMFMAFMFMFMAFMFMFMAFMFMFMAFMFMFMAFMFMFMFMAFMFMFMFMF",
     .embedding = 2688,
     .layers = 52,
     .heads = 32,
     .kv_heads = 2,
     .key_heads = 8,
     .value_heads = 64,
     .value_length = 64,
     .experts = {.count = 128, .used = 6, .ffn = 1856, .shared = 3712},
     .vocab = 131'072,
     .merges = 269'443,
     .rms_eps = 1e-5F,
     .rope_base = 1e4F},
    {.name = "granite-4-h-small",
     .architecture = "granitehybrid",
     .period = "MMMMMAMMMM",
     .embedding = 4096,
     .layers = 40,
     .heads = 32,
     .kv_heads = 8,
     .key_heads = 1,
     .value_heads = 128,
     .value_length = 64,
     .experts = {.count = 72, .used = 10, .ffn = 768, .shared = 1536},
     .context = 131'072,
     .vocab = 100'352,
     .merges = 100'000,
     .rms_eps = 1e-5F,
     .rope_base = 1e4F,
     .tied = true},
    {.name = "lfm2-2.6b",
     .architecture = "lfm2",
     .period = "CCACCCACCCACCCACCCACCCACCACCAC",
     .embedding = 2048,
     .ffn = 10752,
     .layers = 30,
     .heads = 32,
     .kv_heads = 8,
     .head_width = 64,
     .taps = 3,
     .context = 128'000,
     .vocab = 65'536,
     .merges = 63'683,
     .rms_eps = 1e-5F,
     .rope_base = 1e6F,
     .tied = true},
};

class planner : tensor_list {
 public:
  planner(const hybrid_shape& s, std::uint64_t layers, std::uint64_t vocab)
      : tensor_list(s.architecture), s_(s), layers_(layers), vocab_(vocab) {}

  engine::result<planned_model> plan() {
    add_metadata();
    const auto words = add_tokenizer(out_.header, vocabulary_kind::qwen2, vocab_, s_.merges);
    if (!words) return words.error();
    matrix("token_embd.weight", {s_.embedding, vocab_},
           of_rows(s_.embedding, s_.tied ? ggml_type::q6_k : ggml_type::q4_k));
    for (std::uint64_t layer = 0; layer < layers_; ++layer) add_layer(layer);
    vector(is("lfm2") ? "token_embd_norm.weight" : "output_norm.weight", {s_.embedding}, 1.0F);
    if (!s_.tied) matrix("output.weight", {s_.embedding, vocab_}, of_rows(s_.embedding, ggml_type::q6_k));
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool is(const char* architecture) const {
    return std::strcmp(s_.architecture, architecture) == 0;
  }
  [[nodiscard]] bool has_ffn_alone() const { return std::strchr(s_.period, 'F') != nullptr; }
  [[nodiscard]] char letter(std::uint64_t layer) const { return s_.period[layer % std::strlen(s_.period)]; }
  [[nodiscard]] std::uint64_t keys() const { return s_.key_heads * s_.key_length; }
  [[nodiscard]] std::uint64_t values() const { return s_.value_heads * s_.value_length; }

  void add_metadata() {
    constexpr std::uint32_t q4_k_m = 15;
    add_first_keys(s_, layers_, q4_k_m);
    number("attention.head_count", s_.heads);
    number("attention.key_length", s_.head_width);
    number("attention.value_length", s_.head_width);
    key("attention.layer_norm_rms_epsilon", s_.rms_eps);
    key("rope.freq_base", s_.rope_base);
    number("vocab_size", vocab_);
    if (s_.rotated > 0) number("rope.dimension_count", s_.rotated);
    if (is("granitehybrid")) key("rope.scaling.finetuned", false);
    std::vector<std::int32_t> kv, ffn;
    for (std::uint64_t layer = 0; layer < layers_; ++layer) {
      const bool attends = letter(layer) == 'A';
      kv.push_back(static_cast<std::int32_t>(attends ? s_.kv_heads : 0));
      ffn.push_back(static_cast<std::int32_t>(letter(layer) == 'F' ? s_.experts.ffn : 0));
    }
    if (letter(0) == 'D')
      number("attention.head_count_kv", s_.kv_heads);
    else
      key("attention.head_count_kv", kv);
    if (has_ffn_alone())
      key("feed_forward_length", ffn);
    else
      number("feed_forward_length", s_.ffn > 0 ? s_.ffn : s_.experts.ffn);
    add_mixer_keys();
    add_expert_keys();
  }
  void add_mixer_keys() {
    if (is("lfm2")) return number("shortconv.l_cache", s_.taps);
    number("ssm.conv_kernel", s_.taps);
    number("ssm.state_size", s_.key_length);
    number("ssm.group_count", s_.key_heads);
    number("ssm.time_step_rank", s_.value_heads);
    number("ssm.inner_size", values());
    if (letter(0) != 'D') return;
    key("rope.dimension_sections", std::vector<std::int32_t>{11, 11, 10, 0});
    number("full_attention_interval", std::strlen(s_.period));
  }
  void add_expert_keys() {
    if (s_.experts.count == 0) return;
    number("expert_count", s_.experts.count);
    number("expert_used_count", s_.experts.used);
    number("expert_feed_forward_length", s_.experts.ffn);
    if (!has_ffn_alone()) return number("expert_shared_feed_forward_length", s_.experts.shared);
    number("expert_shared_feed_forward_length", s_.experts.shared);
    number("expert_shared_count", 1);
    key("expert_weights_scale", 2.5F);
    key("expert_weights_norm", true);
  }

  void norm(const std::string& name, std::uint64_t width) { vector(prefix_ + name, {width}, 1.0F); }
  void linear(const std::string& name, std::uint64_t cols, std::uint64_t rows, ggml_type type) {
    tensor_list::linear(name, cols, rows, of_rows(cols, type));
  }

  /// What quantizers fall back to where a row is no multiple of 256 values.
  static ggml_type of_rows(std::uint64_t width, ggml_type type) {
    if (width % 256 == 0) return type;
    return type == ggml_type::q6_k ? ggml_type::q8_0 : ggml_type::q5_0;
  }

  void add_layer(std::uint64_t layer) {
    begin_layer(layer);
    const ggml_type some = more_bits(layer, layers_) ? ggml_type::q6_k : ggml_type::q4_k;
    norm("attn_norm.weight", s_.embedding);
    switch (letter(layer)) {
      case 'A': add_attention(some); break;
      case 'D': add_delta_net(); break;
      case 'M': add_mamba(); break;
      case 'C':
        linear("shortconv.in_proj", s_.embedding, 3 * s_.embedding, ggml_type::q4_k);
        vector(prefix_ + "shortconv.conv.weight", {s_.taps, s_.embedding}, 0.2F);
        linear("shortconv.out_proj", s_.embedding, s_.embedding, ggml_type::q4_k);
        break;
      default: break;
    }
    if (has_ffn_alone() && letter(layer) != 'F') return;
    if (!has_ffn_alone())
      norm(letter(0) == 'D' ? "post_attention_norm.weight" : "ffn_norm.weight", s_.embedding);
    if (s_.experts.count > 0) return add_experts(some);
    linear("ffn_gate", s_.embedding, s_.ffn, ggml_type::q4_k);
    linear("ffn_up", s_.embedding, s_.ffn, ggml_type::q4_k);
    linear("ffn_down", s_.ffn, s_.embedding, some);
  }

  void add_attention(ggml_type some) {
    const bool gated = letter(0) == 'D', normed = gated || is("lfm2");
    const std::uint64_t q = s_.heads * s_.head_width, kv = s_.kv_heads * s_.head_width;
    linear("attn_q", s_.embedding, gated ? 2 * q : q, ggml_type::q4_k);
    linear("attn_k", s_.embedding, kv, ggml_type::q4_k);
    linear("attn_v", s_.embedding, kv, some);
    linear("attn_output", q, s_.embedding, ggml_type::q4_k);
    if (!normed) return;
    norm("attn_q_norm.weight", s_.head_width);
    norm("attn_k_norm.weight", s_.head_width);
  }

  void add_delta_net() {
    linear("attn_qkv", s_.embedding, 2 * keys() + values(), ggml_type::q4_k);
    linear("attn_gate", s_.embedding, values(), ggml_type::q4_k);
    linear("ssm_beta", s_.embedding, s_.value_heads, ggml_type::q4_k);
    linear("ssm_alpha", s_.embedding, s_.value_heads, ggml_type::q4_k);
    vector(prefix_ + "ssm_conv1d.weight", {s_.taps, 2 * keys() + values()}, 0.2F);
    norm("ssm_dt.bias", s_.value_heads);
    vector(prefix_ + "ssm_a", {s_.value_heads}, -1.0F);
    norm("ssm_norm.weight", s_.value_length);
    linear("ssm_out", values(), s_.embedding, ggml_type::q4_k);
  }

  void add_mamba() {
    const std::uint64_t channels = values() + 2 * keys();
    linear("ssm_in", s_.embedding, values() + channels + s_.value_heads, ggml_type::q4_k);
    vector(prefix_ + "ssm_conv1d.weight", {s_.taps, channels}, 0.2F);
    vector(prefix_ + "ssm_conv1d.bias", {channels}, 0.0F);
    norm("ssm_dt.bias", s_.value_heads);
    vector(prefix_ + "ssm_a", {1, s_.value_heads}, -1.0F);
    vector(prefix_ + "ssm_d", {1, s_.value_heads}, 1.0F);
    vector(prefix_ + "ssm_norm.weight", {values() / s_.key_heads, s_.key_heads}, 1.0F);
    linear("ssm_out", values(), s_.embedding, ggml_type::q4_k);
  }

  void add_experts(ggml_type some) {
    const std::uint64_t count = s_.experts.count, width = s_.experts.ffn;
    const bool gated = !has_ffn_alone();
    const ggml_type in = of_rows(s_.embedding, ggml_type::q4_k);
    matrix(prefix_ + "ffn_gate_inp.weight", {s_.embedding, count}, ggml_type::f32);
    if (!gated) vector(prefix_ + "exp_probs_b.bias", {count}, 0.0F);
    if (gated) matrix(prefix_ + "ffn_gate_exps.weight", {s_.embedding, width, count}, in);
    matrix(prefix_ + "ffn_up_exps.weight", {s_.embedding, width, count}, in);
    matrix(prefix_ + "ffn_down_exps.weight", {width, s_.embedding, count}, of_rows(width, some));
    if (gated) linear("ffn_gate_shexp", s_.embedding, s_.experts.shared, in);
    linear("ffn_up_shexp", s_.embedding, s_.experts.shared, in);
    linear("ffn_down_shexp", s_.experts.shared, s_.embedding, some);
    if (letter(0) == 'D') vector(prefix_ + "ffn_gate_inp_shexp.weight", {s_.embedding}, 0.0F);
  }

  const hybrid_shape& s_;
  std::uint64_t layers_;
  std::uint64_t vocab_;
};

}  // namespace

std::optional<engine::result<planned_model>> plan_hybrid_model(const model_choice& choice) {
  return plan_of<planner>(shapes, choice);
}

std::string hybrid_model_names() {
  return names_of(shapes);
}

}  // namespace orcd::bench
