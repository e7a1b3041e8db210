// The host backend chooses only what a request's mask allows, and its log probabilities do not see the mask.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "test/unit/gpu/tiny_backend.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::slot_id;
using engine::token_id;

BOOST_AUTO_TEST_SUITE(request_masks)

BOOST_AUTO_TEST_CASE(the_best_allowed_token_is_chosen) {
  const auto model = every_tiny_model().front();
  tiny_backend b(model.options);
  const auto prompt = b.prompt(7, 3);
  const std::uint32_t vocab = b.model().spec.vocab;
  std::vector<std::uint32_t> mask((vocab + 31) / 32);
  for (std::uint32_t t = 0; t < vocab; t += 5) mask[t / 32] |= 1U << t % 32;
  engine::sampling_params greedy;
  greedy.temperature = 0.0F;
  engine::sample_request asked;
  asked.params = &greedy;
  asked.remaining = 10;
  asked.logprobs = true;
  asked.top_logprobs = 3;
  asked.allowed = mask;
  const engine::sequence_step part{slot_id{0}, 0, prompt, &asked};
  std::vector<engine::sampled_token> sampled;
  const engine::interrupt_flag never{false};
  BOOST_REQUIRE(b.device().step({&part, 1}, never, sampled));
  BOOST_REQUIRE_EQUAL(sampled.size(), 1U);
  const auto logits = b.device().logits(slot_id{0});
  token_id best = 0;
  for (std::uint32_t t = 0; t < vocab; t += 5) {
    if (logits[t] > logits[static_cast<std::size_t>(best)]) best = static_cast<token_id>(t);
  }
  BOOST_TEST(sampled[0].token == best);
  const auto free = engine::logprobs_of(logits, best, 3);
  BOOST_TEST(sampled[0].logprobs.chosen == free.chosen);
  BOOST_TEST(sampled[0].logprobs.top[0].token == free.top[0].token);
}

BOOST_AUTO_TEST_SUITE_END()
