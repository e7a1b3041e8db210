// Projector files that are wrong: one message says all that is.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "engine/media/prepare_picture.hpp"
#include "engine/media/tower.hpp"
#include "test/support/gguf_writer.hpp"

using namespace orcd;

namespace {

/// A projector as small as can be: two layers, width 8, 2 x 2 patches of 4 pixels.
test::gguf_writer make_projector(const std::string& kind = "idefics3") {
  test::gguf_writer w;
  w.add("general.architecture", "clip");
  w.add("clip.has_vision_encoder", true).add("clip.projector_type", kind).add("clip.use_gelu", true);
  for (const auto& [key, value] : {std::pair{"image_size", 8U},
                                   {"patch_size", 4U},
                                   {"embedding_length", 8U},
                                   {"feed_forward_length", 12U},
                                   {"block_count", 2U},
                                   {"projection_dim", 16U},
                                   {"attention.head_count", 2U},
                                   {"projector.scale_factor", 2U}})
    w.add("clip.vision." + std::string(key), value);
  w.add("clip.vision.attention.layer_norm_epsilon", 1e-6F);
  w.add("clip.vision.image_mean", std::vector<float>(3, 0.5F));
  w.add("clip.vision.image_std", std::vector<float>(3, 0.5F));
  const auto tensor = [&](const std::string& name, std::vector<std::uint64_t> extents) {
    std::uint64_t count = 1;
    for (const auto extent : extents) count *= extent;
    w.add_tensor(name, std::move(extents), engine::ggml_type::f32, test::bytes(count * 4));
  };
  tensor("v.patch_embd.weight", {4, 4, 3, 8});
  tensor("v.position_embd.weight", {8, 4});
  for (const char* part : {"weight", "bias"}) tensor(std::string("v.post_ln.") + part, {8});
  tensor("mm.model.fc.weight", {32, 16});
  for (int i = 0; i < 2; ++i) {
    const std::string at = "v.blk." + std::to_string(i) + ".";
    for (const char* norm : {"ln1", "ln2"})
      for (const char* part : {".weight", ".bias"}) tensor(at + norm + part, {8});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_out"}) tensor(at + name + ".weight", {8, 8});
    tensor(at + "ffn_up.weight", {8, 12});
    tensor(at + "ffn_down.weight", {12, 8});
  }
  return w;
}

/// A projector of sounds as small as can be: one layer, width 4, frames of 8 bands.
test::gguf_writer make_sound_projector(engine::ggml_type matrices = engine::ggml_type::f32) {
  test::gguf_writer w;
  w.add("general.architecture", "clip");
  w.add("clip.has_audio_encoder", true).add("clip.audio.projector_type", "voxtral");
  for (const auto& [key, value] : {std::pair{"embedding_length", 4U},
                                   {"feed_forward_length", 8U},
                                   {"block_count", 1U},
                                   {"projection_dim", 6U},
                                   {"attention.head_count", 2U},
                                   {"num_mel_bins", 8U},
                                   {"projector.stack_factor", 4U}})
    w.add("clip.audio." + std::string(key), value);
  const auto tensor = [&](const std::string& name, std::vector<std::uint64_t> extents) {
    std::uint64_t count = 1;
    for (const auto extent : extents) count *= extent;
    const bool vector = extents.size() == 1 || extents[0] == 1;
    const auto type = vector ? engine::ggml_type::f32 : matrices;
    w.add_tensor(name, std::move(extents), type,
                 test::bytes(count * (type == engine::ggml_type::f16 ? 2 : 4)));
  };
  tensor("a.conv1d.1.weight", {3, 8, 4});
  tensor("a.conv1d.2.weight", {3, 4, 4});
  for (const char* name : {"a.conv1d.1.bias", "a.conv1d.2.bias"}) tensor(name, {1, 4});
  tensor("a.position_embd.weight", {4, 1500});
  for (const char* norm : {"a.post_ln.", "a.blk.0.ln1.", "a.blk.0.ln2."})
    for (const char* part : {"weight", "bias"}) tensor(std::string(norm) + part, {4});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_out"})
    tensor("a.blk.0." + std::string(name) + ".weight", {4, 4});
  tensor("a.blk.0.ffn_up.weight", {4, 8});
  tensor("a.blk.0.ffn_down.weight", {8, 4});
  tensor("mm.a.mlp.1.weight", {16, 5});
  tensor("mm.a.mlp.2.weight", {5, 6});
  return w;
}

/// Qwen3-VL's, with a part for a layer of the model out of the second of the tower's.
test::gguf_writer make_qwen() {
  test::gguf_writer w = make_projector("qwen3vl_merger");
  w.add("clip.vision.is_deepstack_layers", std::vector<bool>{false, true});
  const auto tensor = [&](const std::string& name, std::vector<std::uint64_t> extents) {
    std::uint64_t count = 1;
    for (const auto extent : extents) count *= extent;
    w.add_tensor(name, std::move(extents), engine::ggml_type::f32, test::bytes(count * 4));
  };
  tensor("v.patch_embd.weight.1", {4, 4, 3, 8});
  for (const char* part : {"weight", "bias"}) tensor(std::string("v.deepstack.1.norm.") + part, {32});
  for (const char* first : {"mm.0.weight", "v.deepstack.1.fc1.weight"}) tensor(first, {32, 32});
  for (const char* second : {"mm.2.weight", "v.deepstack.1.fc2.weight"}) tensor(second, {32, 16});
  return w;
}

/// A model that takes what make_qwen() gives.
engine::model_spec make_text() {
  engine::model_spec out;
  out.embedding = 16;
  out.deepstack_layers = 1;
  out.layers.resize(2);
  for (engine::layer_spec& layer : out.layers) layer.rope.axes = engine::rope_axes::in_turn;
  return out;
}

std::string why(const test::gguf_writer& writer, const engine::model_spec* text = nullptr) {
  const auto image = writer.build();
  const auto loaded = engine::load_tower(engine::gguf_file::parse(image, "mmproj.gguf").value(), text);
  if (loaded) return "taken";
  BOOST_TEST(loaded.error().param == "mmproj");
  return loaded.error().message;
}

bool says(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE(message);
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(projector_files)

BOOST_AUTO_TEST_CASE(a_good_one_says_how_pictures_are_made) {
  const auto image = make_projector().build();
  const auto loaded = engine::load_tower(engine::gguf_file::parse(image, "mmproj.gguf").value(), nullptr);
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  BOOST_TEST(loaded->spec.pictures.longest == 32U);
  BOOST_TEST(loaded->spec.view_rows_max() == 1U);
  BOOST_TEST(loaded->spec.patches_max() == 4U);
  BOOST_TEST(loaded->spec.picture_rows_max() == 17U);
  BOOST_TEST(loaded->digest.size() == 64U);
}

BOOST_AUTO_TEST_CASE(what_is_no_projector_or_another_is_refused_by_name) {
  auto model = make_projector();
  model.remove("general.architecture");
  model.add("general.architecture", "llama");
  BOOST_TEST(says(why(model), "'llama', not 'clip'"));
  BOOST_TEST(
      says(why(make_projector("internvl")), "projector 'internvl' is not supported; supported are gemma3"));
  auto sound = make_projector();
  sound.add("clip.has_audio_encoder", true);
  BOOST_TEST(says(why(sound), "tower of sound"));
  sound.remove("clip.has_vision_encoder");
  BOOST_TEST(says(why(sound), "projector 'idefics3' is not supported"));
  sound.remove("clip.has_audio_encoder");
  BOOST_TEST(says(why(sound), "no tower of pictures or sounds"));
  auto nameless = make_projector();
  nameless.remove("clip.projector_type");
  BOOST_TEST(says(why(nameless), "'clip.projector_type' is missing"));
}

BOOST_AUTO_TEST_CASE(one_of_sounds_says_how_sounds_are_made) {
  const auto image = make_sound_projector(engine::ggml_type::f16).build();
  const auto loaded = engine::load_tower(engine::gguf_file::parse(image, "mmproj.gguf").value(), nullptr);
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  const engine::tower_spec& spec = loaded->spec;
  BOOST_REQUIRE(spec.sound.has_value());
  BOOST_TEST(spec.sound->bins == 8U);
  BOOST_TEST(spec.inner_width == 5U);
  BOOST_TEST(spec.patches_max() == 1500U);
  BOOST_TEST(spec.view_rows_max() == 375U);
  BOOST_TEST((spec.activation == engine::ffn_activation::gelu));
  BOOST_TEST(spec.eps == 1e-5);
  BOOST_TEST(spec.text.before == "[BEGIN_AUDIO]");
}

BOOST_AUTO_TEST_CASE(sound_projectors_that_are_wrong_are_named) {
  const auto with = [](const char* key, std::uint32_t value) {
    auto w = make_sound_projector();
    w.remove(std::string("clip.audio.") + key);
    w.add(std::string("clip.audio.") + key, value);
    return why(w);
  };
  BOOST_TEST(says(with("num_mel_bins", 0), "'clip.audio.num_mel_bins' is 0; it must be 1 to 256"));
  BOOST_TEST(says(with("projector.stack_factor", 7), "must divide the 1500 positions of a chunk"));
  BOOST_TEST(says(with("num_mel_bins", 9), "'a.conv1d.1.weight' has 3 x 8 x 4 values; it must have 27 x 4"));
  auto named = make_sound_projector();
  named.remove("clip.audio.projector_type");
  named.add("clip.projector_type", "ultravox");
  BOOST_TEST(says(why(named), "projector 'ultravox' is not supported"));
  auto pictures = make_sound_projector();
  pictures.add("clip.projector_type", "gemma3");
  BOOST_TEST(says(why(pictures), "projector 'gemma3' is not supported"));
  auto both = make_sound_projector();
  both.add("clip.has_vision_encoder", true);
  BOOST_TEST(says(why(both), "has a tower of sound beside its tower of pictures"));
  auto several = make_sound_projector();
  several.remove_tensor("a.post_ln.bias");
  several.remove_tensor("mm.a.mlp.2.weight");
  several.remove_tensor("a.position_embd.weight");
  several.add_tensor("a.position_embd.weight", {4, 1499}, engine::ggml_type::f32, test::bytes(1499 * 16));
  const std::string message = why(several);
  BOOST_TEST(says(message, "3 problems with the projector"));
  BOOST_TEST(says(message, "'a.post_ln.bias' is missing"));
  BOOST_TEST(says(message, "'mm.a.mlp.2.weight' is missing"));
  BOOST_TEST(says(message, "it must have 4 x 1500"));
  engine::model_spec text;
  text.embedding = 6;
  text.layers.resize(1);
  BOOST_TEST(why(make_sound_projector(), &text) == "taken");
  text.causal = false;
  BOOST_TEST(says(why(make_sound_projector(), &text), "takes no sounds"));
}

BOOST_AUTO_TEST_CASE(values_without_sense_are_named_with_their_limits) {
  const auto with = [](const char* key, auto value) {
    auto w = make_projector();
    w.remove(std::string("clip.vision.") + key);
    w.add(std::string("clip.vision.") + key, value);
    return why(w);
  };
  BOOST_TEST(says(with("patch_size", 0U), "'clip.vision.patch_size' is 0; it must be 1 to 64"));
  BOOST_TEST(says(with("image_size", 9U), "must be a multiple of the patch size"));
  BOOST_TEST(says(with("projector.scale_factor", 3U), "scale_factor"));
  BOOST_TEST(says(with("attention.head_count", 3U), "must divide the width of 8"));
  BOOST_TEST(says(with("block_count", 100U), "cannot make that many layers"));
  BOOST_TEST(says(with("image_std", std::vector<float>{0.5F, 0.0F, 0.5F}), "each must be above 0"));
  BOOST_TEST(says(with("image_std", std::vector<float>{0.5F, 0.5F}), "has 2 values; it must have 3"));
  BOOST_TEST(says(with("image_mean", std::vector<float>{0.5F, std::nanf(""), 0.5F}), "each must be finite"));
  auto meanless = make_projector();
  meanless.remove("clip.vision.image_mean");
  BOOST_TEST(says(why(meanless), "'clip.vision.image_mean'"));
}

BOOST_AUTO_TEST_CASE(tensors_that_are_missing_or_of_another_shape_are_told_together) {
  auto w = make_projector();
  w.remove_tensor("v.post_ln.weight");
  w.remove_tensor("v.position_embd.weight");
  w.add_tensor("v.position_embd.weight", {8, 5}, engine::ggml_type::f32, test::bytes(160));
  const std::string message = why(w);
  BOOST_TEST(says(message, "2 problems with the projector"));
  BOOST_TEST(says(message, "tensor 'v.post_ln.weight' is missing"));
  BOOST_TEST(says(message, "'v.position_embd.weight' has 8 x 5 values; it must have 8 x 4"));
}

BOOST_AUTO_TEST_CASE(a_projector_must_fit_its_model) {
  engine::model_spec text;
  text.embedding = 12;
  text.layers.resize(1);
  BOOST_TEST(
      says(why(make_projector(), &text), "'clip.vision.projection_dim' is 16, but the model's width is 12"));
  text.embedding = 16;
  BOOST_TEST(why(make_projector(), &text) == "taken");
  text.causal = false;
  BOOST_TEST(says(why(make_projector(), &text), "encoder"));
}

BOOST_AUTO_TEST_CASE(rows_with_lines_and_columns_need_a_model_that_has_them) {
  engine::model_spec text = make_text();
  BOOST_TEST(why(make_qwen(), &text) == "taken");
  text.deepstack_layers = 3;
  BOOST_TEST(says(why(make_qwen(), &text), "has 1 parts for layers of the model, which takes 3"));
  for (engine::layer_spec& layer : text.layers) layer.rope.axes = engine::rope_axes::one;
  BOOST_TEST(says(why(make_qwen(), &text), "turns heads by one position"));
  text = make_text();
  text.deepstack_layers = 0;
  BOOST_TEST(says(why(make_projector(), &text), "turns rows of pictures by line and column"));
}

BOOST_AUTO_TEST_CASE(flags_of_layers_agree_with_the_tensors) {
  auto w = make_qwen();
  w.remove("clip.vision.is_deepstack_layers");
  BOOST_TEST(
      says(why(w), "is_deepstack_layers' is 0 for layer 1, but tensor 'v.deepstack.1.fc1.weight' is there"));
  w.add("clip.vision.is_deepstack_layers", std::vector<bool>{true, true});
  BOOST_TEST(says(why(w), "is 1 for layer 0, but tensor 'v.deepstack.0.fc1.weight' is missing"));
  w.remove("clip.vision.is_deepstack_layers");
  w.add("clip.vision.is_deepstack_layers", std::vector<bool>{true});
  BOOST_TEST(says(why(w), "has 1 values for 2 layers"));
}

BOOST_AUTO_TEST_CASE(sizes_windows_and_activations_of_qwen_are_checked) {
  auto few = make_qwen();
  few.add("clip.vision.image_max_pixels", 10U);
  BOOST_TEST(
      says(why(few), "image_max_pixels' is 10; it must be at least clip.vision.image_min_pixels and 64"));
  auto odd = make_qwen();
  odd.remove("clip.vision.attention.head_count");
  odd.add("clip.vision.attention.head_count", 4U);
  BOOST_TEST(
      says(why(odd), "heads have 2 values; to be turned by line and column they must be a multiple of 4"));
  auto windows = make_projector("qwen2.5vl_merger");
  windows.add("clip.vision.window_size", 7U);
  const std::string said = why(windows);
  BOOST_TEST(says(said, "window_size' is 7; it must be at least the 8 pixels"));
  BOOST_TEST(says(said, "n_wa_pattern' is missing"));
  BOOST_TEST(says(said, "'clip.use_silu' is not true"));
}

BOOST_AUTO_TEST_CASE(a_file_that_names_no_activation_means_that_of_clip) {
  auto named = make_projector("qwen2vl_merger");
  BOOST_TEST(says(why(named), "'clip.use_gelu' is true: no such activation"));
  named.remove("clip.use_gelu");
  BOOST_TEST(!says(why(named), "activation"));
}

BOOST_AUTO_TEST_CASE(bounded_pictures_keep_to_a_limit_of_rows) {
  const auto loaded = [](const char* name) {
    return engine::load_tower(engine::gguf_file::open(ORCD_TEST_DATA "/media/" + std::string(name)).value(),
                              nullptr)
        .value()
        .spec;
  };
  engine::tower_spec spec = loaded("mistral3.gguf");
  BOOST_TEST(spec.view_rows_max() == 36U);  // 48 pixels a side, 8 a row
  BOOST_TEST(spec.patches_max() == 144U);
  BOOST_TEST(loaded("pixtral.gguf").view_rows_max() == 64U);
  engine::limit_rows(spec, 100);
  BOOST_TEST(spec.view_rows_max() == 36U);
  engine::limit_rows(spec, 35);
  BOOST_TEST(spec.view_rows_max() == 25U);
  engine::limit_rows(spec, 1);
  BOOST_TEST(spec.view_rows_max() == 1U);
  const auto size = engine::view_size(spec.pictures, {300, 3}, engine::picture_detail::automatic);
  BOOST_TEST((size == engine::picture_size{8, 8}));
}

/// Gemma 4's, as small as can be; its files may have a tower of sound, too.
test::gguf_writer make_gemma4() {
  test::gguf_writer w = make_projector("gemma4v");
  w.add("clip.has_audio_encoder", true);
  w.remove("clip.projector_type");
  w.add("clip.vision.projector_type", "gemma4v");
  w.remove_tensor("v.position_embd.weight");
  const auto tensor = [&](const std::string& name, std::vector<std::uint64_t> extents) {
    std::uint64_t count = 1;
    for (const auto extent : extents) count *= extent;
    w.add_tensor(name, std::move(extents), engine::ggml_type::f32, test::bytes(count * 4));
  };
  tensor("v.position_embd.weight", {8, 560, 2});
  tensor("mm.input_projection.weight", {8, 16});
  for (int i = 0; i < 2; ++i) {
    const std::string at = "v.blk." + std::to_string(i) + ".";
    for (const char* norm : {"attn_post_norm", "ffn_post_norm"}) tensor(at + norm + ".weight", {8});
    for (const char* norm : {"attn_q_norm", "attn_k_norm"}) tensor(at + norm + ".weight", {4});
    tensor(at + "ffn_gate.weight", {8, 12});
  }
  return w;
}

BOOST_AUTO_TEST_CASE(a_tower_of_sound_beside_gemma_s_is_left_out) {
  auto w = make_gemma4();
  w.remove("clip.vision.attention.head_count");
  w.add("clip.vision.attention.head_count", 2U);
  engine::model_spec text = make_text();
  text.deepstack_layers = 0;
  for (engine::layer_spec& layer : text.layers) layer.rope.axes = engine::rope_axes::one;
  BOOST_TEST(why(w, &text) == "taken");
  text.layers[0].window = 100;
  BOOST_TEST(says(why(w, &text), "a picture's 280 rows see each other, but the model's window is 100"));
  text.layer_inputs = 8;  // an E2B's pictures are read as text is
  BOOST_TEST(why(w, &text) == "taken");
  auto few = make_gemma4();
  few.remove_tensor("v.position_embd.weight");
  few.add_tensor("v.position_embd.weight", {8, 100, 2}, engine::ggml_type::f32, test::bytes(8 * 200 * 4));
  BOOST_TEST(says(why(few), "'v.position_embd.weight' has 8 x 100 x 2 values; it must have"));
}

BOOST_AUTO_TEST_CASE(limits_of_a_matrix_are_numbers_in_order) {
  auto w = make_gemma4();
  const auto limit = [&](const std::string& name, float value) {
    test::bytes bytes(4);
    std::memcpy(bytes.data(), &value, 4);
    w.remove_tensor(name);
    w.add_tensor(name, {1}, engine::ggml_type::f32, bytes);
  };
  limit("v.blk.1.attn_q.input_min", -2.0F);
  BOOST_TEST(why(w) == "taken");
  limit("v.blk.1.attn_q.input_max", -3.0F);
  BOOST_TEST(says(why(w),
                  "'v.blk.1.attn_q.input_min' has the value -2.000000; it must be a number that is not "
                  "above the one of 'v.blk.1.attn_q.input_max', -3.000000"));
  limit("v.blk.1.attn_q.input_max", std::numeric_limits<float>::quiet_NaN());
  BOOST_TEST(says(why(w), "it must be a number"));
}

BOOST_AUTO_TEST_CASE(a_budget_of_rows_is_one_that_models_know) {
  const auto image = make_gemma4().build();
  auto loaded = engine::load_tower(engine::gguf_file::parse(image, "mmproj.gguf").value(), nullptr).value();
  BOOST_TEST(loaded.spec.view_rows_max() == 280U);
  engine::limit_rows(loaded.spec, 4096);
  BOOST_TEST(loaded.spec.view_rows_max() == 280U);
  const auto rows = [&](engine::picture_size of, engine::picture_detail detail) {
    return engine::tokens_of_view(loaded.spec.pictures, engine::view_size(loaded.spec.pictures, of, detail));
  };
  using enum engine::picture_detail;
  BOOST_TEST(rows({640, 480}, automatic) == 19U * 14U);
  BOOST_TEST(rows({640, 480}, low) == 13U * 10U);
  BOOST_TEST(rows({200, 1}, automatic) == 236U);
  BOOST_TEST(rows({1, 200}, low) == 140U);
  engine::limit_rows(loaded.spec, 256);
  BOOST_TEST(loaded.spec.view_rows_max() == 140U);
  BOOST_TEST(rows({640, 480}, automatic) == 13U * 10U);
}

BOOST_AUTO_TEST_CASE(a_limit_of_rows_holds_whatever_the_picture_s_sides) {
  const auto image = make_qwen().build();
  auto loaded = engine::load_tower(engine::gguf_file::parse(image, "mmproj.gguf").value(), nullptr).value();
  engine::limit_rows(loaded.spec, 30);
  BOOST_TEST(loaded.spec.view_rows_max() == 30U);
  for (const engine::picture_size of :
       {engine::picture_size{4000, 20}, {20, 4000}, {5000, 5000}, {1, 1}, {64, 900}}) {
    const auto size = engine::view_size(loaded.spec.pictures, of, engine::picture_detail::automatic);
    const auto rows = engine::tokens_of_view(loaded.spec.pictures, size);
    BOOST_TEST(rows >= 1U, of.width << " by " << of.height);
    BOOST_TEST(rows <= 30U, of.width << " by " << of.height << ": " << rows);
  }
}

BOOST_AUTO_TEST_SUITE_END()
