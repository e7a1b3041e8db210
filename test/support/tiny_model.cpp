#include "test/support/tiny_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "engine/base/ensure.hpp"
#include "test/support/padded_model.hpp"
#include "test/support/random_blocks.hpp"
#include "test/support/tiny_vocabulary.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;

ggml_type fitting_type(ggml_type type, std::uint64_t cols) {
  if (cols % engine::traits_of(type).block_elems == 0) return type;
  if (cols % 32 != 0) return ggml_type::f16;
  switch (type) {
    case ggml_type::q4_k: return ggml_type::q5_0;
    case ggml_type::tq1_0:
    case ggml_type::tq2_0: return cols % 128 == 0 ? ggml_type::i2_s : ggml_type::q4_0;
    case ggml_type::i2_s:
    case ggml_type::q1_0: return cols % 64 == 0 ? ggml_type::q2_0 : ggml_type::q4_0;
    case ggml_type::q5_k: return ggml_type::q5_1;
    case ggml_type::q2_k:
    case ggml_type::q3_k:
    case ggml_type::iq4_xs:
    case ggml_type::iq3_s:
    case ggml_type::iq3_xxs:
    case ggml_type::iq2_s:
    case ggml_type::iq2_xs:
    case ggml_type::iq2_xxs: return ggml_type::iq4_nl;
    default: return ggml_type::q8_0;
  }
}

class builder {
 public:
  explicit builder(const tiny_model_options& o) : o_(o), random_(o.seed) {
    if (o_.head_dim == 0) o_.head_dim = o_.embedding / o_.heads;
    if (o_.rope_dims == 0) o_.rope_dims = o_.head_dim;
    if (o_.family == "gpt-oss") {
      if (o_.experts == 0) o_.experts = 4;
      if (o_.window == 0) o_.window = 8;
    }
    if (o_.experts_used == 0) o_.experts_used = 2;
    o_.fused_qkv |= o_.family == "phi3";
    if (o_.family == "bert") {
      o_.kv_heads = o_.heads;
      o_.biases = true;
      if (!o_.pooling) o_.pooling = 1;
    }
  }

  gguf_writer build() {
    vocabulary_ = o_.family == "bert" ? make_wordpiece_vocabulary()
                  : o_.sentencepiece  ? make_spm_vocabulary()
                                      : make_bpe_vocabulary();
    if (o_.picture_tokens) add_picture_tokens(vocabulary_);
    pad_vocabulary(vocabulary_, o_.vocab);
    add_hyperparameters();
    add_vocabulary(writer_, vocabulary_, splitter());
    add_globals();
    if (o_.pooling) add_pooling();
    for (std::uint32_t layer = 0; layer < o_.layers; ++layer) add_layer(layer);
    return std::move(writer_);
  }

 private:
  bool is_bitnet() const { return o_.family.starts_with("bitnet"); }

  std::string splitter() const {
    if (o_.family == "gpt-oss") return "gpt-4o";
    if (o_.family.starts_with("qwen")) return "qwen2";
    return o_.family == "llama" ? "smollm" : "gpt-2";
  }

  void add_hyperparameters() {
    const std::string p = o_.family + ".";
    const bool gpt_oss = o_.family == "gpt-oss";
    writer_.add("general.architecture", o_.family);
    writer_.add("general.name", "tiny " + o_.family);
    writer_.add("general.quantization_version", std::uint32_t{2});
    writer_.add(p + "context_length", o_.context);
    writer_.add(p + "embedding_length", o_.embedding);
    writer_.add(p + "block_count", o_.layers);
    writer_.add(p + "feed_forward_length", o_.ffn);
    writer_.add(p + "attention.head_count", o_.heads);
    writer_.add(p + "attention.head_count_kv", o_.kv_heads);
    writer_.add(p + "attention.layer_norm_rms_epsilon", 1e-5F);
    if (o_.head_dim * o_.heads != o_.embedding || gpt_oss || o_.padded_embedding > 0) {
      writer_.add(p + "attention.key_length", o_.head_dim);
      writer_.add(p + "attention.value_length", o_.head_dim);
    }
    writer_.add(p + "rope.freq_base", gpt_oss ? 150'000.0F : 10'000.0F);
    if (o_.rope_dims != o_.head_dim) writer_.add(p + "rope.dimension_count", o_.rope_dims);
    if (o_.experts > 0) {
      writer_.add(p + "expert_count", o_.experts);
      writer_.add(p + "expert_used_count", o_.experts_used);
    }
    if (o_.family.ends_with("vl")) add_sections(p);
    if (gpt_oss) {
      writer_.add(p + "expert_feed_forward_length", o_.ffn);
      writer_.add(p + "attention.sliding_window", o_.window);
    }
    if (gpt_oss || o_.yarn) {
      writer_.add(p + "rope.scaling.type", "yarn");
      writer_.add(p + "rope.scaling.factor", gpt_oss ? 32.0F : 4.0F);
      writer_.add(p + "rope.scaling.original_context_length", std::max(1U, o_.context / (gpt_oss ? 32 : 4)));
    }
    if (o_.longrope) {
      writer_.add(p + "rope.scaling.original_context_length", std::max(1U, o_.context / 4));
      writer_.add(p + "rope.scaling.attn_factor", 1.19F);
    }
  }

  /// Of heads that pictures turn by line and column; the projectors of test/data/media fit them.
  void add_sections(const std::string& p) {
    const auto pairs = static_cast<std::int32_t>(o_.rope_dims / 2);
    const std::int32_t quarter = pairs / 4;
    writer_.add(p + "rope.dimension_sections",
                std::vector<std::int32_t>{pairs - 2 * quarter, quarter, quarter, 0});
    if (o_.family == "qwen3vl") writer_.add(p + "n_deepstack_layers", std::uint32_t{2});
  }

  void add_globals() {
    const std::uint64_t vocab = vocabulary_.tokens.size();
    const ggml_type type = o_.embedding_type.value_or(o_.matrix_type);
    matrix("token_embd.weight", {o_.embedding, vocab}, type, 1.0F);
    if (o_.family == "bert") {
      matrix("position_embd.weight", {o_.embedding, o_.context}, ggml_type::f32, 1.0F);
      matrix("token_types.weight", {o_.embedding, 2}, ggml_type::f32, 1.0F);
      norm_with_bias("token_embd_norm");
      return;
    }
    vector("output_norm.weight", {o_.embedding}, 1.0F, 0.1F);
    if (!o_.tied_output)
      matrix("output.weight", {o_.embedding, vocab}, type, 2.0F / std::sqrt(float(o_.embedding)));
    if (o_.rope_freqs) vector("rope_freqs.weight", {o_.rope_dims / 2}, 4.0F, 1.5F);
    if (o_.longrope) {
      vector("rope_factors_long.weight", {o_.rope_dims / 2}, 6.0F, 2.0F);
      vector("rope_factors_short.weight", {o_.rope_dims / 2}, 1.1F, 0.05F);
    }
  }

  void add_pooling() {
    writer_.add(o_.family + ".pooling_type", *o_.pooling);
    if (*o_.pooling != 4) return;
    const bool bert = o_.family == "bert";
    const float spread = 1.0F / std::sqrt(float(o_.embedding));
    matrix("cls.output.weight", {o_.embedding, bert ? 1ULL : 2ULL}, ggml_type::f32, spread);
    if (bert) {
      matrix("cls.weight", {o_.embedding, o_.embedding}, ggml_type::f32, spread);
      vector("cls.bias", {o_.embedding}, 0.0F, 0.1F);
      vector("cls.output.bias", {1}, 0.0F, 0.1F);
      return;
    }
    writer_.add(o_.family + ".classifier.output_labels", std::vector<std::string>{"yes", "no"});
    writer_.add("tokenizer.chat_template.rerank", "Does it fit?\n{query}\n{document}\n");
  }

  void norm_with_bias(const std::string& name) {
    vector(name + ".weight", {o_.embedding}, 1.0F, 0.1F);
    vector(name + ".bias", {o_.embedding}, 0.0F, 0.1F);
  }

  void add_layer(std::uint32_t layer) {
    prefix_ = "blk." + std::to_string(layer) + ".";
    if (o_.family == "bert") {
      add_attention();
      norm_with_bias(prefix_ + "attn_output_norm");
      linear("ffn_up", o_.embedding, o_.ffn, true);
      linear("ffn_down", o_.ffn, o_.embedding, true);
      norm_with_bias(prefix_ + "layer_output_norm");
      return;
    }
    vector(prefix_ + "attn_norm.weight", {o_.embedding}, 1.0F, 0.1F);
    add_attention();
    const bool gpt_oss = o_.family == "gpt-oss";
    vector(prefix_ + (gpt_oss ? "post_attention_norm.weight" : "ffn_norm.weight"), {o_.embedding}, 1.0F,
           0.1F);
    if (o_.experts > 0) return add_experts(gpt_oss);
    if (o_.family == "phi3") {
      linear("ffn_up", o_.embedding, 2ULL * o_.ffn, false);
    } else {
      linear("ffn_gate", o_.embedding, o_.ffn, o_.biases);
      linear("ffn_up", o_.embedding, o_.ffn, o_.biases);
    }
    if (is_bitnet()) vector(prefix_ + "ffn_sub_norm.weight", {o_.ffn}, 1.0F, 0.1F);
    linear("ffn_down", o_.ffn, o_.embedding, o_.biases);
  }

  void add_attention() {
    const std::uint64_t q = std::uint64_t{o_.heads} * o_.head_dim;
    const std::uint64_t kv = std::uint64_t{o_.kv_heads} * o_.head_dim;
    const bool gpt_oss = o_.family == "gpt-oss";
    const bool qkv_bias = gpt_oss || o_.family.starts_with("qwen2") || o_.biases;
    if (o_.fused_qkv) {
      linear("attn_qkv", o_.embedding, q + 2 * kv, qkv_bias);
    } else {
      linear("attn_q", o_.embedding, q, qkv_bias);
      linear("attn_k", o_.embedding, kv, qkv_bias);
      linear("attn_v", o_.embedding, kv, qkv_bias);
    }
    if (o_.family.starts_with("qwen3")) {
      vector(prefix_ + "attn_q_norm.weight", {o_.head_dim}, 1.0F, 0.2F);
      vector(prefix_ + "attn_k_norm.weight", {o_.head_dim}, 1.0F, 0.2F);
    }
    if (is_bitnet()) vector(prefix_ + "attn_sub_norm.weight", {q}, 1.0F, 0.1F);
    linear("attn_output", q, o_.embedding, gpt_oss || o_.biases);
    if (gpt_oss) vector(prefix_ + "attn_sinks.weight", {o_.heads}, 0.5F, 1.0F);
  }

  void add_experts(bool biased) {
    const ggml_type type = o_.expert_type.value_or(o_.matrix_type);
    const auto expert = [&](const std::string& name, std::uint64_t cols, std::uint64_t rows) {
      matrix(prefix_ + name + ".weight", {cols, rows, o_.experts}, type, 1.0F / std::sqrt(float(cols)));
      if (biased) vector(prefix_ + name + ".bias", {rows, o_.experts}, 0.0F, 0.1F);
      if (o_.expert_scales) vector(prefix_ + name + ".scale", {o_.experts}, 1.0F, 0.3F);
    };
    vector(prefix_ + "ffn_gate_inp.weight", {o_.embedding, o_.experts}, 0.0F,
           1.0F / std::sqrt(float(o_.embedding)));
    if (biased) vector(prefix_ + "ffn_gate_inp.bias", {o_.experts}, 0.0F, 0.1F);
    expert("ffn_gate_exps", o_.embedding, o_.ffn);
    expert("ffn_up_exps", o_.embedding, o_.ffn);
    expert("ffn_down_exps", o_.ffn, o_.embedding);
  }

  void linear(const std::string& name, std::uint64_t cols, std::uint64_t rows, bool bias) {
    matrix(prefix_ + name + ".weight", {cols, rows}, o_.matrix_type, 1.0F / std::sqrt(float(cols)));
    if (bias) vector(prefix_ + name + ".bias", {rows}, 0.0F, 0.1F);
    if (o_.weight_scales) vector(prefix_ + name + ".scale", {1}, 1.0F, 0.3F);
  }

  ggml_type next_of_mixture() {
    const auto& all = engine::supported_types();
    const ggml_type type = all[matrices_++ % all.size()].type;
    return type == ggml_type::f32 && !o_.mixture_f32 ? next_of_mixture() : type;
  }

  void matrix(const std::string& name, std::vector<std::uint64_t> extents, ggml_type type, float spread) {
    if (o_.mixture) type = next_of_mixture();
    type = fitting_type(type, extents[0]);
    std::uint64_t elements = 1;
    for (const std::uint64_t e : extents) elements *= e;
    writer_.add_tensor(name, std::move(extents), type, random_payload(type, elements, spread, random_));
  }

  /// F32, every value `centre` plus noise.
  void vector(const std::string& name, std::vector<std::uint64_t> extents, float centre, float noise) {
    std::uint64_t elements = 1;
    for (const std::uint64_t e : extents) elements *= e;
    bytes data;
    for (std::uint64_t i = 0; i < elements; ++i) append_number(data, centre + noise * random_unit(random_));
    writer_.add_tensor(name, std::move(extents), ggml_type::f32, std::move(data));
  }

  tiny_model_options o_;
  std::mt19937_64 random_;
  gguf_writer writer_;
  tiny_vocabulary vocabulary_;
  std::string prefix_;
  std::size_t matrices_ = 0;
};

bytes read_model(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ORCD_ENSURE(!text.empty());
  bytes out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

}  // namespace

gguf_writer make_tiny_writer(const tiny_model_options& options) {
  ORCD_ENSURE(options.file.empty() && options.heads > 0 && options.embedding > 0 && options.layers > 0);
  gguf_writer out = builder(options).build();
  const auto or_before = [](std::uint32_t padded, std::uint32_t before) {
    return padded > 0 ? padded : before;
  };
  if (options.padded_embedding > 0 || options.padded_ffn > 0) {
    pad_widths(out, or_before(options.padded_embedding, options.embedding),
               or_before(options.padded_ffn, options.ffn));
  }
  return out;
}

bytes make_tiny_model(const tiny_model_options& options) {
  if (!options.file.empty()) return read_model("test/data/families/" + options.file + ".gguf");
  return make_tiny_writer(options).build();
}

}  // namespace orcd::test
