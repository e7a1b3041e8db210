// Steps launched ahead on the GPU: the same tokens as when every step waits for the host, with pinned
// memory or without, and the tokens that the host's sampler chooses from the same logits.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/sampling/choice.hpp"
#include "engine/sampling/sampling.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/memory/allocation_counter.hpp"
#include "gpu/plan/step_results.hpp"
#include "test/support/scheduled_run.hpp"
#include "test/unit/golden/golden_file.hpp"

namespace orcd::test {
namespace {

using engine::slot_id;
using engine::token_id;

const engine::interrupt_flag never{false};

struct ahead_model {
  explicit ahead_model(const std::string& name)
      : golden(read_tiny_golden(name)),
        file(engine::gguf_file::open(golden.model.string()).value()),
        model(engine::load_model(file, golden.cases.front().context, golden.cases.front().rope).value()) {}

  std::unique_ptr<engine::accelerator> load(gpu::cuda_backend_options options, std::uint32_t slots,
                                            std::vector<token_id> ends = {}) {
    options.end = gpu::device_end::keep;
    auto device = gpu::make_cuda_backend(options);
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = context();
    config.banned_tokens = {3, 5};
    config.window_groups = false;  // slots are used without begin()
    config.end_of_generation = std::move(ends);
    const auto loaded = device->load(model, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    return device;
  }
  [[nodiscard]] std::uint32_t context() const { return std::min(golden.cases.front().context, 128U); }

  tiny_golden golden;
  engine::gguf_file file;
  engine::model model;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_ahead)

BOOST_AUTO_TEST_CASE(jobs_get_the_same_tokens_with_and_without_launching_ahead) {
  for (const std::string name : {"llama-tied", "gpt-oss"}) {
    ahead_model m(name);
    scheduled_limits limits{
        .slots = 1, .vocab = m.model.spec.vocab, .context = m.context(), .end_of_generation = {}};
    for (std::uint32_t id = 0; id < limits.vocab; id += 17)
      limits.end_of_generation.push_back(static_cast<token_id>(id));
    std::vector<std::vector<token_id>> expected;
    for (const std::uint32_t slots : {1U, 5U, 18U}) {
      for (const bool pinned : {true, false}) {
        limits.slots = slots;
        const auto device = m.load({.chunk_tokens = 7, .pinned = pinned}, slots, limits.end_of_generation);
        BOOST_TEST(device->launch_depth() == 2U);
        for (const std::uint32_t depth : {1U, 2U}) {
          depth_limit limited(*device, depth);
          const auto got = run_jobs(limited, limits, 30);
          if (expected.empty()) expected = got;
          BOOST_TEST((got == expected),
                     name << ": depth " << depth << ", " << slots << " slots, pinned " << pinned);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_device_chooses_what_the_host_chooses_from_its_logits) {
  ahead_model m("llama-tied");
  const auto device = m.load({.keep_logits = true}, 2);
  engine::sampling_workspace workspace;
  const std::vector<token_id> banned{3, 5};
  for (const std::uint32_t number : {1U, 2U, 3U, 4U, 6U, 7U, 12U, 13U, 20U}) {
    const scheduled_limits limits{
        .slots = 2, .vocab = m.model.spec.vocab, .context = m.context(), .end_of_generation = {}};
    const auto job = mixed_job(number, limits);
    std::vector<token_id> all = job.prompt;
    engine::draw_source draws(number);
    for (int i = 0; i < 30; ++i) {
      const engine::sample_request request{.params = &job.sampling,
                                           .draw = draws.next(),
                                           .remaining = 100,
                                           .logprobs = true,
                                           .top_logprobs = 20};
      const bool first = i == 0;
      const engine::sequence_step step{
          .slot = slot_id{1},
          .position = static_cast<std::uint32_t>(first ? 0 : all.size() - 1),
          .tokens = first ? std::span<const token_id>(all) : std::span<const token_id>{},
          .sample = &request};
      std::vector<engine::sampled_token> sampled;
      BOOST_REQUIRE(device->step({&step, 1}, never, sampled));
      const auto window =
          job.sampling.penalises() ? std::min<std::size_t>(all.size(), job.sampling.repeat_last_n) : 0;
      const auto logits = device->logits(slot_id{1});
      const token_id chosen = engine::sample(
          logits, job.sampling, std::span<const token_id>(all).last(window), banned, request.draw, workspace);
      BOOST_REQUIRE_EQUAL(sampled.front().token, chosen);
      const auto logprobs = engine::logprobs_of(logits, chosen, 20);
      BOOST_TEST(sampled.front().logprobs.chosen == logprobs.chosen);
      BOOST_TEST(sampled.front().logprobs.top[19].token == logprobs.top[19].token);
      all.push_back(chosen);
    }
    device->release(slot_id{1});
  }
}

// Samplers that the device does not have: the host chooses from the logits that it computed, in steps with
// others and without, and tells the log probabilities of its own choice.
BOOST_AUTO_TEST_CASE(the_host_chooses_where_the_device_has_no_such_sampler) {
  ahead_model m("llama-tied");
  const auto device = m.load({.keep_logits = true}, 3);
  engine::sampling_workspace workspace;
  const std::vector<token_id> banned{3, 5};
  for (const std::uint32_t number : {8U, 16U, 24U}) {
    const scheduled_limits limits{
        .slots = 3, .vocab = m.model.spec.vocab, .context = m.context(), .end_of_generation = {}};
    const auto job = mixed_job(number, limits);
    BOOST_TEST_REQUIRE(job.sampling.needs_logits());
    std::vector<token_id> all = job.prompt;
    const std::vector<token_id> other_prompt{7, 8, 9};
    std::uint32_t other = 0;  // the other sequence's next position
    engine::draw_source draws(number);
    for (std::uint32_t i = 0; i < 20; ++i) {
      const engine::sample_request request{.params = &job.sampling,
                                           .draw = draws.next(),
                                           .remaining = 100,
                                           .logprobs = true,
                                           .top_logprobs = 20,
                                           .seen = all};
      const auto position = static_cast<std::uint32_t>(i == 0 ? 0 : all.size() - 1);
      const engine::sampling_params greedy{.temperature = 0.0F};
      const engine::sample_request plain{.params = &greedy, .remaining = 100};
      const auto fed = i == 0 ? std::span<const token_id>(other_prompt) : std::span<const token_id>{};
      const std::vector<engine::sequence_step> steps{
          {.slot = slot_id{0}, .position = other, .tokens = fed, .sample = &plain},
          {.slot = slot_id{1},
           .position = position,
           .tokens = std::span<const token_id>(all).subspan(position),
           .sample = &request}};
      std::vector<engine::sampled_token> sampled;
      const bool together = i % 3 != 2;
      BOOST_REQUIRE(device->step(together ? std::span(steps) : std::span(steps).last(1), never, sampled));
      if (together) other += steps.front().count();
      const auto logits = device->logits(slot_id{1});
      const token_id chosen = engine::choose(logits, job.sampling, all, banned, request.draw, workspace);
      BOOST_REQUIRE_EQUAL(sampled.back().token, chosen);
      const auto logprobs = engine::logprobs_of(logits, chosen, 20);
      BOOST_TEST(sampled.back().logprobs.chosen == logprobs.chosen);
      BOOST_TEST(sampled.back().logprobs.top[19].token == logprobs.top[19].token);
      all.push_back(chosen);
    }
    device->release(slot_id{0});
    device->release(slot_id{1});
  }
}

BOOST_AUTO_TEST_CASE(a_mask_limits_one_slot_and_is_replaced_with_the_next_token) {
  ahead_model m("llama-tied");
  const auto device = m.load({.keep_logits = true}, 2);
  const engine::sampling_params greedy{.temperature = 0.0F};
  const auto& prompt = m.golden.cases.front().tokens;
  const std::uint32_t vocab = m.model.spec.vocab;
  engine::sampling_workspace workspace;
  std::vector<token_id> all[2] = {{prompt.begin(), prompt.begin() + 5}, {prompt.begin(), prompt.begin() + 3}};
  const std::vector<token_id> banned{3, 5};
  for (std::uint32_t i = 0; i < 12; ++i) {
    std::vector<std::uint32_t> mask((vocab + 31) / 32);
    for (std::uint32_t t = i; t < vocab; t += 3 + i) mask[t / 32] |= 1U << t % 32;
    engine::sample_request limited{.params = &greedy, .remaining = 100};
    if (i % 4 != 3) limited.allowed = mask;
    const engine::sample_request free{.params = &greedy, .remaining = 100};
    const auto step_of = [&](std::uint32_t slot, const engine::sample_request& asked) {
      const std::span<const token_id> known(all[slot]);
      const auto position = i == 0 ? 0 : known.size() - 1;
      return engine::sequence_step{slot_id{slot}, static_cast<std::uint32_t>(position),
                                   known.subspan(position), &asked};
    };
    const engine::sequence_step steps[] = {step_of(0, limited), step_of(1, free)};
    std::vector<engine::sampled_token> sampled;
    BOOST_REQUIRE(device->step(steps, never, sampled));
    for (std::uint32_t slot = 0; slot < 2; ++slot) {
      const token_id expected = engine::sample(device->logits(slot_id{slot}), greedy, {}, banned, 0.0,
                                               workspace, slot == 0 ? limited.allowed : engine::token_mask{});
      BOOST_TEST(sampled[slot].token == expected);
      all[slot].push_back(sampled[slot].token);
    }
  }
}

// Greedy tokens come from a key that the forward pass makes, but not where there are biases; and a slot must
// not keep those of the sequence before.
BOOST_AUTO_TEST_CASE(biases_are_those_of_the_sequence_and_of_no_other) {
  ahead_model m("llama-tied");
  const auto device = m.load({.keep_logits = true}, 2);
  const auto& prompt = m.golden.cases.front().tokens;
  const std::uint32_t vocab = m.model.spec.vocab;
  engine::sampling_workspace workspace;
  const std::vector<token_id> banned{3, 5};
  std::vector<engine::sampling_params> kinds(4, engine::sampling_params{.temperature = 0.0F});
  kinds[1].biases = {{3, 100.0F}, {11, 40.0F}};
  for (std::uint32_t id = 0; id < std::min<std::uint32_t>(vocab, engine::logit_biases_max); ++id)
    kinds[2].biases.push_back({static_cast<token_id>(id), id % 3 == 0 ? -30.0F : 1.5F});
  kinds[3].biases = {{7, 40.0F}};
  for (std::uint32_t round = 0; round < 8; ++round) {
    std::vector<token_id> all[2];
    for (std::uint32_t i = 0; i < 5; ++i) {
      engine::sample_request asked[2];
      engine::sequence_step steps[2];
      for (std::uint32_t slot = 0; slot < 2; ++slot) {
        asked[slot] = {.params = &kinds[(round + slot) % kinds.size()], .remaining = 100};
        if (i == 0) all[slot].assign(prompt.begin(), prompt.begin() + 4 + slot);
        const std::span<const token_id> known(all[slot]);
        steps[slot] = {slot_id{slot}, static_cast<std::uint32_t>(i == 0 ? 0 : known.size() - 1),
                       i == 0 ? known : std::span<const token_id>{}, &asked[slot]};
      }
      std::vector<engine::sampled_token> sampled;
      BOOST_REQUIRE(device->step(steps, never, sampled));
      for (std::uint32_t slot = 0; slot < 2; ++slot) {
        const token_id expected =
            engine::sample(device->logits(slot_id{slot}), *asked[slot].params, {}, banned, 0.0, workspace);
        BOOST_TEST(sampled[slot].token == expected, "round " << round << " slot " << slot << " token " << i);
        all[slot].push_back(sampled[slot].token);
      }
    }
    device->release(slot_id{0});
    device->release(slot_id{1});
  }
}

BOOST_AUTO_TEST_CASE(a_step_in_vain_changes_nothing_and_its_slot_starts_over) {
  ahead_model m("llama-tied");
  const auto device = m.load({}, 2);
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request last{.params = &greedy, .remaining = 1};
  const engine::sample_request more{.params = &greedy, .remaining = 100};
  const auto& prompt = m.golden.cases.front().tokens;
  const std::span<const token_id> fed(prompt.data(), 6);
  const engine::sequence_step begin[] = {{slot_id{0}, 0, fed, &last}, {slot_id{1}, 0, fed.first(4), &more}};
  const engine::sequence_step next[] = {{slot_id{0}, 6, {}, &more}, {slot_id{1}, 4, {}, &more}};
  std::vector<engine::sampled_token> sampled;
  device->launch(begin, never);
  device->launch(next, never);
  device->release(slot_id{0});
  BOOST_REQUIRE(device->collect(never, sampled));
  BOOST_REQUIRE(device->collect(never, sampled));
  BOOST_REQUIRE(sampled.size() == 4U);
  BOOST_TEST(sampled[2].token == -1);
  BOOST_TEST(sampled[3].token >= 0);
  const token_id expected = sampled[0].token;
  sampled.clear();
  BOOST_REQUIRE(device->step(std::span(begin, 1), never, sampled));
  BOOST_TEST(sampled.front().token == expected);
}

BOOST_AUTO_TEST_CASE(results_take_the_pinned_memory_that_was_planned_or_none) {
  ahead_model m("llama-tied");
  for (const bool pinned : {true, false}) {
    const auto before = gpu::counted_allocations().pinned_bytes;
    const auto device = m.load({.pinned = pinned}, 3);
    const auto expected = pinned ? gpu::result_ring_bytes(3) : 0;
    BOOST_TEST(gpu::counted_allocations().pinned_bytes - before == expected);
  }
}

BOOST_AUTO_TEST_CASE(an_interrupt_drops_what_was_launched_and_the_slot_starts_over) {
  ahead_model m("llama-tied");
  const auto device = m.load({}, 1);
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request more{.params = &greedy, .remaining = 100};
  const std::span<const token_id> fed(m.golden.cases.front().tokens.data(), 6);
  const engine::sequence_step begin{slot_id{0}, 0, fed, &more};
  const engine::interrupt_flag set{true};
  std::vector<engine::sampled_token> sampled, again;
  BOOST_REQUIRE(device->step({&begin, 1}, never, sampled));
  device->release(slot_id{0});
  device->launch({&begin, 1}, set);
  BOOST_TEST(!device->collect(never, again));
  device->release(slot_id{0});
  BOOST_REQUIRE(device->step({&begin, 1}, never, again));
  BOOST_TEST(again.front().token == sampled.front().token);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
