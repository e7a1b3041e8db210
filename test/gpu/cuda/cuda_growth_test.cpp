// Page tables that grow while steps are under way, on the GPU: jobs on few pages, in up to as many slots as
// there can be, get what they get on ample ones and alone, bit for bit.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "gpu/plan/step_results.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/support/grown_run.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

constexpr std::uint32_t context = 1024;

/// A generated model, and devices that have it.
class growing_bench {
 public:
  explicit growing_bench(const std::string& shape)
      : generated_(shape),
        file_(engine::gguf_file::open(generated_.path()).value()),
        model_(engine::load_model(file_, context, {}).value()) {
    limits.vocab = model_.spec.vocab;
    limits.context = context;
  }
  /// Jobs on a device with so many slots and pages (0 = whole contexts).
  [[nodiscard]] grown_run run(std::uint32_t slots, std::uint32_t pages, std::uint32_t jobs,
                              bool pinned = true, engine::speculation drafts = {}) {
    gpu::cuda_backend_options options;
    options.end = gpu::device_end::keep;
    options.chunk_tokens = 128;
    options.pinned = pinned;
    const auto device = gpu::make_cuda_backend(options);
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = context;
    config.kv_pages = pages;
    config.draft_tokens = drafts.enabled ? 64 : 0;
    const auto loaded = device->load(model_, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    BOOST_TEST(device->launch_depth() == gpu::launch_depth);
    limits.slots = slots;
    return run_growing(*device, limits, jobs, true, std::move(drafts));
  }

  scheduled_limits limits;

 private:
  generated_model generated_;
  engine::gguf_file file_;
  engine::model model_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_growth)

BOOST_DATA_TEST_CASE(streams_on_few_pages_get_what_each_gets_alone, data::make(all_shape_names), name) {
  growing_bench bench(name);
  const grown_run alone = bench.run(1, 0, 12);
  for (const std::uint32_t slots : {3U, 12U}) {
    const std::uint32_t pages = slots == 3 ? 6 : 20;
    const grown_run got = bench.run(slots, pages, 12);
    BOOST_TEST(difference(got, alone) == "", name << ": " << slots << " slots");
    BOOST_TEST(got.counts.pages_free + got.counts.pages_cached == pages);
    if (slots == 12) BOOST_TEST(got.preemptions > 0U);
  }
  const grown_run drafted = bench.run(12, 20, 12, true, knowing(alone, bench.limits, 4, 0.3));
  BOOST_TEST(difference(drafted, alone) == "", name << ": with drafts");
  BOOST_TEST(drafted.preemptions > 0U);
  BOOST_TEST(drafted.drafts.right > 0U);
  BOOST_TEST(drafted.drafts.tokens > drafted.drafts.right);
}

BOOST_AUTO_TEST_CASE(as_many_slots_as_there_can_be_share_few_pages) {
  growing_bench bench(all_shape_names.front());
  const std::uint32_t slots = kernels::sample_columns_max;
  const grown_run ample = bench.run(slots, 0, slots);
  BOOST_TEST(ample.preemptions == 0U);
  for (const bool pinned : {true, false}) {
    const grown_run few = bench.run(slots, 400, slots, pinned);
    BOOST_TEST(difference(few, ample) == "");
    BOOST_TEST(few.preemptions > 20U);
    BOOST_TEST(few.counts.pages_free + few.counts.pages_cached == 400U);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
