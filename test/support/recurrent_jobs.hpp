// Models whose layers keep a state, on any accelerator: hits at boundaries of every kind, prompts cut anyhow,
// jobs that are preempted, interrupted or drafted, and states copied between slots and pages.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "test/support/drafted_run.hpp"
#include "test/support/recording_sink.hpp"

namespace orcd::test::recurrent {

using tokens = std::vector<engine::token_id>;

inline constexpr std::uint32_t context = 2048;
/// Files of the tests with such layers.
inline constexpr const char* models[] = {"qwen35", "qwen3next-four", "lfm2", "granitehybrid-dense",
                                         "nemotron_h"};

struct setting {
  std::uint32_t slots = 1;
  std::uint32_t chunk = 16;
  std::uint32_t depth = 1;  ///< of the host backend
  std::uint32_t pages = 0;
  std::uint32_t drafts = 0;
  bool share = true;
  [[nodiscard]] engine::accelerator_config config() const {
    engine::accelerator_config out{.slots = slots, .context_tokens = context, .banned_tokens = {}};
    out.kv_pages = pages;
    out.draft_tokens = drafts;
    if (!share) out.boundaries = {.bytes = 0};
    return out;
  }
};

/// A model, as a backend loads it.
struct source {
  std::string name;
  std::uint32_t vocab = 0;
  /// `count` ids that depend on the seed alone.
  std::function<tokens(std::uint32_t count, std::uint32_t seed)> prompt;
  std::function<std::unique_ptr<engine::accelerator>(const setting&)> load;
};

inline tokens joined(tokens first, std::size_t length, const tokens& rest) {
  first.resize(length);
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct answer {
  tokens given;
  std::vector<float> logits;
  std::uint32_t cached = 0;
};

/// One job at a time.
class asked_model {
 public:
  asked_model(const source& from, const setting& s) : device_(from.load(s)) {
    engine::scheduler_config config;
    config.cache = {.share = s.share, .tokens_min = 1};
    loop_ = std::make_unique<engine::scheduler>(*device_, config);
  }
  answer ask(const tokens& prompt, const std::string& salt = {}) {
    engine::job_request job;
    job.job_id = "job";
    job.prompt = prompt;
    job.max_tokens = 5;
    job.seed = 7;
    job.ignore_eos = true;
    job.sampling.temperature = 0.9F;
    job.cache.system_tokens = 260;
    job.cache.salt = salt;
    const auto sink = std::make_shared<recording_sink>();
    loop_->submit(std::move(job), sink);
    while (loop_->run_step()) {
    }
    BOOST_REQUIRE(sink->end());
    const auto row = device_->logits(engine::slot_id{0});
    return {sink->tokens(), {row.begin(), row.end()}, sink->stats().tokens_cached};
  }
  [[nodiscard]] engine::window_counts counts() const { return loop_->counts().cache.windows; }

 private:
  std::unique_ptr<engine::accelerator> device_;
  std::unique_ptr<engine::scheduler> loop_;
};

/// `least` and `most`: what may be found of a prompt. Boundaries of the period lie between some of them, and
/// there is room for five states, so that old ones have gone.
inline void check_hits(const source& from, std::uint32_t chunk) {
  asked_model cold(from, {.chunk = 64, .share = false});
  asked_model warm(from, {.chunk = chunk});
  const std::string& name = from.name;
  const tokens base = from.prompt(900, 1);
  tokens last;
  const auto check = [&](const char* what, const tokens& prompt, std::uint32_t least, std::uint32_t most) {
    const answer want = cold.ask(prompt);
    const answer got = warm.ask(prompt);
    BOOST_TEST(want.cached == 0U);
    BOOST_TEST(got.cached % 8 == 0U);
    BOOST_TEST((got.cached >= least && got.cached <= most), name << ", " << what << ": " << got.cached);
    BOOST_TEST((got.given == want.given), name << ", " << what << ", chunks of " << chunk);
    BOOST_TEST(same(got.logits, want.logits), name << ", " << what << ", chunks of " << chunk);
    last = joined(prompt, prompt.size(), want.given);
  };
  check("cold", joined(base, 700, {}), 0, 0);
  const tokens turn = last;
  check("the same prompt", joined(base, 700, {}), 696, 699);
  check("the next turn", joined(turn, 705, from.prompt(40, 2)), 704, 704);
  check("a system prompt", joined(base, 260, from.prompt(300, 3)), 256, 260);
  check("where nobody stopped", joined(base, 530, from.prompt(30, 4)), 256, 530);
  check("where another left", joined(base, 530, from.prompt(30, 5)), 512, 530);
  check("the end of a page", joined(base, 513, {}), 0, 512);
  check("the end of a page again", joined(base, 513, from.prompt(9, 6)), 512, 512);
  check("another", from.prompt(300, 8), 0, 0);
  BOOST_TEST(warm.ask(joined(base, 700, {}), "foreign").cached == 0U);
  BOOST_TEST(warm.counts().boundaries > 0U);
  BOOST_TEST(warm.counts().pages_used == 0U);
}

/// Two long jobs at a time, on as many pages as there are.
class long_jobs {
 public:
  static constexpr std::uint32_t jobs = 4;
  explicit long_jobs(source from) : source_(std::move(from)) {
    const auto device = source_.load({.chunk = 64, .share = false});
    plain_ = run(*device, 1, false, {}).first;
  }
  /// What differs from a run one after the other, and how many jobs were preempted.
  [[nodiscard]] std::pair<bool, std::uint64_t> differs(const setting& s, std::uint32_t always) const {
    std::map<std::string, tokens> whole;
    for (std::uint32_t i = 0; i < jobs; ++i)
      whole["job" + std::to_string(i)] = joined(job(i).prompt, job(i).prompt.size(), plain_[i]);
    const auto device = source_.load(s);
    const auto drafts = always == 0 ? engine::speculation{} : knowing(whole, source_.vocab, always, 0.2);
    const auto [given, preempted] = run(*device, s.slots, true, drafts);
    return {given != plain_, preempted};
  }

 private:
  [[nodiscard]] engine::job_request job(std::uint32_t number) const {
    engine::job_request out;
    out.job_id = "job" + std::to_string(number);
    out.prompt = joined(source_.prompt(330, 1), number % 2 == 0 ? 330 : 280, source_.prompt(20, number + 2));
    out.max_tokens = 400 + 37 * number;
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
    std::vector<std::shared_ptr<recording_sink>> sinks;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      sinks.push_back(std::make_shared<recording_sink>());
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

  source source_;
  std::vector<tokens> plain_;
};

/// Logits behind every token of a sequence that is fed in parts of these lengths.
class fed_model {
 public:
  fed_model(const source& from, const setting& s) : device_(from.load(s)) {}

  std::vector<float> feed(engine::slot_id slot, std::uint32_t position,
                          std::span<const engine::token_id> part,
                          std::span<const engine::state_copy> states = {}) {
    const engine::sequence_step step{
        .slot = slot, .position = position, .tokens = part, .sample = &request_, .states = states};
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(device_->step({&step, 1}, never_, sampled));
    return row(slot);
  }
  /// The first token of `part` and drafts behind it; the logits behind the last.
  std::vector<float> draft(engine::slot_id slot, std::uint32_t position,
                           std::span<const engine::token_id> part) {
    const std::vector<engine::sample_request> requests(part.size(), request_);
    const engine::sequence_step step{.slot = slot,
                                     .position = position,
                                     .tokens = part,
                                     .sample = requests.data(),
                                     .samples = static_cast<std::uint32_t>(part.size())};
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(device_->step({&step, 1}, never_, sampled));
    return row(slot);
  }
  [[nodiscard]] engine::accelerator& device() { return *device_; }

 private:
  [[nodiscard]] std::vector<float> row(engine::slot_id slot) const {
    const auto logits = device_->logits(slot);
    return {logits.begin(), logits.end()};
  }
  std::unique_ptr<engine::accelerator> device_;
  engine::sampling_params greedy_{.temperature = 0.0F};
  engine::sample_request request_{.params = &greedy_, .remaining = 1000};
  engine::interrupt_flag never_{false};
};

inline constexpr engine::slot_id first{0}, second{1};

/// At each offset of a chunk, any number of drafts, each wrong from any place on.
inline void check_wrong_drafts(const source& from) {
  const std::string& name = from.name;
  const tokens all = from.prompt(70, 1), wrong = from.prompt(70, 2);
  fed_model plain(from, {});
  std::vector<std::vector<float>> want;
  for (std::uint32_t i = 0; i < all.size(); ++i)
    want.push_back(plain.feed(first, i, std::span(all).subspan(i, 1)));
  fed_model drafting(from, {.chunk = 64, .drafts = 15});
  std::mt19937 random(3);
  for (std::uint32_t at = 16; at < 24; ++at) {
    for (const std::uint32_t drafts : {1U, 7U, 8U, 15U}) {
      const std::uint32_t right = random() % (drafts + 1);
      drafting.feed(first, 0, std::span(all).first(at));
      tokens part(all.begin() + at, all.begin() + at + 1 + right);
      part.insert(part.end(), wrong.begin(), wrong.begin() + drafts - right);
      drafting.draft(first, at, part);
      const std::uint32_t next = at + 1 + right;
      BOOST_TEST(same(drafting.feed(first, next, std::span(all).subspan(next, 1)), want[next]),
                 name << " at " << at << ", " << right << " of " << drafts << " right");
      const std::uint32_t end = next + 20;
      BOOST_TEST(
          same(drafting.feed(first, next + 1, std::span(all).subspan(next + 1, end - next)), want[end]));
      drafting.device().release(first);
    }
  }
}

/// A state is copied in the middle of a step, goes into another slot, and its source goes on.
inline void check_copied_states(const source& from) {
  const std::string& name = from.name;
  const tokens all = from.prompt(90, 1);
  fed_model model(from, {.slots = 2, .chunk = 128, .drafts = 15});
  engine::accelerator& device = model.device();
  const auto group = device.kv_pages().group_count;
  BOOST_TEST_REQUIRE(device.kv_pages().has_states());
  std::vector<engine::kv_page> own{0}, other{1};
  std::vector<engine::group_pages> none(group), loaded(group);
  device.begin({.slot = first, .pages = own, .further = none});
  const std::vector<engine::state_copy> states{{8, 0}, {40, 1}, {64, 2}};
  model.feed(first, 0, std::span(all).first(5));
  model.feed(first, 5, std::span(all).subspan(5, 65), states);
  const auto want = model.feed(first, 70, std::span(all).subspan(70));
  BOOST_TEST(device.keep_state(first, {88, 3}));
  BOOST_TEST(!device.keep_state(first, {40, 4}));
  for (const engine::state_copy& at : {states[0], states[1], states[2], engine::state_copy{88, 3}}) {
    device.clear(0, other);
    loaded[group - 1].pages = std::span(&at.page, 1);
    device.begin({.slot = second,
                  .pages = other,
                  .held = std::span(all).first(at.position),
                  .copy = engine::page_copy{0, 1, at.position},
                  .further = loaded});
    BOOST_TEST(same(model.feed(second, at.position, std::span(all).subspan(at.position)), want),
               name << " from " << at.position);
    device.release(second);
  }
}

/// What was in a slot before, and in its neighbours, is nowhere in a sequence.
inline void check_used_slots(const source& from) {
  const std::string& name = from.name;
  const tokens all = from.prompt(60, 1), before = from.prompt(61, 2);
  fed_model fresh(from, {.chunk = 64});
  const auto want = fresh.feed(first, 0, all);
  fed_model used(from, {.slots = 2, .chunk = 64});
  for (const std::uint32_t length : {1U, 7U, 8U, 30U, 61U}) {
    used.feed(first, 0, std::span(before).first(length));
    used.feed(second, 0, std::span(before).first(length));
    used.device().release(first);
    BOOST_TEST(same(used.feed(first, 0, all), want), name << " behind " << length);
    used.device().release(first);
    used.device().release(second);
  }
}

/// On so few pages that jobs are preempted, with drafts and without.
inline void check_long_jobs(const source& from) {
  const long_jobs bench(from);
  for (const std::uint32_t always : {0U, 9U}) {
    const setting s{.slots = 2, .chunk = 16, .depth = 2, .pages = 9, .drafts = always * 2};
    const auto [differs, preempted] = bench.differs(s, always);
    BOOST_TEST(!differs, from.name << ", " << always << " drafts");
    BOOST_TEST(preempted > 0U);
  }
}

}  // namespace orcd::test::recurrent
