// Jobs that are told the log probabilities of their prompt's tokens, and jobs that generate nothing.
#include <cmath>

#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

struct scoring_bench : scheduler_bench {
  job_request scored(std::string id, std::vector<token_id> prompt, std::uint32_t from,
                     std::uint32_t max_tokens) const {
    job_request r = request(std::move(id), std::move(prompt), max_tokens);
    r.logprobs = true;
    r.top_logprobs = 2;
    r.score_from = from;
    r.score_top = 2;
    r.tell_end = true;
    return r;
  }
};

/// The fake accelerator gives token t the log probability -t/8.
void expect_scored(const recording_sink& sink, const std::vector<token_id>& prompt, std::uint32_t from) {
  BOOST_TEST(sink.fault() == "");
  const std::vector<token_id> told(prompt.begin() + from, prompt.end());
  BOOST_TEST(sink.prompt() == told, boost::test_tools::per_element());
  if (!told.empty()) BOOST_TEST(sink.prompt_from() == from);
  BOOST_REQUIRE(sink.prompt_logprobs().size() == told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    BOOST_TEST(sink.prompt_logprobs()[i].chosen == -static_cast<float>(told[i]) / 8.0F);
    BOOST_TEST(sink.prompt_logprobs()[i].listed == 2U);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scoring)

BOOST_AUTO_TEST_CASE(a_prompt_is_told_and_the_output_is_what_it_would_be) {
  for (const std::uint32_t depth : {1U, 2U, 3U}) {
    for (const std::uint32_t from : {1U, 2U, 9U, 29U, 30U}) {
      for (const std::uint32_t max_tokens : {0U, 1U, 7U}) {
        scoring_bench b;
        b.options.launch_depth = depth;
        b.up();
        const auto prompt = prompt_of(30);
        const auto sink = b.submit(b.scored("a", prompt, from, max_tokens));
        b.finish();
        expect_scored(*sink, prompt, from);
        expect_end(*sink, finish_reason::length);
        expect_tokens(*sink, b.device->expected(prompt, max_tokens));
        BOOST_TEST(sink->stats().tokens_in == 30U);
        BOOST_TEST(sink->stats().tokens_out == max_tokens);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_prompt_is_told_with_ranks_and_without_values_of_the_output) {
  for (const std::uint32_t depth : {1U, 3U}) {
    for (const bool ranks : {true, false}) {
      scoring_bench b;
      b.options.launch_depth = depth;
      b.up();
      const auto prompt = prompt_of(30);
      auto job = b.scored("a", prompt, 1, 5);
      job.logprobs = job.tell_end = false;
      job.top_logprobs = 0;
      job.score_ranks = ranks;
      const auto sink = b.submit(std::move(job));
      b.finish();
      expect_scored(*sink, prompt, 1);
      expect_tokens(*sink, b.device->expected(prompt, 5));
      BOOST_TEST(sink->logprobs().empty());
      for (const auto& told : sink->prompt_logprobs()) BOOST_TEST(told.rank == (ranks ? 7U : 0U));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_comes_before_the_told_tokens_goes_in_chunks) {
  scoring_bench b;
  b.up();
  const auto sink = b.submit(b.scored("a", prompt_of(30), 20, 1));
  b.finish();
  // Chunks of 8, 8 and 3 positions, ten scored tokens, and the output's one.
  BOOST_TEST(b.device->steps() == 3U + 10U + 1U);
}

BOOST_AUTO_TEST_CASE(scored_tokens_are_launched_ahead_and_share_steps) {
  scoring_bench b;
  b.options.slots = 3;
  b.options.launch_depth = 2;
  b.up();
  std::vector<sink_ptr> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(b.submit(b.scored("s" + std::to_string(i), prompt_of(20, 1 + i), 1, 0)));
  }
  b.finish();
  for (int i = 0; i < 3; ++i) expect_scored(*sinks[static_cast<std::size_t>(i)], prompt_of(20, 1 + i), 1);
  BOOST_TEST(b.device->steps() <= 20U);
}

BOOST_AUTO_TEST_CASE(end_tokens_within_the_prompt_are_like_any_other) {
  for (const std::uint32_t depth : {1U, 2U}) {
    scoring_bench b;
    b.options.launch_depth = depth;
    b.ends = b.options.end_of_generation = {5};
    b.up();
    const std::vector<token_id> prompt{7, 5, 9, 5, 5, 11};
    const auto sink = b.submit(b.scored("a", prompt, 1, 4));
    b.finish();
    expect_scored(*sink, prompt, 1);
    expect_tokens(*sink, b.device->expected(prompt, 4));
    BOOST_TEST(!sink->ending());
  }
}

BOOST_AUTO_TEST_CASE(the_end_token_is_told_where_it_is_wanted_and_is_no_output) {
  for (const bool wanted : {true, false}) {
    scoring_bench b;
    b.ends = {5};
    b.options.next = [](auto sequence) { return sequence.size() < 8 ? 20 : 5; };
    b.up();
    auto job = b.scored("a", prompt_of(6), 1, 9);
    job.tell_end = wanted;
    const auto sink = b.submit(std::move(job));
    b.finish();
    expect_end(*sink, finish_reason::stop);
    expect_tokens(*sink, {20, 20});
    BOOST_TEST((sink->ending() == (wanted ? std::optional<token_id>(5) : std::nullopt)));
    BOOST_TEST(sink->stats().tokens_out == 2U);
  }
}

BOOST_AUTO_TEST_CASE(a_lost_step_repeats_no_token) {
  for (const bool pages : {true, false}) {
    for (std::uint64_t lost = 1; lost < 28; ++lost) {
      scoring_bench b;
      b.options.slots = 2;
      b.options.launch_depth = 3;
      b.options.faults = {{lost, errc::vram_oom, true}};
      if (pages) b.options.pages = {16, 16};
      b.up();
      const auto prompt = prompt_of(20);
      const auto sink = b.submit(b.scored("a", prompt, 4, 3));
      // The one that ends for it: it is admitted last, and no part of it is shorter.
      const auto other = b.submit(b.scored("b", prompt_of(40, 9), 1, 3));
      b.finish();
      if (sink->error()) continue;
      expect_scored(*sink, prompt, 4);
      expect_tokens(*sink, b.device->expected(prompt, 3));
      if (!other->error()) expect_scored(*other, prompt_of(40, 9), 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cached_prefix_ends_before_the_told_tokens) {
  scoring_bench b;
  b.options.slots = 2;
  b.options.pages = {4, 64};
  b.cache.tokens_min = 1;
  b.up();
  const auto prompt = prompt_of(30);
  (void)b.submit("first", prompt, 3);
  b.finish();
  for (const std::uint32_t from : {1U, 2U, 4U, 5U, 13U, 29U, 30U}) {
    const auto sink = b.submit(b.scored("s" + std::to_string(from), prompt, from, 2));
    const auto twin = b.submit(b.scored("t" + std::to_string(from), prompt, from, 0));
    b.finish();
    for (const auto& one : {sink, twin}) {
      expect_scored(*one, prompt, from);
      expect_end(*one, finish_reason::length);
    }
    BOOST_TEST(sink->stats().tokens_cached == from - 1);
    BOOST_TEST(twin->stats().tokens_cached == std::min(from, 29U) - 1);  // the 29th is the last it computes
  }
}

BOOST_AUTO_TEST_CASE(twins_take_over_pages_but_none_of_told_tokens) {
  for (const std::uint32_t from : {1U, 14U, 30U}) {
    scoring_bench b;
    b.options.slots = 3;
    b.options.launch_depth = 2;
    b.options.pages = {4, 64};
    b.cache.tokens_min = 1;
    b.up();
    const auto prompt = prompt_of(30);
    std::vector<sink_ptr> sinks;
    for (int i = 0; i < 3; ++i) sinks.push_back(b.submit(b.scored("s" + std::to_string(i), prompt, from, 1)));
    sinks.push_back(b.submit("plain", prompt, 1));
    b.finish();
    for (int i = 0; i < 3; ++i) expect_scored(*sinks[static_cast<std::size_t>(i)], prompt, from);
    for (const auto& sink : sinks) expect_tokens(*sink, b.device->expected(prompt, 1));
  }
}

BOOST_AUTO_TEST_CASE(nothing_to_generate_ends_at_the_last_token_but_one) {
  for (const std::uint32_t tokens : {1U, 2U, 8U, 9U, 10U, 30U}) {
    for (const bool pages : {true, false}) {
      scoring_bench b;
      b.cache.tokens_min = 1;
      if (pages) b.options.pages = {4, 64};
      b.up();
      const auto prompt = prompt_of(tokens);
      for (int again = 0; again < 3; ++again) {
        const auto sink = b.submit("a", prompt, 0);
        b.finish();
        expect_end(*sink, finish_reason::length);
        expect_tokens(*sink, {});
        BOOST_TEST(sink->stats().tokens_in == tokens);
      }
      const auto full = b.submit("b", prompt, 4);
      b.finish();
      expect_tokens(*full, b.device->expected(prompt, 4));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_token_that_cannot_be_chosen_has_no_probability) {
  scoring_bench b;
  b.options.vocab = 64;
  b.up();
  // The fake device allows no token beyond its vocabulary, as a real one allows no unused row of it.
  const auto sink = b.submit(b.scored("a", {3, 4, 90}, 1, 0));
  b.finish();
  BOOST_REQUIRE(sink->prompt().size() == 2U);
  BOOST_TEST(sink->prompt()[1] == 90);
  BOOST_TEST(std::isinf(sink->prompt_logprobs()[1].chosen));
  BOOST_TEST(sink->prompt_logprobs()[1].listed == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
