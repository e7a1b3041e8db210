// Which models the decode program may take, and what no CUDA kernel takes.
#include "gpu/plan/model_support.hpp"

#include <boost/test/unit_test.hpp>
#include <functional>

using namespace orcd;
using engine::model_spec;

namespace {

model_spec plain() {
  model_spec spec;
  spec.layers.resize(2);
  for (engine::layer_spec& layer : spec.layers) {
    layer.key_length = layer.value_length = 64;
    layer.ffn_size = 96;
  }
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_support)

BOOST_AUTO_TEST_CASE(each_feature_takes_a_model_out_of_the_decode_program) {
  BOOST_TEST(gpu::has_plain_layers(plain()));
  using change = std::function<void(model_spec&)>;
  const change changes[] = {
      [](model_spec& s) { s.norm = engine::norm_kind::layer; },
      [](model_spec& s) { s.post_norms = true; },
      [](model_spec& s) { s.parallel_halves = true; },
      [](model_spec& s) { s.wide_head_norms = true; },
      [](model_spec& s) { s.own_head_norms = true; },
      [](model_spec& s) { s.head_norm = engine::norm_kind::layer; },
      [](model_spec& s) { s.attention_softcap = 50.0; },
      [](model_spec& s) { s.query_scale = 0.1; },
      [](model_spec& s) { s.activation = engine::ffn_activation::geglu_tanh; },
      [](model_spec& s) { s.activation = engine::ffn_activation::gelu_tanh; },
      [](model_spec& s) { s.routing = engine::router_weighting::softmax_all; },
      [](model_spec& s) { s.routing = engine::router_weighting::sigmoid; },
      [](model_spec& s) { s.expert_scale = 2.5; },
      [](model_spec& s) { s.expert_groups = 4; },
      [](model_spec& s) { s.biased_choice = true; },
      [](model_spec& s) { s.layers[1].shared_size = 64; },
      [](model_spec& s) { s.layers[1].reads_other_cache = true; },
      [](model_spec& s) { s.layers[1].values_from_keys = true; },
      [](model_spec& s) { s.layers[1].expert_size = 64; },
      [](model_spec& s) { s.value_norm = true; },
      [](model_spec& s) { s.dense_and_experts = true; },
      [](model_spec& s) { s.router_norm = true; },
      [](model_spec& s) { s.output_scales = true; },
      [](model_spec& s) { s.layer_inputs = 8; },
  };
  for (const change& apply : changes) {
    model_spec spec = plain();
    apply(spec);
    BOOST_TEST(!gpu::has_plain_layers(spec));
  }
}

BOOST_AUTO_TEST_CASE(integer_activations_have_layers_of_their_own) {
  model_spec spec = plain();
  BOOST_TEST(!gpu::has_plain_ternary_layers(spec));
  spec.integer_activations = true;
  BOOST_TEST((gpu::has_plain_ternary_layers(spec) && !gpu::has_plain_layers(spec)));
  spec.activation = engine::ffn_activation::relu_squared;
  BOOST_TEST(gpu::has_plain_ternary_layers(spec));
  spec.experts = 4;
  BOOST_TEST(!gpu::has_plain_ternary_layers(spec));
  spec.experts = 0;
  spec.post_norms = true;
  BOOST_TEST(!gpu::has_plain_ternary_layers(spec));
}

BOOST_AUTO_TEST_CASE(what_the_program_has_keeps_a_model_in_it) {
  model_spec spec = plain();
  spec.embedding_scale = 12.0;
  spec.logit_scale = 0.1;
  spec.routing = engine::router_weighting::softmax_selected;
  spec.layers[1].rope.dims = 0;
  BOOST_TEST(gpu::has_plain_layers(spec));
  BOOST_TEST(!gpu::has_plain_head(spec));
  spec.logit_scale = 1.0;
  BOOST_TEST(gpu::has_plain_head(spec));
  spec.logit_softcap = 30.0;
  BOOST_TEST(!gpu::has_plain_head(spec));
}

BOOST_AUTO_TEST_CASE(what_no_kernel_takes_is_refused) {
  BOOST_TEST(gpu::check_cuda_support(plain()).has_value());
  model_spec wide = plain();
  wide.layers[1].key_length = wide.layers[1].value_length = 514;
  BOOST_TEST(gpu::check_cuda_support(wide).error().message.find("up to 512") != std::string::npos);
  wide.layers[1].key_length = wide.layers[1].value_length = 512;
  BOOST_TEST(gpu::check_cuda_support(wide).has_value());
  model_spec unequal = plain();
  unequal.layers[1].value_length = 32;
  BOOST_TEST(!gpu::check_cuda_support(unequal));
  model_spec latent = plain();
  latent.latent = {.rank = 64, .key_length = 48, .value_length = 32, .rotated = 16};
  BOOST_TEST(gpu::check_cuda_support(latent).has_value());
  BOOST_TEST(!gpu::has_plain_layers(latent));
  latent.latent.rank = 72;
  BOOST_TEST(gpu::check_cuda_support(latent).error().message.find("a rank of 72") != std::string::npos);
  latent.latent.rank = 64;
  latent.latent.rotated = 66;
  BOOST_TEST(gpu::check_cuda_support(latent).error().message.find("rotated part of 66") != std::string::npos);
  latent.latent.rotated = 16;
  latent.causal = false;
  BOOST_TEST(gpu::check_cuda_support(latent).error().message.find("causal alone") != std::string::npos);
  latent.causal = true;
  for (engine::layer_spec& layer : latent.layers) layer.heads = 513;
  BOOST_TEST(gpu::check_cuda_support(latent).error().message.find("513 heads") != std::string::npos);
  for (engine::layer_spec& layer : latent.layers) layer.heads = 512;
  BOOST_TEST(gpu::check_cuda_support(latent).has_value());
  latent.layers[1].heads += 1;
  BOOST_TEST(gpu::check_cuda_support(latent).error().message.find("differ in heads") != std::string::npos);
  model_spec squared = plain();
  squared.activation = engine::ffn_activation::relu_squared;
  BOOST_TEST(gpu::check_cuda_support(squared).error().param == "ffn-activation");
  model_spec mixed = plain();
  mixed.layers[1].ffn_size = 128;
  BOOST_TEST(gpu::check_cuda_support(mixed).error().message.find("one of 96 values") != std::string::npos);
  mixed.layers[0].ffn_size = 64;
  BOOST_TEST(gpu::check_cuda_support(mixed).has_value());
}

BOOST_AUTO_TEST_CASE(states_have_keys_that_a_kernel_takes) {
  model_spec hybrid = plain();
  hybrid.layers[1].mixer = engine::mixer_kind::delta_net;
  hybrid.recurrence.value_heads = hybrid.recurrence.key_heads = 2;
  hybrid.recurrence.value_length = 16;
  for (const auto& [length, taken] : {std::pair{128U, true}, {256U, true}, {260U, false}, {18U, false}}) {
    hybrid.recurrence.key_length = length;
    const auto checked = gpu::check_cuda_support(hybrid);
    BOOST_TEST(checked.has_value() == taken);
    if (!taken)
      BOOST_TEST(checked.error().message.find("keys of " + std::to_string(length)) != std::string::npos);
  }
  hybrid.layers[1].mixer = engine::mixer_kind::short_conv;
  BOOST_TEST(gpu::check_cuda_support(hybrid).has_value());
  BOOST_TEST(!gpu::has_plain_layers(hybrid));
  BOOST_TEST(!gpu::program_fits(hybrid));
}

// Each kind of feed-forward has a buffer of its own, so that only widths of one kind must be alike.
BOOST_AUTO_TEST_CASE(experts_and_dense_layers_may_have_different_widths) {
  model_spec both = plain();
  both.experts = 4;
  both.experts_used = 2;
  both.layers[1].ffn = engine::ffn_kind::moe;
  BOOST_TEST(!gpu::has_experts_apart(both));
  both.layers[1].ffn_size = 32;
  BOOST_TEST(gpu::has_experts_apart(both));
  BOOST_TEST(gpu::check_cuda_support(both).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
