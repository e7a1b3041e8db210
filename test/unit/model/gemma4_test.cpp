// What the keys and tensors of Gemma 4's files make of the spec, and files that are wrong.
#include <cmath>
#include <cstring>

#include "engine/model/model_tensors.hpp"
#include "engine/model/rope.hpp"
#include "test/unit/model/gemma4_writer.hpp"
#include "test/unit/model/helpers.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ggml_type;

namespace {

gguf_writer with_key(gguf_writer w, const std::string& name, const auto& value) {
  w.remove("gemma4." + name);
  w.add("gemma4." + name, value);
  return w;
}

gguf_writer without(gguf_writer w, std::string_view tensor) {
  w.remove_tensor(tensor);
  return w;
}

gguf_writer with_tensor(gguf_writer w, const std::string& name, std::vector<std::uint64_t> extents) {
  std::uint64_t count = 1;
  for (const std::uint64_t e : extents) count *= e;
  w.remove_tensor(name);
  w.add_tensor(name, std::move(extents), ggml_type::f32, bytes(count * sizeof(float)));
  return w;
}

const gemma4_options shared{.shared = 2, .values_are_keys = false};
const gemma4_options with_experts{.experts = 4};
const gemma4_options with_inputs{.inputs = 8};

}  // namespace

BOOST_AUTO_TEST_SUITE(gemma4_models)

BOOST_AUTO_TEST_CASE(layers_have_windows_widths_and_rotations_of_their_kind) {
  const auto l = load(gemma4());
  const engine::model_spec& spec = l->model.spec;
  BOOST_TEST(spec.attention_scale == 1.0);
  BOOST_TEST(spec.logit_softcap == 30.0);
  BOOST_TEST(std::abs(spec.embedding_scale - std::sqrt(32.0)) < 1e-12);
  BOOST_TEST(spec.value_norm);
  BOOST_TEST(spec.post_norms);
  BOOST_TEST(!spec.dense_and_experts);
  BOOST_TEST(!spec.router_norm);
  BOOST_TEST(spec.output_scales);
  BOOST_TEST(spec.layer_inputs == 0U);
  BOOST_TEST((spec.activation == engine::ffn_activation::geglu_tanh));
  const engine::layer_spec& windowed = spec.layers[0];
  const engine::layer_spec& full = spec.layers[1];
  BOOST_TEST(windowed.window == 8U);
  BOOST_TEST(windowed.key_length == 16U);
  BOOST_TEST(windowed.value_length == 16U);
  BOOST_TEST(windowed.rope.dims == 16U);
  BOOST_TEST(windowed.rope.base == 1e4);
  BOOST_TEST(windowed.rope.fixed);
  BOOST_TEST(!windowed.rope.file_factors);
  BOOST_TEST(!windowed.values_from_keys);
  BOOST_TEST(full.window == 0U);
  BOOST_TEST(full.key_length == 32U);
  BOOST_TEST(full.rope.dims == 32U);
  BOOST_TEST(full.rope.base == 1e6);
  BOOST_TEST(full.rope.file_factors);
  BOOST_TEST(full.values_from_keys);
  BOOST_TEST(full.expert_size == 0U);
  BOOST_TEST(static_cast<bool>(l->model.weights.layers[0].layer_output_scale));
  BOOST_TEST(l->model.weights.output.data == l->model.weights.token_embd.data);
}

// Values from keys take rows of their own in the cache.
BOOST_AUTO_TEST_CASE(caches_of_all_layers) {
  const auto l = load(gemma4());
  const std::uint64_t windowed = 2U * 2U * 16U * 2U;
  const std::uint64_t full = 2U * 2U * 32U * 2U;
  BOOST_TEST(l->model.spec.kv_bytes_per_token() == 2 * windowed + 2 * full);
}

BOOST_AUTO_TEST_CASE(a_cap_and_scales_of_layers_need_not_be) {
  gguf_writer w = gemma4();
  w.remove("gemma4.final_logit_softcapping");
  for (int i = 0; i < 4; ++i) w.remove_tensor("blk." + std::to_string(i) + ".layer_output_scale.weight");
  const auto l = load(w);
  BOOST_TEST(l->model.spec.logit_softcap == 0.0);
  BOOST_TEST(!l->model.spec.output_scales);
  const auto some = load(without(gemma4(), "blk.1.layer_output_scale.weight"));
  BOOST_TEST(some->model.spec.output_scales);
  BOOST_TEST(engine::output_scale_of(some->model.weights.layers[1]) == 1.0F);
  float first = 0.0F;
  std::memcpy(&first, some->model.weights.layers[0].layer_output_scale.data, sizeof first);
  BOOST_TEST(engine::output_scale_of(some->model.weights.layers[0]) == first);
  BOOST_TEST(load(with_key(gemma4(), "attention.scale", 0.5F))->model.spec.attention_scale == 0.5);
}

// Full layers alone divide by the file's factors: pairs with a huge one stand still.
BOOST_AUTO_TEST_CASE(factors_of_frequencies_are_for_full_layers) {
  gguf_writer w = gemma4();
  const float huge = 1e30F;
  bytes& data = w.find_tensor("rope_freqs.weight")->data;
  for (std::size_t i = 4; i < 16; ++i) std::memcpy(data.data() + i * sizeof huge, &huge, sizeof huge);
  const auto l = load(w);
  const auto factors = engine::rope_freq_factors(l->model, 256);
  BOOST_TEST(factors.size() == 16U);
  const auto full = engine::make_rope_table(l->model.spec.layers[1].rope, factors);
  BOOST_REQUIRE(full.inv_freq.size() == 16U);
  BOOST_TEST(full.inv_freq[3] == static_cast<float>(std::pow(1e6, -6.0 / 32)));
  BOOST_TEST(full.inv_freq[4] < 1e-29F);
  const auto windowed = engine::make_rope_table(l->model.spec.layers[0].rope, factors);
  BOOST_REQUIRE(windowed.inv_freq.size() == 8U);
  BOOST_TEST(windowed.inv_freq[7] == static_cast<float>(std::pow(1e4, -14.0 / 16)));
  // An operator's base is for full layers alone.
  engine::rope_overrides base;
  base.freq_base = 500'000.0;
  const auto other = load(w, 0, base);
  BOOST_TEST(other->model.spec.layers[1].rope.base == 500'000.0);
  BOOST_TEST(other->model.spec.layers[0].rope.base == 1e4);
}

BOOST_AUTO_TEST_CASE(the_last_layers_read_the_last_cache_of_their_kind) {
  const auto l = load(gemma4(shared));
  const auto& layers = l->model.spec.layers;
  for (std::uint32_t i = 0; i < 4; ++i) {
    BOOST_TEST(layers[i].reads_other_cache == (i >= 2));
    BOOST_TEST(layers[i].kv_source == i % 2);
    BOOST_TEST(layers[i].cached_heads() == (i < 2 ? 2U : 0U));
  }
  BOOST_TEST(layers[2].qkv_rows() == layers[2].q_rows());
  BOOST_TEST(!layers[3].values_from_keys);
  BOOST_TEST(l->model.spec.kv_bytes_per_token() == 2U * 2U * 2U * (16U + 32U));
  BOOST_TEST(engine::kv_bytes_read(l->model.spec, 4) == 2U * 4U * 2U * 2U * 2U * (16U + 32U));
  // Owners may end on any kind: layers 2 and 3 are windowed, and the last full owner is layer 1.
  gemma4_options odd{
      .windowed = {true, false, true, true, false, true}, .shared = 2, .values_are_keys = false};
  const auto other = load(gemma4(odd));
  BOOST_TEST(other->model.spec.layers[4].kv_source == 1U);
  BOOST_TEST(other->model.spec.layers[5].kv_source == 3U);
}

// Published checkpoints have matrices of K and V for readers, too.
BOOST_AUTO_TEST_CASE(keys_and_values_of_readers_are_left) {
  gguf_writer w = gemma4(shared);
  for (const char* name : {"blk.2.attn_k.weight", "blk.2.attn_v.weight"}) w = with_tensor(w, name, {32, 32});
  w = with_tensor(w, "blk.2.attn_k_norm.weight", {16});
  const auto l = load(w);
  const engine::layer_weights& reader = l->model.weights.layers[2];
  BOOST_TEST((!reader.attn_k && !reader.attn_v && !reader.attn_k_norm));
  BOOST_TEST(engine::payload_bytes(l->model.weights) ==
             engine::payload_bytes(load(gemma4(shared))->model.weights));
}

BOOST_AUTO_TEST_CASE(shared_caches_that_cannot_be) {
  expect_refused(with_key(gemma4(shared), "attention.shared_kv_layers", 4U), {"shared_kv_layers' is 4"});
  // The first layer alone has a cache, and is windowed.
  expect_refused(gemma4({.shared = 3, .values_are_keys = false}),
                 {"shared_kv_layers' is 3", "layer 1 has no layer before those", "none of them is full",
                  "layer 3 has no layer"});
  expect_refused(gemma4({.windowed = {false, false, true}, .shared = 1}), {"none of them is windowed"});
  expect_refused(with_key(gemma4(shared), "attention.head_count_kv", std::vector<std::int32_t>{2, 2, 1, 2}),
                 {"layer 2 reads the cache of layer 0, but has 1 key-value heads for its 2"});
  expect_refused(without(gemma4(shared), "blk.1.attn_k_norm.weight"),
                 {"'blk.1.attn_k_norm.weight' is missing"});
  expect_refused(without(gemma4(shared), "blk.2.attn_q.weight"), {"'blk.2.attn_q.weight' is missing"});
}

BOOST_AUTO_TEST_CASE(experts_beside_a_dense_part) {
  for (const bool fused : {true, false}) {
    const auto l = load(gemma4({.experts = 4, .fused_experts = fused}));
    const engine::model_spec& spec = l->model.spec;
    BOOST_TEST(spec.dense_and_experts);
    BOOST_TEST(spec.router_norm);
    BOOST_TEST((spec.routing == engine::router_weighting::softmax_all_renormalised));
    const engine::layer_spec& layer = spec.layers[1];
    BOOST_TEST((layer.ffn == engine::ffn_kind::moe));
    BOOST_TEST(layer.ffn_size == 64U);
    BOOST_TEST(layer.expert_size == 24U);
    BOOST_TEST(layer.width_of_expert() == 24U);
    const engine::layer_weights& weights = l->model.weights.layers[1];
    BOOST_TEST(static_cast<bool>(weights.expert_gate_up) == fused);
    BOOST_TEST(static_cast<bool>(weights.expert_gate) == !fused);
    BOOST_TEST(static_cast<bool>(weights.ffn_gate));
    BOOST_TEST(static_cast<bool>(weights.expert_scale));
    BOOST_TEST((weights.ffn_norm_2 && weights.ffn_post_norm_1 && weights.ffn_post_norm_2));
  }
  BOOST_TEST(!load(without(without(gemma4(with_experts), "blk.0.ffn_down_exps.scale"),
                           "blk.0.layer_output_scale.weight"))
                  ->model.weights.layers[0]
                  .expert_scale);
}

// The root of the width is in the weights; scales beside the router and the experts are no factors of theirs.
BOOST_AUTO_TEST_CASE(scales_of_routers_and_experts) {
  const gguf_writer w = gemma4(with_experts);
  const auto l = load(w);
  const engine::layer_weights& layer = l->model.weights.layers[2];
  const auto file = engine::gguf_file::parse(l->image, "tiny").value();
  const auto* const stored = file.find_tensor("blk.2.ffn_gate_inp.scale");
  float first = 0.0F, used = 0.0F;
  std::memcpy(&first, stored->data, sizeof first);
  std::memcpy(&used, layer.router_norm.data, sizeof used);
  BOOST_TEST(used == static_cast<float>(first / std::sqrt(32.0)));
  BOOST_TEST(layer.router.factor == 1.0F);
  BOOST_TEST(layer.expert_down.factor == 1.0F);
  BOOST_TEST(layer.expert_down.factors == nullptr);
  expect_refused(with_tensor(w, "blk.0.ffn_gate_inp.scale", {1}),
                 {"'blk.0.ffn_gate_inp.scale' has shape [1]"});
  expect_refused(with_tensor(w, "blk.0.ffn_down_exps.scale", {3}),
                 {"'blk.0.ffn_down_exps.scale' has shape [3]"});
  expect_refused(without(w, "blk.3.ffn_gate_inp.scale"), {"'blk.3.ffn_gate_inp.scale' is missing"});
  expect_refused(with_tensor(gemma4(), "blk.0.ffn_gate.scale", {1}),
                 {"'blk.0.ffn_gate.scale' is not part of"});
  expect_refused(with_tensor(gemma4(), "blk.0.ffn_gate_inp.scale", {32}),
                 {"'blk.0.ffn_gate_inp.scale' is not part of"});
}

// In NVFP4 a scale beside a stack is a factor of it elsewhere; here it multiplies the experts' weights once.
BOOST_AUTO_TEST_CASE(a_scale_beside_experts_in_nvfp4) {
  gguf_writer w = gemma4(with_experts);
  written_tensor& down = *w.find_tensor("blk.1.ffn_down_exps.weight");
  w.remove("gemma4.expert_feed_forward_length");
  w.add("gemma4.expert_feed_forward_length", std::uint32_t{64});
  const auto& nvfp4 = engine::traits_of(ggml_type::nvfp4);
  down.extents = {64, 32, 4};
  down.type = static_cast<std::uint32_t>(ggml_type::nvfp4);
  down.data = bytes(engine::row_bytes(nvfp4, 64) * 32 * 4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::string p = "blk." + std::to_string(i) + ".";
    w = with_tensor(w, p + "ffn_gate_up_exps.weight", {32, 128, 4});
    if (i != 1) w = with_tensor(w, p + "ffn_down_exps.weight", {64, 32, 4});
  }
  const auto l = load(w);
  BOOST_TEST(l->model.weights.layers[1].expert_down.factors == nullptr);
  BOOST_TEST(static_cast<bool>(l->model.weights.layers[1].expert_scale));
}

BOOST_AUTO_TEST_CASE(experts_that_lack_something) {
  const gguf_writer w = gemma4(with_experts);
  for (const char* name : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2", "ffn_gate_inp", "ffn_gate",
                           "ffn_down_exps"}) {
    const std::string tensor = "blk.2." + std::string(name) + ".weight";
    expect_refused(without(w, tensor), {"'" + tensor + "' is missing"});
  }
  expect_refused(without(w, "blk.2.ffn_gate_up_exps.weight"),
                 {"'blk.2.ffn_gate_exps.weight' is missing, and there is no ffn_gate_up_exps.weight either",
                  "'blk.2.ffn_up_exps.weight' is missing"});
  expect_refused(with_tensor(w, "blk.0.ffn_gate_up_exps.weight", {32, 24, 4}), {"make it [32, 48, 4]"});
  gguf_writer none = w;
  none.remove("gemma4.expert_feed_forward_length");
  expect_refused(none, {"'gemma4.expert_feed_forward_length' is missing"});
  expect_refused(with_key(w, "expert_used_count", 5U), {"expert_used_count' is 5"});
}

BOOST_AUTO_TEST_CASE(inputs_of_layers) {
  const auto l = load(gemma4(with_inputs));
  BOOST_TEST(l->model.spec.layer_inputs == 8U);
  const engine::model_weights& weights = l->model.weights;
  BOOST_TEST(weights.layer_input_embd.cols() == 32U);
  BOOST_TEST((weights.layer_input_proj && weights.layer_input_norm));
  BOOST_TEST((weights.layers[3].layer_input_gate && weights.layers[3].layer_input_proj &&
              weights.layers[3].layer_input_norm));
  // One row of the table is read for a token.
  const std::uint64_t all = engine::payload_bytes(weights);
  BOOST_TEST(engine::bytes_read_per_token(l->model) == all - weights.layer_input_embd.bytes);
}

BOOST_AUTO_TEST_CASE(inputs_of_layers_that_do_not_fit) {
  const gguf_writer w = gemma4(with_inputs);
  expect_refused(with_tensor(w, "per_layer_token_embd.weight", {24, 40}),
                 {"'per_layer_token_embd.weight' has shape [24, 40]", "[32, 40]"});
  expect_refused(with_key(w, "embedding_length_per_layer_input", 4U),
                 {"'per_layer_token_embd.weight' has shape [32, 40]",
                  "'per_layer_model_proj.weight' has shape", "'per_layer_proj_norm.weight' has shape [8]",
                  "'blk.0.inp_gate.weight' has shape", "'blk.3.proj.weight' has shape"});
  expect_refused(with_key(w, "embedding_length_per_layer_input", 0U),
                 {"'per_layer_token_embd.weight' is not part of", "'blk.1.post_norm.weight' is not part of"});
  expect_refused(without(w, "per_layer_proj_norm.weight"), {"'per_layer_proj_norm.weight' is missing"});
  expect_refused(without(w, "blk.1.inp_gate.weight"), {"'blk.1.inp_gate.weight' is missing"});
}

BOOST_AUTO_TEST_CASE(keys_that_are_wrong) {
  const gguf_writer w = gemma4();
  const auto refused = [&](const std::string& name, const auto& value,
                           std::initializer_list<std::string_view> parts) {
    expect_refused(with_key(w, name, value), parts);
  };
  refused("attention.sliding_window_pattern", std::vector<std::uint8_t>{1, 0, 1},
          {"sliding_window_pattern' has 3 values for 4 layers"});
  refused("attention.sliding_window_pattern", std::vector<std::uint8_t>{1, 0, 1, 2},
          {"sliding_window_pattern' is 2"});
  refused("attention.head_count_kv", std::vector<std::int32_t>{2, 2}, {"head_count_kv' has 2 values"});
  refused("attention.head_count_kv", std::vector<std::int32_t>{2, 3, 2, 2}, {"4 heads on 3"});
  refused("feed_forward_length", std::vector<std::int32_t>{64, 64, 64, 64, 64},
          {"has 5 values for 4 layers"});
  refused("attention.sliding_window", 0U, {"sliding_window' is 0", "1 to 256"});
  refused("attention.sliding_window", 257U, {"sliding_window' is 257", "1 to 256"});
  refused("attention.key_length_swa", 15U, {"key_length_swa' is 15; it must be even"});
  refused("attention.key_length_swa", 642U, {"key_length_swa' is 642"});
  refused("attention.value_length", 16U,
          {"'blk.1.attn_v.weight' is missing, so that values are keys",
           "keys have 32 values a head and values 16"});
  refused("rope.dimension_count_swa", 18U, {"dimension_count_swa' is 18"});
  refused("final_logit_softcapping", 0.0F, {"final_logit_softcapping"});
  refused("attention.shared_kv_layers", std::vector<std::uint32_t>{1, 1, 1, 1}, {"shared_kv_layers"});
  gguf_writer none = w;
  none.remove("gemma4.attention.sliding_window_pattern");
  none.remove("gemma4.attention.sliding_window");
  expect_refused(none, {"2 problems", "sliding_window_pattern' is missing", "sliding_window' is missing"});
  expect_refused(without(w, "rope_freqs.weight"), {"'rope_freqs.weight' is missing: it says which pairs"});
  expect_refused(with_tensor(w, "rope_freqs.weight", {8}), {"'rope_freqs.weight' has shape [8]", "[16]"});
  // All layers are windowed: none rotates by factors.
  load(without(gemma4({.windowed = {true, true}}), "rope_freqs.weight"));
}

BOOST_AUTO_TEST_CASE(tensors_that_are_wrong) {
  const gguf_writer w = gemma4();
  expect_refused(
      with_tensor(without(w, "blk.1.attn_k.weight"), "blk.0.attn_q.weight", {32, 128}),
      {"2 problems", "'blk.1.attn_k.weight' is missing", "'blk.0.attn_q.weight' has shape [32, 128]"});
  expect_refused(with_tensor(w, "blk.0.layer_output_scale.weight", {2}),
                 {"'blk.0.layer_output_scale.weight' has shape [2]; the hyperparameters make it [1]"});
  expect_refused(with_tensor(w, "blk.0.attn_q_norm.weight", {32}),
                 {"'blk.0.attn_q_norm.weight' has shape [32]"});
  expect_refused(without(w, "blk.3.post_ffw_norm.weight"), {"'blk.3.post_ffw_norm.weight' is missing"});
  expect_refused(with_tensor(w, "blk.0.ffn_gate_inp.weight", {32, 4}),
                 {"'blk.0.ffn_gate_inp.weight' is not part"});
}

// Files of some tools hold the parts for pictures and sound, too.
BOOST_AUTO_TEST_CASE(tensors_of_images_and_sound_are_left) {
  gguf_writer w = gemma4();
  for (const char* name : {"v.blk.0.attn_q.weight", "a.blk.0.ffn_up.weight", "mm.input_projection.weight"})
    w = with_tensor(w, name, {8, 8});
  const auto l = load(w);
  BOOST_TEST(engine::payload_bytes(l->model.weights) == engine::payload_bytes(load(gemma4())->model.weights));
  expect_refused(with_tensor(tiny("llama"), "v.blk.0.attn_q.weight", {8, 8}),
                 {"'v.blk.0.attn_q.weight' is not part"});
}

BOOST_AUTO_TEST_CASE(relatives_are_refused_by_name) {
  for (const char* name : {"gemma4-assistant", "gemma4_assistant", "gemma4_unified_assistant"}) {
    gguf_writer w = gemma4();
    w.remove("general.architecture");
    w.add("general.architecture", name);
    expect_refused(w, {"drafts tokens for a Gemma 4 model", "no model of its own"});
  }
  expect_refused(tiny_with("llama", "general.architecture", "gemma3n"),
                 {"'gemma3n' has four streams", "is not supported; Gemma 3 and Gemma 4 are"});
}

BOOST_AUTO_TEST_SUITE_END()
