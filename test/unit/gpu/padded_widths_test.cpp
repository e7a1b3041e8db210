// A model whose widths are padded with zeros is the same function as the one before: norms have the mean of
// what was there, and nothing else sees the zeros.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd {
namespace {

using engine::ggml_type;
using test::tiny_backend;
using test::tiny_model_options;
using logits_of = std::vector<std::vector<float>>;

constexpr engine::kv_types exact{engine::kv_type::f32, engine::kv_type::f32};

logits_of run(const tiny_model_options& model) {
  tiny_backend backend(model, {}, 1, exact);
  return backend.generate(engine::slot_id{0}, backend.prompt(12, 5), 24, 7);
}

/// The largest of all positions' relative differences.
double difference(const logits_of& a, const logits_of& b) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  double out = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double apart = 0.0, norm = 0.0;
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      apart += std::pow(static_cast<double>(a[i][k]) - b[i][k], 2);
      norm += std::pow(static_cast<double>(a[i][k]), 2);
    }
    BOOST_TEST_REQUIRE(norm > 0.0);
    out = std::max(out, std::sqrt(apart / norm));
  }
  return out;
}

tiny_model_options padded(tiny_model_options model, std::uint32_t embedding, std::uint32_t ffn) {
  model.padded_embedding = embedding;
  model.padded_ffn = ffn;
  return model;
}

BOOST_AUTO_TEST_SUITE(padded_widths)

BOOST_AUTO_TEST_CASE(a_llama_with_padded_widths_is_the_same) {
  tiny_model_options model;
  model.biases = true;
  const logits_of plain = run(model);
  BOOST_TEST(difference(plain, run(padded(model, 128, 128))) < 1e-5);
  BOOST_TEST(difference(plain, run(padded(model, 64, 256))) < 1e-5);
  BOOST_TEST(difference(plain, run(padded(model, 96, 160))) < 1e-5);
  model.matrix_type = ggml_type::q8_0;
  model.tied_output = true;
  BOOST_TEST(difference(run(model), run(padded(model, 128, 256))) < 1e-5);
}

/// What the norms' weights differ by could round an activation to another integer; here none lies so near to
/// the middle of two.
BOOST_AUTO_TEST_CASE(a_bitnet_with_padded_widths_is_the_same) {
  tiny_model_options model;
  model.family = "bitnet-b1.58";
  model.embedding = 256;
  model.ffn = 384;
  model.matrix_type = ggml_type::i2_s;
  model.embedding_type = ggml_type::f16;
  const logits_of plain = run(model);
  BOOST_TEST(difference(plain, run(padded(model, 384, 384))) < 1e-4);
  BOOST_TEST(difference(plain, run(padded(model, 256, 512))) < 1e-4);
  BOOST_TEST(difference(plain, run(padded(model, 384, 640))) < 1e-4);
}

/// That the comparison can fail: eps and weights both count.
BOOST_AUTO_TEST_CASE(a_width_that_is_not_told_is_another_model) {
  tiny_model_options model;
  const logits_of plain = run(model);
  test::gguf_writer silent = test::make_tiny_writer(padded(model, 128, 128));
  silent.remove("orcd.hidden_original");
  tiny_backend backend(silent.build(), {}, 1, exact, {});
  BOOST_TEST(difference(plain, backend.generate(engine::slot_id{0}, backend.prompt(12, 5), 24, 7)) > 1e-2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd
