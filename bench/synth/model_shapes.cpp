#include "bench/synth/model_shapes.hpp"

#include "bench/synth/gemma4_shapes.hpp"
#include "bench/synth/hybrid_shapes.hpp"
#include "bench/synth/other_shapes.hpp"
#include "bench/synth/projector_shapes.hpp"
#include "bench/synth/tensor_list.hpp"
#include "bench/synth/vocabulary.hpp"

namespace orcd::bench {
namespace {

using engine::ggml_type;

enum class family { qwen2, phi3, gpt_oss, bitnet };

struct shape {
  const char* name;
  const char* architecture;
  family kind;
  std::uint64_t embedding, ffn, layers, heads, kv_heads, head_width, vocab;
  std::uint32_t context;
  float rms_eps, rope_base;
  std::uint32_t file_type;
  ggml_type embedding_type, output_type;
  vocabulary_kind tokenizer;
  std::uint64_t merges;
  std::uint64_t published_tensors, published_bytes;
  ggml_type ternary_type = ggml_type::i2_s;  ///< bitnet's
  std::uint64_t experts = 32;                ///< gpt-oss's
};

// The output is the embedding. Words of qwen2's kind stand for those of Llama 3.
constexpr shape bitnet_2b{"bitnet-2b-4t",
                          "bitnet-b1.58",
                          family::bitnet,
                          2560,
                          6912,
                          30,
                          20,
                          5,
                          128,
                          128256,
                          4096,
                          1e-5F,
                          500'000.0F,
                          40,
                          ggml_type::f16,
                          ggml_type::f16,
                          vocabulary_kind::qwen2,
                          280147,
                          332,
                          1'179'449'920};

/// The same for programs that know TQ2_0 alone, under the name of the earlier files.
constexpr shape in_tq2_0(shape s) {
  s.name = "bitnet-2b-4t-tq2_0";
  s.architecture = "bitnet";
  s.file_type = 37;
  s.published_bytes = 1'195'724'800;
  s.ternary_type = ggml_type::tq2_0;
  return s;
}

/// The same with an embedding, which is the output too, in Q6_K.
constexpr shape in_q6_k(shape s) {
  s.name = "bitnet-2b-4t-q6_k";
  s.published_bytes = 792'116'800;
  s.embedding_type = s.output_type = ggml_type::q6_k;
  return s;
}

constexpr shape gpt_oss_20b{"gpt-oss-20b",
                            "gpt-oss",
                            family::gpt_oss,
                            2880,
                            2880,
                            24,
                            64,
                            8,
                            64,
                            201088,
                            131072,
                            1e-5F,
                            150'000.0F,
                            38,
                            ggml_type::q8_0,
                            ggml_type::q8_0,
                            vocabulary_kind::gpt_4o,
                            446189,
                            459,
                            12'096'558'336};

/// The same layers with four times the experts; its size is what the shape gives, not looked up.
constexpr shape with_128_experts(shape s) {
  s.name = "gpt-oss-120b";
  s.layers = 36;
  s.experts = 128;
  s.published_tensors = 687;
  s.published_bytes = 63'374'323'968;
  return s;
}

constexpr shape shapes[]{
    {"qwen2.5-0.5b",
     "qwen2",
     family::qwen2,
     896,
     4864,
     24,
     14,
     2,
     64,
     151936,
     32768,
     1e-6F,
     1e6F,
     15,
     ggml_type::q5_0,
     ggml_type::q8_0,
     vocabulary_kind::qwen2,
     151387,
     291,
     485'452'288},
    {"phi-3-mini",
     "phi3",
     family::phi3,
     3072,
     8192,
     32,
     32,
     32,
     96,
     32064,
     4096,
     1e-5F,
     1e4F,
     15,
     ggml_type::q4_k,
     ggml_type::q6_k,
     vocabulary_kind::sentencepiece,
     0,
     195,
     2'392'493'568},
    gpt_oss_20b,
    with_128_experts(gpt_oss_20b),
    bitnet_2b,
    in_tq2_0(bitnet_2b),
    in_q6_k(bitnet_2b),
};

constexpr std::uint32_t experts_used = 4;

class planner : tensor_list {
 public:
  planner(const shape& s, std::uint64_t layers, std::uint64_t vocab)
      : tensor_list(s.architecture), s_(s), layers_(layers), vocab_(vocab) {}

  engine::result<planned_model> plan() {
    add_metadata();
    const auto words = add_tokenizer(out_.header, s_.tokenizer, vocab_, s_.merges);
    if (!words) return words.error();
    matrix("token_embd.weight", {s_.embedding, vocab_}, s_.embedding_type);
    for (std::uint64_t layer = 0; layer < layers_; ++layer) add_layer(layer);
    vector("output_norm.weight", {s_.embedding}, 1.0F);
    if (s_.kind != family::bitnet) matrix("output.weight", {s_.embedding, vocab_}, s_.output_type);
    return std::move(out_);
  }

 private:
  void add_metadata() {
    add_common_keys(s_, layers_, s_.file_type);
    if (s_.kind == family::phi3) number("rope.dimension_count", s_.head_width);
    if (s_.kind != family::gpt_oss) return;
    number("attention.key_length", s_.head_width);
    number("attention.value_length", s_.head_width);
    number("attention.sliding_window", 128);
    number("expert_count", s_.experts);
    number("expert_used_count", experts_used);
    number("expert_feed_forward_length", s_.ffn);
    key("rope.scaling.type", "yarn");
    key("rope.scaling.factor", 32.0F);
    number("rope.scaling.original_context_length", 4096);
  }

  void add_layer(std::uint64_t layer) {
    begin_layer(layer);
    const bool more = more_bits(layer, layers_);
    vector(prefix_ + "attn_norm.weight", {s_.embedding}, 1.0F);
    switch (s_.kind) {
      case family::qwen2:
        split_attention(ggml_type::q5_0, more ? ggml_type::q8_0 : ggml_type::q5_0, ggml_type::q5_0);
        vector(prefix_ + "ffn_norm.weight", {s_.embedding}, 1.0F);
        linear("ffn_gate", s_.embedding, s_.ffn, ggml_type::q5_0);
        linear("ffn_up", s_.embedding, s_.ffn, ggml_type::q5_0);
        return linear("ffn_down", s_.ffn, s_.embedding, more ? ggml_type::q6_k : ggml_type::q4_k);
      case family::phi3:
        linear("attn_qkv", s_.embedding, q_rows() + 2 * kv_rows(), ggml_type::q5_k);
        linear("attn_output", q_rows(), s_.embedding, ggml_type::q4_k);
        vector(prefix_ + "ffn_norm.weight", {s_.embedding}, 1.0F);
        linear("ffn_up", s_.embedding, 2 * s_.ffn, ggml_type::q4_k);
        return linear("ffn_down", s_.ffn, s_.embedding, more ? ggml_type::q6_k : ggml_type::q4_k);
      case family::gpt_oss:
        split_attention(ggml_type::q8_0, ggml_type::q8_0, ggml_type::q8_0);
        vector(prefix_ + "attn_output.bias", {s_.embedding}, 0.0F);
        vector(prefix_ + "attn_sinks.weight", {s_.heads}, 0.0F);
        vector(prefix_ + "post_attention_norm.weight", {s_.embedding}, 1.0F);
        return add_experts();
      case family::bitnet: return add_ternary();
    }
  }

  void add_ternary() {
    vector(prefix_ + "attn_sub_norm.weight", {q_rows()}, 1.0F);
    vector(prefix_ + "ffn_norm.weight", {s_.embedding}, 1.0F);
    vector(prefix_ + "ffn_sub_norm.weight", {s_.ffn}, 1.0F);
    linear("attn_q", s_.embedding, q_rows(), s_.ternary_type);
    linear("attn_k", s_.embedding, kv_rows(), s_.ternary_type);
    linear("attn_v", s_.embedding, kv_rows(), s_.ternary_type);
    linear("attn_output", q_rows(), s_.embedding, s_.ternary_type);
    linear("ffn_gate", s_.embedding, s_.ffn, s_.ternary_type);
    linear("ffn_up", s_.embedding, s_.ffn, s_.ternary_type);
    linear("ffn_down", s_.ffn, s_.embedding, s_.ternary_type);
  }

  void split_attention(ggml_type qk, ggml_type v, ggml_type o) {
    linear("attn_q", s_.embedding, q_rows(), qk);
    linear("attn_k", s_.embedding, kv_rows(), qk);
    linear("attn_v", s_.embedding, kv_rows(), v);
    vector(prefix_ + "attn_q.bias", {q_rows()}, 0.0F);
    vector(prefix_ + "attn_k.bias", {kv_rows()}, 0.0F);
    vector(prefix_ + "attn_v.bias", {kv_rows()}, 0.0F);
    linear("attn_output", q_rows(), s_.embedding, o);
  }

  void add_experts() {
    matrix(prefix_ + "ffn_gate_inp.weight", {s_.embedding, s_.experts}, ggml_type::f32);
    vector(prefix_ + "ffn_gate_inp.bias", {s_.experts}, 0.0F);
    const auto stack = [&](const std::string& name, std::uint64_t cols, std::uint64_t rows) {
      matrix(prefix_ + name + ".weight", {cols, rows, s_.experts}, ggml_type::mxfp4);
      vector(prefix_ + name + ".bias", {rows, s_.experts}, 0.0F);
    };
    stack("ffn_gate_exps", s_.embedding, s_.ffn);
    stack("ffn_up_exps", s_.embedding, s_.ffn);
    stack("ffn_down_exps", s_.ffn, s_.embedding);
  }

  std::uint64_t q_rows() const { return s_.heads * s_.head_width; }
  std::uint64_t kv_rows() const { return s_.kv_heads * s_.head_width; }

  const shape& s_;
  std::uint64_t layers_;
  std::uint64_t vocab_;
};

}  // namespace

std::uint64_t planned_tensor::bytes() const noexcept {
  std::uint64_t rows = 1;
  for (std::size_t i = 1; i < extents.size(); ++i) rows *= extents[i];
  const engine::type_traits& traits = engine::traits_of(type);
  return engine::row_bytes(traits, extents[0]) * rows + traits.trailer_bytes;
}

std::uint64_t planned_model::tensor_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const planned_tensor& tensor : tensors) total += tensor.bytes();
  return total;
}

namespace {

/// Gives all matrices of layers a type, but for those that are floats for a reason.
engine::result<void> use_type(planned_model& model, ggml_type type) {
  const engine::type_traits& traits = engine::traits_of(type);
  for (planned_tensor& tensor : model.tensors) {
    if (!tensor.name.starts_with("blk.") || engine::traits_of(tensor.type).block_elems == 1) continue;
    if (tensor.extents[0] % traits.block_elems != 0) {
      return engine::error(engine::errc::invalid_request, tensor.name + " has rows of " +
                                                              std::to_string(tensor.extents[0]) +
                                                              "; blocks of " + std::string(traits.name) +
                                                              " have " + std::to_string(traits.block_elems));
    }
    tensor.type = type;
  }
  return {};
}

engine::result<planned_model> plan_published(const model_choice& choice) {
  using engine::errc;
  using engine::error;
  const shape* found = nullptr;
  for (const shape& s : shapes) {
    if (choice.model == s.name) found = &s;
  }
  if (found == nullptr) {
    if (auto other = plan_other_model(choice)) return std::move(*other);
    if (auto gemma = plan_gemma4_model(choice)) return std::move(*gemma);
    if (auto hybrid = plan_hybrid_model(choice)) return std::move(*hybrid);
    if (auto projector = plan_projector(choice)) return std::move(*projector);
    return error(errc::invalid_request, "no model '" + choice.model +
                                            "'; there are qwen2.5-0.5b, phi-3-mini, gpt-oss-20b, "
                                            "gpt-oss-120b, bitnet-2b-4t, bitnet-2b-4t-tq2_0, "
                                            "bitnet-2b-4t-q6_k, " +
                                            other_model_names() + ", " + gemma4_model_names() + ", " +
                                            hybrid_model_names() + ", " + projector_names());
  }
  const auto layers = layers_of(choice, found->layers);
  if (!layers) return layers.error();
  const std::uint64_t vocab = choice.vocab.value_or(static_cast<std::uint32_t>(found->vocab));
  auto planned = planner(*found, *layers, vocab).plan();
  if (!planned) return planned;
  const bool true_size = *layers == found->layers && vocab == found->vocab;
  if (true_size && (planned->tensors.size() != found->published_tensors ||
                    planned->tensor_bytes() != found->published_bytes)) {
    return error(errc::internal, std::to_string(planned->tensors.size()) + " tensors of " +
                                     std::to_string(planned->tensor_bytes()) +
                                     " bytes; the published file has " +
                                     std::to_string(found->published_tensors) + " of " +
                                     std::to_string(found->published_bytes));
  }
  return planned;
}

}  // namespace

engine::result<planned_model> plan_model(const model_choice& choice) {
  auto planned = plan_published(choice);
  if (!planned || !choice.type) return planned;
  if (const auto used = use_type(*planned, *choice.type); !used) return used.error();
  return planned;
}

}  // namespace orcd::bench
