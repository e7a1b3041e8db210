// The families of test/data/families: what their files' keys make of the spec, and wrong values refused.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/model/rope.hpp"
#include "test/unit/model/images.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::router_weighting;

namespace {

constexpr float not_a_number = NAN;

}  // namespace

BOOST_AUTO_TEST_SUITE(more_families)

BOOST_AUTO_TEST_CASE(granite_keeps_a_stream_divided_by_its_multiplier) {
  const auto l = load_named("granite");
  const engine::model_spec& spec = l->model.spec;
  BOOST_TEST(std::abs(spec.embedding_scale - 1.5 / 0.7) < 1e-6);
  BOOST_TEST(std::abs(spec.rms_eps - 1e-2 / 0.49) < 1e-6);
  BOOST_TEST(spec.logit_scale == 0.4);
  BOOST_TEST(spec.attention_scale == 0.5);
  BOOST_TEST(spec.regrouped_heads);
  const bytes image = image_of("granite");
  expect_image_refused(with_value(image, "granite.logit_scale", 0.0F), "granite.logit_scale");
  expect_image_refused(with_value(image, "granite.residual_scale", not_a_number), "granite.residual_scale");
  expect_image_refused(with_value(image, "granite.embedding_scale", -1.0F), "granite.embedding_scale");
}

BOOST_AUTO_TEST_CASE(experts_of_all_tokens) {
  const auto granite = load_named("granitemoe-shared");
  BOOST_TEST(granite->model.spec.layers[1].shared_size == 128U);
  BOOST_TEST(!granite->model.spec.shared_gate);
  BOOST_TEST((granite->model.spec.routing == router_weighting::softmax_selected));
  const auto plain = load_named("granitemoe");
  BOOST_TEST(plain->model.spec.layers[1].shared_size == 0U);
  const auto qwen = load_named("qwen2moe");
  BOOST_TEST(qwen->model.spec.shared_gate);
  BOOST_TEST((qwen->model.spec.routing == router_weighting::softmax_all));
  BOOST_TEST(static_cast<bool>(qwen->model.weights.layers[0].shared_router));
  const bytes image = image_of("qwen2moe");
  expect_image_refused(without(image, "blk.0.ffn_gate_inp_shexp.weight"),
                       "'blk.0.ffn_gate_inp_shexp.weight' is missing");
  expect_image_refused(with_value(image, "qwen2moe.expert_shared_feed_forward_length", 64U),
                       "'blk.0.ffn_up_shexp.weight' has shape [32, 128]");
  expect_image_refused(with_key(image, "qwen2moe.leading_dense_block_count", 1),
                       "'qwen2moe.leading_dense_block_count' is set");
  expect_image_refused(with_value(image, "qwen2moe.expert_count", 0U), "expert_count' is 0");
  expect_image_refused(with_value(image, "qwen2moe.expert_used_count", 0U), "expert_used_count' is 0");
  expect_image_refused(with_value(image, "qwen2moe.expert_count", 513U), "expert_count' is 513");
}

BOOST_AUTO_TEST_CASE(layers_that_do_not_rotate) {
  const auto smollm = load_named("smollm3");
  BOOST_TEST(smollm->model.spec.layers[2].rope.dims == 8U);
  BOOST_TEST(smollm->model.spec.layers[3].rope.dims == 0U);
  const auto exaone = load_named("exaone4-windows");
  BOOST_TEST(exaone->model.spec.layers[0].window == 8U);
  BOOST_TEST(exaone->model.spec.layers[3].window == 0U);
  BOOST_TEST(exaone->model.spec.layers[3].rope.dims == 0U);
  BOOST_TEST(load_named("exaone4")->model.spec.layers[1].rope.dims == 8U);
  expect_image_refused(with_value(image_of("exaone4-windows"), "exaone4.attention.sliding_window", 0U),
                       "sliding_window' is 0");
}

BOOST_AUTO_TEST_CASE(norms_of_what_halves_give) {
  const auto olmo = load_named("olmo3");
  const engine::model_spec& spec = olmo->model.spec;
  BOOST_TEST(spec.post_norms);
  BOOST_TEST(spec.wide_head_norms);
  BOOST_TEST(!olmo->model.weights.layers[0].attn_norm);
  BOOST_TEST(olmo->model.weights.layers[0].attn_k_norm.elements() == 16U);
  BOOST_TEST((spec.layers[0].rope.scaling == engine::rope_scaling::none));
  BOOST_TEST((spec.layers[3].rope.scaling == engine::rope_scaling::yarn));
  expect_image_refused(without(image_of("olmo2"), "blk.1.post_ffw_norm.weight"),
                       "'blk.1.post_ffw_norm.weight' is missing");
}

BOOST_AUTO_TEST_CASE(overrides_leave_layers_with_a_rotation_of_their_own_alone) {
  const bytes image = image_of("gemma3");
  const auto file = engine::gguf_file::parse(image, "tiny.gguf");
  engine::rope_overrides rope;
  rope.freq_base = 5e5;
  const auto model = engine::load_model(*file, 0, rope);
  BOOST_REQUIRE(model.has_value());
  BOOST_TEST(model->spec.layers[0].rope.base == 100.0);
  BOOST_TEST(model->spec.layers[5].rope.base == 5e5);
  BOOST_TEST(model->spec.layers[0].rope.factor == 1.0);
  BOOST_TEST(model->spec.layers[5].rope.factor == 8.0);
}

BOOST_AUTO_TEST_CASE(gemma) {
  const auto two = load_named("gemma2");
  const engine::model_spec& spec = two->model.spec;
  BOOST_TEST(spec.attention_softcap == 3.0);
  BOOST_TEST(spec.logit_softcap == 5.0);
  BOOST_TEST(spec.embedding_scale == std::sqrt(32.0));
  BOOST_TEST((spec.activation == engine::ffn_activation::geglu_tanh));
  BOOST_TEST(spec.layers[0].window == 8U);
  BOOST_TEST(spec.layers[1].window == 0U);
  const bytes image = image_of("gemma2");
  expect_image_refused(with_value(image, "gemma2.attn_logit_softcapping", 0.0F), "attn_logit_softcapping");
  expect_image_refused(with_value(image, "gemma2.final_logit_softcapping", not_a_number),
                       "final_logit_softcapping");
  // Without the keys, the caps are those that all models of the family have.
  const auto usual =
      load_image(without(without(image, "gemma2.attn_logit_softcapping"), "gemma2.final_logit_softcapping"));
  BOOST_TEST(usual->model.spec.attention_softcap == 50.0);
  BOOST_TEST(usual->model.spec.logit_softcap == 30.0);
  const auto whole = load_image(without(image_of("gemma3"), "gemma3.attention.sliding_window"));
  BOOST_TEST(whole->model.spec.layers[0].window == 0U);
  BOOST_TEST(whole->model.spec.layers[0].rope.base == 10'000.0);
  BOOST_TEST(whole->model.spec.layers[0].rope.factor == 8.0);
  const auto usual_base = load_image(without(image_of("gemma3"), "gemma3.rope.freq_base_swa"));
  BOOST_TEST(usual_base->model.spec.layers[0].rope.base == 10'000.0);
  BOOST_TEST(usual_base->model.spec.layers[0].rope.factor == 1.0);
  const auto three = load_named("gemma3");
  BOOST_TEST(three->model.spec.logit_softcap == 0.0);
  BOOST_TEST(three->model.spec.layers[4].window == 8U);
  BOOST_TEST(three->model.spec.layers[5].window == 0U);
}

BOOST_AUTO_TEST_CASE(parallel_halves_and_layer_norms) {
  const auto command = load_named("command-r");
  BOOST_TEST(command->model.spec.parallel_halves);
  BOOST_TEST((command->model.spec.norm == engine::norm_kind::layer));
  BOOST_TEST(command->model.spec.logit_scale == 0.25);
  BOOST_TEST(!command->model.spec.regrouped_heads);
  BOOST_TEST(!command->model.weights.layers[0].ffn_norm);
  expect_image_refused(with_value(image_of("command-r"), "command-r.logit_scale", 0.0F),
                       "command-r.logit_scale");
  const auto plus = load_named("command-r-plus");
  BOOST_TEST((plus->model.spec.head_norm == engine::norm_kind::layer));
  BOOST_TEST(plus->model.spec.own_head_norms);
  BOOST_TEST(plus->model.weights.layers[1].attn_q_norm.elements() == 64U);
  BOOST_TEST(plus->model.weights.layers[1].attn_k_norm.elements() == 16U);
  const auto star = load_named("starcoder2");
  BOOST_TEST(static_cast<bool>(star->model.weights.output_norm_bias));
  BOOST_TEST((star->model.spec.activation == engine::ffn_activation::gelu_tanh));
  expect_image_refused(without(image_of("starcoder2"), "blk.0.attn_norm.bias"),
                       "'blk.0.attn_norm.bias' is missing");
}

BOOST_AUTO_TEST_CASE(queries_that_grow) {
  const auto l = load_named("mistral3");
  const engine::model_spec& spec = l->model.spec;
  BOOST_TEST(spec.query_scale == 0.5);
  BOOST_TEST(spec.query_scale_period == 16U);
  BOOST_TEST(spec.layers[0].rope.log_multiplier == 1.0);
  BOOST_TEST(engine::query_scale_at(spec, 15) == 1.0);
  BOOST_TEST(engine::query_scale_at(spec, 16) == 1.0 + 0.5 * std::log(2.0));
  BOOST_TEST(engine::query_scale_at(spec, 63) == 1.0 + 0.5 * std::log(4.0));
  // The multiplier of 1 takes YaRN's magnitude away.
  BOOST_TEST(engine::make_rope_table(spec.layers[0].rope, {}).magnitude == 1.0F);
  expect_image_refused(with_value(image_of("mistral3"), "mistral3.attention.temperature_scale", -1.0F),
                       "attention.temperature_scale");
}

BOOST_AUTO_TEST_CASE(glm) {
  const auto four = load_named("glm4");
  BOOST_TEST(four->model.spec.post_norms);
  BOOST_TEST(four->model.spec.layers[0].rope.dims == 8U);
  BOOST_TEST(four->model.spec.layers[0].key_length == 16U);
  const auto moe = load_named("glm4moe");
  const engine::model_spec& spec = moe->model.spec;
  BOOST_TEST((spec.layers[0].ffn == engine::ffn_kind::dense));
  BOOST_TEST((spec.layers[1].ffn == engine::ffn_kind::moe));
  BOOST_TEST(spec.layers[0].shared_size == 0U);
  BOOST_TEST(spec.layers[1].shared_size == 64U);
  BOOST_TEST((spec.routing == router_weighting::sigmoid_renormalised));
  BOOST_TEST(spec.expert_scale == 1.5);
  BOOST_TEST(moe->model.weights.layers[1].choice_bias.elements() == 8U);
  const bytes image = image_of("glm4moe");
  expect_image_refused(with_value(image, "glm4moe.expert_gating_func", 1U), "is 1 (softmax)");
  expect_image_refused(with_value(image, "glm4moe.leading_dense_block_count", 4U),
                       "leading_dense_block_count' is 4");
  expect_image_refused(with_value(image, "glm4moe.expert_shared_count", 512U), "has shape [32, 64]");
  expect_image_refused(without(image, "blk.2.ffn_down_shexp.weight"),
                       "'blk.2.ffn_down_shexp.weight' is missing");
}

BOOST_AUTO_TEST_CASE(deepseek_latents) {
  const auto whole = load_named("deepseek2");
  const engine::model_spec& lite = whole->model.spec;
  BOOST_TEST(lite.latent.rank == 64U);
  BOOST_TEST(lite.latent.query_rank == 0U);
  BOOST_TEST(lite.latent.unrotated() == 32U);
  BOOST_TEST(lite.latent.value_length == 32U);
  BOOST_TEST(lite.layers[0].key_length == 80U);
  BOOST_TEST(lite.layers[0].value_length == 64U);
  BOOST_TEST(lite.layers[0].kv_heads == 1U);
  BOOST_TEST(lite.kv_bytes_per_token() == 3U * 80U * 2U);  // no values beside the keys
  BOOST_TEST((lite.routing == router_weighting::softmax_all));
  BOOST_TEST(lite.layers[1].shared_size == 128U);
  const double growth = 1.0 + 0.0707 * std::log(4.0);
  BOOST_TEST(std::abs(lite.attention_scale - growth * growth / std::sqrt(48.0)) < 1e-6);
  BOOST_TEST(engine::make_rope_table(lite.layers[0].rope, {}).magnitude == 1.0F);
  const auto split = load_named("deepseek2-glm");
  BOOST_TEST(split->model.spec.latent.query_rank == 32U);
  BOOST_TEST(split->model.spec.latent.unrotated() == 64U);
  BOOST_TEST(split->model.spec.latent.value_length == 96U);
  BOOST_TEST((split->model.spec.routing == router_weighting::sigmoid_renormalised));
  BOOST_TEST(split->model.spec.expert_scale == 1.8, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(a_scaling_that_an_operator_turns_off_leaves_scores_alone) {
  const bytes image = image_of("deepseek2");
  const auto file = engine::gguf_file::parse(image, "deepseek2").value();
  engine::rope_overrides rope;
  rope.scaling = engine::rope_scaling::none;
  const auto model = engine::load_model(file, 0, rope);
  BOOST_REQUIRE(model);
  BOOST_TEST(std::abs(model->spec.attention_scale - 1.0 / std::sqrt(48.0)) < 1e-9);
}

// Some converters wrote attn_kv_b beside what it is made of.
BOOST_AUTO_TEST_CASE(both_forms_of_latents) {
  bytes image = image_of("deepseek2-glm");
  constexpr std::string_view other = "blk.1.exp_probs_b.bias", joined = "blk.1.attn_kv_b.weight";
  static_assert(other.size() == joined.size());
  std::memcpy(image.data() + end_of(image, other) - other.size(), joined.data(), joined.size());
  const auto both = load_image(std::move(image));
  BOOST_TEST(!both->model.weights.layers[1].attn_kv_b);
  BOOST_TEST(!!both->model.weights.layers[1].attn_k_b);
}

BOOST_AUTO_TEST_CASE(wrong_latents_are_refused) {
  const bytes lite = image_of("deepseek2");
  const auto expect = [](const bytes& image, std::string_view key, std::uint32_t value, const char* why) {
    expect_image_refused(with_value(image, "deepseek2." + std::string(key), value), why);
  };
  expect(lite, "attention.kv_lora_rank", 0U, "kv_lora_rank' is 0");
  expect(lite, "attention.kv_lora_rank", 63U, "kv_lora_rank' is 63; it must be even");
  expect(lite, "attention.kv_lora_rank", 630U, "at most 640 with rope.dimension_count");
  expect(lite, "attention.kv_lora_rank", 62U, "'blk.0.attn_kv_a_mqa.weight' has shape [32, 80]");
  expect(lite, "rope.dimension_count", 48U, "less than the 48 values of a head's query");
  expect_image_refused(without(lite, "deepseek2.attention.kv_lora_rank"), "kv_lora_rank");
  expect_image_refused(without(lite, "blk.1.attn_kv_b.weight"), "'blk.1.attn_kv_b.weight' is missing");
  const bytes split = image_of("deepseek2-glm");
  expect(split, "attention.q_lora_rank", 0U, "q_lora_rank' is 0");
  expect(split, "attention.q_lora_rank", 31U, "'blk.0.attn_q_a.weight' has shape [32, 32]");
  expect(split, "attention.key_length", 50U, "key_length' is 50; kv_lora_rank and rope.dimension_count");
  expect(split, "attention.value_length", 30U, "value_length' is 30; kv_lora_rank make it 32");
  expect(split, "attention.value_length_mla", 95U, "'blk.0.attn_v_b.weight' has shape [32, 96, 5]");
  expect(split, "expert_gating_func", 1U, "and there are exp_probs_b tensors");
  expect_image_refused(without(split, "blk.1.attn_v_b.weight"), "'blk.1.attn_v_b.weight' is missing");
  expect_image_refused(without(split, "blk.1.attn_k_b.weight"), "'blk.1.attn_kv_b.weight' is missing");
}

BOOST_AUTO_TEST_CASE(groups_of_experts) {
  const bytes image = image_of("deepseek2-groups");
  const auto loaded = load_image(image);
  BOOST_TEST(loaded->model.spec.expert_groups == 4U);
  BOOST_TEST(loaded->model.spec.expert_groups_used == 2U);
  BOOST_TEST((loaded->model.spec.expert_group_ranking == engine::group_ranking::two_best));
  BOOST_TEST(loaded->model.spec.biased_choice);
  BOOST_TEST(load_named("deepseek2-glm")->model.spec.expert_groups == 1U);
  const auto expect = [&](const char* key, std::uint32_t value, const char* why) {
    expect_image_refused(with_value(image, "deepseek2." + std::string(key), value), why);
  };
  expect("expert_group_count", 3U, "expert_group_count' is 3; it must part 8 experts into equal groups");
  expect("expert_group_count", 8U, "expert_group_count' is 8; it must part 8 experts into equal groups");
  expect("expert_group_used_count", 5U, "expert_group_used_count' is 5");
  expect("expert_group_used_count", 0U, "expert_group_used_count' is 0");
  expect("expert_group_used_count", 1U, "fewer than the 3 of a token");
  expect("expert_gating_func", 1U, "and there are exp_probs_b tensors");
  expect_image_refused(without(image, "deepseek2.expert_group_used_count"), "expert_group_used_count",
                       "fewer");
  expect_image_refused(with_key(image_of("qwen3moe"), "qwen3moe.expert_group_count", 2),
                       "expert_group_count' is set; it is not supported for this architecture");
  BOOST_TEST(load_image(with_key(image_of("qwen3moe"), "qwen3moe.expert_group_count", 1)));
  const engine::model_spec glm = load_named("glm4moe-groups")->model.spec;
  BOOST_TEST(glm.expert_groups == 4U);
  BOOST_TEST((glm.expert_group_ranking == engine::group_ranking::two_best));
  expect_image_refused(with_value(image_of("glm4moe-groups"), "glm4moe.expert_group_used_count", 1U),
                       "fewer than the 3 of a token");
}

BOOST_AUTO_TEST_CASE(groups_of_a_softmax_router_are_chosen_by_their_best) {
  const engine::model_spec spec = load_named("deepseek2-v2")->model.spec;
  BOOST_TEST((spec.routing == router_weighting::softmax_all));
  BOOST_TEST((spec.expert_group_ranking == engine::group_ranking::best));
  BOOST_TEST(spec.expert_groups == 4U);
  BOOST_TEST(spec.expert_groups_used == 2U);
  BOOST_TEST(spec.expert_scale == 4.0);
  BOOST_TEST(!spec.biased_choice);
}

BOOST_AUTO_TEST_CASE(ernie_with_experts) {
  const auto some = load_named("ernie4_5-moe");
  const engine::model_spec& spec = some->model.spec;
  using enum engine::ffn_kind;
  BOOST_TEST((spec.layers[0].ffn == dense && spec.layers[1].ffn == moe && spec.layers[2].ffn == dense));
  BOOST_TEST(spec.layers[1].shared_size == 128U);
  BOOST_TEST(spec.layers[2].shared_size == 0U);
  BOOST_TEST((spec.routing == router_weighting::softmax_all_renormalised));
  BOOST_TEST(spec.biased_choice);
  BOOST_TEST(!spec.regrouped_heads);
  BOOST_TEST((spec.layers[0].rope.pairing == engine::rope_pairing::interleaved));
  const auto plain = load_named("ernie4_5-moe-plain");
  BOOST_TEST(!plain->model.spec.biased_choice);
  BOOST_TEST((plain->model.spec.layers[0].ffn == dense));
  BOOST_TEST(plain->model.spec.layers[1].shared_size == 0U);
}

BOOST_AUTO_TEST_CASE(wrong_ernie_with_experts_is_refused) {
  const bytes image = image_of("ernie4_5-moe");
  const auto expect = [&](const char* key, std::uint32_t value, const char* why) {
    expect_image_refused(with_value(image, "ernie4_5-moe." + std::string(key), value), why);
  };
  expect("interleave_moe_layer_step", 0U, "interleave_moe_layer_step' is 0");
  expect("interleave_moe_layer_step", 5U, "interleave_moe_layer_step' is 5");
  expect("interleave_moe_layer_step", 1U, "'blk.2.ffn_gate_inp.weight' is missing");
  expect("leading_dense_block_count", 2U, "'blk.1.ffn_gate.weight' is missing");
  expect("expert_shared_feed_forward_length", 32U, "'blk.1.ffn_gate_shexp.weight' has shape [32, 128]");
  expect("expert_count", 0U, "expert_count' is 0; it must be at least 1");
  expect_image_refused(without(image, "blk.1.ffn_down_shexp.weight"),
                       "'blk.1.ffn_down_shexp.weight' is missing");
  expect_image_refused(with_key(image, "ernie4_5-moe.expert_gating_func", 2), "expert_gating_func' is 2");
  expect_image_refused(with_key(image_of("qwen3moe"), "qwen3moe.interleave_moe_layer_step", 2),
                       "interleave_moe_layer_step' is set; it is not supported for this architecture");
}

BOOST_AUTO_TEST_CASE(layers_that_predict_further_tokens_are_left) {
  const bytes image = image_of("glm4moe-norms");
  BOOST_TEST(load_image(image)->model.spec.layers.size() == 3U);
  expect_image_refused(with_value(image, "glm4moe.nextn_predict_layers", 0U),
                       "'blk.3.attn_q.weight' is missing");
  expect_image_refused(with_value(image, "glm4moe.nextn_predict_layers", 4U), "nextn_predict_layers' is 4");
}

BOOST_AUTO_TEST_SUITE_END()
