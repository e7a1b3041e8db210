// Families whose layers keep a state or rows of a convolution: what their keys and tensors make of the spec,
// and files that are wrong.
#include <cmath>
#include <limits>

#include "engine/model/model_tensors.hpp"
#include "test/unit/model/images.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::ffn_kind;
using engine::head_sharing;
using engine::mixer_kind;
using engine::router_weighting;

namespace {

std::vector<mixer_kind> mixers_of(const engine::model_spec& spec) {
  std::vector<mixer_kind> out;
  for (const engine::layer_spec& layer : spec.layers) out.push_back(layer.mixer);
  return out;
}

constexpr auto attends = mixer_kind::attention;
constexpr auto delta = mixer_kind::delta_net;
constexpr auto mamba = mixer_kind::mamba2;
constexpr auto conv = mixer_kind::short_conv;
constexpr auto none = mixer_kind::none;

}  // namespace

BOOST_AUTO_TEST_SUITE(hybrid_models)

BOOST_AUTO_TEST_CASE(layers_of_qwen35_by_an_array_or_an_interval) {
  const auto l = load_named("qwen35");
  const engine::model_spec& spec = l->model.spec;
  BOOST_TEST((mixers_of(spec) == std::vector{delta, delta, attends}));
  BOOST_TEST(spec.is_recurrent());
  const engine::recurrent_spec& of = spec.recurrence;
  BOOST_TEST(of.conv_kernel == 4U);
  BOOST_TEST(of.key_heads == 2U);
  BOOST_TEST(of.value_heads == 4U);
  BOOST_TEST(of.key_length == 32U);
  BOOST_TEST(of.value_length == 32U);
  BOOST_TEST((of.sharing == head_sharing::in_turn));
  BOOST_TEST(of.key_head_of(3) == 1U);
  BOOST_TEST(of.key_head_of(2) == 0U);
  BOOST_TEST(of.norm_groups == 4U);
  BOOST_TEST(!of.own_norm_weights);
  BOOST_TEST(of.conv_channels(delta) == 256U);
  BOOST_TEST(of.state_values(delta) == 4U * 32 * 32);
  BOOST_TEST(spec.layers[0].heads == 0U);
  BOOST_TEST(spec.layers[0].cached_heads() == 0U);
  BOOST_TEST(spec.layers[2].query_gate);
  BOOST_TEST(spec.layers[2].rope.dims == 16U);
  BOOST_TEST(spec.kv_bytes_per_token() == 2U * 64 * 2);
  BOOST_TEST(l->model.weights.layers[2].attn_q.rows() == 2U * 2 * 64);
  BOOST_TEST(
      (mixers_of(load_named("qwen35-one")->model.spec) == std::vector{delta, attends, delta, attends}));
  // Every tensor is one that somebody reads.
  std::size_t tensors = 0;
  engine::for_each_tensor(l->model.weights, [&](const engine::tensor_view&) { ++tensors; });
  BOOST_TEST(tensors == l->file.tensors().size());
}

BOOST_AUTO_TEST_CASE(experts_and_predicting_layers_of_qwen35moe) {
  const auto l = load_named("qwen35moe");
  const engine::model_spec& spec = l->model.spec;
  BOOST_TEST((mixers_of(spec) == std::vector{delta, attends}));
  BOOST_TEST(spec.predicting_layers == 1U);
  BOOST_TEST((spec.routing == router_weighting::softmax_all_renormalised));
  BOOST_TEST(spec.shared_gate);
  BOOST_TEST(spec.layers[1].shared_size == 64U);
  BOOST_TEST(static_cast<bool>(l->model.weights.layers[0].expert_gate_up));
  BOOST_TEST(static_cast<bool>(l->model.weights.layers[0].shared_router));
  BOOST_TEST(load_named("qwen35")->model.spec.predicting_layers == 0U);
}

BOOST_AUTO_TEST_CASE(heads_of_qwen3next_are_in_the_order_of_the_original) {
  const auto l = load_named("qwen3next-four");
  const engine::recurrent_spec& of = l->model.spec.recurrence;
  BOOST_TEST((of.sharing == head_sharing::neighbours));
  BOOST_TEST(of.key_head_of(3) == 0U);
  BOOST_TEST(of.key_head_of(4) == 1U);
  BOOST_TEST(of.joint_beta_decay);
  BOOST_TEST(of.conv_kernel == 3U);
  BOOST_TEST(static_cast<bool>(l->model.weights.layers[0].mix_beta_decay));
  BOOST_TEST(!l->model.weights.layers[0].mix_beta);
}

BOOST_AUTO_TEST_CASE(layers_without_key_value_heads) {
  const auto liquid = load_named("lfm2moe");
  BOOST_TEST((mixers_of(liquid->model.spec) == std::vector{conv, attends, conv}));
  BOOST_TEST(liquid->model.spec.recurrence.conv_kernel == 4U);
  BOOST_TEST(liquid->model.spec.recurrence.conv_channels(conv) == 32U);
  BOOST_TEST(liquid->model.spec.recurrence.state_values(conv) == 0U);
  BOOST_TEST((liquid->model.spec.layers[0].ffn == ffn_kind::dense));
  BOOST_TEST((liquid->model.spec.routing == router_weighting::sigmoid_renormalised));
  BOOST_TEST(liquid->model.spec.biased_choice);
  BOOST_TEST(liquid->model.weights.output_norm.name == "token_embd_norm.weight");
  const auto granite = load_named("granitehybrid");
  const engine::model_spec& spec = granite->model.spec;
  BOOST_TEST((mixers_of(spec) == std::vector{mamba, attends, mamba}));
  BOOST_TEST(spec.recurrence.norm_groups == 2U);
  BOOST_TEST(spec.recurrence.own_norm_weights);
  BOOST_TEST(std::abs(spec.recurrence.norm_eps - 1e-2) < 1e-8);
  BOOST_TEST(std::abs(spec.rms_eps - 1e-2 / 0.49) < 1e-6);
  BOOST_TEST(spec.layers[1].rope.dims == 0U);
  BOOST_TEST(load_named("granitehybrid-dense")->model.spec.layers[2].rope.dims == 16U);
}

BOOST_AUTO_TEST_CASE(layers_of_nemotron_are_one_thing_each) {
  const auto dense = load_named("nemotron_h");
  const engine::model_spec& spec = dense->model.spec;
  BOOST_TEST((mixers_of(spec) == std::vector{mamba, none, attends, mamba, none}));
  BOOST_TEST((spec.layers[0].ffn == ffn_kind::none));
  BOOST_TEST((spec.layers[1].ffn == ffn_kind::dense));
  BOOST_TEST((spec.layers[2].ffn == ffn_kind::none));
  BOOST_TEST((spec.activation == engine::ffn_activation::squared_relu));
  BOOST_TEST(dense->model.weights.layers[1].ffn_norm.name == "blk.1.attn_norm.weight");
  BOOST_TEST(!dense->model.weights.layers[1].attn_norm);
  BOOST_TEST(spec.layers[2].rope.dims == 0U);
  BOOST_TEST(std::abs(spec.rms_eps - 1e-2) < 1e-8);
  const auto experts = load_named("nemotron_h_moe");
  BOOST_TEST((experts->model.spec.routing == router_weighting::sigmoid_renormalised));
  BOOST_TEST(std::abs(experts->model.spec.expert_scale - 2.5) < 1e-6);
  BOOST_TEST(experts->model.spec.layers[1].shared_size == 64U);
}

BOOST_AUTO_TEST_CASE(wrong_keys_are_named_with_their_values_and_limits) {
  const bytes image = image_of("qwen35-one");
  const auto expect = [&](const char* key, std::uint32_t value, const char* why) {
    expect_image_refused(with_value(image, "qwen35." + std::string(key), value), why);
  };
  expect("full_attention_interval", 0U, "full_attention_interval' is 0; it must be 1 to 512");
  expect("full_attention_interval", 9U, "no layer has attention");
  expect("ssm.inner_size", 95U,
         "ssm.inner_size' is 95; ssm.time_step_rank 2 times ssm.state_size 48 makes it 96");
  expect("ssm.group_count", 0U, "ssm.group_count' is 0; it must be 1 to 1024");
  expect("ssm.group_count", 4U, "ssm.group_count' is 4; it must divide 'ssm.time_step_rank', 2");
  expect("ssm.conv_kernel", 0U, "ssm.conv_kernel' is 0; it must be 1 to 8");
  expect("ssm.conv_kernel", 9U, "ssm.conv_kernel' is 9; it must be 1 to 8");
  expect("ssm.conv_kernel", 5U,
         "'blk.0.ssm_conv1d.weight' has shape [4, 288]; the hyperparameters make it [5");
  expect("ssm.state_size", 641U, "ssm.state_size' is 641; it must be 1 to 640");
  expect_image_refused(without(image, "qwen35.ssm.state_size"), "qwen35.ssm.state_size");
  expect_image_refused(without(image, "blk.0.ssm_out.weight"), "'blk.0.ssm_out.weight' is missing");
  expect_image_refused(without(image, "blk.0.ssm_a"), "'blk.0.ssm_a' is missing");
  expect_image_refused(with_entry(image, "qwen35.rope.dimension_sections", 2, 3),
                       "must be three numbers, with a 0 behind them or without, that add up to the 8 pairs "
                       "of a head that rotate");
  const bytes array = image_of("qwen35");
  expect_image_refused(with_value(array, "qwen35.block_count", 2U),
                       "recurrent_layers' has 3 values for 2 layers");
  expect_image_refused(with_entry(array, "qwen35.attention.recurrent_layers", 2, true),
                       "no layer has attention");
  expect_image_refused(with_entry(array, "qwen35.attention.recurrent_layers", 0, false),
                       "'blk.0.attn_q.weight' is missing");
}

BOOST_AUTO_TEST_CASE(wrong_keys_of_other_families) {
  const bytes liquid = image_of("lfm2");
  expect_image_refused(with_value(liquid, "lfm2.shortconv.l_cache", 1U),
                       "shortconv.l_cache' is 1; it must be 2 to 8");
  expect_image_refused(without(liquid, "lfm2.shortconv.l_cache"), "lfm2.shortconv.l_cache");
  expect_image_refused(without(liquid, "blk.0.shortconv.conv.weight"),
                       "'blk.0.shortconv.conv.weight' is missing");
  expect_image_refused(without(liquid, "token_embd_norm.weight"), "'token_embd_norm.weight' is missing");
  const bytes granite = image_of("granitehybrid");
  expect_image_refused(with_value(granite, "granitehybrid.ssm.time_step_rank", 3U),
                       "ssm.time_step_rank' is 3; it must divide 'ssm.inner_size', 64");
  const bytes nemotron = image_of("nemotron_h");
  expect_image_refused(with_value(nemotron, "nemotron_h.ssm.group_count", 3U),
                       "ssm.group_count' is 3; it must divide 'ssm.time_step_rank', 8");
  expect_image_refused(
      with_entry(nemotron, "nemotron_h.feed_forward_length", 2, 64),
      "layer 2 has key-value heads and a feed-forward of 64 values; it can have one of them");
  expect_image_refused(with_key(nemotron, "nemotron_h.moe_latent_size", 16), "moe_latent_size' is set");
}

BOOST_AUTO_TEST_CASE(states_must_shrink_and_gates_be_numbers) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const bytes image = image_of("qwen35");
  expect_image_refused(with_number(image, "blk.1.ssm_a", 2, 0.5F),
                       "'blk.1.ssm_a' has the value 0.500000 at index 2; it must be finite and at most 0");
  expect_image_refused(with_number(image, "blk.1.ssm_a", 0, -infinite), "'blk.1.ssm_a' has the value -inf");
  load_image(with_number(image, "blk.1.ssm_a", 2, 0.0F));
  for (const char* tensor : {"blk.0.ssm_dt.bias", "blk.0.ssm_conv1d.weight", "blk.0.ssm_norm.weight"}) {
    expect_image_refused(with_number(image, tensor, 1, NAN),
                         std::string("'") + tensor + "' has the value nan");
    expect_image_refused(with_number(image, tensor, 1, infinite), "it must be finite");
  }
  expect_image_refused(with_number(image_of("nemotron_h"), "blk.0.ssm_d", 3, NAN),
                       "'blk.0.ssm_d' has the value");
}

BOOST_AUTO_TEST_CASE(predicting_layers_alone_are_no_model) {
  const bytes image = image_of("qwen35moe");
  expect_image_refused(with_value(image, "qwen35moe.nextn_predict_layers", 3U),
                       "nextn_predict_layers' is 3; it must be 0 to 2");
  bytes alone = without(image, "blk.0.attn_norm.weight");
  expect_image_refused(alone, "holds the 1 layers alone that predict further tokens");
}

BOOST_AUTO_TEST_CASE(the_first_layout_of_qwen3next_is_refused_by_name) {
  bytes image = image_of("qwen3next");
  constexpr std::string_view now = "blk.0.ssm_ba.weight", old = "blk.0.ssm_in.weight";
  static_assert(now.size() == old.size());
  std::memcpy(image.data() + end_of(image, now) - now.size(), old.data(), old.size());
  expect_image_refused(image, "'blk.0.ssm_in.weight' is of a layout of 2025", "is missing");
}

BOOST_AUTO_TEST_SUITE_END()
