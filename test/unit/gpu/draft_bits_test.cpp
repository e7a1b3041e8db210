// With drafts and without, every kind of job gets the same tokens, log probabilities and end, bit for bit:
// whoever guesses, however many drafts there are, whatever the slots, the depth and the neighbours do.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/matcher.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/support/drafted_run.hpp"
#include "test/unit/gpu/tiny_backend.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t context = 512;

/// A tiny model, and devices that have it.
class drafting_bench {
 public:
  explicit drafting_bench(const tiny_case& model) : source_(with_context(model)) {
    limits.vocab = source_.model().spec.vocab;
    limits.context = context;
    limits.end_of_generation = {vocabulary_.end()};
    limits.constraint = [this](std::uint32_t kind) { return constraint_of(kind); };
    // A token that the job of kind 5 comes to after some others.
    const auto device = make(1, 1);
    limits.slots = 1;
    stop = run_drafted(*device, limits, {}).jobs[5]->tokens().at(9);
  }

  [[nodiscard]] std::unique_ptr<engine::accelerator> make(std::uint32_t slots, std::uint32_t depth,
                                                          std::uint32_t chunk = 16) const {
    auto device = gpu::make_host_backend({.threads = 1, .chunk_tokens = chunk, .launch_depth = depth});
    engine::accelerator_config config{.slots = slots, .context_tokens = context, .banned_tokens = {}};
    config.draft_tokens = 64;
    (void)device->load(source_.model(), config, [](unsigned) {}).value();
    return device;
  }
  [[nodiscard]] drafted_run plain() {
    limits.slots = 1;
    return run_drafted(*make(1, 1), limits, {}, stop);
  }

  scheduled_limits limits;
  engine::token_id stop = -1;

 private:
  static tiny_model_options with_context(const tiny_case& model) {
    auto options = model.options;
    options.context = context;
    return options;
  }
  [[nodiscard]] std::shared_ptr<engine::token_constraint> constraint_of(std::uint32_t kind) const {
    const char* const schema = kind == 8 ? R"({"type": "string", "pattern": "^(ab|cd){2,9}[0-9]{3}$"})"
                                         : R"({"type": "array", "items": {"enum": ["abc", "abd", 12]},
                                               "minItems": 3, "maxItems": 5})";
    return engine::grammar::make_matcher(
        engine::grammar::compile_json_schema(boost::json::parse(schema)).value(), table_);
  }

  tiny_backend source_;
  piece_tokenizer vocabulary_;
  std::shared_ptr<const engine::grammar::token_table> table_ =
      engine::grammar::make_token_table(vocabulary_, source_.model().spec.vocab);
};

/// Hands everything on, but gives the second result of a step with drafts the first one's draw.
class one_draw_twice final : public depth_limit {
 public:
  using depth_limit::depth_limit;
  void launch(std::span<const engine::sequence_step> sequences,
              const engine::interrupt_flag& interrupt) override {
    std::vector<engine::sequence_step> steps(sequences.begin(), sequences.end());
    std::vector<std::vector<engine::sample_request>> asked(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].drafts() == 0) continue;
      asked[i].assign(steps[i].sample, steps[i].sample + steps[i].samples);
      asked[i][1].draw = asked[i][0].draw;
      steps[i].sample = asked[i].data();
    }
    depth_limit::launch(steps, interrupt);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(draft_bits)

BOOST_AUTO_TEST_CASE(any_number_of_drafts_right_or_wrong_changes_nothing) {
  drafting_bench bench(every_tiny_model().front());
  const auto plain = bench.plain();
  for (const auto& [slots, depth] : {std::pair{1U, 1U}, {1U, 2U}, {3U, 2U}, {8U, 2U}}) {
    bench.limits.slots = slots;
    const auto device = bench.make(slots, depth);  // its prompts are known from the second run on
    for (const std::uint32_t always : {1U, 2U, 5U, 15U}) {
      for (const double wrong : {0.0, 0.3, 1.0}) {
        const auto seen =
            run_drafted(*device, bench.limits, knowing(plain, bench.limits, always, wrong), bench.stop);
        BOOST_TEST(difference(seen, plain) == "",
                   slots << " slots, depth " << depth << ", " << always << " drafts, wrong " << wrong);
        BOOST_TEST(seen.drafts.tokens > 0U);
        if (wrong == 1.0) BOOST_TEST(seen.drafts.right == 0U);
        if (wrong == 0.0) {  // jobs with a grammar have drafts, too
          for (const std::uint32_t kind : {8U, 9U}) BOOST_TEST(seen.jobs[kind]->stats().drafts_right > 2U);
        }
        if (wrong == 0.3) BOOST_TEST((seen.drafts.right > 20U && seen.drafts.right < seen.drafts.tokens));
        if (wrong == 0.0 && slots == 1 && always == 15) BOOST_TEST(seen.drafts.steps < 40U);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_looked_up_is_often_right_and_changes_nothing) {
  drafting_bench bench(every_tiny_model().front());
  const auto plain = bench.plain();
  bench.limits.slots = 3;
  const auto device = bench.make(3, 2);
  for (const std::uint32_t always : {1U, 4U, 15U}) {
    const auto seen = run_drafted(*device, bench.limits, {true, always}, bench.stop);
    BOOST_TEST(difference(seen, plain) == "", always << " drafts");
    BOOST_TEST(seen.drafts.tokens > 0U);
    // An array of "abc", "abd" and 12 has texts without a choice.
    BOOST_TEST(seen.jobs[9]->stats().drafts_right > 0U);
  }
}

BOOST_AUTO_TEST_CASE(on_every_family) {
  for (const tiny_case& model : every_tiny_model()) {
    drafting_bench bench(model);
    const auto plain = bench.plain();
    bench.limits.slots = 3;
    const auto device = bench.make(3, 2);
    const auto seen = run_drafted(*device, bench.limits, knowing(plain, bench.limits, 4, 0.3), bench.stop);
    BOOST_TEST(difference(seen, plain) == "", model.name);
    BOOST_TEST(seen.drafts.right > 10U, model.name);
  }
}

// What pays is chosen anew at each step, so that the number changes all the time.
BOOST_AUTO_TEST_CASE(chosen_numbers_change_nothing) {
  drafting_bench bench(every_tiny_model().front());
  const auto plain = bench.plain();
  bench.limits.slots = 5;
  const auto device = bench.make(5, 2);
  for (const double each : {0.02, 0.3}) {
    with_cost cheap(*device, 2, each);
    const auto seen = run_drafted(cheap, bench.limits, knowing(plain, bench.limits, 0, 0.2), bench.stop);
    BOOST_TEST(difference(seen, plain) == "", "a token costs " << each);
    BOOST_TEST(seen.drafts.right > 10U);
  }
  with_cost dear(*device, 2, 1.0);
  const auto none = run_drafted(dear, bench.limits, knowing(plain, bench.limits, 0, 0.2), bench.stop);
  BOOST_TEST(difference(none, plain) == "");
  BOOST_TEST(none.drafts.tokens == 0U);
}

BOOST_AUTO_TEST_CASE(interrupted_steps_and_cancelled_neighbours_change_nothing) {
  drafting_bench bench(every_tiny_model().front());
  const auto plain = bench.plain();
  bench.limits.slots = 4;
  const auto device = bench.make(4, 2);
  coming_and_going disturb(bench.limits);
  for (const double wrong : {0.1, 0.6}) {
    const auto seen =
        run_drafted(*device, bench.limits, knowing(plain, bench.limits, 6, wrong), bench.stop, disturb);
    BOOST_TEST(difference(seen, plain) == "", "wrong " << wrong);
    BOOST_TEST(seen.drafts.right > 10U);
  }
}

// Whether these tests would notice.
BOOST_AUTO_TEST_CASE(a_draw_that_is_taken_twice_is_seen) {
  drafting_bench bench(every_tiny_model().front());
  const auto plain = bench.plain();
  bench.limits.slots = 3;
  const auto device = bench.make(3, 1);
  one_draw_twice spoilt(*device, 1);
  const auto seen = run_drafted(spoilt, bench.limits, knowing(plain, bench.limits, 3, 0.0), bench.stop);
  BOOST_TEST(difference(seen, plain) != "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
