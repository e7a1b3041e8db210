// Names of tensors, config.json, the GGUF head.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <vector>

#include "app/quantize/gguf_header.hpp"
#include "app/quantize/image_plan.hpp"
#include "app/quantize/model_config.hpp"
#include "app/quantize/tensor_names.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/head_rows.hpp"

using namespace orcd;
using namespace orcd::app;

BOOST_AUTO_TEST_SUITE(quantize_names)

BOOST_AUTO_TEST_CASE(names_of_trainers_and_of_gguf) {
  const auto gguf = [](std::string_view name) {
    const auto parsed = parse_tensor_name(name);
    return parsed ? gguf_name(*parsed) : std::string("-");
  };
  BOOST_TEST(gguf("model.embed_tokens.weight") == "token_embd.weight");
  BOOST_TEST(gguf("lm_head.weight") == "output.weight");
  BOOST_TEST(gguf("model.norm.weight") == "output_norm.weight");
  BOOST_TEST(gguf("model.layers.31.self_attn.q_proj.bias") == "blk.31.attn_q.bias");
  BOOST_TEST(gguf("model.layers.0.self_attn.inner_attn_ln.weight") == "blk.0.attn_sub_norm.weight");
  BOOST_TEST(gguf("model.layers.0.mlp.ffn_layernorm.weight") == "blk.0.ffn_sub_norm.weight");
  BOOST_TEST(gguf("model.layers.0.post_attention_layernorm.weight") == "blk.0.ffn_norm.weight");
  for (const char* none : {"", "model.layers.", "model.layers.0", "model.layers.00.mlp.up_proj.weight",
                           "model.layers.-1.mlp.up_proj.weight", "model.layers.4294967296.mlp.up_proj.weight",
                           "model.layers.0.mlp.up_proj", "model.layers.0.input_layernorm.bias",
                           "model.layers.0.mlp.up_proj.weight_scale", "lm_head.bias", "norm.weight"}) {
    BOOST_TEST(gguf(none) == "-", none);
  }
}

BOOST_AUTO_TEST_CASE(the_order_of_a_manifest) {
  const std::vector<std::string_view> ordered{"model.embed_tokens.weight",
                                              "lm_head.weight",
                                              "model.norm.weight",
                                              "model.layers.0.input_layernorm.weight",
                                              "model.layers.0.self_attn.attn_sub_norm.weight",
                                              "model.layers.0.self_attn.k_proj.weight",
                                              "model.layers.0.self_attn.k_proj.bias",
                                              "model.layers.0.self_attn.v_proj.weight",
                                              "model.layers.0.self_attn.q_proj.weight",
                                              "model.layers.0.self_attn.o_proj.weight",
                                              "model.layers.0.post_attention_layernorm.weight",
                                              "model.layers.0.mlp.gate_proj.weight",
                                              "model.layers.0.mlp.up_proj.weight",
                                              "model.layers.0.mlp.ffn_sub_norm.weight",
                                              "model.layers.0.mlp.down_proj.weight",
                                              "model.layers.1.input_layernorm.weight"};
  for (std::size_t i = 1; i < ordered.size(); ++i) {
    BOOST_TEST((parse_tensor_name(ordered[i - 1])->order() < parse_tensor_name(ordered[i])->order()),
               ordered[i]);
  }
  BOOST_TEST(lora_target_name(3, 6) == "model.layers.3.mlp.down_proj");
  BOOST_TEST((lora_target_role(2) == tensor_role::attn_q));
}

BOOST_AUTO_TEST_CASE(rows_of_heads_alternate) {
  std::vector<std::uint64_t> rows(24);
  for (std::uint64_t i = 0; i < rows.size(); ++i) rows[i] = engine::regrouped_row(i, 8);
  BOOST_TEST(
      (std::vector(rows.begin(), rows.begin() + 8) == std::vector<std::uint64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
  BOOST_TEST(rows[8] == 8U);
  std::sort(rows.begin(), rows.end());
  std::vector<std::uint64_t> all(24);
  std::iota(all.begin(), all.end(), 0U);
  BOOST_TEST((rows == all));
  BOOST_TEST(engine::regrouped_row(5, 0) == 5U);
}

BOOST_AUTO_TEST_CASE(configs) {
  const auto read = parse_model_config(
      R"({"model_type":"bitnet","hidden_size":2560,"rms_norm_eps":1e-05,"rope_theta":500000,)"
      R"("eos_token_id":[7,8],"rope_scaling":null,"tie_word_embeddings":true,)"
      R"("quantization_config":{"linear_class":"autobitlinear"}})",
      "c");
  BOOST_REQUIRE_MESSAGE(read, (read ? "" : read.error().message));
  BOOST_TEST((!read->scales_divide && read->sizes.tied));
  BOOST_TEST(read->sizes.hidden_original == 2560U);
  BOOST_TEST(read->sizes.theta == 5e5);
  BOOST_TEST(read->eos.value() == 7U);
  BOOST_TEST(!read->bos);
  BOOST_TEST(parse_model_config("{}", "c")->scales_divide);
  const std::vector<std::pair<const char*, const char*>> refused{
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {R"({"hidden_size":0})", "'hidden_size' is '0'"},
      {R"({"hidden_size":-4})", "'hidden_size'"},
      {R"({"hidden_size":2.5})", "'hidden_size'"},
      {R"({"hidden_size":"4"})", "'hidden_size'"},
      {R"({"rms_norm_eps":0})", "'rms_norm_eps'"},
      {R"({"eos_token_id":-1})", "'eos_token_id'"},
      {R"({"tie_word_embeddings":1})", "'tie_word_embeddings'"},
      {R"({"hidden_act":"gelu"})", "'hidden_act' is 'gelu'"},
      {R"({"rope_scaling":{"rope_type":"yarn","factor":4}})", "'rope_scaling'"},
      {R"({"quantization_config":{"linear_class":"x"}})", "'linear_class' is 'x'"}};
  for (const auto& [text, part] : refused) {
    const auto config = parse_model_config(text, "c");
    BOOST_REQUIRE_MESSAGE(!config, text);
    BOOST_TEST(config.error().message.find(part) != std::string::npos, config.error().message);
  }
}

BOOST_AUTO_TEST_CASE(the_gguf_reader_reads_the_head) {
  gguf_header head;
  head.add("general.architecture", std::string_view("llama"));
  head.add("llama.block_count", 3U);
  head.add("x.eps", 0.5F);
  const std::size_t a = head.add_tensor("a", {256, 3}, engine::ggml_type::i2_s);
  const std::size_t b = head.add_tensor("b", {7}, engine::ggml_type::f32);
  std::vector<std::byte> image = head.build();
  image.resize(head.file_bytes());
  const auto file = engine::gguf_file::parse(image, "g");
  BOOST_REQUIRE_MESSAGE(file, (file ? "" : file.error().message));
  BOOST_TEST(*file->get_unsigned("llama.block_count", 0) == 3U);
  BOOST_TEST(*file->get_float("x.eps", 0.0) == 0.5);
  for (const std::size_t i : {a, b}) {
    const auto* found = file->find_tensor(head.at(i).name);
    BOOST_REQUIRE(found != nullptr);
    BOOST_TEST(found->file_offset == head.at(i).offset);
    BOOST_TEST(found->bytes == head.at(i).bytes);
  }
}

BOOST_AUTO_TEST_SUITE_END()
