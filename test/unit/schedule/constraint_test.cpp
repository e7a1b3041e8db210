// Jobs whose output is constrained, among others: what may follow is asked with every token before it known.
#include <algorithm>
#include <set>

#include "engine/sampling/token_rules.hpp"
#include "test/unit/schedule/scheduler_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

/// Allows only tokens that are larger than the last one, and `end` from `least` tokens on; complete at
/// `last`.
class rising final : public token_constraint {
 public:
  rising(token_id end, std::size_t least, token_id last, std::vector<token_id>* seen = nullptr)
      : end_(end), least_(least), last_(last), seen_(seen), words_(4) {}

  token_mask mask() override {
    std::fill(words_.begin(), words_.end(), 0U);
    for (token_id t = before_ + 1; t < 128; ++t) {
      if (t != end_) set(t);
    }
    if (count_ >= least_) set(end_);
    return words_;
  }
  bool accept(token_id token) override {
    const bool good = token > before_ && token != end_;
    before_ = token;
    ++count_;
    if (seen_ != nullptr) seen_->push_back(token);
    return good;
  }
  bool complete() const override { return before_ >= last_; }

 private:
  void set(token_id t) { words_[static_cast<std::size_t>(t) / 32] |= 1U << t % 32; }
  token_id end_;
  std::size_t least_;
  token_id last_;
  std::vector<token_id>* seen_;
  std::vector<std::uint32_t> words_;
  token_id before_ = -1;
  std::size_t count_ = 0;
};

struct constraint_bench : scheduler_bench {
  constraint_bench() { ends = {5}; }
  job_request constrained(std::string id, std::uint32_t max_tokens, std::shared_ptr<token_constraint> what,
                          token_id first = 1) {
    job_request r = request(std::move(id), prompt_of(20, first), max_tokens);
    r.constraint = std::move(what);
    return r;
  }
};

std::vector<token_id> output_at(std::uint32_t depth, std::uint32_t neighbours,
                                std::vector<fake_fault> faults = {}) {
  constraint_bench b;
  b.options.slots = 4;
  b.options.launch_depth = depth;
  b.options.faults = std::move(faults);
  b.up();
  std::vector<sink_ptr> others;
  for (std::uint32_t i = 0; i < neighbours; ++i) {
    others.push_back(b.submit("n" + std::to_string(i), prompt_of(3 + i, 40 + static_cast<token_id>(i)), 30));
  }
  const auto sink = b.submit(b.constrained("c", 50, std::make_shared<rising>(5, 100, 120)));
  b.finish();
  for (std::uint32_t i = 0; i < neighbours; ++i) {
    if (others[i]->error()) continue;  // its memory was the one that failed
    expect_tokens(*others[i], b.device->expected(prompt_of(3 + i, 40 + static_cast<token_id>(i)), 30));
  }
  expect_end(*sink, finish_reason::stop);
  return sink->tokens();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(constraints)

BOOST_AUTO_TEST_CASE(every_token_is_allowed_by_what_came_before) {
  const auto tokens = output_at(1, 0);
  BOOST_TEST(tokens.size() > 1U);
  BOOST_TEST(std::is_sorted(tokens.begin(), tokens.end()));
  BOOST_TEST(tokens.back() >= 120);
}

BOOST_AUTO_TEST_CASE(the_output_depends_on_neither_depth_nor_neighbours_nor_lost_steps) {
  const auto alone = output_at(1, 0);
  for (const std::uint32_t depth : {1U, 2U, 3U}) {
    for (const std::uint32_t neighbours : {0U, 1U, 3U}) {
      BOOST_TEST(output_at(depth, neighbours) == alone, boost::test_tools::per_element());
    }
    // A neighbour's long prompt is what runs out of memory; the constrained job is computed again.
    constraint_bench b;
    b.options.slots = 2;
    b.options.launch_depth = depth;
    b.options.faults = {{6, errc::vram_oom, true}};
    b.up();
    const auto sink = b.submit(b.constrained("c", 50, std::make_shared<rising>(5, 100, 120)));
    const auto large = b.submit("large", prompt_of(100), 3);
    b.finish();
    expect_error(*large, errc::vram_oom);
    expect_end(*sink, finish_reason::stop);
    expect_tokens(*sink, alone);
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_launched_ahead_of_a_constrained_token) {
  constraint_bench b;
  b.options.slots = 2;
  b.options.launch_depth = 2;
  b.up();
  (void)b.submit(b.constrained("c", 50, std::make_shared<rising>(5, 100, 120)));
  (void)b.submit("n", prompt_of(4), 40);
  b.finish();
  std::size_t ahead = 0;
  for (const auto& record : b.device->records()) {
    if (record.slot == slot_id{0}) BOOST_TEST(!record.fed_back);
    if (record.slot == slot_id{1} && record.fed_back) ++ahead;
  }
  BOOST_TEST(ahead > 20U);
}

BOOST_AUTO_TEST_CASE(ends_at_an_end_token_where_the_constraint_allows_it_even_with_ignore_eos) {
  for (const bool ignore : {false, true}) {
    constraint_bench b;
    b.options.next = [](std::span<const token_id>) { return 5; };  // the end, whenever it is allowed
    b.up();
    auto r = b.constrained("c", 50, std::make_shared<rising>(5, 3, 127));
    r.ignore_eos = ignore;
    const auto sink = b.submit(std::move(r));
    b.finish();
    expect_end(*sink, finish_reason::stop);
    expect_tokens(*sink, {6, 7, 8});
  }
}

BOOST_AUTO_TEST_CASE(ends_by_length_and_tells_the_constraint_only_what_was_accepted) {
  constraint_bench b;
  b.up();
  std::vector<token_id> seen;
  const auto sink = b.submit(b.constrained("c", 2, std::make_shared<rising>(5, 100, 127, &seen)));
  b.finish();
  expect_end(*sink, finish_reason::length);
  BOOST_TEST(sink->tokens() == seen, boost::test_tools::per_element());
  BOOST_TEST(seen.size() == 2U);
}

BOOST_AUTO_TEST_CASE(nothing_that_can_follow_is_the_jobs_error_alone) {
  struct nothing final : token_constraint {
    token_mask mask() override { return words; }
    bool accept(token_id) override { return false; }
    bool complete() const override { return false; }
    std::string failure() const override { return why; }
    std::string why;
    std::vector<std::uint32_t> words = std::vector<std::uint32_t>(4, 0);
  };
  constraint_bench b;
  b.options.slots = 2;
  b.up();
  const auto sink = b.submit(b.constrained("c", 5, std::make_shared<nothing>()));
  const auto costly = std::make_shared<nothing>();
  costly->why = "too costly";
  const auto limited = b.submit(b.constrained("d", 5, costly));
  const auto other = b.submit("n", prompt_of(4), 6);
  b.finish();
  expect_error(*sink, errc::internal);
  expect_error(*limited, errc::invalid_request);
  BOOST_TEST(limited->error()->failure.message == "too costly");
  expect_end(*other, finish_reason::length);
  BOOST_TEST(b.failures.empty());
}

BOOST_AUTO_TEST_CASE(no_end_comes_before_min_tokens_and_ahead_of_the_rest_steps_are_launched_again) {
  for (const std::uint32_t depth : {1U, 2U}) {
    constraint_bench b;
    b.options.launch_depth = depth;
    std::size_t steps = 0;
    b.options.next = [&](std::span<const token_id> before) { return before.back() == 5 ? 6 : 5; };
    b.up();
    token_rules rules;
    rules.min_tokens = 3;
    rules.ends = {5};
    const auto sink = b.submit(b.constrained("c", 50, make_token_rules(rules, 128)));
    b.finish();
    expect_end(*sink, finish_reason::stop);
    BOOST_TEST(sink->tokens().size() == 3U);
    for (const auto& record : b.device->records()) steps += record.fed_back ? 1U : 0U;
    BOOST_TEST((steps > 0) == (depth > 1));
  }
}

BOOST_AUTO_TEST_CASE(rules_without_a_grammar_leave_ignore_eos_as_it_is) {
  constraint_bench b;
  b.options.next = [](std::span<const token_id>) { return 5; };
  b.up();
  token_rules rules;
  rules.banned = {9};
  auto r = b.constrained("c", 4, make_token_rules(rules, 128));
  r.ignore_eos = true;
  const auto sink = b.submit(std::move(r));
  b.finish();
  expect_end(*sink, finish_reason::length);
  expect_tokens(*sink, {5, 5, 5, 5});
}

BOOST_AUTO_TEST_CASE(a_stop_token_ends_the_job_and_is_part_of_the_output_only_if_kept) {
  for (const bool keep : {false, true}) {
    for (const bool ignore_eos : {false, true}) {
      constraint_bench b;
      b.options.launch_depth = 2;
      b.options.next = [](std::span<const token_id> before) { return before.back() == 60 ? 61 : 60; };
      b.up();
      auto r = b.request("c", prompt_of(20), 30);
      r.stop_tokens = {7, 61};
      r.keep_stop_token = keep;
      r.ignore_eos = ignore_eos;
      const auto sink = b.submit(std::move(r));
      b.finish();
      expect_end(*sink, finish_reason::stop);
      expect_tokens(*sink, keep ? std::vector<token_id>{60, 61} : std::vector<token_id>{60});
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
