// A tiny BitNet model on the device: near the stored logits of a reference in f64 (test/data/ternary), as
// near as activations allow that round to another integer where f16 attention differs, and near the host's
// first product.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gpu/host/host_backend.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"

namespace orcd::test {
namespace {

using engine::token_id;

const std::string folder = std::string(ORCD_TEST_DATA) + "/ternary/";
const std::vector<token_id> prompt{112, 56, 48, 72, 106, 116};
constexpr std::size_t vocab = 128;

double error_of(std::span<const float> ours, std::span<const float> reference) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    difference += std::pow(double{ours[i]} - reference[i], 2);
    norm += std::pow(double{reference[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bitnet)

BOOST_AUTO_TEST_CASE(logits_are_near_the_reference) {
  std::vector<float> want(prompt.size() * vocab);
  std::ifstream in(folder + "logits_kv_f16_f32.bin", std::ios::binary);
  in.read(reinterpret_cast<char*>(want.data()), static_cast<std::streamsize>(want.size() * sizeof(float)));
  BOOST_REQUIRE(in.good());
  loaded_cuda_model model(folder + "tiny-i2_s.gguf", 256, {}, {}, 1);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const auto logits = model.run(0, std::span(prompt).subspan(i, 1));
    const double error = error_of(logits, std::span(want).subspan(i * vocab, vocab));
    std::printf("bitnet, position %zu: relative error %.1e\n", i, error);
    BOOST_TEST(error < 0.1, "position " << i << ": " << error);
  }
}

BOOST_AUTO_TEST_CASE(the_first_products_are_those_of_the_host) {
  std::vector<float> on_host, on_device;
  const auto into = [](std::vector<float>& where) {
    return [&where](std::string_view tap, std::uint32_t layer, std::span<const float> values) {
      if (tap == "qkv" && layer == 0) where.assign(values.begin(), values.end());
    };
  };
  const auto file = engine::gguf_file::open(folder + "tiny-i2_s.gguf").value();
  const auto m = engine::load_model(file, 256, {}).value();
  const auto reference = gpu::make_host_backend({.threads = 1, .tap = into(on_host)});
  BOOST_REQUIRE(reference->load(m, {1, 256, {}}, [](unsigned) {}));
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy};
  const std::atomic<bool> never{false};
  std::vector<engine::sampled_token> sampled;
  const engine::sequence_step step{engine::slot_id{0}, 0, std::span(prompt).first(1), &request};
  BOOST_REQUIRE(reference->step(std::span(&step, 1), never, sampled));
  loaded_cuda_model model(folder + "tiny-i2_s.gguf", 256, {}, {.tap = into(on_device)}, 1);
  model.run(0, std::span(prompt).first(1));
  BOOST_REQUIRE_EQUAL(on_host.size(), on_device.size());
  // The norm is rounded once more or less; no activation is near a tie.
  BOOST_TEST(error_of(on_device, on_host) < 1e-5);
}

/// Norms over widths that are padded with zeros have the mean of what was there (engine/model/padding.hpp).
BOOST_AUTO_TEST_CASE(padded_widths_give_the_same) {
  const temporary_directory directory;
  const auto logits_of = [&](const tiny_model_options& options) {
    const auto path = directory.path() / "model.gguf";
    write_file(path.string(), make_tiny_model(options));
    loaded_cuda_model model(path, 256, {}, {}, 1);
    const auto last = model.run(0, prompt);
    return std::vector<float>(last.begin(), last.end());
  };
  const auto check = [&](tiny_model_options options, double bound) {
    const std::vector<float> plain = logits_of(options);
    options.padded_embedding = options.embedding + 128;
    options.padded_ffn = options.ffn + 256;
    const double error = error_of(logits_of(options), plain);
    std::printf("%s, padded: relative error %.1e\n", options.family.c_str(), error);
    BOOST_TEST(error < bound);
  };
  tiny_model_options options;
  options.embedding = options.ffn = 256;
  options.matrix_type = engine::ggml_type::q8_0;
  check(options, 2e-3);
  options.family = "bitnet-b1.58";
  options.matrix_type = engine::ggml_type::i2_s;
  options.embedding_type = engine::ggml_type::f16;
  check(options, 0.1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
