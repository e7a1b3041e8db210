// Whole models with every pair of KV types on the CUDA backend: against transformers in f32, and bit for bit
// against themselves: prompt chunks, decode steps, neighbours, a slot used before.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/attention_args.hpp"
#include "test/gpu/cuda/loaded_cuda_model.hpp"
#include "test/support/kv_reference.hpp"
#include "test/unit/golden/golden_file.hpp"

namespace orcd::test {
namespace {

using engine::kv_type;
using engine::token_id;

/// Of f16 weights and activations, with K and V in f16; what the types add is in steps_of().
constexpr double error_bound = 3e-3;

/// How many times coarser than f16 a type is: see other_kv_types_err_by_their_steps of the host's goldens.
double steps_of(kv_type type) {
  return type == kv_type::f16 ? 1 : type == kv_type::bf16 ? 8 : 20;
}

double relative_error(std::span<const float> ours, std::span<const float> reference) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    difference += std::pow(double{ours[i]} - reference[i], 2);
    norm += std::pow(double{reference[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

void check_types(const std::string& name, const tiny_golden& golden, engine::kv_types kv) {
  const golden_case& c = golden.cases.front();
  const std::span<const token_id> tokens(c.tokens);
  const std::string shown = name + ", K " + to_string(kv.keys) + ", V " + to_string(kv.values);
  gpu::cuda_backend_options options;
  options.chunk_tokens = 64;
  loaded_cuda_model model(golden.model, c.context, c.rope, options, 3, kv);
  const auto whole = model.run(0, tokens);
  const double error = relative_error(whole, c.exact(c.positions.size() - 1));
  const double bound = error_bound + (steps_of(kv.keys) + steps_of(kv.values)) * c.half_kv_effect;
  std::printf("%s: relative error %.1e against f32, allowed %.1e\n", shown.c_str(), error, bound);
  BOOST_TEST(error < bound, shown << ": " << error);

  BOOST_TEST(std::ranges::equal(model.run(1, tokens, 7), whole), shown << ": chunks of 7 change the bits");
  // The slot's second user finds nothing of the first; every token is a decode step, beside neighbours.
  model.release(0);
  model.release(1);
  model.run(1, tokens.subspan(3, 5));
  model.run(2, tokens.subspan(1, 9));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i % 3 == 0) {
      model.append({{0, tokens.subspan(i, 1)}});
    } else {
      model.append({{1, tokens.subspan(i / 2, 1)}, {0, tokens.subspan(i, 1)}, {2, tokens.subspan(i / 3, 1)}});
    }
  }
  BOOST_TEST(std::ranges::equal(model.logits(0), whole), shown << ": decode steps change the bits");
}

/// The last has heads of 512 values, which some pairs of types are not for.
const std::vector<std::string> model_names{"llama-tied", "qwen2-yarn", "phi3-plain", "gpt-oss", "gemma4"};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_kv_types)

BOOST_DATA_TEST_CASE(every_pair_of_types_is_near_the_oracle_and_keeps_its_bits,
                     boost::unit_test::data::make(model_names), name) {
  const tiny_golden golden = read_tiny_golden(name);
  for (const kv_type keys : device_kv_types) {
    for (const kv_type values : device_kv_types) {
      if (name == "gemma4" && !kernels::attention_takes(512, keys, values)) continue;
      check_types(name, golden, {keys, values});
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
