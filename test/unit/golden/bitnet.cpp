// A tiny BitNet model against logits of a forward pass in f64 with the same integers (test/data/ternary), K
// and V exact, or rounded to f16 as the cache holds them by default. No activation lies so near to the middle
// of two integers that f32 could round it the other way, so only f32 noise is left. The same with a LoRA
// adapter, whose products take the activations before they are rounded.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "engine/lora/adapter.hpp"
#include "test/unit/golden/loaded_model.hpp"

namespace {

using namespace orcd;
using engine::token_id;
using test::loaded_model;

constexpr std::uint32_t context = 64;
constexpr std::size_t vocab = 128;
const std::string folder = std::string(ORCD_TEST_DATA) + "/ternary/";
const std::vector<token_id> prompt{112, 56, 48, 72, 106, 116};
const std::vector<token_id> greedy{115, 112, 52, 28, 45, 5, 69, 64, 93, 75, 75, 55, 11, 50, 27, 62};

std::vector<float> stored_logits(const std::string& name) {
  std::ifstream in(folder + name, std::ios::binary);
  std::vector<float> out(prompt.size() * vocab);
  in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size() * sizeof(float)));
  BOOST_REQUIRE(in.good());
  return out;
}

double relative_error(std::span<const float> ours, std::span<const float> reference) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < vocab; ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - reference[i], 2);
    norm += std::pow(static_cast<double>(reference[i]), 2);
  }
  return std::sqrt(difference / norm);
}

void check_logits(loaded_model& model, const std::string& name, double bound) {
  const std::vector<float> want = stored_logits(name);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    model.append({&prompt[i], 1});
    const double error = relative_error(model.logits(), std::span(want).subspan(i * vocab, vocab));
    BOOST_TEST(error < bound, name << ", position " << i << ": " << error);
  }
}

/// Rank 8 beside q, v and down of both layers, scale 2; A and B follow one another in the order of pairs.
engine::lora_adapter stored_adapter() {
  using engine::lora_target;
  engine::lora_adapter out;
  std::ifstream in(folder + "adapter_f32.bin", std::ios::binary);
  out.values.resize(22'528);
  in.read(reinterpret_cast<char*>(out.values.data()),
          static_cast<std::streamsize>(out.values.size() * sizeof(float)));
  BOOST_REQUIRE((in.good() && in.peek() == std::ifstream::traits_type::eof()));
  std::uint64_t at = 0;
  for (const std::uint32_t layer : {0U, 1U}) {
    for (const lora_target target : {lora_target::attn_q, lora_target::attn_v, lora_target::ffn_down}) {
      const std::uint32_t rows = target == lora_target::attn_v ? 128 : 256;
      out.pairs.push_back({target, layer, 8, 256, rows, 2.0F, at, at + 8 * 256});
      at += 8 * (256 + rows);
    }
  }
  return out;
}

std::vector<token_id> generate(loaded_model& model) {
  std::vector<token_id> out{model.append(prompt)};
  while (out.size() < greedy.size()) out.push_back(model.append({&out.back(), 1}));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(golden_bitnet)

BOOST_AUTO_TEST_CASE(logits_match_the_reference) {
  loaded_model model(folder + "tiny-i2_s.gguf", context, {}, 16);
  check_logits(model, "logits_kv_f16_f32.bin", 1e-5);
  loaded_model exact(folder + "tiny-i2_s.gguf", context, {}, 16,
                     {.keys = engine::kv_type::f32, .values = engine::kv_type::f32});
  check_logits(exact, "logits_f32.bin", 1e-5);
}

BOOST_AUTO_TEST_CASE(logits_with_a_lora_adapter_match_the_reference) {
  loaded_model model(folder + "tiny-i2_s.gguf", context, {}, 16, {}, {1, 8});
  model.put_on(stored_adapter(), 1.0F);
  check_logits(model, "logits_kv_f16_lora_f32.bin", 1e-5);
  loaded_model exact(folder + "tiny-i2_s.gguf", context, {}, 16,
                     {.keys = engine::kv_type::f32, .values = engine::kv_type::f32}, {1, 8});
  exact.put_on(stored_adapter(), 1.0F);
  check_logits(exact, "logits_lora_f32.bin", 1e-5);
}

BOOST_AUTO_TEST_CASE(greedy_tokens_match_in_every_chunk_size) {
  for (const std::uint32_t chunk : {1U, 4U, 16U}) {
    loaded_model model(folder + "tiny-i2_s.gguf", context, {}, chunk);
    BOOST_TEST(generate(model) == greedy, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
