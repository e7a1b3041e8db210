#include <cmath>
#include <cstring>

#include "engine/model/padding.hpp"
#include "test/unit/model/helpers.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;

BOOST_AUTO_TEST_SUITE(refusals)

BOOST_AUTO_TEST_CASE(architectures) {
  expect_refused(
      tiny_with("llama", "general.architecture", "mamba"),
      {"architecture 'mamba'",
       "supported are llama, qwen2, qwen3, phi3, gpt-oss, olmo2, exaone4, granite, granitemoe, smollm3, "
       "seed_oss, internlm2, ernie4_5, ernie4_5-moe, mistral3, starcoder2, qwen3moe, qwen2moe, qwen2vl, "
       "qwen3vl, qwen3vlmoe, gemma2, "
       "gemma3, gemma4, "
       "command-r, cohere2, glm4, glm4moe, deepseek2, qwen35, qwen35moe, qwen3next, lfm2, lfm2moe, "
       "granitehybrid, nemotron_h, nemotron_h_moe, bert, bitnet-b1.58, bitnet-25, bitnet"});
  expect_refused(tiny_with("gpt-oss", "general.architecture", "gptoss"), {"'gptoss'", "Ollama", "'gpt-oss'"});
  expect_refused(tiny_with("llama", "general.architecture", std::uint32_t{1}),
                 {"general.architecture", "string"});
  gguf_writer w = tiny("llama");
  w.remove("general.architecture");
  expect_refused(w, {"key 'general.architecture' is missing"});
}

BOOST_AUTO_TEST_CASE(scales_of_ternary_matrices) {
  tiny_model_options o;
  o.family = "bitnet";
  o.embedding = 256;
  o.ffn = 256;
  o.matrix_type = ggml_type::i2_s;
  o.weight_scales = true;
  const gguf_writer good = make_tiny_writer(o);
  gguf_writer missing = good;
  missing.remove_tensor("blk.1.attn_k.scale");
  expect_refused(missing, {"tensor 'blk.1.attn_k.scale' is missing"});
  gguf_writer wide = good;
  *wide.find_tensor("blk.0.ffn_up.scale") = {"blk.0.ffn_up.scale", {2}, 0, bytes(8), {}};
  expect_refused(wide, {"'blk.0.ffn_up.scale' must be one value in F32"});
  const std::uint32_t nan = 0x7fc00000;
  gguf_writer bad = good;
  std::memcpy(bad.find_tensor("blk.0.ffn_up.scale")->data.data(), &nan, sizeof nan);
  expect_refused(bad, {"'blk.0.ffn_up.scale' is not finite"});
  gguf_writer behind = good;
  bytes& data = behind.find_tensor("blk.1.ffn_up.weight")->data;
  std::memcpy(data.data() + data.size() - 32, &nan, sizeof nan);
  expect_refused(behind, {"'blk.1.ffn_up.weight' (I2_S) has a scale that is not finite"});
  gguf_writer elsewhere = tiny("llama");
  elsewhere.add_tensor("blk.0.attn_q.scale", {1}, ggml_type::f32, bytes(4));
  expect_refused(elsewhere, {"'blk.0.attn_q.scale' is not part of architecture llama"});
}

BOOST_AUTO_TEST_CASE(scales_of_experts) {
  tiny_model_options o;
  o.experts = 3;
  o.expert_type = ggml_type::nvfp4;
  const auto with = [&](std::vector<std::uint64_t> extents, std::initializer_list<float> values) {
    gguf_writer w = make_tiny_writer(o);
    bytes data;
    for (const float value : values) append_number(data, value);
    w.add_tensor("blk.0.ffn_up_exps.scale", std::move(extents), ggml_type::f32, data);
    return w;
  };
  const char* wrong = "'blk.0.ffn_up_exps.scale' must be one value or 3 values in F32";
  expect_refused(with({2}, {1, 1}), {wrong});
  expect_refused(with({1, 3}, {1, 1, 1}), {wrong});
  expect_refused(with({4}, {1, 1, 1, 1}), {wrong});
  expect_refused(with({3}, {1, INFINITY, 1}), {"'blk.0.ffn_up_exps.scale' is not finite"});
}

BOOST_AUTO_TEST_CASE(bitnet_types_and_activations) {
  tiny_model_options o;
  o.family = "bitnet-b1.58";
  o.matrix_type = ggml_type::mxfp4;
  expect_refused(make_tiny_writer(o), {"type 39, which in architecture bitnet-b1.58 is TL2"});
  o.matrix_type = ggml_type::f16;
  gguf_writer w = make_tiny_writer(o);
  w.add("bitnet-b1.58.hidden_activation", "tanh");
  expect_refused(w, {"'bitnet-b1.58.hidden_activation' is 'tanh'; it must be relu2 or silu"});
  gguf_writer norm = make_tiny_writer(o);
  norm.remove_tensor("blk.0.ffn_sub_norm.weight");
  expect_refused(norm, {"tensor 'blk.0.ffn_sub_norm.weight' is missing"});
}

BOOST_AUTO_TEST_CASE(padded_widths) {
  tiny_model_options o;
  o.family = "bitnet";
  const auto padded = [](const tiny_model_options& options, std::uint32_t hidden, std::uint32_t ffn) {
    gguf_writer w = make_tiny_writer(options);
    w.add("orcd.hidden_original", hidden);
    w.add("orcd.intermediate_original", ffn);
    return w;
  };
  for (const std::uint32_t wrong : {0U, o.embedding + 1, ~0U}) {
    expect_refused(padded(o, wrong, o.ffn), {"'orcd.hidden_original' is " + std::to_string(wrong),
                                             "1 to embedding_length, " + std::to_string(o.embedding)});
  }
  expect_refused(padded(o, o.embedding, o.ffn + 1),
                 {"'orcd.intermediate_original'", "1 to feed_forward_length, " + std::to_string(o.ffn)});
  // Not zero behind the width that is said to be the one before.
  expect_refused(padded(o, o.embedding - 1, o.ffn),
                 {"'output_norm.weight' has values behind " + std::to_string(o.embedding - 1)});
  expect_refused(padded(o, o.embedding, o.ffn - 1),
                 {"'blk.0.ffn_sub_norm.weight' has values behind " + std::to_string(o.ffn - 1)});
  gguf_writer text = make_tiny_writer(o);
  text.add("orcd.hidden_original", "64");
  expect_refused(text, {"'orcd.hidden_original' is no number"});
  o.family = "bert";
  expect_refused(padded(o, o.embedding - 1, o.ffn),
                 {"supported of dense models with layers of one width and RMS norms"});
  o.family = "llama";
  o.experts = 4;
  expect_refused(padded(o, o.embedding - 1, o.ffn),
                 {"supported of dense models with layers of one width and RMS norms"});
}

// Layers may have feed-forwards of several widths, as long as none is padded.
BOOST_AUTO_TEST_CASE(norms_of_widths_that_are_not_padded_are_left) {
  tiny_model_options o;
  o.family = "bitnet-b1.58";
  const bytes image = make_tiny_model(o);
  const auto file = engine::gguf_file::parse(image, "tiny").value();
  engine::model m = engine::load_model(file).value();
  BOOST_TEST(m.spec.embedding_before == 0U);
  BOOST_TEST(m.spec.ffn_before == 0U);
  const std::byte* const before = m.weights.layers.back().ffn_sub_norm.data;
  m.spec.layers.back().ffn_size *= 2;
  engine::problem_list problems;
  engine::scale_padded_norms(m.spec, m.weights, problems);
  BOOST_TEST(problems.empty());
  BOOST_TEST(m.weights.layers.back().ffn_sub_norm.data == before);
  BOOST_TEST(m.weights.made.empty());
}

BOOST_AUTO_TEST_CASE(vocabulary_only) {
  gguf_writer w = tiny("llama");
  w.tensors.clear();
  expect_refused(w, {"no tensors"});
}

BOOST_AUTO_TEST_CASE(hyperparameters_out_of_range) {
  const auto refuse = [](const std::string& key, std::uint64_t value,
                         std::initializer_list<std::string_view> parts) {
    expect_refused(tiny_with("llama", "llama." + key, value), parts);
  };
  refuse("block_count", 0, {"'llama.block_count' is 0", "1 to 512"});
  refuse("block_count", 513, {"is 513"});
  refuse("block_count", 400, {"cannot make that many layers"});
  refuse("block_count", 1ULL << 40U, {"is 1099511627776"});
  refuse("attention.head_count", 0, {"head_count' is 0"});
  refuse("attention.head_count_kv", 0, {"head_count_kv' is 0"});
  refuse("attention.head_count_kv", 8, {"4 heads on 8 key-value heads"});
  refuse("attention.head_count_kv", 3, {"4 heads on 3 key-value heads"});
  refuse("attention.key_length", 642, {"key_length' is 642", "640"});
  refuse("attention.key_length", 15, {"15", "even"});
  refuse("attention.value_length", 7, {"values is 7", "even"});
  refuse("context_length", 0, {"context_length' is 0"});
  refuse("context_length", (1ULL << 24U) + 1, {"16777217", "16777216"});
  refuse("embedding_length", 0, {"embedding_length' is 0"});
  refuse("feed_forward_length", 0, {"feed_forward_length' is 0"});
  refuse("rope.dimension_count", 18, {"dimension_count' is 18", "2 to 16"});
  refuse("rope.dimension_count", 7, {"dimension_count' is 7", "even"});
  refuse("vocab_size", 17, {"vocab_size' is 17", "rows"});
  refuse("expert_count", 513, {"expert_count' is 513"});
}

BOOST_AUTO_TEST_CASE(hyperparameters_of_the_wrong_kind) {
  expect_refused(tiny_with("llama", "llama.embedding_length", "64"),
                 {"'llama.embedding_length' has type string"});
  expect_refused(tiny_with("llama", "llama.context_length", std::vector<std::uint32_t>{256}),
                 {"array of u32"});
  expect_refused(tiny_with("llama", "llama.context_length", std::int32_t{-1}), {"is -1"});
  expect_refused(tiny_with("llama", "llama.attention.head_count", std::vector<std::uint32_t>{4, 4, 4}),
                 {"has 3 values for 2 layers"});
  expect_refused(tiny_with("llama", "llama.attention.head_count", std::vector<std::int32_t>{4, -4}),
                 {"head_count"});
  expect_refused(tiny_with("llama", "llama.attention.layer_norm_rms_epsilon", 0.0F), {"epsilon", "0.000000"});
  expect_refused(tiny_with("llama", "llama.rope.freq_base", 1.0F), {"freq_base"});
  expect_refused(tiny_with("llama", "llama.rope.scaling.type", "dynamic"),
                 {"'dynamic'", "none, linear, yarn"});
  expect_refused(tiny_with("llama", "general.name", std::uint32_t{1}), {"general.name"});
  gguf_writer w = tiny("llama");
  w.remove("llama.embedding_length");
  expect_refused(w, {"'llama.embedding_length' is missing"});
}

BOOST_AUTO_TEST_CASE(experts_where_the_family_has_none_and_none_where_it_must) {
  expect_refused(tiny_with("qwen2", "qwen2.expert_count", std::uint32_t{4}),
                 {"expert_count' is 4", "no experts"});
  expect_refused(tiny_with("gpt-oss", "gpt-oss.expert_count", std::uint32_t{0}), {"expert_count' is 0"});
  expect_refused(tiny_with("gpt-oss", "gpt-oss.expert_used_count", std::uint32_t{5}),
                 {"expert_used_count' is 5"});
}

BOOST_AUTO_TEST_CASE(features_that_would_change_the_result) {
  expect_refused(tiny_with("llama", "llama.attention.causal", false), {"pooling_type", "generates no text"});
  expect_refused(tiny_with("llama", "llama.final_logit_softcapping", 30.0F), {"final_logit_softcapping"});
  expect_refused(tiny_with("llama", "llama.expert_shared_count", std::uint32_t{1}),
                 {"expert_shared_count' is set; it is not supported"});
  expect_refused(tiny_with("qwen2", "qwen2.embedding_scale", 2.0F), {"embedding_scale' is set"});
  load(tiny_with("qwen2", "qwen2.embedding_scale", 1.0F));
}

BOOST_AUTO_TEST_CASE(all_tensor_problems_in_one_message) {
  gguf_writer w = tiny("qwen2");
  w.remove_tensor("blk.0.attn_q.weight");
  w.remove_tensor("blk.1.attn_v.bias");
  w.find_tensor("blk.1.ffn_up.weight")->extents = {128, 64};
  written_tensor* norm = w.find_tensor("output_norm.weight");
  norm->type = static_cast<std::uint32_t>(ggml_type::f16);
  norm->data.resize(128);
  w.add_tensor("blk.0.attn_q_norm.weight", {16}, ggml_type::f32, bytes(64));
  expect_refused(w,
                 {"5 problems", "tensor 'blk.0.attn_q.weight' is missing", "'blk.1.attn_v.bias' is missing",
                  "'blk.1.ffn_up.weight' has shape [128, 64]; the hyperparameters make it [64, 128]",
                  "'output_norm.weight' has type F16; it must be F32",
                  "'blk.0.attn_q_norm.weight' is not part of architecture qwen2"});
}

BOOST_AUTO_TEST_CASE(the_message_is_bounded) {
  tiny_model_options o;
  o.layers = 40;
  gguf_writer w = make_tiny_writer(o);
  for (std::uint32_t i = 0; i < o.layers; ++i) {
    w.remove_tensor("blk." + std::to_string(i) + ".attn_q.weight");
    w.add_tensor("blk." + std::to_string(i) + std::string(50, 'x'), {4}, ggml_type::f32, bytes(16));
  }
  expect_refused(w, {"80 problems", "and 56 more"});
}

BOOST_AUTO_TEST_CASE(each_required_tensor_is_required) {
  for (const char* family : {"llama", "qwen2", "qwen3", "phi3", "gpt-oss"}) {
    const gguf_writer whole = tiny(family);
    for (const written_tensor& tensor : whole.tensors) {
      if (tensor.name == "output.weight") continue;  // tied to the embedding when absent
      gguf_writer w = whole;
      w.remove_tensor(tensor.name);
      expect_refused(w, {std::string_view(tensor.name)
                             .substr(tensor.name.find("attn_qkv.weight") == std::string::npos
                                         ? 0
                                         : tensor.name.find("attn_qkv"))});
    }
  }
}

BOOST_AUTO_TEST_CASE(half_a_fused_projection) {
  gguf_writer w = tiny("llama");
  w.add_tensor("blk.0.attn_qkv.weight", {64, 128}, ggml_type::f32, bytes(64 * 128 * 4));
  expect_refused(w, {"'blk.0.attn_q.weight' is not part of"});  // either or, not both
}

BOOST_AUTO_TEST_CASE(unused_tensors_that_files_really_carry) {
  gguf_writer w = tiny("qwen3");
  w.add_tensor("cls.output.weight", {64, 2}, ggml_type::f32, bytes(512));
  w.add_tensor("blk.0.attn_rot_embd.weight", {8}, ggml_type::f32, bytes(32));
  BOOST_TEST(load(w) != nullptr);
}

BOOST_AUTO_TEST_CASE(vocabulary_larger_than_the_embedding) {
  gguf_writer w = tiny("llama");
  w.remove("tokenizer.ggml.tokens");
  w.add("tokenizer.ggml.tokens", std::vector<std::string>(400, "x"));
  expect_refused(w, {"tokenizer has 400 tokens", "304 rows"});
}

BOOST_AUTO_TEST_CASE(frequency_factors_must_be_positive) {
  tiny_model_options o;
  o.rope_freqs = true;
  gguf_writer w = make_tiny_writer(o);
  std::fill_n(w.find_tensor("rope_freqs.weight")->data.begin() + 4, 4, std::byte{0});
  expect_refused(w, {"rope_freqs.weight", "index 1", "positive"});
}

BOOST_AUTO_TEST_SUITE_END()
