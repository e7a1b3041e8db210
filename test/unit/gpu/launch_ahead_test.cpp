// The host backend behind the same seam as a device that runs ahead: the same tokens at any depth, and
// the look-back window, end tokens and log probabilities that an accelerator keeps account of itself.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "engine/sampling/sampling.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/support/scheduled_run.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

using namespace orcd;
using engine::slot_id;
using engine::token_id;

namespace {

const engine::interrupt_flag never{false};

struct ahead_bench {
  explicit ahead_bench(std::uint32_t depth, std::uint32_t slots, std::vector<token_id> ends = {})
      : source({}), device(gpu::make_host_backend({.threads = 1, .launch_depth = depth})) {
    (void)device
        ->load(source.model(),
               {.slots = slots,
                .context_tokens = 96,
                .banned_tokens = {3},
                .end_of_generation = std::move(ends)},
               [](unsigned) {})
        .value();
  }
  test::tiny_backend source;  // holds the model
  std::unique_ptr<engine::accelerator> device;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(launch_ahead)

BOOST_AUTO_TEST_CASE(jobs_get_the_same_tokens_at_any_depth_and_slot) {
  std::vector<std::vector<token_id>> expected;
  std::size_t stopped = 0;
  for (const std::uint32_t slots : {1U, 3U}) {
    for (const std::uint32_t depth : {1U, 2U, 3U}) {
      for (const bool device_knows : {true, false}) {
        test::scheduled_limits limits{.slots = slots, .vocab = 0, .context = 96, .end_of_generation = {}};
        for (token_id id = 0; id < 24; ++id) limits.end_of_generation.push_back(id * 2);
        ahead_bench b(depth, slots, device_knows ? limits.end_of_generation : std::vector<token_id>{});
        limits.vocab = b.source.model().spec.vocab;
        const auto got = test::run_jobs(*b.device, limits, 14);
        if (expected.empty()) expected = got;
        BOOST_TEST((got == expected), "depth " << depth << ", " << slots << " slots");
      }
    }
  }
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    stopped +=
        expected[i].size() <
        test::mixed_job(i, {.slots = 1, .vocab = 96, .context = 96, .end_of_generation = {}}).max_tokens;
  }
  BOOST_TEST(stopped > 2U);
}

// The step behind one that was interrupted has no token to go on from where that would have chosen the first.
BOOST_AUTO_TEST_CASE(interrupted_steps_are_computed_again_at_any_depth) {
  std::vector<std::vector<token_id>> expected;
  for (const bool interrupted : {false, true}) {
    for (const std::uint32_t depth : {1U, 2U, 3U}) {
      ahead_bench b(depth, 2);
      const test::scheduled_limits limits{
          .slots = 2, .vocab = b.source.model().spec.vocab, .context = 96, .end_of_generation = {}};
      test::run_extras extras;
      extras.before_step = [&](engine::scheduler& loop, std::uint32_t step) {
        if (interrupted && step % 3 == 0) loop.interrupt();
      };
      const auto got = test::run_jobs(*b.device, limits, 8, extras);
      if (expected.empty()) expected = got;
      BOOST_TEST((got == expected), "depth " << depth);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_window_of_the_penalties_slides_over_prompt_and_output) {
  ahead_bench b(2, 1);
  const engine::sampling_params params{
      .temperature = 0.7F, .repetition_penalty = 1.4F, .frequency_penalty = 0.6F, .repeat_last_n = 9};
  auto all = b.source.prompt(6, 1);
  engine::sampling_workspace workspace;
  for (int i = 0; i < 20; ++i) {
    const engine::sample_request request{.params = &params, .draw = 0.04 * i, .remaining = 100};
    const auto fed = i == 0 ? std::span<const token_id>(all) : std::span<const token_id>{};
    const auto position = static_cast<std::uint32_t>(i == 0 ? 0 : all.size() - 1);
    const engine::sequence_step step{
        .slot = slot_id{0}, .position = position, .tokens = fed, .sample = &request};
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(b.device->step({&step, 1}, never, sampled));
    const auto recent = std::span<const token_id>(all).last(std::min<std::size_t>(9, all.size()));
    const std::vector<token_id> banned{3};
    BOOST_TEST(sampled.front().token ==
               engine::sample(b.device->logits(slot_id{0}), params, recent, banned, request.draw, workspace));
    all.push_back(sampled.front().token);
  }
}

BOOST_AUTO_TEST_CASE(what_ended_a_sequence_is_not_fed_back) {
  const engine::sampling_params greedy{.temperature = 0.0F};
  for (const bool by_limit : {true, false}) {
    ahead_bench b(2, 1, {});
    const auto prompt = b.source.prompt(5, 1);
    engine::sample_request request{.params = &greedy, .remaining = by_limit ? 1U : 100U};
    const engine::sequence_step first{
        .slot = slot_id{0}, .position = 0, .tokens = prompt, .sample = &request};
    const engine::sequence_step next{.slot = slot_id{0}, .position = 5, .tokens = {}, .sample = &request};
    b.device->launch({&first, 1}, never);
    b.device->launch({&next, 1}, never);
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(b.device->collect(never, sampled));
    BOOST_REQUIRE(b.device->collect(never, sampled));
    BOOST_REQUIRE(sampled.size() == 2U);
    BOOST_TEST((sampled[0].token >= 0));
    BOOST_TEST((sampled[1].token == -1) == by_limit);
  }
}

BOOST_AUTO_TEST_CASE(log_probabilities_come_with_the_token) {
  ahead_bench b(1, 1);
  const engine::sampling_params params{.temperature = 0.9F, .repetition_penalty = 1.5F};
  const auto prompt = b.source.prompt(5, 1);
  const engine::sample_request request{.params = &params, .draw = 0.3, .logprobs = true, .top_logprobs = 4};
  const engine::sequence_step step{.slot = slot_id{0}, .position = 0, .tokens = prompt, .sample = &request};
  std::vector<engine::sampled_token> sampled;
  BOOST_REQUIRE(b.device->step({&step, 1}, never, sampled));
  const auto expected = engine::logprobs_of(b.device->logits(slot_id{0}), sampled.front().token, 4);
  BOOST_TEST(sampled.front().logprobs.chosen == expected.chosen);
  BOOST_TEST(sampled.front().logprobs.listed == 4U);
  BOOST_TEST(sampled.front().logprobs.top[3].token == expected.top[3].token);
}

BOOST_AUTO_TEST_CASE(an_interrupt_drops_every_launched_step) {
  ahead_bench b(2, 1);
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy, .remaining = 100};
  const auto prompt = b.source.prompt(5, 1);
  const engine::sequence_step first{.slot = slot_id{0}, .position = 0, .tokens = prompt, .sample = &request};
  const engine::sequence_step next{.slot = slot_id{0}, .position = 5, .tokens = {}, .sample = &request};
  const engine::interrupt_flag set{true};
  std::vector<engine::sampled_token> sampled;
  b.device->launch({&first, 1}, never);
  b.device->launch({&next, 1}, set);
  BOOST_TEST(!b.device->collect(never, sampled));
  b.device->release(slot_id{0});
  BOOST_TEST(b.device->step({&first, 1}, never, sampled));
  BOOST_TEST(sampled.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
