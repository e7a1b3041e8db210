// Same bytes where layers with a window keep only what they read: hits at boundaries of every kind, prompts
// cut anyhow, jobs that are preempted and go on, and drafts give what a cache of all positions gives that
// shares nothing.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/support/drafted_run.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

using namespace orcd;
using engine::token_id;

namespace {

constexpr std::uint32_t context = 2'560;
using tokens = std::vector<token_id>;

/// Those of every_tiny_model() that have windows, and some whose windows reach over pages.
std::vector<test::tiny_case> windowed_models() {
  std::vector<test::tiny_case> out;
  for (const std::uint32_t window : {8U, 257U, 300U}) {
    test::tiny_case c{.name = "gpt-oss, a window of " + std::to_string(window), .options = {}};
    c.options.family = "gpt-oss";
    c.options.window = window;
    c.options.context = context;
    out.push_back(c);
  }
  for (const char* file :
       {"gemma2", "gemma3", "cohere2", "olmo3", "exaone4-windows", "gemma4-inputs", "gemma4-odd"}) {
    test::tiny_case c{.name = file, .options = {}};
    c.options.file = file;
    out.push_back(c);
  }
  return out;
}

struct answer {
  tokens given;
  std::vector<float> logits;
  std::uint32_t cached = 0;
};

struct setting {
  std::uint32_t slots = 1, chunk = 16, depth = 1, pages = 0, drafts = 0;
  bool windows = true;
};

std::unique_ptr<engine::accelerator> load(const engine::model& model, const setting& s) {
  auto device = gpu::make_host_backend({.threads = 1, .chunk_tokens = s.chunk, .launch_depth = s.depth});
  engine::accelerator_config config{.slots = s.slots, .context_tokens = context, .banned_tokens = {}};
  config.kv_pages = s.pages;
  config.draft_tokens = s.drafts;
  config.window_groups = s.windows;
  (void)device->load(model, config, [](unsigned) {}).value();
  return device;
}

/// One job at a time.
class asked_model {
 public:
  asked_model(const engine::model& model, const setting& s) : device_(load(model, s)) {
    engine::scheduler_config config;
    config.cache = {.share = s.windows, .tokens_min = 1};
    loop_ = std::make_unique<engine::scheduler>(*device_, config);
  }
  answer ask(const tokens& prompt) {
    engine::job_request job;
    job.job_id = "job";
    job.prompt = prompt;
    job.max_tokens = 5;
    job.seed = 7;
    job.ignore_eos = true;
    job.sampling.temperature = 0.9F;
    job.cache.system_tokens = 260;
    const auto sink = std::make_shared<test::recording_sink>();
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

tokens joined(tokens first, std::size_t length, const tokens& rest) {
  first.resize(length);
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

void check_hits(const test::tiny_case& c, std::uint32_t chunk) {
  const test::tiny_backend source(c.options);
  asked_model cold(source.model(), {.chunk = 64, .windows = false});
  asked_model warm(source.model(), {.chunk = chunk});
  BOOST_TEST_REQUIRE(cold.groups() == 0U);
  BOOST_TEST_REQUIRE(warm.groups() > 0U, c.name);
  const tokens base = source.prompt(900, 1);
  tokens last;
  const auto check = [&](const char* what, const tokens& prompt, std::uint32_t cached) {
    const answer want = cold.ask(prompt);
    const answer got = warm.ask(prompt);
    BOOST_TEST(got.cached == cached, c.name << ", " << what);
    BOOST_TEST((got.given == want.given), c.name << ", " << what << ", chunks of " << chunk);
    BOOST_TEST(std::memcmp(got.logits.data(), want.logits.data(), want.logits.size() * sizeof(float)) == 0,
               c.name << ", " << what << ", chunks of " << chunk);
    last = joined(prompt, prompt.size(), want.given);
  };
  check("cold", joined(base, 700, {}), 0);
  const tokens turn = last;
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
  explicit long_jobs(const test::tiny_case& c) : source_(c.options) {
    const auto device = load(source_.model(), {.chunk = 64, .windows = false});
    plain_ = run(*device, 1, false, {}).first;
  }
  /// What differs from a run one after the other, and how many jobs were preempted.
  [[nodiscard]] std::pair<bool, std::uint64_t> differs(const setting& s, std::uint32_t always) const {
    std::map<std::string, tokens> whole;
    for (std::uint32_t i = 0; i < jobs; ++i)
      whole["job" + std::to_string(i)] = joined(job(i).prompt, job(i).prompt.size(), plain_[i]);
    const auto device = load(source_.model(), s);
    BOOST_TEST_REQUIRE(device->kv_pages().group_count > 0U);
    const auto drafts =
        always == 0 ? engine::speculation{} : test::knowing(whole, source_.model().spec.vocab, always, 0.2);
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
  [[nodiscard]] std::pair<std::vector<tokens>, std::uint64_t> run(engine::accelerator& device,
                                                                  std::uint32_t slots, bool share,
                                                                  engine::speculation drafts) const {
    engine::scheduler_config config;
    config.slots = slots;
    config.cache = {.share = share, .tokens_min = 1};
    config.drafts = std::move(drafts);
    engine::scheduler loop(device, config);
    std::vector<std::shared_ptr<test::recording_sink>> sinks;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      sinks.push_back(std::make_shared<test::recording_sink>());
      loop.submit(job(i), sinks.back());
    }
    std::uint32_t step = 0;
    while (loop.run_step()) {
      if (share && ++step % 97 == 0) loop.interrupt();
    }
    std::vector<tokens> out;
    for (const auto& sink : sinks) {
      BOOST_REQUIRE(sink->end());
      out.push_back(sink->tokens());
    }
    return {out, loop.counts().preemptions};
  }

  test::tiny_backend source_;
  std::vector<tokens> plain_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(window_bits)

BOOST_AUTO_TEST_CASE(a_hit_at_a_boundary_of_any_kind_changes_no_bit) {
  for (const test::tiny_case& c : windowed_models()) check_hits(c, 64);
}

BOOST_AUTO_TEST_CASE(however_prompts_are_cut) {
  for (const std::uint32_t chunk : {3U, 16U, 500U}) check_hits(windowed_models()[2], chunk);
}

BOOST_AUTO_TEST_CASE(preempted_and_interrupted_jobs_and_drafts_change_none) {
  // Fewer pages of group 0 would be none of a window.
  for (const auto& [model, pages] : {std::pair(0U, 10U), std::pair(2U, 12U)}) {
    const long_jobs bench(windowed_models()[model]);
    for (const std::uint32_t always : {0U, 9U}) {
      const setting s{.slots = 2, .chunk = 16, .depth = 2, .pages = pages, .drafts = always * 2};
      const auto [differs, preempted] = bench.differs(s, always);
      BOOST_TEST(!differs, windowed_models()[model].name << ", " << always << " drafts");
      BOOST_TEST(preempted > 0U);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
