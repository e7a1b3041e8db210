// Same bytes, hit or cold: jobs that take over pages of others, whole ones and beginnings of them, at the
// borders of pages, after evictions, in prompt chunks of any size, get the tokens and the logits of a run
// that starts from nothing. On every family and type of KV.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/support/recording_sink.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

using namespace orcd;
using engine::token_id;

namespace {

constexpr std::uint32_t context = 1024;
constexpr std::uint32_t answer_tokens = 6;

/// What a job got: its tokens, and the logits that its last token was chosen from.
struct answer {
  std::vector<token_id> tokens;
  std::vector<float> logits;
  std::uint32_t cached = 0;

  [[nodiscard]] bool operator==(const answer& other) const {
    return tokens == other.tokens && logits.size() == other.logits.size() &&
           std::memcmp(logits.data(), other.logits.data(), logits.size() * sizeof(float)) == 0;
  }
};

/// One loaded model with a prefix cache of so many pages, asked one job at a time.
class cached_model {
 public:
  cached_model(const test::tiny_backend& source, std::uint32_t chunk, std::uint32_t pages, bool share,
               engine::kv_types kv)
      : device_(gpu::make_host_backend({.threads = 1, .chunk_tokens = chunk})) {
    (void)device_
        ->load(source.model(),
               {.slots = 1, .context_tokens = context, .banned_tokens = {}, .kv = kv, .kv_pages = pages},
               [](unsigned) {})
        .value();
    engine::scheduler_config config;
    config.cache = {.share = share, .tokens_min = 1};
    loop_ = std::make_unique<engine::scheduler>(*device_, config);
  }

  answer ask(std::vector<token_id> prompt) {
    engine::job_request job;
    job.job_id = "job";
    job.prompt = std::move(prompt);
    job.max_tokens = answer_tokens;
    job.seed = 7;
    job.ignore_eos = true;
    job.sampling.temperature = 0.9F;
    job.sampling.repetition_penalty = 1.3F;
    job.sampling.repeat_last_n = 300;  // looks back into what was not computed
    const auto sink = std::make_shared<test::recording_sink>();
    loop_->submit(std::move(job), sink);
    while (loop_->run_step()) {
    }
    BOOST_REQUIRE(sink->end());
    const auto row = device_->logits(engine::slot_id{0});
    return {sink->tokens(), {row.begin(), row.end()}, sink->stats().tokens_cached};
  }
  [[nodiscard]] engine::kv_cache_counts counts() const { return loop_->counts().cache; }

 private:
  std::unique_ptr<engine::accelerator> device_;
  std::unique_ptr<engine::scheduler> loop_;
};

/// The first `length` tokens of the base, then others.
std::vector<token_id> branch(const test::tiny_backend& source, std::uint32_t length, std::uint32_t rest) {
  auto out = source.prompt(600, 1);
  out.resize(length);
  const auto tail = source.prompt(rest, length + 2);
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

void check(const test::tiny_case& c, engine::kv_types kv, std::uint32_t chunk, std::uint32_t pages,
           const std::vector<std::uint32_t>& lengths) {
  auto options = c.options;
  options.context = context;
  const test::tiny_backend source(options);
  cached_model cold(source, 64, 0, false, kv);
  cached_model warm(source, chunk, pages, true, kv);
  std::uint32_t hits = 0;
  for (const std::uint32_t length : lengths) {
    for (const std::uint32_t rest : {0U, 9U}) {
      const auto prompt = branch(source, length, rest);
      const answer want = cold.ask(prompt);
      const answer got = warm.ask(prompt);
      hits += got.cached > 0 ? 1 : 0;
      BOOST_TEST_REQUIRE(want.cached == 0U);
      BOOST_TEST((got == want), c.name << ": " << length << " + " << rest << " tokens, " << got.cached
                                       << " of them cached, chunks of " << chunk);
    }
  }
  BOOST_TEST(hits + 8 > 2 * lengths.size());
  if (pages == 4 && lengths.size() > 10) BOOST_TEST(warm.counts().evictions > 5U);
}

const std::vector<std::uint32_t> few_lengths{300, 300, 256, 257, 40};
const std::vector<std::uint32_t> many_lengths{600, 600, 599, 1, 255, 256, 257, 300, 511, 512, 513, 40, 600};

}  // namespace

BOOST_AUTO_TEST_SUITE(prefix_bits)

BOOST_AUTO_TEST_CASE(a_hit_changes_no_bit_of_any_family) {
  for (const test::tiny_case& c : test::every_tiny_model()) check(c, {}, 64, 0, few_lengths);
}

BOOST_AUTO_TEST_CASE(whatever_the_chunk_the_type_and_the_room) {
  using engine::kv_type;
  const auto models = test::every_tiny_model();
  for (const std::uint32_t chunk : {3U, 16U, 500U}) check(models.front(), {}, chunk, 4, many_lengths);
  check(models.front(), {kv_type::q8_0, kv_type::bf16}, 16, 5, many_lengths);
  check(models.back(), {kv_type::bf16, kv_type::q8_0}, 100, 4, few_lengths);
}

BOOST_AUTO_TEST_CASE(a_pool_smaller_than_a_context_is_refused) {
  const test::tiny_backend source({});
  const auto loaded = gpu::make_host_backend()->load(
      source.model(), {.slots = 1, .context_tokens = context, .banned_tokens = {}, .kv_pages = 3},
      [](unsigned) {});
  BOOST_REQUIRE(!loaded);
  BOOST_TEST(loaded.error().message == "the KV cache has 768 positions, a slot's context is 1024");
}

BOOST_AUTO_TEST_CASE(released_pages_are_clear) {
  // A copy of everything after a page was cleared shows nothing of the job before: seen through what a later
  // sequence computes from a page that it was told holds its tokens.
  test::tiny_backend source({});
  auto device = gpu::make_host_backend({.threads = 1});
  (void)device
      ->load(source.model(), {.slots = 1, .context_tokens = 256, .banned_tokens = {}, .kv_pages = 2},
             [](unsigned) {})
      .value();
  const engine::interrupt_flag never{false};
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy, .draw = 0.0};
  const auto secret = source.prompt(20, 3);
  const auto run = [&](std::span<const token_id> held, std::span<const token_id> tokens,
                       engine::kv_page page) {
    auto position = static_cast<std::uint32_t>(held.size());
    device->begin({engine::slot_id{0}, {&page, 1}, held});
    while (!tokens.empty()) {
      const auto piece = tokens.first(std::min<std::size_t>(16, tokens.size()));
      const engine::sequence_step step{
          .slot = engine::slot_id{0}, .position = position, .tokens = piece, .sample = &request};
      std::vector<engine::sampled_token> sampled;
      BOOST_REQUIRE(device->step({&step, 1}, never, sampled));
      position += static_cast<std::uint32_t>(piece.size());
      tokens = tokens.subspan(piece.size());
    }
    const auto row = device->logits(engine::slot_id{0});
    const std::vector<float> out(row.begin(), row.end());
    device->release(engine::slot_id{0});
    return out;
  };
  const token_id last = 5;
  (void)run({}, secret, 0);
  const auto from_secret = run(secret, {&last, 1}, 0);
  const engine::kv_page page = 0;
  device->clear(0, {&page, 1});
  const auto from_cleared = run(secret, {&last, 1}, 0);
  const auto from_fresh = run(secret, {&last, 1}, 1);
  BOOST_TEST((from_cleared == from_fresh));
  BOOST_TEST((from_cleared != from_secret));
}

BOOST_AUTO_TEST_SUITE_END()
