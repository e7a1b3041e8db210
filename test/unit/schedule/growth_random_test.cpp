// Random loads on few pages against the same loads on ample ones: what a job gets does not depend on how
// often it, or another one, was preempted. To repeat one: ORCD_GROWTH_SEED=<seed>.
#include <algorithm>
#include <boost/lexical_cast.hpp>
#include <cstdlib>
#include <random>

#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

/// Allows two tokens of three, by what came before.
class picky final : public token_constraint {
 public:
  token_mask mask() override {
    words_.assign(4, 0);
    for (std::uint32_t t = 0; t < 128; ++t) {
      if ((state_ + t) % 3 != 0) words_[t / 32] |= 1U << t % 32;
    }
    return words_;
  }
  bool accept(token_id token) override {
    const bool good = allows(mask(), token);
    state_ = state_ * 31 + static_cast<std::uint32_t>(token);
    return good;
  }
  std::shared_ptr<token_constraint> copy() const override { return std::make_shared<picky>(*this); }
  bool complete() const override { return false; }

 private:
  std::uint32_t state_ = 7;
  std::vector<std::uint32_t> words_;
};

/// Knows what follows where nothing constrains it, and is wrong now and then.
class some_drafts final : public draft_source {
 public:
  some_drafts(const fake_accelerator& device, std::uint64_t seed) : device_(device), random_(seed) {}
  std::uint32_t guess(std::span<const token_id> tokens, std::uint32_t most,
                      std::vector<token_id>& guess) override {
    guess = device_.expected({tokens.begin(), tokens.end()}, random_() % 3 == 0 ? 0 : most);
    if (!guess.empty() && random_() % 3 == 0) guess[random_() % guess.size()] = 1;
    return static_cast<std::uint32_t>(random_() % draft_kinds);
  }

 private:
  const fake_accelerator& device_;
  std::mt19937_64 random_;
};

/// All that a seed decides, but for the number of pages and what disturbs the jobs.
struct load {
  explicit load(std::uint64_t seed) : random(seed) {
    options.slots = 2 + number(7);
    options.chunk_tokens = 1 + number(12);
    options.launch_depth = 1 + number(3);
    options.draft_tokens = number(2) * (1 + number(16));
    options.pages.page_positions = 1 + number(6);
    options.adapters = 2;
    cache = {.share = number(5) > 0, .tokens_min = 1 + number(6), .sessions = number(3)};
    always = number(2) * (1 + number(5));
    const std::uint32_t jobs = 6 + number(16);
    while (requests.size() < jobs) requests.push_back(make_job());
  }
  [[nodiscard]] std::uint32_t number(std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  }
  [[nodiscard]] job_request make_job();
  /// Of the longest job.
  [[nodiscard]] std::uint32_t pages_of_one() const {
    std::uint32_t most = 0;
    for (const job_request& job : requests) {
      most = std::max(most, static_cast<std::uint32_t>(job.prompt.size()) + job.max_tokens - 1);
    }
    return (most + options.pages.page_positions - 1) / options.pages.page_positions;
  }

  std::mt19937_64 random;
  fake_options options;
  kv_cache_config cache;
  std::uint32_t always = 0;
  std::vector<job_request> requests;
};

job_request load::make_job() {
  job_request job;
  job.job_id = "job" + std::to_string(requests.size());
  job.prompt = prompt_of(1 + number(20), static_cast<token_id>(1 + number(3)));
  job.max_tokens = number(12) == 0 ? 0 : 1 + number(number(2) == 0 ? 50 : 8);
  job.seed = requests.size();
  job.ignore_eos = number(4) == 0;
  job.cache.enabled = number(6) > 0;
  job.cache.salt = number(4) == 0 ? "other" : "";
  if (number(4) == 0) job.cache.session = "session";
  job.logprobs = number(3) == 0;
  if (job.logprobs && number(2) == 0)
    job.score_from = 1 + number(static_cast<std::uint32_t>(job.prompt.size()));
  job.score_top = job.top_logprobs;
  job.tell_progress = number(3) == 0;
  job.tell_end = number(3) == 0;
  if (number(4) == 0) job.adapters = {{number(2), 0.5F, ""}};
  for (job_adapter& one : job.adapters) one.digest = "digest" + std::to_string(one.index);
  return job;
}

struct outcome {
  std::vector<sink_ptr> sinks;
  std::uint64_t preemptions = 0;
  std::uint64_t steps = 0;
};

/// `disturb`: with interrupted steps, cancels and jobs that come late.
outcome run(const load& what, std::uint32_t pages, bool disturb, std::uint64_t seed) {
  scheduler_bench b;
  std::mt19937_64 random(seed);
  b.options = what.options;
  b.options.pages.pages = pages;
  b.options.during_step = [&] {
    if (disturb && random() % 40 == 0) b.loop->interrupt();
  };
  b.device = std::make_unique<fake_accelerator>(b.options);
  scheduler_config config;
  config.slots = b.options.slots;
  config.end_of_generation = {42};
  config.cache = what.cache;
  config.now = [&b] { return b.time; };
  config.drafts = {true, what.always, [&b](job_request& job, std::uint32_t) {
                     return std::make_unique<some_drafts>(*b.device, job.seed);
                   }};
  b.loop = std::make_unique<scheduler>(*b.device, config);
  for (const std::uint32_t index : {0U, 1U}) {
    BOOST_REQUIRE(put_adapter(*b.loop, index, adapter_named("digest" + std::to_string(index))));
  }
  outcome out;
  std::size_t next = 0;
  while (true) {
    while (next < what.requests.size() && (!disturb || random() % 2 == 0)) {
      job_request job = what.requests[next++];
      job.received_at = b.time;
      if (next % 5 == 1) job.constraint = std::make_shared<picky>();
      if (disturb && random() % 12 == 0) job.deadline = b.time + std::chrono::milliseconds(random() % 60);
      out.sinks.push_back(b.submit(std::move(job)));
    }
    b.time += std::chrono::milliseconds(1);
    if (disturb && random() % 50 == 0) {
      b.loop->cancel("job" + std::to_string(random() % what.requests.size()), cancel_reason::client_cancel);
    }
    BOOST_REQUIRE(++out.steps < 20'000U);
    if (!b.loop->run_step() && next == what.requests.size()) break;
  }
  out.preemptions = b.loop->counts().preemptions;
  const kv_cache_counts counts = b.loop->counts().cache;
  BOOST_TEST(counts.pages_free + counts.pages_cached == counts.pages);
  BOOST_TEST(b.device->written_pages().size() <= counts.pages_cached);
  BOOST_TEST(b.device->held_slots() == 0U);
  return out;
}

/// A job that was ended from outside has the beginning of what it would have got.
void compare(const recording_sink& got, const recording_sink& full) {
  BOOST_TEST(got.fault() == "");
  BOOST_REQUIRE(got.ended());
  BOOST_REQUIRE(full.end().has_value());
  if (got.end()) {
    BOOST_TEST((got.end()->reason == full.end()->reason));
    BOOST_TEST(got.tokens() == full.tokens(), boost::test_tools::per_element());
    BOOST_TEST(got.prompt() == full.prompt(), boost::test_tools::per_element());
    BOOST_TEST((got.ending() == full.ending()));
    BOOST_TEST(got.logprobs().size() == full.logprobs().size());
    BOOST_TEST(got.stats().tokens_out == full.stats().tokens_out);
  } else {
    BOOST_TEST_REQUIRE(got.tokens().size() <= full.tokens().size());
    BOOST_TEST(std::equal(got.tokens().begin(), got.tokens().end(), full.tokens().begin()));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_growth)

BOOST_AUTO_TEST_CASE(jobs_on_few_pages_get_what_they_get_on_ample_ones) {
  const char* chosen = std::getenv("ORCD_GROWTH_SEED");
  const std::uint64_t first = chosen != nullptr ? boost::lexical_cast<std::uint64_t>(chosen) : 1;
  const std::uint64_t last = chosen != nullptr ? first : 400;
  std::uint64_t preemptions = 0, jobs = 0, most = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    BOOST_TEST_CONTEXT("ORCD_GROWTH_SEED=" << seed) {
      const load what(seed);
      const std::uint32_t one = what.pages_of_one();
      const outcome full = run(what, one * what.options.slots + 8, false, seed);
      const outcome few = run(what, one + static_cast<std::uint32_t>(seed % 3) * one / 2, seed % 4 > 0, seed);
      BOOST_REQUIRE(few.sinks.size() == full.sinks.size());
      for (std::size_t i = 0; i < few.sinks.size(); ++i) {
        BOOST_TEST_CONTEXT("job " << i) {
          compare(*few.sinks[i], *full.sinks[i]);
        }
      }
      BOOST_TEST(few.preemptions <= what.requests.size());
      preemptions += few.preemptions;
      jobs += what.requests.size();
      most = std::max(most, few.preemptions);
    }
  }
  BOOST_TEST_MESSAGE(jobs << " jobs, preempted " << preemptions << " times, at most " << most << " in a run");
  BOOST_TEST((chosen != nullptr || preemptions > 300U));
}

BOOST_AUTO_TEST_SUITE_END()
