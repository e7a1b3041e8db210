// Jobs that go on behind output that another process made.
#include <algorithm>

#include "engine/sampling/token_rules.hpp"
#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

struct produced_bench : scheduler_bench {
  /// A job that has the first `count` tokens of what it would get.
  job_request cut(std::string id, const std::vector<token_id>& prompt, std::uint32_t max_tokens,
                  std::uint32_t count) const {
    job_request r = request(std::move(id), prompt, max_tokens);
    r.produced = device->expected(prompt, count);
    return r;
  }
  sink_ptr go_on(job_request r) {
    auto sink = std::make_shared<recording_sink>(static_cast<std::uint32_t>(r.produced.size()));
    loop->submit(std::move(r), sink);
    return sink;
  }
  void expect_rest(const recording_sink& sink, const std::vector<token_id>& prompt, std::uint32_t max_tokens,
                   std::uint32_t count) const {
    expect_end(sink, finish_reason::length);
    const auto all = device->expected(prompt, max_tokens);
    expect_tokens(sink, {all.begin() + count, all.end()});
    BOOST_TEST(sink.stats().tokens_in == prompt.size());
    BOOST_TEST(sink.stats().tokens_out == max_tokens);
  }
};

/// Allows all tokens but keeps what it was told; complete at `last`, spent after `bound` tokens.
class listener final : public token_constraint {
 public:
  explicit listener(std::size_t last, std::size_t bound = 1'000)
      : last_(last), bound_(bound), words_(4, ~0U) {}
  token_mask mask() override { return words_; }
  bool accept(token_id token) override {
    seen.push_back(token);
    return token != 127;
  }
  bool complete() const override { return seen.size() >= last_; }
  bool spent() const override { return seen.size() >= bound_; }

  std::vector<token_id> seen;

 private:
  std::size_t last_, bound_;
  std::vector<std::uint32_t> words_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(produced_output)

BOOST_AUTO_TEST_CASE(the_rest_is_what_it_would_have_been) {
  for (const std::uint32_t depth : {1U, 3U}) {
    for (const bool pages : {true, false}) {
      for (const std::uint32_t count : {0U, 1U, 2U, 7U, 8U, 19U, 20U}) {
        produced_bench b;
        b.options.slots = 3;
        b.options.launch_depth = depth;
        b.cache.tokens_min = 1;
        if (pages) b.options.pages = {4, 64};
        b.up();
        const auto before = b.submit("before", prompt_of(25, 3), 9);
        const auto first = b.go_on(b.cut("a", prompt_of(20), 20, count));
        const auto second = b.go_on(b.cut("b", prompt_of(20), 20, std::min(count + 3, 20U)));
        b.finish();
        b.expect_rest(*first, prompt_of(20), 20, count);
        b.expect_rest(*second, prompt_of(20), 20, std::min(count + 3, 20U));
        b.expect_rest(*before, prompt_of(25, 3), 9, 0);
        // All of it is known now.
        const auto warm = b.go_on(b.cut("c", prompt_of(20), 20, count));
        b.finish();
        b.expect_rest(*warm, prompt_of(20), 20, count);
        BOOST_TEST(warm->stats().tokens_cached == (pages && count < 20 ? 19U : 0U));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_lost_step_changes_nothing) {
  for (const bool pages : {true, false}) {
    for (std::uint64_t lost = 1; lost < 16; ++lost) {
      produced_bench b;
      b.options.slots = 2;
      b.options.launch_depth = 2;
      b.options.faults = {{lost, errc::vram_oom, true}};
      if (pages) b.options.pages = {16, 16};
      b.up();
      const auto sink = b.go_on(b.cut("a", prompt_of(20), 15, 9));
      const auto other = b.submit("b", prompt_of(60, 9), 3);
      b.finish();
      if (!sink->error()) b.expect_rest(*sink, prompt_of(20), 15, 9);
      BOOST_TEST((!sink->error() || !other->error()));
    }
  }
}

BOOST_AUTO_TEST_CASE(each_token_has_the_draw_of_its_index) {
  std::vector<double> draws;
  draw_source source(11);
  for (int i = 0; i < 12; ++i) draws.push_back(source.next());
  for (const std::uint32_t count : {0U, 1U, 5U, 11U}) {
    produced_bench b;
    b.up();
    auto job = b.cut("a", prompt_of(9), 12, count);
    job.seed = 11;
    (void)b.go_on(std::move(job));
    b.finish();
    std::vector<double> used;
    for (const auto& record : b.device->records()) {
      if (record.sampled) used.push_back(record.draw);
    }
    BOOST_TEST(used == std::vector<double>(draws.begin() + count, draws.end()),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(output_is_computed_in_chunks_as_a_prompt_is) {
  produced_bench b;
  b.up();
  const auto sink = b.go_on(b.cut("a", prompt_of(10), 30, 29));
  b.finish();
  b.expect_rest(*sink, prompt_of(10), 30, 29);
  BOOST_TEST(b.device->steps() == 5U);  // 39 positions in chunks of 8
}

BOOST_AUTO_TEST_CASE(progress_tells_the_prompt_alone) {
  produced_bench b;
  b.up();
  auto job = b.cut("a", prompt_of(10), 30, 25);
  job.tell_progress = true;
  const auto sink = b.go_on(std::move(job));
  b.finish();
  BOOST_REQUIRE(sink->progress().size() == 2U);
  BOOST_TEST(sink->progress().back().processed == 10U);
}

BOOST_AUTO_TEST_CASE(output_that_was_all_ends_the_job_without_a_step) {
  produced_bench b;
  b.up();
  const auto full = b.go_on(b.cut("a", prompt_of(10), 7, 7));
  b.finish();
  b.expect_rest(*full, prompt_of(10), 7, 7);
  auto job = b.cut("b", prompt_of(10), 9, 4);
  job.stop_tokens = {job.produced.back()};
  job.keep_stop_token = true;
  const auto stopped = b.go_on(std::move(job));
  b.finish();
  expect_end(*stopped, finish_reason::stop);
  BOOST_TEST(stopped->stats().tokens_out == 4U);
  BOOST_TEST(b.device->steps() == 0U);
}

BOOST_AUTO_TEST_CASE(ends_that_are_no_output_come_again) {
  for (const bool stop_token : {true, false}) {
    produced_bench b;
    if (!stop_token) b.ends = {5};
    b.options.next = [](auto sequence) { return sequence.size() < 14 ? 20 : 5; };
    b.up();
    auto job = b.cut("a", prompt_of(10), 9, 4);
    if (stop_token) job.stop_tokens = {5};
    job.tell_end = !stop_token;
    const auto sink = b.go_on(std::move(job));
    b.finish();
    expect_end(*sink, finish_reason::stop);
    expect_tokens(*sink, {});
    BOOST_TEST(sink->stats().tokens_out == 4U);
    BOOST_TEST((sink->ending() == (stop_token ? std::nullopt : std::optional<token_id>(5))));
  }
}

BOOST_AUTO_TEST_CASE(the_constraint_hears_of_every_token_once) {
  produced_bench b;
  b.options.launch_depth = 2;
  b.up();
  auto job = b.cut("a", prompt_of(10), 12, 5);
  const auto rules = std::make_shared<listener>(100);
  job.constraint = rules;
  const auto sink = b.go_on(std::move(job));
  b.finish();
  b.expect_rest(*sink, prompt_of(10), 12, 5);
  BOOST_TEST(rules->seen == b.device->expected(prompt_of(10), 12), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_constraint_that_is_complete_or_spent) {
  produced_bench b;
  b.up();
  auto job = b.cut("complete", prompt_of(10), 12, 5);
  job.constraint = std::make_shared<listener>(5);
  const auto complete = b.go_on(std::move(job));
  job = b.cut("too long", prompt_of(10), 12, 5);
  job.constraint = std::make_shared<listener>(4);
  const auto too_long = b.go_on(std::move(job));
  job = b.cut("refused", prompt_of(10), 12, 5);
  job.produced[2] = 127;
  job.constraint = std::make_shared<listener>(100);
  const auto refused = b.go_on(std::move(job));
  b.finish();
  expect_end(*complete, finish_reason::stop);
  BOOST_TEST(complete->stats().tokens_out == 5U);
  expect_error(*too_long, errc::internal);
  expect_error(*refused, errc::internal);
  BOOST_TEST(b.device->steps() == 0U);

  job = b.cut("spent", prompt_of(10), 12, 5);
  const auto rules = std::make_shared<listener>(100, 3);
  job.constraint = rules;
  const auto spent = b.go_on(std::move(job));
  b.finish();
  b.expect_rest(*spent, prompt_of(10), 12, 5);
  BOOST_TEST(rules->seen.size() == 3U);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused) {
  produced_bench b;
  b.options.slots = 2;
  b.up();
  auto job = b.cut("a", prompt_of(10), 5, 5);
  BOOST_TEST(check_produced(job, 128).has_value());
  BOOST_TEST(!check_produced(job, 10).has_value());
  job.max_tokens = 4;
  BOOST_TEST(!check_produced(job, 128).has_value());
  expect_error(*b.go_on(job), errc::internal);
  job.max_tokens = 9;
  job.produced[1] = -1;
  expect_error(*b.go_on(job), errc::internal);
  job.produced[1] = 1;
  job.score_from = 1;
  job.logprobs = true;
  expect_error(*b.go_on(job), errc::internal);
  job.prompt.clear();
  job.inputs = {{{1, 2}}};
  expect_error(*b.go_on(job), errc::internal);
  b.finish();
  BOOST_TEST(b.device->steps() == 0U);
}

BOOST_AUTO_TEST_CASE(cancel_and_timeout_count_the_output) {
  for (const bool waiting : {true, false}) {
    produced_bench b;
    b.up();
    sink_ptr other;
    if (waiting) other = b.submit("other", prompt_of(4), 30);
    const auto sink = b.go_on(b.cut("a", prompt_of(10), 30, 5));
    b.steps(2);
    b.loop->cancel("a", cancel_reason::client_cancel);
    expect_error(*sink, errc::cancelled);
    BOOST_TEST(sink->stats().tokens_out >= 5U);
    b.finish();
  }
}

BOOST_AUTO_TEST_CASE(times_go_on_from_the_first_token_of_all) {
  for (const bool known : {true, false}) {
    produced_bench b;
    b.up();
    auto job = b.cut("a", prompt_of(4), 8, 5);
    job.received_at = b.time - std::chrono::milliseconds(500);
    if (known) job.first_token_at = b.time - std::chrono::milliseconds(400);
    const auto sink = b.go_on(std::move(job));
    b.options.during_step = {};
    while (b.loop->run_step()) b.time += std::chrono::milliseconds(10);
    // The chunks of 9 known positions take two steps, the tokens after the first one each.
    BOOST_TEST(sink->stats().first_token_ms == (known ? 100.0 : 510.0));
    BOOST_TEST(sink->stats().prefill_ms == 10.0);
    BOOST_TEST(sink->stats().decode_ms == (known ? 430.0 : 20.0));
  }
}

BOOST_AUTO_TEST_SUITE_END()
