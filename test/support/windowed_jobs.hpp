// Jobs that meet the windows of a model, on any accelerator: hits at boundaries of every kind, prompts cut
// anyhow, jobs that are preempted and go on, and drafts, to compare with what a cache of all positions gives
// that shares nothing.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "test/support/drafted_run.hpp"
#include "test/support/recording_sink.hpp"

namespace orcd::test {

inline constexpr std::uint32_t windowed_context = 2'560;

struct windowed_setting {
  std::uint32_t slots = 1, chunk = 16, depth = 1, pages = 0, drafts = 0;
  bool windows = true;  ///< they have groups of their own
  [[nodiscard]] engine::accelerator_config config() const {
    engine::accelerator_config out{.slots = slots, .context_tokens = windowed_context, .banned_tokens = {}};
    out.kv_pages = pages;
    out.draft_tokens = drafts;
    out.window_groups = windows;
    return out;
  }
};

/// A model with windows, as a backend loads it.
struct windowed_source {
  std::string name;
  std::uint32_t vocab = 0;
  /// `count` ids that depend on the seed alone.
  std::function<std::vector<engine::token_id>(std::uint32_t count, std::uint32_t seed)> prompt;
  std::function<std::unique_ptr<engine::accelerator>(const windowed_setting&)> load;
};

struct windowed_answer {
  std::vector<engine::token_id> given;
  std::vector<float> logits;
  std::uint32_t cached = 0;
};

/// One job at a time.
class asked_model {
 public:
  asked_model(const windowed_source& from, const windowed_setting& s) : device_(from.load(s)) {
    engine::scheduler_config config;
    config.cache = {.share = s.windows, .tokens_min = 1};
    loop_ = std::make_unique<engine::scheduler>(*device_, config);
  }
  windowed_answer ask(const std::vector<engine::token_id>& prompt) {
    engine::job_request job;
    job.job_id = "job";
    job.prompt = prompt;
    job.max_tokens = 5;
    job.seed = 7;
    job.ignore_eos = true;
    job.sampling.temperature = 0.9F;
    job.cache.system_tokens = 260;
    const auto sink = std::make_shared<recording_sink>();
    loop_->submit(std::move(job), sink);
    while (loop_->run_step()) {
    }
    BOOST_REQUIRE(sink->end());
    const auto row = device_->logits(engine::slot_id{0});
    return {sink->tokens(), {row.begin(), row.end()}, sink->stats().tokens_cached};
  }
  [[nodiscard]] std::uint32_t groups() const { return device_->kv_pages().group_count; }
  [[nodiscard]] engine::window_counts counts() const { return loop_->counts().cache.windows; }

 private:
  std::unique_ptr<engine::accelerator> device_;
  std::unique_ptr<engine::scheduler> loop_;
};

inline std::vector<engine::token_id> joined(std::vector<engine::token_id> first, std::size_t length,
                                            const std::vector<engine::token_id>& rest) {
  first.resize(length);
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

inline void check_hits(const windowed_source& source, std::uint32_t chunk) {
  asked_model cold(source, {.chunk = 64, .windows = false});
  asked_model warm(source, {.chunk = chunk});
  BOOST_TEST_REQUIRE(cold.groups() == 0U);
  BOOST_TEST_REQUIRE(warm.groups() > 0U, source.name);
  const std::vector<engine::token_id> base = source.prompt(900, 1);
  std::vector<engine::token_id> last;
  const auto check = [&](const char* what, const std::vector<engine::token_id>& prompt,
                         std::uint32_t cached) {
    const windowed_answer want = cold.ask(prompt);
    const windowed_answer got = warm.ask(prompt);
    BOOST_TEST(got.cached == cached, source.name << ", " << what);
    BOOST_TEST((got.given == want.given), source.name << ", " << what << ", chunks of " << chunk);
    BOOST_TEST(std::memcmp(got.logits.data(), want.logits.data(), want.logits.size() * sizeof(float)) == 0,
               source.name << ", " << what << ", chunks of " << chunk);
    last = joined(prompt, prompt.size(), want.given);
  };
  check("cold", joined(base, 700, {}), 0);
  const std::vector<engine::token_id> turn = last;
  check("the same prompt", joined(base, 700, {}), 699);
  check("the next turn", joined(turn, 705, source.prompt(40, 2)), 704);
  check("a system prompt", joined(base, 260, source.prompt(300, 3)), 260);
  check("where nobody stopped", joined(base, 530, source.prompt(30, 4)), 260);
  check("where another left", joined(base, 530, source.prompt(30, 5)), 530);
  check("the end of a page", joined(base, 513, {}), 260);
  check("the end of a page again", joined(base, 513, source.prompt(9, 6)), 512);
  check("another", source.prompt(300, 8), 0);
  BOOST_TEST(warm.counts().boundaries > 0U);
  BOOST_TEST(warm.counts().pages_used == 0U);
}

/// Two long jobs at a time, on as many pages as there are.
class long_jobs {
 public:
  static constexpr std::uint32_t jobs = 4;
  explicit long_jobs(windowed_source source) : source_(std::move(source)) {
    const auto device = source_.load({.chunk = 64, .windows = false});
    plain_ = run(*device, 1, false, {}).first;
  }
  /// What differs from a run one after the other, and how many jobs were preempted.
  [[nodiscard]] std::pair<bool, std::uint64_t> differs(const windowed_setting& s,
                                                       std::uint32_t always) const {
    std::map<std::string, std::vector<engine::token_id>> whole;
    for (std::uint32_t i = 0; i < jobs; ++i)
      whole["job" + std::to_string(i)] = joined(job(i).prompt, job(i).prompt.size(), plain_[i]);
    const auto device = source_.load(s);
    BOOST_TEST_REQUIRE(device->kv_pages().group_count > 0U);
    const auto drafts = always == 0 ? engine::speculation{} : knowing(whole, source_.vocab, always, 0.2);
    const auto [given, preempted] = run(*device, s.slots, true, drafts);
    return {given != plain_, preempted};
  }

 private:
  [[nodiscard]] engine::job_request job(std::uint32_t number) const {
    engine::job_request out;
    out.job_id = "job" + std::to_string(number);
    out.prompt = joined(source_.prompt(330, 1), number % 2 == 0 ? 330 : 280, source_.prompt(20, number + 2));
    out.max_tokens = 1'000 + 97 * number;
    out.seed = number;
    out.ignore_eos = true;
    out.sampling.temperature = number == 0 ? 0.0F : 0.9F;
    return out;
  }
  [[nodiscard]] std::pair<std::vector<std::vector<engine::token_id>>, std::uint64_t> run(
      engine::accelerator& device, std::uint32_t slots, bool share, engine::speculation drafts) const {
    engine::scheduler_config config;
    config.slots = slots;
    config.cache = {.share = share, .tokens_min = 1};
    config.drafts = std::move(drafts);
    engine::scheduler loop(device, config);
    std::vector<std::shared_ptr<recording_sink>> sinks;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      sinks.push_back(std::make_shared<recording_sink>());
      loop.submit(job(i), sinks.back());
    }
    std::uint32_t step = 0;
    while (loop.run_step()) {
      if (share && ++step % 97 == 0) loop.interrupt();
    }
    std::vector<std::vector<engine::token_id>> out;
    for (const auto& sink : sinks) {
      BOOST_REQUIRE(sink->end());
      out.push_back(sink->tokens());
    }
    return {out, loop.counts().preemptions};
  }

  windowed_source source_;
  std::vector<std::vector<engine::token_id>> plain_;
};

/// On so few pages that jobs are preempted, with drafts and without.
inline void check_long_jobs(const windowed_source& source, std::uint32_t pages) {
  const long_jobs bench(source);
  for (const std::uint32_t always : {0U, 9U}) {
    const windowed_setting s{.slots = 2, .chunk = 16, .depth = 2, .pages = pages, .drafts = always * 2};
    const auto [differs, preempted] = bench.differs(s, always);
    BOOST_TEST(!differs, source.name << ", " << always << " drafts");
    BOOST_TEST(preempted > 0U);
  }
}

}  // namespace orcd::test
