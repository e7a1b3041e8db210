// Whole models on the CUDA backend: against transformers' logits (test/oracle), and bit for bit against
// themselves: prompt cut in other chunks, alone or beside other sequences, with and without graphs.
#include <algorithm>
#include <atomic>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/gpu/cuda/loaded_cuda_model.hpp"
#include "test/unit/golden/golden_file.hpp"

namespace orcd::test {
namespace {

using engine::token_id;
namespace data = boost::unit_test::data;

// What is asked for. Weights and activations enter the products as f16 (2^-11 each), layer after layer; the
// host backend's f32 activations stay below 1e-3 on the same goldens.
constexpr double logits_bound = 2e-3;
// Of one value on the way, which later layers may even out.
constexpr double tap_bound = 3e-3;

const std::vector<std::string> model_names = [] {
  std::vector<std::string> names = tiny_golden_names();
  names.insert(names.end(), hybrid_golden_names().begin(), hybrid_golden_names().end());
  return names;
}();

struct cuda_model : loaded_cuda_model {
  cuda_model(const tiny_golden& golden, const golden_case& c, const gpu::cuda_backend_options& options,
             std::uint32_t slots)
      : loaded_cuda_model(golden.model, c.context, c.rope, options, slots) {}
};

double relative_error(std::span<const float> ours, std::span<const float> reference) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    difference += std::pow(double{ours[i]} - reference[i], 2);
    norm += std::pow(double{reference[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_models)

/// What attention leaves has columns up to the next multiple of 64 that only the arena's zeros fill: nine
/// heads of 32 leave 288 of 320.
BOOST_AUTO_TEST_CASE(experts_results_do_not_take_the_padding_of_attention) {
  engine::model_spec spec;
  spec.context_length = 256;
  spec.embedding = 288;
  spec.vocab = 300;
  spec.experts = 4;
  spec.experts_used = 2;
  engine::layer_spec layer;
  layer.heads = 9;
  layer.kv_heads = 1;
  layer.key_length = layer.value_length = 32;
  layer.ffn = engine::ffn_kind::moe;
  layer.ffn_size = 256;
  spec.layers = {layer, layer};
  gpu::cuda_extents extents;
  extents.context = 256;
  extents.one_kernel = 0;
  const gpu::work_layout layout(spec, extents);
  const std::uint64_t attended_end = layout.attended + std::uint64_t{extents.columns()} * 320 * 2;
  const std::uint64_t parts_end = layout.expert_out + std::uint64_t{extents.columns()} * spec.experts_used *
                                                          spec.embedding * sizeof(float);
  BOOST_TEST((parts_end <= layout.attended || attended_end <= layout.expert_out));
  BOOST_TEST(parts_end <= layout.activated);
}

BOOST_DATA_TEST_CASE(logits_match_the_oracle_and_no_chunk_size_changes_a_bit, data::make(model_names), name) {
  const tiny_golden golden = read_tiny_golden(name);
  for (const golden_case& c : golden.cases) {
    std::vector<float> first;
    for (const std::uint32_t chunk : {1U, 7U, 64U}) {
      cuda_model model(golden, c, {.chunk_tokens = chunk}, 1);
      const auto logits = model.run(0, c.tokens);
      const double error = relative_error(logits, c.exact(c.positions.size() - 1));
      if (chunk == 1)
        std::printf("%s/%s: relative error %.2e against f32\n", name.c_str(), c.name.c_str(), error);
      BOOST_TEST(error < logits_bound, name << "/" << c.name << " chunk " << chunk << ": " << error);
      if (first.empty()) first = logits;
      BOOST_TEST(std::ranges::equal(first, logits),
                 name << "/" << c.name << ": chunks of " << chunk << " change the bits");
    }
  }
}

BOOST_DATA_TEST_CASE(neighbours_slots_and_graphs_change_no_bit, data::make(model_names), name) {
  const tiny_golden golden = read_tiny_golden(name);
  const golden_case& c = golden.cases.front();
  constexpr std::uint32_t slots = 20;
  const std::span<const token_id> tokens(c.tokens);
  const std::size_t half = tokens.size() / 2;
  cuda_model alone(golden, c, {.graphs = false}, 1);
  alone.run(0, tokens.first(half));
  std::vector<std::vector<float>> expected;
  for (std::size_t i = half; i < tokens.size(); ++i) expected.push_back(alone.run(0, tokens.subspan(i, 1)));

  // Ten neighbours are more than one launch of a few-column product takes, nineteen more than any graph.
  for (const auto& [others, mine] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 0}, {4, 7}, {10, 0}, {10, 10}, {19, 12}}) {
    cuda_model together(golden, c, {}, slots);
    // Neighbours with other prompts, of other lengths.
    std::vector<std::uint32_t> neighbours;
    for (std::uint32_t s = 0; s < slots && neighbours.size() < others; ++s) {
      if (s != mine) neighbours.push_back(s);
    }
    for (const std::uint32_t s : neighbours) together.run(s, tokens.subspan(s % 5, 3 + s));
    together.run(mine, tokens.first(half));
    for (std::size_t i = half; i < tokens.size(); ++i) {
      std::vector<std::pair<std::uint32_t, std::span<const token_id>>> parts;
      for (const std::uint32_t s : neighbours)
        parts.emplace_back(s, tokens.subspan((i + s) % tokens.size(), 1));
      const std::size_t place = i % 2 == 0 ? others / 2 : parts.size();
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(place), {mine, tokens.subspan(i, 1)});
      together.append(parts);
      BOOST_TEST(std::ranges::equal(together.logits(mine), expected[i - half]),
                 name << ": " << others << " neighbours change the bits at position " << i);
      if (i == half + 2 && !neighbours.empty()) together.release(neighbours.back()), neighbours.pop_back();
    }
  }
}

// Where two implementations part: every intermediate value of the first token, both backends.
BOOST_DATA_TEST_CASE(taps_of_both_backends_agree_layer_by_layer, data::make(model_names), name) {
  const tiny_golden golden = read_tiny_golden(name);
  const golden_case& c = golden.cases.front();
  using values = std::map<std::pair<std::uint32_t, std::string>, std::vector<float>>;
  values host;
  values cuda;
  const auto into = [](values& where) {
    return [&where](std::string_view tap, std::uint32_t layer, std::span<const float> v) {
      where[{layer, std::string(tap)}].assign(v.begin(), v.end());
    };
  };
  const auto file = engine::gguf_file::open(golden.model.string()).value();
  const auto m = engine::load_model(file, c.context, c.rope).value();
  const auto reference = gpu::make_host_backend({.threads = 1, .tap = into(host)});
  BOOST_REQUIRE(reference->load(m, {1, c.context, {}}, [](unsigned) {}));
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy};
  const std::atomic<bool> never{false};
  std::vector<engine::sampled_token> sampled;
  const engine::sequence_step step{engine::slot_id{0}, 0, std::span(c.tokens).first(1), &request};
  BOOST_REQUIRE(reference->step(std::span(&step, 1), never, sampled));
  cuda_model model(golden, c, {.tap = into(cuda)}, 1);
  model.run(0, std::span(c.tokens).first(1));
  for (const auto& [key, ours] : cuda) {
    const auto theirs = host.find(key);
    if (theirs == host.end() || theirs->second.size() != ours.size()) continue;
    const double error = relative_error(ours, theirs->second);
    BOOST_TEST(error < tap_bound, name << " layer " << key.first << " " << key.second << ": " << error);
  }
}

BOOST_DATA_TEST_CASE(twenty_runs_give_the_same_bits, data::make(model_names), name) {
  const tiny_golden golden = read_tiny_golden(name);
  const golden_case& c = golden.cases.front();
  const std::span<const token_id> tokens(c.tokens);
  std::vector<std::vector<float>> first;
  for (int load = 0; load < 2; ++load) {
    cuda_model model(golden, c, {}, 1);
    for (int run = 0; run < 10; ++run) {
      std::vector<std::vector<float>> seen{model.run(0, tokens.first(20))};
      for (std::size_t i = 20; i < tokens.size(); ++i) seen.push_back(model.run(0, tokens.subspan(i, 1)));
      if (first.empty()) first = seen;
      BOOST_TEST((seen == first), name << ": load " << load << ", run " << run);
      model.release(0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
