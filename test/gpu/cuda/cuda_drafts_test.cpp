// With drafts and without, jobs get the same tokens, log probabilities and ends on the GPU, bit for bit: in
// steps that are one kernel, graphs or launches, over pages, with caches of every type.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/support/drafted_run.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

constexpr std::uint32_t context = 512;

/// A generated model, and devices that have it.
class drafting_bench {
 public:
  explicit drafting_bench(const std::string& shape)
      : generated_(shape),
        file_(engine::gguf_file::open(generated_.path()).value()),
        model_(engine::load_model(file_, context, {}).value()) {
    limits.vocab = model_.spec.vocab;
    limits.context = context;
    limits.slots = 1;
    limits.end_of_generation = {5};
  }

  [[nodiscard]] std::unique_ptr<engine::accelerator> make(std::uint32_t slots, engine::kv_types kv = {},
                                                          gpu::cuda_backend_options options = {},
                                                          std::uint32_t drafts = 64) const {
    options.end = gpu::device_end::keep;
    auto device = gpu::make_cuda_backend(options);
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = context;
    config.end_of_generation = limits.end_of_generation;
    config.kv = kv;
    config.draft_tokens = drafts;
    const auto loaded = device->load(model_, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    return device;
  }
  /// What jobs get alone, without drafts.
  [[nodiscard]] drafted_run plain(engine::kv_types kv = {}) {
    limits.slots = 1;
    const auto device = make(1, kv, {}, 0);
    BOOST_TEST(device->draft_tokens() == 0U);
    stop = run_drafted(*device, limits, {}).jobs[5]->tokens().at(9);
    return run_drafted(*device, limits, {}, stop);
  }

  scheduled_limits limits;
  engine::token_id stop = -1;

 private:
  generated_model generated_;
  engine::gguf_file file_;
  engine::model model_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_drafts)

BOOST_DATA_TEST_CASE(any_number_of_drafts_changes_nothing, data::make(all_shape_names), name) {
  drafting_bench bench(name);
  const auto plain = bench.plain();
  for (const std::uint32_t slots : {1U, 3U, 8U}) {
    bench.limits.slots = slots;
    const auto device = bench.make(slots);
    BOOST_REQUIRE(device->draft_tokens() > 0U);
    for (const std::uint32_t always : {1U, 4U, 7U, 15U}) {
      for (const double wrong : {0.0, 0.3, 1.0}) {
        const auto seen =
            run_drafted(*device, bench.limits, knowing(plain, bench.limits, always, wrong), bench.stop);
        BOOST_TEST(difference(seen, plain) == "",
                   name << ": " << slots << " slots, " << always << " drafts, wrong " << wrong);
        BOOST_TEST(seen.drafts.tokens > 0U);
        if (wrong == 1.0) BOOST_TEST(seen.drafts.right == 0U);
        if (wrong == 0.3) BOOST_TEST(seen.drafts.right > 20U);
      }
    }
    const auto looked_up = run_drafted(*device, bench.limits, {true, 0}, bench.stop);
    BOOST_TEST(difference(looked_up, plain) == "", name << ": " << slots << " slots, looked up");
  }
}

BOOST_AUTO_TEST_CASE(drafts_without_graphs_and_with_every_cache_change_nothing) {
  using engine::kv_type;
  for (const std::string name : {"qwen2", "phi3", "gpt-oss"}) {
    drafting_bench bench(name);
    for (const engine::kv_types kv : {engine::kv_types{}, engine::kv_types{kv_type::q8_0, kv_type::q8_0},
                                      engine::kv_types{kv_type::bf16, kv_type::q8_0}}) {
      const auto plain = bench.plain(kv);
      bench.limits.slots = 2;
      for (const bool graphs : {true, false}) {
        const auto device = bench.make(2, kv, {.graphs = graphs});
        const auto seen =
            run_drafted(*device, bench.limits, knowing(plain, bench.limits, 5, 0.3), bench.stop);
        BOOST_TEST(difference(seen, plain) == "",
                   name << ", graphs " << graphs << ", keys " << to_string(kv.keys));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(interrupted_steps_and_cancelled_neighbours_change_no_drafted_job) {
  drafting_bench bench("qwen2");
  const auto plain = bench.plain();
  bench.limits.slots = 4;
  const auto device = bench.make(4);
  coming_and_going disturb(bench.limits);
  for (const double wrong : {0.1, 0.6}) {
    const auto seen =
        run_drafted(*device, bench.limits, knowing(plain, bench.limits, 6, wrong), bench.stop, disturb);
    BOOST_TEST(difference(seen, plain) == "", "wrong " << wrong);
  }
}

// Measured when the model was loaded: in order, and dearer than nothing.
BOOST_AUTO_TEST_CASE(what_more_tokens_cost_is_known) {
  drafting_bench bench("qwen2");
  const auto device = bench.make(4);
  BOOST_TEST(device->draft_tokens() == 60U);
  BOOST_TEST(device->step_cost(1) == 1.0);
  for (std::uint32_t n = 1; n < 80; ++n) BOOST_TEST(device->step_cost(n + 1) >= device->step_cost(n));
  std::printf("a step of 2, 4, 8, 16, 32, 64 tokens costs %.2f %.2f %.2f %.2f %.2f %.2f\n",
              device->step_cost(2), device->step_cost(4), device->step_cost(8), device->step_cost(16),
              device->step_cost(32), device->step_cost(64));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
