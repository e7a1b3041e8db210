// A loaded accelerator that pools, fed whole inputs: for the tests of both backends.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "test/unit/golden/pooled_file.hpp"

namespace orcd::test {

class pooled_device {
 public:
  pooled_device(const pooled_use& use, std::uint32_t slots, std::unique_ptr<engine::accelerator> device)
      : file_(engine::gguf_file::open(use.model).value()),
        model_(engine::load_model(file_, 512, {}, use.pooling).value()),
        device_(std::move(device)) {
    if (!use.causal) model_.spec.causal = false;
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = 512;
    const auto plan = device_->load(model_, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().message));
  }

  [[nodiscard]] std::vector<float> run(const pooled_case& input, std::uint32_t slot = 0) {
    const engine::pool_request asked{static_cast<std::uint32_t>(input.tokens.size()), input.second};
    std::vector<engine::sampled_token> done;
    std::uint32_t position = 0;
    for (std::span<const engine::token_id> rest(input.tokens); !rest.empty();) {
      const auto part = rest.first(std::min<std::size_t>(rest.size(), device_->chunk_tokens()));
      const engine::sequence_step step{engine::slot_id{slot}, position, part, nullptr, &asked};
      BOOST_REQUIRE(device_->step({&step, 1}, never_, done));
      position += static_cast<std::uint32_t>(part.size());
      rest = rest.subspan(part.size());
    }
    device_->release(engine::slot_id{slot});
    BOOST_REQUIRE_EQUAL(done.size(), 1U);
    return *done.front().pooled;
  }

  /// All in one step, each in a slot of its own; they must fit.
  [[nodiscard]] std::vector<std::vector<float>> run_together(const std::vector<pooled_case>& inputs) {
    std::vector<engine::pool_request> asked;
    for (const auto& input : inputs)
      asked.push_back({static_cast<std::uint32_t>(input.tokens.size()), input.second});
    std::vector<engine::sequence_step> steps;
    for (std::uint32_t i = 0; i < inputs.size(); ++i)
      steps.push_back({engine::slot_id{i}, 0, inputs[i].tokens, nullptr, &asked[i]});
    std::vector<engine::sampled_token> done;
    BOOST_REQUIRE(device_->step(steps, never_, done));
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

/// Every input of `pool`, which has four slots, against `expected`, in other slots and beside others in
/// several orders.
inline void expect_same_bits(const pooled_use& use, pooled_device& pool,
                             const std::vector<std::vector<float>>& expected) {
  for (std::size_t i = 0; i < use.cases.size(); ++i)
    BOOST_TEST((pool.run(use.cases[i], static_cast<std::uint32_t>(i % 4)) == expected[i]), "input " << i);
  const std::size_t few = std::min<std::size_t>(4, use.cases.size());
  for (std::size_t first = 0; first < few; ++first) {
    std::vector<pooled_case> inputs;
    for (std::size_t i = 0; i < few; ++i) inputs.push_back(use.cases[(first + i) % few]);
    const auto together = pool.run_together(inputs);
    BOOST_REQUIRE_EQUAL(together.size(), few);
    for (std::size_t i = 0; i < few; ++i)
      BOOST_TEST((together[i] == expected[(first + i) % few]), "input " << i << " of order " << first);
  }
}

}  // namespace orcd::test
