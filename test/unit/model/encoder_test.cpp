// Models that embed or rank: what is read from the file, and what is refused with its name.
#include "test/unit/model/helpers.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::pooling_kind;

namespace {

engine::result<engine::model> read_model(const gguf_writer& writer, std::uint32_t context = 0,
                                         std::optional<pooling_kind> pooling = {}) {
  const bytes image = writer.build();
  const auto file = engine::gguf_file::parse(image, "tiny.gguf");
  BOOST_TEST_REQUIRE(file.has_value());
  return engine::load_model(*file, context, {}, pooling);
}

gguf_writer tiny_pooled(std::string_view family, std::uint32_t pooling) {
  tiny_model_options o;
  o.family = family;
  o.pooling = pooling;
  return make_tiny_writer(o);
}

void expect_problem(const engine::result<engine::model>& made, std::string_view part) {
  BOOST_TEST_REQUIRE(made.has_error());
  BOOST_TEST(made.error().message.find(part) != std::string::npos, made.error().message);
}

BOOST_AUTO_TEST_SUITE(encoders)

BOOST_AUTO_TEST_CASE(bert_is_read) {
  const auto spec = read_model(tiny("bert")).value().spec;
  BOOST_TEST(!spec.causal);
  BOOST_TEST(spec.learned_positions);
  BOOST_TEST((spec.norms == engine::norm_placement::after));
  BOOST_TEST((spec.activation == engine::ffn_activation::gelu));
  BOOST_TEST((spec.pooling == pooling_kind::mean));
  BOOST_TEST(spec.positions == 256U);
  BOOST_TEST(spec.token_types == 2U);
  BOOST_TEST(spec.layers[0].rope.dims == 0U);
  BOOST_TEST(spec.rms_eps == 1e-12);
}

BOOST_AUTO_TEST_CASE(a_pooling_is_the_operators_or_the_files_or_none) {
  BOOST_TEST(!read_model(tiny("qwen3")).value().spec.pooling.has_value());
  BOOST_TEST(!read_model(tiny_pooled("qwen3", 0)).value().spec.pooling.has_value());
  BOOST_TEST((read_model(tiny_pooled("qwen3", 3)).value().spec.pooling == pooling_kind::last));
  BOOST_TEST((read_model(tiny("qwen3"), 0, pooling_kind::none).value().spec.pooling == pooling_kind::none));
  BOOST_TEST((read_model(tiny("bert"), 0, pooling_kind::cls).value().spec.pooling == pooling_kind::cls));
}

BOOST_AUTO_TEST_CASE(a_classifier_is_part_of_a_ranking_model_alone) {
  const auto bert = read_model(tiny_pooled("bert", 4)).value();
  BOOST_TEST(bert.spec.classes == 1U);
  BOOST_TEST(static_cast<bool>(bert.weights.cls));
  const auto qwen = read_model(tiny_pooled("qwen3", 4)).value();
  BOOST_TEST(qwen.spec.classes == 2U);
  BOOST_TEST(qwen.spec.relevant_class == 0U);
  BOOST_TEST(!static_cast<bool>(
      read_model(tiny_pooled("bert", 4), 0, pooling_kind::cls).value().weights.cls_output));
  expect_problem(read_model(tiny("bert"), 0, pooling_kind::rank), "'cls.output.weight' is missing");
}

BOOST_AUTO_TEST_CASE(labels_that_do_not_say_yes_are_refused) {
  auto writer = tiny_pooled("qwen3", 4);
  writer.remove("qwen3.classifier.output_labels");
  expect_problem(read_model(writer), "classifier.output_labels");
  writer.add("qwen3.classifier.output_labels", std::vector<std::string>{"no", "yes"});
  BOOST_TEST(read_model(writer).value().spec.relevant_class == 1U);
}

BOOST_AUTO_TEST_CASE(what_a_file_lacks_is_named) {
  auto writer = tiny("bert");
  writer.remove("bert.pooling_type");
  expect_problem(read_model(writer), "bert.pooling_type");
  for (const char* tensor :
       {"position_embd.weight", "token_types.weight", "token_embd_norm.bias", "blk.1.attn_output_norm.weight",
        "blk.0.layer_output_norm.bias", "blk.0.ffn_up.bias", "blk.0.attn_q.bias"}) {
    auto broken = tiny("bert");
    broken.remove_tensor(tensor);
    expect_problem(read_model(broken), tensor);
  }
}

BOOST_AUTO_TEST_CASE(learned_positions_have_an_end) {
  BOOST_TEST(read_model(tiny("bert"), 256).has_value());
  expect_problem(read_model(tiny("bert"), 257), "learned 256 positions");
  expect_problem(read_model(tiny_with("bert", "bert.context_length", std::uint32_t{300})),
                 "position_embd.weight");
  expect_problem(read_model(tiny_with("bert", "bert.pooling_type", std::uint32_t{5})), "pooling_type");
}

BOOST_AUTO_TEST_CASE(a_window_without_a_mask_is_refused) {
  auto writer = tiny_pooled("gpt-oss", 1);
  writer.add("gpt-oss.attention.causal", false);
  expect_problem(read_model(writer), "sliding window");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
