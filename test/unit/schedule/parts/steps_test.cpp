// What a step carries, and what becomes of its results.
#include <limits>
#include <map>
#include <new>

#include "test/unit/schedule/parts/part_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

/// Guesses the same tokens each time.
struct steady_source final : draft_source {
  explicit steady_source(std::vector<token_id> tokens) : guessed(std::move(tokens)) {}
  std::uint32_t guess(std::span<const token_id>, std::uint32_t most, std::vector<token_id>& out) override {
    for (std::uint32_t i = 0; i < most && i < guessed.size(); ++i) out.push_back(guessed[i]);
    return 3;
  }
  std::vector<token_id> guessed;
};

/// Allows everything, unless there is no memory for its mask.
struct poor_constraint final : token_constraint {
  token_mask mask() override {
    if (poor) throw std::bad_alloc();
    return words;
  }
  bool accept(token_id) override { return accepts; }
  bool complete() const override { return is_complete; }
  bool poor = false, accepts = true, is_complete = false;
  std::vector<std::uint32_t> words = std::vector<std::uint32_t>(4, ~0U);
};

struct steps_bench : part_bench {
  explicit steps_bench(std::uint32_t slots = 4) { options.slots = slots; }
  /// In the next free slot.
  sequence& run(std::unique_ptr<sequence> job) {
    return parts->running.put(parts->running.running(), std::move(job), time);
  }
  sequence& run(job_request r) { return run(job(std::move(r))); }
  /// One that decodes: its prompt has a single token.
  sequence& decoding(std::uint32_t max_tokens = 20) {
    return run(job("d" + std::to_string(parts->running.running()), 1, max_tokens));
  }
  [[nodiscard]] std::string planned() {
    if (!parts->plan.plan()) return "";
    auto record = parts->plan.take_record();
    const std::string out = shape_of(record);
    for (const auto& part : record) parts->device.release(*parts->running[part.slot]);
    parts->plan.reuse(std::move(record));
    return out;
  }
  /// With a result of this token for the only job.
  void accept(token_id token) {
    sequence& job = *parts->running[0];
    ++job.pending;
    static_cast<void>(job.draws.at(0));
    parts->results.accept({{.slot = 0, .admission = job.admission, .tokens = 1, .end = 1, .samples = 1}},
                          std::vector<sampled_token>{{slot_id{0}, token}}, time);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule_steps)

BOOST_AUTO_TEST_CASE(all_that_decode_are_in_a_step_and_prompts_share_the_rest) {
  steps_bench b;
  b.options.chunk_tokens = 64;
  b.up();
  b.decoding();
  b.run(b.job("p", 30));
  b.decoding();
  b.run(b.job("q", 50));
  BOOST_TEST(b.planned() == "0:1 2:1 1:30 3:34");
}

BOOST_AUTO_TEST_CASE(prompts_take_turns) {
  steps_bench b(3);
  b.up();
  for (const char* id : {"a", "b", "c"}) b.run(b.job(id, 60));
  BOOST_TEST(b.planned() == "0:8");
  BOOST_TEST(b.planned() == "1:8");
  BOOST_TEST(b.planned() == "2:8");
  BOOST_TEST(b.planned() == "0:8");
}

BOOST_AUTO_TEST_CASE(nothing_is_planned_for_who_waits_for_a_token) {
  steps_bench b;
  b.up();
  auto constrained = b.request("c", prompt_of(1));
  constrained.constraint = std::make_shared<poor_constraint>();
  b.run(std::move(constrained)).pending = 1;
  BOOST_TEST(b.planned() == "");
}

BOOST_AUTO_TEST_CASE(a_job_whose_mask_needs_too_much_memory_ends_and_the_step_has_the_others) {
  steps_bench b;
  b.up();
  auto poor = std::make_shared<poor_constraint>();
  poor->poor = true;
  auto constrained = b.request("c", prompt_of(1));
  constrained.constraint = poor;
  b.run(std::move(constrained));
  b.decoding();
  BOOST_TEST(b.planned() == "1:1");
  expect_error(*b.sinks[0], errc::internal);
}

BOOST_AUTO_TEST_CASE(drafts_come_with_the_last_token_and_wait_for_it) {
  steps_bench b(3);
  b.options.draft_tokens = 4;
  b.config.drafts = {.enabled = true, .always = 3};
  b.up();
  sequence& one = b.decoding();
  b.decoding();
  b.decoding();
  one.drafts.set_source(std::make_unique<steady_source>(std::vector<token_id>{50, 51, 52, 53}));
  BOOST_TEST(b.planned() == "0:4 1:1 2:1");
  // While its token is under way, it waits; the others do not.
  one.pending = 1;
  BOOST_TEST(b.planned() == "1:1 2:1");
  // Nobody goes on where most would wait.
  b.parts->ends.end(2, job_outcome::of(finish_reason::stop), b.time);
  one.pending = 1;
  BOOST_TEST(b.planned() == "");
  BOOST_TEST(b.parts->drafts.waits(one));
}

BOOST_AUTO_TEST_CASE(beside_adapters_no_draft_is_weighed) {
  steps_bench b(2);
  b.options.draft_tokens = 4;
  b.config.drafts = {.enabled = true};
  b.up();
  sequence& one = b.decoding();
  sequence& other = b.decoding();
  one.drafts.set_source(std::make_unique<steady_source>(std::vector<token_id>{50, 51, 52, 53}));
  b.parts->drafts.choose(b.parts->running);
  BOOST_TEST(b.parts->drafts.taken(0) > 0U);
  other.request.adapters = {{.index = 0}};
  b.parts->drafts.choose(b.parts->running);
  BOOST_TEST(b.parts->drafts.taken(0) == 0U);
  BOOST_TEST(!b.parts->drafts.passed(0));
}

BOOST_AUTO_TEST_CASE(right_drafts_are_output_and_the_first_wrong_one_is_replaced) {
  steps_bench b(1);
  b.options.draft_tokens = 4;
  b.config.drafts = {.enabled = true, .always = 4};
  b.up();
  const auto expected = b.accelerator->expected(prompt_of(1), 3);
  sequence& one = b.run(b.request("a", prompt_of(1), 20));
  one.drafts.set_source(
      std::make_unique<steady_source>(std::vector<token_id>{expected[0], expected[1], expected[2] + 1, 9}));
  b.step();
  expect_tokens(*b.sinks[0], expected);
  BOOST_TEST(one.position == 3U);
  BOOST_TEST(one.pending == 0U);
  const draft_counts& counts = b.parts->results.drafts();
  BOOST_TEST(counts.steps == 1U);
  BOOST_TEST(counts.tokens == 4U);
  BOOST_TEST(counts.right == 2U);
  BOOST_TEST(counts.right_at[1] == 1U);
  BOOST_TEST(counts.right_at[2] == 0U);
}

BOOST_AUTO_TEST_CASE(a_token_is_output_or_one_of_the_ends) {
  struct ending {
    const char* what;
    token_id token;
    bool ends;
    std::vector<token_id> output;
    void (*change)(job_request&);
  };
  const std::vector<ending> table{
      {"any token", 40, false, {40}, [](job_request&) {}},
      {"end of generation", 5, true, {}, [](job_request&) {}},
      {"which is ignored", 5, false, {5}, [](job_request& r) { r.ignore_eos = true; }},
      {"a stop token", 6, true, {}, [](job_request& r) { r.stop_tokens = {6}; }},
      {"that is kept",
       6,
       true,
       {6},
       [](job_request& r) {
         r.stop_tokens = {6};
         r.keep_stop_token = true;
       }},
      {"the last token", 40, true, {40}, [](job_request& r) { r.max_tokens = 1; }},
      {"none could be chosen", -1, true, {}, [](job_request&) {}},
      {"a complete output",
       40,
       true,
       {40},
       [](job_request& r) {
         const auto constraint = std::make_shared<poor_constraint>();
         constraint->is_complete = true;
         r.constraint = constraint;
       }},
      {"a token that is not allowed",
       40,
       true,
       {},
       [](job_request& r) {
         const auto constraint = std::make_shared<poor_constraint>();
         constraint->accepts = false;
         r.constraint = constraint;
       }},
  };
  for (const ending& row : table) {
    BOOST_TEST_CONTEXT(row.what) {
      steps_bench b(1);
      b.config.end_of_generation = {5};
      b.up();
      auto request = b.request("a", prompt_of(1));
      row.change(request);
      b.run(std::move(request));
      b.accept(row.token);
      expect_tokens(*b.sinks[0], row.output);
      BOOST_TEST(b.sinks[0]->ended() == row.ends);
      BOOST_TEST(b.parts->running.running() == (row.ends ? 0U : 1U));
    }
  }
}

BOOST_AUTO_TEST_CASE(results_of_a_job_that_has_ended_mean_nothing) {
  steps_bench b(2);
  b.up();
  b.decoding();
  b.decoding();
  const auto [record, results] = b.compute();
  b.parts->ends.end(0, job_outcome::of(cancel_reason::client_cancel, 0.0), b.time);
  b.parts->running.put(0, b.job("new", 1), b.time);
  b.parts->results.accept(record, results, b.time);
  BOOST_TEST(b.sinks[0]->tokens().empty());
  BOOST_TEST(b.sinks[1]->tokens().size() == 1U);
  BOOST_TEST(b.sinks[2]->tokens().empty());
}

BOOST_AUTO_TEST_CASE(pooled_states_that_are_not_finite_are_an_error) {
  for (const bool finite : {true, false}) {
    steps_bench b(1);
    b.up();
    auto one = b.job("p", 3);
    one->pool = pool_request{3, 0};
    sequence& job = b.run(std::move(one));
    job.pending = 1;
    sampled_token result{slot_id{0}};
    result.pooled = std::make_shared<std::vector<float>>(
        std::vector<float>{1.0F, finite ? 2.0F : std::numeric_limits<float>::infinity()});
    b.parts->results.accept({{.slot = 0, .admission = job.admission, .tokens = 3, .end = 3, .samples = 1}},
                            std::vector<sampled_token>{result}, b.time);
    BOOST_TEST(b.sinks[0]->end().has_value() == finite);
    BOOST_TEST(b.sinks[0]->error().has_value() != finite);
  }
}

BOOST_AUTO_TEST_SUITE_END()
