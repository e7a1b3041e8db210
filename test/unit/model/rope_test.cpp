#include "engine/model/rope.hpp"

#include <cmath>
#include <numbers>

#include "engine/model/rope_config.hpp"
#include "test/unit/model/helpers.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::rope_overrides;
using engine::rope_scaling;
using engine::rope_spec;

namespace {

rope_spec gpt_oss_rope() {
  rope_spec rope;
  rope.dims = 64;
  rope.base = 150'000.0;
  rope.scaling = rope_scaling::yarn;
  rope.factor = 32.0;
  rope.original_context = 4096;
  return rope;
}

double trained(const rope_spec& rope, std::size_t i) {
  return std::pow(rope.base, -2.0 * static_cast<double>(i) / rope.dims);
}

rope_spec rope_of(const gguf_writer& w, std::uint32_t context = 0, const rope_overrides& o = {}) {
  return load(w, context, o)->model.spec.layers.back().rope;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rope)

BOOST_AUTO_TEST_CASE(plain_and_linear) {
  rope_spec rope;
  rope.dims = 8;
  rope.attn_factor = 3.0;  // not used without scaling
  const auto plain = engine::make_rope_table(rope, {});
  BOOST_TEST(plain.inv_freq == (std::vector<float>{1.0F, 0.1F, 0.01F, 0.001F}),
             boost::test_tools::per_element());
  BOOST_TEST(plain.magnitude == 1.0F);
  rope.scaling = rope_scaling::linear;
  rope.factor = 4.0;
  rope.attn_factor = 1.0;
  const auto linear = engine::make_rope_table(rope, {1.0F, 2.0F, 4.0F, 8.0F});
  BOOST_TEST(linear.inv_freq == (std::vector<float>{0.25F, 0.0125F, 0.000625F, 0.00003125F}),
             boost::test_tools::per_element());
  BOOST_TEST(linear.magnitude == 1.0F);
}

// The bounds that gpt-oss was trained with, and those of the rounded form.
BOOST_AUTO_TEST_CASE(yarn_bounds_of_gpt_oss) {
  rope_spec rope = gpt_oss_rope();
  const auto exact = engine::make_rope_table(rope, {});
  BOOST_TEST(exact.magnitude == 1.3465736F, boost::test_tools::tolerance(1e-6F));
  const double low = 8.0928;
  const double high = 17.3980;
  for (std::size_t i = 0; i < 32; ++i) {
    const double keep = 1.0 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double expected = trained(rope, i) * ((1.0 - keep) / 32.0 + keep);
    BOOST_TEST(exact.inv_freq[i] == expected, boost::test_tools::tolerance(1e-4));
  }
  BOOST_TEST(exact.inv_freq[8] == static_cast<float>(trained(rope, 8)));
  BOOST_TEST(exact.inv_freq[18] == static_cast<float>(trained(rope, 18) / 32.0));

  rope.round_correction_dims = true;  // 8 and 18
  const auto rounded = engine::make_rope_table(rope, {});
  BOOST_TEST(rounded.inv_freq[13] == trained(rope, 13) * (0.5 / 32.0 + 0.5),
             boost::test_tools::tolerance(1e-6));
  BOOST_TEST(rounded.inv_freq[9] != exact.inv_freq[9]);
}

BOOST_AUTO_TEST_CASE(yarn_without_extrapolation_is_linear) {
  rope_spec rope = gpt_oss_rope();
  rope.ext_factor = 0.0;
  const auto yarn = engine::make_rope_table(rope, {});
  rope.scaling = rope_scaling::linear;
  const auto linear = engine::make_rope_table(rope, {});
  BOOST_TEST(yarn.inv_freq == linear.inv_freq, boost::test_tools::per_element());
  BOOST_TEST(yarn.magnitude == 1.0F);
}

BOOST_AUTO_TEST_CASE(yarn_with_factor_1_changes_nothing) {
  rope_spec rope = gpt_oss_rope();
  rope.factor = 1.0;
  const auto yarn = engine::make_rope_table(rope, {});
  rope.scaling = rope_scaling::none;
  BOOST_TEST(yarn.inv_freq == engine::make_rope_table(rope, {}).inv_freq, boost::test_tools::per_element());
  BOOST_TEST(yarn.magnitude == 1.0F);
}

BOOST_AUTO_TEST_CASE(llama3_factors_apply_always) {
  tiny_model_options o;
  o.rope_freqs = true;
  const auto l = load(make_tiny_writer(o));
  const auto factors = engine::rope_freq_factors(l->model, 256);
  BOOST_TEST(factors.size() == 8U);
  BOOST_TEST(std::memcmp(factors.data(), l->model.weights.rope_freqs.data, 32) == 0);
  BOOST_TEST(engine::rope_freq_factors(load(tiny("llama"))->model, 256).empty());
}

BOOST_AUTO_TEST_CASE(longrope_chooses_by_context) {
  tiny_model_options o;
  o.family = "phi3";
  o.longrope = true;  // original context 64 of 256
  const auto l = load(make_tiny_writer(o));
  const rope_spec& rope = l->model.spec.layers[0].rope;
  BOOST_TEST((rope.scaling == rope_scaling::longrope));
  BOOST_TEST(rope.factor == 1.0);
  BOOST_TEST(rope.attn_factor == 1.19, boost::test_tools::tolerance(1e-6));
  const auto first = [&](std::uint32_t context) {
    return engine::rope_freq_factors(l->model, context).at(0);
  };
  float long_first = 0.0F;
  float short_first = 0.0F;
  std::memcpy(&long_first, l->model.weights.rope_factors_long.data, 4);
  std::memcpy(&short_first, l->model.weights.rope_factors_short.data, 4);
  BOOST_TEST(first(64) == short_first);
  BOOST_TEST(first(65) == long_first);
  BOOST_TEST(first(256) == long_first);

  rope_overrides none;
  none.scaling = rope_scaling::none;
  const auto plain = load(make_tiny_writer(o), 0, none);
  BOOST_TEST(engine::rope_freq_factors(plain->model, 256).empty());
  BOOST_TEST(engine::make_rope_table(plain->model.spec.layers[0].rope, {}).magnitude == 1.0F);
}

BOOST_AUTO_TEST_CASE(longrope_magnitude_without_a_key) {
  tiny_model_options o;
  o.family = "phi3";
  o.longrope = true;
  gguf_writer w = make_tiny_writer(o);
  w.remove("phi3.rope.scaling.attn_factor");
  BOOST_TEST(rope_of(w).attn_factor == std::sqrt(1.0 + std::log(4.0) / std::log(64.0)),
             boost::test_tools::tolerance(1e-12));
  w.remove_tensor("rope_factors_short.weight");
  expect_refused(w, {"'rope_factors_short.weight' is missing"});
}

BOOST_AUTO_TEST_CASE(keys_of_the_file) {
  gguf_writer w = tiny("llama");
  w.add("llama.rope.scaling.type", "yarn").add("llama.rope.scaling.factor", 4.0F);
  w.add("llama.rope.scaling.original_context_length", std::uint32_t{64});
  w.add("llama.rope.scaling.attn_factor", 2.0F).add("llama.rope.scaling.yarn_attn_factor", 1.5F);
  w.add("llama.rope.scaling.yarn_ext_factor", 0.5F).add("llama.rope.scaling.yarn_beta_fast", 16.0F);
  w.add("llama.rope.scaling.yarn_beta_slow", 2.0F);
  const rope_spec rope = rope_of(w);
  BOOST_TEST((rope.scaling == rope_scaling::yarn));
  BOOST_TEST(rope.factor == 4.0);
  BOOST_TEST(rope.original_context == 64U);
  BOOST_TEST(rope.attn_factor == 3.0);
  BOOST_TEST(rope.ext_factor == 0.5);
  BOOST_TEST(rope.beta_fast == 16.0);
  BOOST_TEST(rope.beta_slow == 2.0);
  BOOST_TEST(rope.round_correction_dims);

  gguf_writer old = tiny("llama");
  old.add("llama.rope.scale_linear", 2.0F);
  BOOST_TEST((rope_of(old).scaling == rope_scaling::linear));
  BOOST_TEST(rope_of(old).factor == 2.0);
}

// Asking for YaRN alone must extend the context, not be a no-op.
BOOST_AUTO_TEST_CASE(a_missing_factor_comes_from_the_context) {
  rope_overrides o;
  o.scaling = rope_scaling::yarn;
  BOOST_TEST(rope_of(tiny("qwen3"), 1024, o).factor == 4.0);
  o.scaling = rope_scaling::linear;
  BOOST_TEST(rope_of(tiny("qwen3"), 512, o).factor == 2.0);
  BOOST_TEST(rope_of(tiny("qwen3"), 0, o).factor == 1.0);
  BOOST_TEST(rope_of(tiny("qwen3"), 100, o).factor == 1.0);
  o.original_context = 128;
  BOOST_TEST(rope_of(tiny("qwen3"), 1024, o).factor == 8.0);
  BOOST_TEST(rope_of(tiny("qwen3"), 1024, o).original_context == 128U);
  BOOST_TEST(rope_of(tiny("qwen3"), 1024).factor == 1.0);  // nobody asked
}

BOOST_AUTO_TEST_CASE(overrides_replace_the_file) {
  rope_overrides o;
  o.freq_base = 5e5;
  o.freq_scale = 0.125;
  o.ext_factor = 0.25;
  o.attn_factor = 1.5;
  o.beta_fast = 40.0;
  o.beta_slow = 2.0;
  o.original_context = 1024;
  o.round_correction_dims = true;
  const rope_spec rope = rope_of(tiny("gpt-oss"), 0, o);
  BOOST_TEST((rope.scaling == rope_scaling::yarn));
  BOOST_TEST(rope.base == 5e5);
  BOOST_TEST(rope.factor == 8.0);
  BOOST_TEST(rope.ext_factor == 0.25);
  BOOST_TEST(rope.attn_factor == 1.5);
  BOOST_TEST(rope.beta_fast == 40.0);
  BOOST_TEST(rope.beta_slow == 2.0);
  BOOST_TEST(rope.original_context == 1024U);
  BOOST_TEST(rope.round_correction_dims);

  rope_overrides automatic;
  automatic.ext_factor = -1.0;
  automatic.original_context = 0;
  BOOST_TEST(rope_of(tiny("gpt-oss"), 0, automatic).ext_factor == 1.0);
  BOOST_TEST(rope_of(tiny("gpt-oss"), 0, automatic).original_context == 8U);

  rope_overrides scale;
  scale.freq_scale = 0.5;
  BOOST_TEST((rope_of(tiny("llama"), 0, scale).scaling == rope_scaling::linear));
  BOOST_TEST(rope_of(tiny("llama"), 0, scale).factor == 2.0);

  rope_overrides none;
  none.scaling = rope_scaling::none;
  BOOST_TEST(rope_of(tiny("gpt-oss"), 0, none).factor == 1.0);
}

BOOST_AUTO_TEST_CASE(overrides_out_of_range) {
  const auto refuse = [](auto set, std::string_view part) {
    rope_overrides o;
    set(o);
    expect_refused(tiny("llama"), {"RoPE override", part}, o);
  };
  refuse([](auto& o) { o.freq_base = 0.0; }, "frequency base is 0.0");
  refuse([](auto& o) { o.freq_scale = 0.0; }, "frequency scale is 0.0");
  refuse([](auto& o) { o.freq_scale = std::nan(""); }, "frequency scale is nan");
  refuse([](auto& o) { o.ext_factor = 2.0; }, "ext factor is 2.0");
  refuse([](auto& o) { o.attn_factor = -1.0; }, "attention factor is -1.0");
  refuse([](auto& o) { o.beta_fast = 0.0; }, "beta fast");
  refuse([](auto& o) { o.original_context = 1U << 30U; }, "original context");
  rope_overrides longrope;
  longrope.scaling = rope_scaling::longrope;
  expect_refused(tiny("llama"), {"'rope_factors_long.weight' is missing"}, longrope);
}

BOOST_AUTO_TEST_CASE(layers_with_a_rotation_of_their_own_get_a_factor_and_no_override) {
  engine::model_spec spec;
  spec.layers.resize(2);
  for (engine::layer_spec& layer : spec.layers) {
    layer.rope.dims = 8;
    layer.rope.factor = 0.0;  // none was given
  }
  spec.layers[0].rope.fixed = true;
  engine::rope_overrides overrides;
  overrides.freq_base = 5.0;
  engine::problem_list problems;
  engine::apply_rope_overrides(overrides, 64, spec, problems);
  BOOST_TEST(problems.empty());
  for (const engine::layer_spec& layer : spec.layers) {
    BOOST_TEST(layer.rope.factor == 1.0);
    BOOST_TEST(engine::make_rope_table(layer.rope, {}).inv_freq.size() == 4U);
  }
  BOOST_TEST(spec.layers[0].rope.base == 10'000.0);
  BOOST_TEST(spec.layers[1].rope.base == 5.0);
  overrides.freq_base = -1.0;
  engine::apply_rope_overrides(overrides, 64, spec, problems);
  BOOST_TEST(problems.to_error("file").message.find("2 problems") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(layers_without_rotation_have_no_pairs_whatever_the_factors) {
  engine::rope_spec rope;
  BOOST_TEST(engine::make_rope_table(rope, {1.0F, 2.0F}).inv_freq.empty());
}

BOOST_AUTO_TEST_SUITE_END()
