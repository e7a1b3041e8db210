// Jobs with LoRA adapters on the host backend, in the slots of one scheduler with a prefix cache: each gets
// the bytes that it gets alone from nothing.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/support/put_adapter.hpp"
#include "test/support/recording_sink.hpp"
#include "test/unit/gpu/tiny_adapter.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

using namespace orcd;
using engine::job_adapter;
using engine::token_id;

namespace {

constexpr std::uint32_t context = 1024;

struct answer {
  std::vector<token_id> tokens;
  std::uint32_t cached = 0;
};

class service {
 public:
  service(const test::tiny_backend& source, std::uint32_t slots, bool share, std::uint32_t drafts = 0)
      : device_(gpu::make_host_backend({.threads = 1, .chunk_tokens = 64})) {
    engine::accelerator_config config{.slots = slots, .context_tokens = context, .banned_tokens = {}};
    config.adapters = {4, 6};
    config.draft_tokens = 64;
    (void)device_->load(source.model(), config, [](unsigned) {}).value();
    engine::scheduler_config scheduling;
    scheduling.slots = slots;
    scheduling.cache = {.share = share, .tokens_min = 1};
    scheduling.drafts = {drafts > 0, drafts};
    loop_ = std::make_unique<engine::scheduler>(*device_, scheduling);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto adapter =
          test::make_tiny_adapter(source.model(), {.rank = 3 + i, .seed = i + 1, .size = 0.5F});
      digests_.push_back(adapter.digest);
      test::put_adapter(*loop_, i, adapter).value();
    }
  }
  [[nodiscard]] job_adapter one(std::uint32_t index, float strength = 1.0F) const {
    return {index, strength, digests_[index]};
  }
  [[nodiscard]] engine::draft_counts drafts() const { return loop_->counts().drafts; }
  /// All at once.
  std::vector<answer> ask(const std::vector<token_id>& prompt,
                          const std::vector<std::vector<job_adapter>>& adapters,
                          const std::vector<std::vector<token_id>>& predictions = {}) {
    std::vector<std::shared_ptr<test::recording_sink>> sinks;
    for (const auto& list : adapters) {
      engine::job_request job;
      job.job_id = "job" + std::to_string(sinks.size());
      job.prompt = prompt;
      job.max_tokens = 8;
      job.seed = 7;
      job.ignore_eos = true;
      job.sampling.temperature = 0.9F;
      job.adapters = list;
      if (!predictions.empty()) job.prediction = predictions[sinks.size()];
      sinks.push_back(std::make_shared<test::recording_sink>());
      loop_->submit(std::move(job), sinks.back());
    }
    while (loop_->run_step()) {
    }
    std::vector<answer> out;
    for (const auto& sink : sinks) {
      BOOST_REQUIRE(sink->end());
      out.push_back({sink->tokens(), sink->stats().tokens_cached});
    }
    return out;
  }

 private:
  std::unique_ptr<engine::accelerator> device_;
  std::unique_ptr<engine::scheduler> loop_;
  std::vector<std::string> digests_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(adapter_bits)

BOOST_AUTO_TEST_CASE(slots_and_cache_change_no_token) {
  test::tiny_model_options options;
  options.context = context;
  const test::tiny_backend source(options);
  service alone(source, 1, false), together(source, 5, true);
  const auto prompt = source.prompt(300, 1);
  const std::vector<std::vector<job_adapter>> jobs{
      {alone.one(0)}, {alone.one(1, 0.5F)}, {}, {alone.one(2), alone.one(0, -1.0F)}, {alone.one(3)}};
  std::vector<std::vector<token_id>> want;
  for (const auto& job : jobs) want.push_back(alone.ask(prompt, {job}).front().tokens);
  for (const std::uint32_t cached : {0U, 299U}) {
    const std::vector<answer> got = together.ask(prompt, jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      BOOST_TEST(got[i].tokens == want[i], boost::test_tools::per_element());
      BOOST_TEST(got[i].cached == cached);
      for (std::size_t j = 0; j < i; ++j) BOOST_TEST((want[i] != want[j]));
    }
  }
}

// What is expected is right at first, then wrong, then right again.
BOOST_AUTO_TEST_CASE(drafts_beside_adapters_change_no_token) {
  test::tiny_model_options options;
  options.context = context;
  const test::tiny_backend source(options);
  service alone(source, 1, false);
  const auto prompt = source.prompt(40, 1);
  const std::vector<std::vector<job_adapter>> jobs{
      {alone.one(0)}, {alone.one(1, 0.5F)}, {}, {alone.one(2), alone.one(0, -1.0F)}, {alone.one(3)}};
  std::vector<std::vector<token_id>> want, predicted;
  for (const auto& job : jobs) {
    want.push_back(alone.ask(prompt, {job}).front().tokens);
    predicted.push_back(want.back());
    predicted.back().at(3) ^= 1;
  }
  for (const std::uint32_t drafts : {1U, 4U, 7U}) {
    service together(source, 5, true, drafts);
    for (const auto& expected : {want, predicted}) {
      const std::vector<answer> got = together.ask(prompt, jobs, expected);
      for (std::size_t i = 0; i < jobs.size(); ++i)
        BOOST_TEST(got[i].tokens == want[i], boost::test_tools::per_element());
    }
    BOOST_TEST(together.drafts().right >= 15U, drafts << " drafts: " << together.drafts().right);
    // One at a time comes past the wrong one.
    if (drafts > 1) BOOST_TEST(together.drafts().right < together.drafts().tokens);
  }
}

BOOST_AUTO_TEST_SUITE_END()
