// Many jobs on pages for few of them: each gets the tokens and log probabilities that it gets alone, bit for
// bit, however often it is preempted and computed again.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "gpu/host/host_backend.hpp"
#include "test/support/grown_run.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t context = 1024;
constexpr std::uint32_t jobs = 32;

/// A tiny model, and devices that have it.
class growing_bench {
 public:
  explicit growing_bench(const std::string& family) : source_(of(family)) {
    limits.vocab = source_.model().spec.vocab;
    limits.context = context;
  }
  /// `pages`: 0 = whole contexts.
  [[nodiscard]] std::unique_ptr<engine::accelerator> make(std::uint32_t slots, std::uint32_t pages,
                                                          std::uint32_t depth = 2) const {
    auto device = gpu::make_host_backend({.threads = 1, .chunk_tokens = 64, .launch_depth = depth});
    engine::accelerator_config config{.slots = slots, .context_tokens = context, .banned_tokens = {}};
    config.kv_pages = pages;
    config.draft_tokens = 64;
    (void)device->load(source_.model(), config, [](unsigned) {}).value();
    return device;
  }
  /// One after the other, with nothing shared.
  [[nodiscard]] grown_run alone() {
    limits.slots = 1;
    return run_growing(*make(1, 0), limits, jobs, false);
  }

  scheduled_limits limits;

 private:
  static tiny_model_options of(const std::string& family) {
    tiny_model_options options;
    options.family = family;
    options.context = context;
    return options;
  }
  tiny_backend source_;
};

void expect_same(const grown_run& got, const grown_run& alone, const std::string& what) {
  BOOST_TEST(difference(got, alone) == "", what);
  BOOST_TEST(got.counts.pages_free + got.counts.pages_cached == got.counts.pages, what);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(growth_bits)

BOOST_AUTO_TEST_CASE(many_streams_on_few_pages_get_what_each_gets_alone) {
  for (const char* family : {"llama", "gpt-oss"}) {
    growing_bench bench(family);
    const grown_run alone = bench.alone();
    bench.limits.slots = jobs;
    for (const std::uint32_t pages : {9U, 48U}) {
      const auto device = bench.make(jobs, pages);
      const grown_run got = run_growing(*device, bench.limits, jobs, pages == 48);
      expect_same(got, alone, std::string(family) + ", pages " + std::to_string(pages));
      BOOST_TEST_MESSAGE(family << ", " << pages << " pages: preempted " << got.preemptions << " times");
      BOOST_TEST(got.preemptions > 0U);
      BOOST_TEST(got.preemptions < jobs);
    }
  }
}

BOOST_AUTO_TEST_CASE(drafts_and_lost_steps_change_nothing_on_few_pages) {
  growing_bench bench("llama");
  const grown_run alone = bench.alone();
  bench.limits.slots = jobs;
  for (const std::uint32_t depth : {1U, 3U}) {
    const auto device = bench.make(jobs, depth == 1 ? 16 : 48, depth);
    const grown_run got = run_growing(*device, bench.limits, jobs, true, knowing(alone, bench.limits, 4, 0.3),
                                      [](engine::scheduler& loop, std::uint32_t step) {
                                        if (step % 11 == 5) loop.interrupt();
                                      });
    expect_same(got, alone, "depth " + std::to_string(depth));
    BOOST_TEST_MESSAGE("depth " << depth << ": preempted " << got.preemptions << " times");
    BOOST_TEST(got.preemptions > 0U);
    BOOST_TEST(got.drafts.right > 0U);
    BOOST_TEST(got.drafts.tokens > got.drafts.right);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
