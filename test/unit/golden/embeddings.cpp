// Pooled states against transformers (test/oracle/make_embedding_goldens.py), and their bits: alone, beside
// neighbours, in other slots and in other chunks.
#include <boost/json.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "engine/accelerator.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/host_backend.hpp"

namespace json = boost::json;
namespace data = boost::unit_test::data;
using namespace orcd;

namespace {

const std::vector<std::string> uses{"bert-mean",  "bert-cls",       "bert-none", "bert-rank",
                                    "qwen3-last", "qwen3-unmasked", "qwen3-rank"};
// K and V are kept in f16, which is the largest part of what differs.
constexpr double relative_bound = 1e-3;
constexpr double cosine_bound = 1e-6;

struct pooled_case {
  std::vector<engine::token_id> tokens;
  std::uint32_t second = 0;
  std::vector<float> pooled;
};

struct pooled_use {
  std::string model;
  engine::pooling_kind pooling{};
  bool causal = true;
  std::vector<pooled_case> cases;
};

pooled_use read_use(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA "/embedding/") + name + ".json");
  std::ostringstream text;
  text << in.rdbuf();
  const json::value root = json::parse(text.str());
  pooled_use out;
  out.model = std::string(ORCD_TEST_DATA "/embedding/") + std::string(root.at("model").as_string());
  out.pooling = static_cast<engine::pooling_kind>(root.at("pooling").to_number<int>());
  out.causal = root.at("causal").as_bool();
  for (const auto& c : root.at("cases").as_array()) {
    pooled_case one;
    for (const auto& t : c.at("tokens").as_array()) one.tokens.push_back(t.to_number<engine::token_id>());
    one.second = c.at("second").to_number<std::uint32_t>();
    for (const auto& v : c.at("pooled").as_array()) one.pooled.push_back(v.to_number<float>());
    out.cases.push_back(std::move(one));
  }
  return out;
}

class pooled_model {
 public:
  pooled_model(const pooled_use& use, std::uint32_t slots, std::uint32_t chunk, unsigned threads = 1)
      : file_(engine::gguf_file::open(use.model).value()),
        model_(engine::load_model(file_, 512, {}, use.pooling).value()) {
    if (!use.causal) model_.spec.causal = false;
    gpu::host_backend_options options;
    options.chunk_tokens = chunk;
    options.threads = threads;
    device_ = gpu::make_host_backend(options);
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = 512;
    if (auto plan = device_->load(model_, config, [](unsigned) {}); !plan)
      throw engine::error_exception(plan.error());
  }

  std::vector<float> run(const pooled_case& input, std::uint32_t slot = 0) {
    const engine::pool_request asked{static_cast<std::uint32_t>(input.tokens.size()), input.second};
    std::vector<engine::sampled_token> done;
    std::uint32_t position = 0;
    for (std::span<const engine::token_id> rest(input.tokens); !rest.empty();) {
      const auto part = rest.first(std::min<std::size_t>(rest.size(), device_->chunk_tokens()));
      const engine::sequence_step step{engine::slot_id{slot}, position, part, nullptr, &asked};
      BOOST_TEST_REQUIRE(device_->step({&step, 1}, never_, done));
      position += static_cast<std::uint32_t>(part.size());
      rest = rest.subspan(part.size());
    }
    device_->release(engine::slot_id{slot});
    BOOST_TEST_REQUIRE(done.size() == 1U);
    return *done.front().pooled;
  }

  /// All in one step, each in a slot of its own; they must fit.
  std::vector<std::vector<float>> run_together(const std::vector<pooled_case>& inputs) {
    std::vector<engine::pool_request> asked;
    for (const auto& input : inputs)
      asked.push_back({static_cast<std::uint32_t>(input.tokens.size()), input.second});
    std::vector<engine::sequence_step> steps;
    for (std::uint32_t i = 0; i < inputs.size(); ++i)
      steps.push_back({engine::slot_id{i}, 0, inputs[i].tokens, nullptr, &asked[i]});
    std::vector<engine::sampled_token> done;
    BOOST_TEST_REQUIRE(device_->step(steps, never_, done));
    std::vector<std::vector<float>> out;
    for (const auto& one : done) out.push_back(*one.pooled);
    for (const auto& step : steps) device_->release(step.slot);
    return out;
  }

 private:
  engine::gguf_file file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
  const engine::interrupt_flag never_ = false;
};

struct difference {
  double relative = 0.0;  ///< ||a - b|| / ||b||
  double largest = 0.0;   ///< of any number
  double cosine = 0.0;    ///< 1 - cos(a, b)
};

difference compare(std::span<const float> ours, std::span<const float> reference) {
  BOOST_TEST_REQUIRE(ours.size() == reference.size());
  double aa = 0.0, ab = 0.0, bb = 0.0, dd = 0.0;
  difference out;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double a = ours[i], b = reference[i];
    aa += a * a;
    ab += a * b;
    bb += b * b;
    dd += (a - b) * (a - b);
    out.largest = std::max(out.largest, std::fabs(a - b));
  }
  out.relative = std::sqrt(dd / bb);
  out.cosine = 1.0 - ab / std::sqrt(aa * bb);
  return out;
}

BOOST_AUTO_TEST_SUITE(golden_embeddings)

BOOST_DATA_TEST_CASE(pooled_states_match_the_oracle, data::make(uses), name) {
  const pooled_use use = read_use(name);
  pooled_model model(use, 1, 16);
  difference worst;
  for (const pooled_case& c : use.cases) {
    const difference d = compare(model.run(c), c.pooled);
    worst.relative = std::max(worst.relative, d.relative);
    worst.largest = std::max(worst.largest, d.largest);
    worst.cosine = std::max(worst.cosine, d.cosine);
  }
  std::printf("%s: relative error %.1e, largest %.1e, 1 - cosine %.1e\n", name.c_str(), worst.relative,
              worst.largest, worst.cosine);
  BOOST_TEST(worst.relative < relative_bound);
  BOOST_TEST(worst.cosine < cosine_bound);
}

BOOST_DATA_TEST_CASE(the_bits_depend_on_nothing_but_the_input, data::make(uses), name) {
  const pooled_use use = read_use(name);
  pooled_model alone(use, 1, 16);
  pooled_model pool(use, 4, 512, 2);
  std::vector<std::vector<float>> expected;
  for (const pooled_case& c : use.cases) expected.push_back(alone.run(c));
  for (std::size_t i = 0; i < use.cases.size(); ++i) {
    BOOST_TEST(pool.run(use.cases[i], static_cast<std::uint32_t>(i % 4)) == expected[i]);
    if (use.causal) BOOST_TEST(pooled_model(use, 1, 5).run(use.cases[i]) == expected[i]);
  }
  // 1 + 2 + 17 and 63 tokens, in several orders.
  const std::size_t few = std::min<std::size_t>(4, use.cases.size());
  for (std::size_t first = 0; first < few; ++first) {
    std::vector<pooled_case> inputs;
    for (std::size_t i = 0; i < few; ++i) inputs.push_back(use.cases[(first + i) % few]);
    const auto together = pool.run_together(inputs);
    BOOST_TEST_REQUIRE(together.size() == few);
    for (std::size_t i = 0; i < few; ++i) BOOST_TEST(together[i] == expected[(first + i) % few]);
  }
}

// The oracle tells right from wrong: without the second segment's type, the result is another one.
BOOST_AUTO_TEST_CASE(a_wrong_token_type_is_noticed) {
  const pooled_use use = read_use("bert-cls");
  pooled_model model(use, 1, 16);
  pooled_case c = use.cases.at(2);
  BOOST_TEST_REQUIRE(c.second > 0U);
  c.second = 0;
  BOOST_TEST(compare(model.run(c), c.pooled).relative > 10 * relative_bound);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
