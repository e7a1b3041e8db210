#include <cmath>
#include <cstring>

#include "test/unit/model/helpers.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;

BOOST_AUTO_TEST_SUITE(families)

BOOST_AUTO_TEST_CASE(llama) {
  tiny_model_options o;
  o.tied_output = true;
  o.rope_freqs = true;
  o.biases = true;
  const auto l = load(make_tiny_writer(o));
  const engine::model_spec& spec = l->model.spec;
  const engine::model_weights& weights = l->model.weights;
  BOOST_TEST(spec.architecture == "llama");
  BOOST_TEST(spec.name == "tiny llama");
  BOOST_TEST(spec.quant_kind == "F32");
  BOOST_TEST(spec.context_length == 256U);
  BOOST_TEST(spec.embedding == 64U);
  BOOST_TEST(spec.vocab == weights.token_embd.rows());
  BOOST_TEST(spec.layers[0].key_length == 16U);
  BOOST_TEST(spec.layers[0].value_length == 16U);
  BOOST_TEST(spec.attention_scale == 0.25);
  BOOST_TEST(spec.experts == 0U);
  BOOST_REQUIRE(spec.layers.size() == 2U);
  const engine::layer_spec& layer = spec.layers[1];
  BOOST_TEST(layer.heads == 4U);
  BOOST_TEST(layer.kv_heads == 2U);
  BOOST_TEST(layer.window == 0U);
  BOOST_TEST(layer.ffn_size == 128U);
  BOOST_TEST((layer.rope.pairing == engine::rope_pairing::interleaved));
  BOOST_TEST((layer.rope.scaling == engine::rope_scaling::none));
  BOOST_TEST(layer.rope.dims == 16U);
  BOOST_TEST(layer.rope.factor == 1.0);
  BOOST_TEST(weights.output.data == weights.token_embd.data);  // tied
  BOOST_TEST(weights.rope_freqs.elements() == 8U);
  const engine::layer_weights& w = weights.layers[1];
  BOOST_TEST(w.attn_q.name == "blk.1.attn_q.weight");
  BOOST_TEST(static_cast<bool>(w.attn_output_bias));
  BOOST_TEST(static_cast<bool>(w.ffn_gate_bias));
  BOOST_TEST(!w.attn_qkv);
  BOOST_TEST(!w.router);
  BOOST_TEST(spec.kv_bytes_per_token() == 2U * 2 * (16 + 16) * 2);
}

BOOST_AUTO_TEST_CASE(llama_with_experts) {
  tiny_model_options o;
  o.experts = 6;
  const auto l = load(make_tiny_writer(o));
  BOOST_TEST(l->model.spec.experts == 6U);
  BOOST_TEST(l->model.spec.experts_used == 2U);
  BOOST_TEST((l->model.spec.layers[0].ffn == engine::ffn_kind::moe));
  BOOST_TEST((l->model.spec.routing == engine::router_weighting::softmax_all_renormalised));
  BOOST_TEST((l->model.spec.activation == engine::ffn_activation::swiglu));
  BOOST_TEST(l->model.weights.layers[0].expert_down.experts() == 6U);
  BOOST_TEST(l->model.weights.layers[0].router.rows() == 6U);
  BOOST_TEST(!l->model.weights.layers[0].ffn_up);
}

BOOST_AUTO_TEST_CASE(qwen2_and_qwen3) {
  const auto two = load(tiny("qwen2"));
  BOOST_TEST((two->model.spec.layers[0].rope.pairing == engine::rope_pairing::half_split));
  BOOST_TEST(two->model.weights.layers[0].attn_k_bias.elements() == 32U);
  BOOST_TEST(!two->model.weights.layers[0].attn_q_norm);

  tiny_model_options o;
  o.family = "qwen3";
  o.head_dim = 32;  // heads * head_dim is more than the embedding
  const auto three = load(make_tiny_writer(o));
  BOOST_TEST(three->model.spec.layers[0].key_length == 32U);
  BOOST_TEST(three->model.weights.layers[0].attn_q.rows() == 128U);
  BOOST_TEST(three->model.weights.layers[0].attn_q_norm.elements() == 32U);
  BOOST_TEST(!three->model.weights.layers[0].attn_q_bias);
}

BOOST_AUTO_TEST_CASE(phi3) {
  tiny_model_options o;
  o.family = "phi3";
  o.kv_heads = 4;
  o.rope_dims = 12;
  o.sentencepiece = true;
  gguf_writer w = make_tiny_writer(o);
  w.add("phi3.attention.sliding_window", std::uint32_t{64});  // attention stays full
  const auto l = load(w);
  const engine::layer_weights& layer = l->model.weights.layers[0];
  BOOST_TEST(layer.attn_qkv.rows() == 3U * 64);
  BOOST_TEST(!layer.attn_q);
  BOOST_TEST(layer.ffn_gate_up.rows() == 256U);
  BOOST_TEST(layer.ffn_gate_up.name == "blk.0.ffn_up.weight");
  BOOST_TEST(!layer.ffn_up);
  BOOST_TEST(!layer.ffn_gate);
  BOOST_TEST(l->model.spec.layers[0].window == 0U);
  BOOST_TEST(l->model.spec.layers[0].rope.dims == 12U);
}

BOOST_AUTO_TEST_CASE(gpt_oss) {
  const auto l = load(tiny("gpt-oss"));
  const engine::model_spec& spec = l->model.spec;
  BOOST_TEST((spec.activation == engine::ffn_activation::swiglu_clamped));
  BOOST_TEST((spec.routing == engine::router_weighting::softmax_selected));
  BOOST_TEST(spec.layers[0].window == 8U);
  BOOST_TEST(spec.layers[1].window == 0U);
  const engine::rope_spec& rope = spec.layers[0].rope;
  BOOST_TEST((rope.scaling == engine::rope_scaling::yarn));
  BOOST_TEST(rope.factor == 32.0);
  BOOST_TEST(rope.base == 150'000.0);
  BOOST_TEST(!rope.round_correction_dims);
  const engine::layer_weights& w = l->model.weights.layers[1];
  BOOST_TEST(w.ffn_norm.name == "blk.1.post_attention_norm.weight");
  BOOST_TEST(w.attn_sinks.elements() == 4U);
  BOOST_TEST(w.router_bias.elements() == 4U);
  BOOST_TEST(w.expert_gate_bias.extents[0] == 128U);
  BOOST_TEST(w.expert_gate_bias.extents[1] == 4U);
  BOOST_TEST(w.expert_down.cols() == 128U);
  BOOST_TEST(w.expert_down.rows() == 64U);
}

BOOST_AUTO_TEST_CASE(bitnet_under_its_three_names) {
  using engine::ffn_activation;
  for (const auto& [name, usual] :
       {std::pair{"bitnet-b1.58", ffn_activation::relu_squared},
        std::pair{"bitnet-25", ffn_activation::relu_squared}, std::pair{"bitnet", ffn_activation::swiglu}}) {
    tiny_model_options o;
    o.family = name;
    o.embedding = 256;
    o.ffn = 384;
    o.matrix_type = ggml_type::i2_s;
    o.embedding_type = ggml_type::f16;
    gguf_writer w = make_tiny_writer(o);
    const auto l = load(w);
    const engine::model_spec& spec = l->model.spec;
    BOOST_TEST(spec.architecture == name);
    BOOST_TEST(spec.integer_activations);
    BOOST_TEST((spec.activation == usual), name);
    BOOST_TEST(spec.quant_kind == "I2_S");
    BOOST_TEST((spec.layers[0].rope.pairing == engine::rope_pairing::half_split));
    const engine::layer_weights& layer = l->model.weights.layers[1];
    BOOST_TEST(layer.attn_sub_norm.elements() == 256U);
    BOOST_TEST(layer.ffn_sub_norm.elements() == 384U);
    BOOST_TEST((layer.ffn_down.type == ggml_type::i2_s));
    BOOST_TEST(layer.ffn_down.factor > 0.0F);
    BOOST_TEST(layer.ffn_down.factor != 1.0F);
    w.add(name + std::string(".hidden_activation"), usual == ffn_activation::swiglu ? "relu2" : "silu");
    BOOST_TEST((load(w)->model.spec.activation != usual), name);
  }
}

BOOST_AUTO_TEST_CASE(scales_beside_the_matrices_multiply_them) {
  tiny_model_options o;
  o.family = "bitnet";
  o.embedding = 256;
  o.ffn = 256;
  o.matrix_type = ggml_type::i2_s;
  const auto plain = load(make_tiny_writer(o));
  o.weight_scales = true;
  gguf_writer w = make_tiny_writer(o);
  const auto scaled = load(w);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string name = "blk." + std::to_string(i) + ".ffn_down.scale";
    float scale = 0.0F;
    std::memcpy(&scale, w.find_tensor(name)->data.data(), sizeof scale);
    const engine::tensor_view& down = scaled->model.weights.layers[i].ffn_down;
    BOOST_TEST(down.factor == plain->model.weights.layers[i].ffn_down.factor * scale);
  }
  BOOST_TEST(scaled->model.weights.token_embd.factor == plain->model.weights.token_embd.factor);
}

BOOST_AUTO_TEST_CASE(a_matrix_in_nvfp4_may_have_a_scale_beside_it_in_any_family) {
  tiny_model_options o;
  o.matrix_type = ggml_type::nvfp4;
  gguf_writer w = make_tiny_writer(o);
  bytes half;
  append_number(half, 0.5F);
  w.add_tensor("blk.1.ffn_down.scale", {1}, ggml_type::f32, half);
  w.add_tensor("output.scale", {1}, ggml_type::f32, half);
  w.add_tensor("blk.1.ffn_down.input_scale", {1}, ggml_type::f32, half);  // of activations
  const auto loaded = load(w);
  const engine::model_weights& weights = loaded->model.weights;
  BOOST_TEST(weights.layers[0].ffn_down.factor == 1.0F);
  BOOST_TEST(weights.layers[1].ffn_down.factor == 0.5F);
  BOOST_TEST(weights.token_embd.factor == 1.0F);
  BOOST_TEST(weights.output.factor == 0.5F);
}

BOOST_AUTO_TEST_CASE(experts_in_nvfp4_may_have_scales_of_their_own) {
  tiny_model_options o;
  o.experts = 3;
  o.expert_type = ggml_type::nvfp4;
  gguf_writer w = make_tiny_writer(o);
  bytes three, one;
  for (const float scale : {0.5F, 2.0F, -3.0F}) append_number(three, scale);
  append_number(one, 0.25F);
  w.add_tensor("blk.1.ffn_down_exps.scale", {3}, ggml_type::f32, three);
  w.add_tensor("blk.1.ffn_up_exps.scale", {1}, ggml_type::f32, one);
  const auto loaded = load(w);
  const engine::layer_weights& layer = loaded->model.weights.layers[1];
  for (const std::uint64_t expert : {0U, 1U, 2U}) {
    BOOST_TEST(layer.expert_down.factor_of(expert) == (std::array{0.5F, 2.0F, -3.0F}[expert]));
    BOOST_TEST(layer.expert_up.factor_of(expert) == 0.25F);
    BOOST_TEST(layer.expert_gate.factor_of(expert) == 1.0F);
  }
}

BOOST_AUTO_TEST_CASE(an_operator_names_the_activation) {
  const bytes image = tiny("llama").build();
  const auto file = engine::gguf_file::parse(image, "tiny.gguf").value();
  const auto replaced = engine::load_model(file, 0, {}, {}, engine::ffn_activation::relu_squared);
  BOOST_TEST((replaced.value().spec.activation == engine::ffn_activation::relu_squared));
  const bytes clamped_image = tiny("gpt-oss").build();
  const auto clamped = engine::gguf_file::parse(clamped_image, "tiny.gguf").value();
  const auto refused = engine::load_model(clamped, 0, {}, {}, engine::ffn_activation::swiglu);
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().message.find("cannot be replaced in architecture gpt-oss") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(window_pattern_from_the_file) {
  tiny_model_options o;
  o.family = "gpt-oss";
  o.layers = 6;
  gguf_writer w = make_tiny_writer(o);
  const auto windows = [&](const gguf_writer& writer) {
    std::string out;
    const auto l = load(writer);
    for (const engine::layer_spec& layer : l->model.spec.layers) out += layer.window != 0 ? 'w' : 'f';
    return out;
  };
  BOOST_TEST(windows(w) == "wfwfwf");
  gguf_writer period = w;
  period.add("gpt-oss.attention.sliding_window_pattern", std::uint32_t{3});
  BOOST_TEST(windows(period) == "wwfwwf");
  gguf_writer list = w;
  list.add("gpt-oss.attention.sliding_window_pattern", std::vector<std::uint8_t>{0, 0, 1, 1, 0, 1});
  BOOST_TEST(windows(list) == "ffwwfw");
}

BOOST_AUTO_TEST_CASE(fused_and_split_projections_for_every_family) {
  for (const char* family : {"llama", "qwen2", "qwen3", "gpt-oss"}) {
    tiny_model_options o;
    o.family = family;
    o.fused_qkv = true;
    const auto l = load(make_tiny_writer(o));
    BOOST_TEST(l->model.weights.layers[0].attn_qkv.rows() == 128U, family);
    BOOST_TEST(!l->model.weights.layers[0].attn_q, family);
  }
}

BOOST_AUTO_TEST_CASE(every_type_in_every_matrix) {
  for (const char* family : {"llama", "qwen2", "qwen3", "phi3", "gpt-oss", "bitnet"}) {
    for (const engine::type_traits& t : engine::supported_types()) {
      tiny_model_options o;
      o.family = family;
      o.layers = 1;
      o.embedding = 256;
      o.ffn = 256;
      o.matrix_type = t.type;
      if (o.family == "bitnet" && t.type == ggml_type::mxfp4) continue;  // that id is TL2 there
      const auto l = load(make_tiny_writer(o));
      BOOST_TEST((l->model.weights.token_embd.type == t.type), family << " " << t.name);
      BOOST_TEST((l->model.weights.layers[0].attn_output.type == t.type), family << " " << t.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(per_layer_head_counts) {
  gguf_writer w = tiny("llama");
  w.remove("llama.attention.head_count_kv");
  w.add("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 4});
  for (const char* name : {"blk.1.attn_k.weight", "blk.1.attn_v.weight"}) {
    written_tensor* t = w.find_tensor(name);
    t->extents = {64, 64};
    t->data.resize(64 * 64 * 4);
  }
  const auto l = load(w);
  BOOST_TEST(l->model.spec.layers[0].kv_heads == 2U);
  BOOST_TEST(l->model.spec.layers[1].kv_heads == 4U);
  BOOST_TEST(l->model.spec.kv_bytes_per_token() == (2U + 4) * 32 * 2);
}

BOOST_AUTO_TEST_CASE(the_name_falls_back_to_the_file) {
  gguf_writer w = tiny("llama");
  w.remove("general.name");
  BOOST_TEST(load(w)->model.spec.name == "tiny");
}

BOOST_AUTO_TEST_CASE(the_same_seed_makes_the_same_model) {
  tiny_model_options o;
  o.mixture = true;
  const bytes first = make_tiny_model(o);
  BOOST_TEST((first == make_tiny_model(o)));
  o.seed = 2;
  BOOST_TEST((first != make_tiny_model(o)));
}

BOOST_AUTO_TEST_SUITE_END()
