// What crosses to the device and back, and the size of the ring that it comes back through.
#include "gpu/plan/step_results.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "engine/sampling/logprobs.hpp"

using namespace orcd;

BOOST_AUTO_TEST_SUITE(step_results)

BOOST_AUTO_TEST_CASE(the_ring_holds_two_steps_of_any_number_of_slots) {
  for (const std::uint32_t slots : {1U, 170U, 171U, kernels::sample_columns_max}) {
    BOOST_TEST(gpu::result_ring_bytes(slots) == 2 * slots * sizeof(kernels::sample_result));
  }
  BOOST_TEST(gpu::result_ring_bytes(kernels::sample_columns_max) == 96U * 1024);
}

BOOST_AUTO_TEST_CASE(drafts_take_what_the_slots_leave_of_the_ring) {
  BOOST_TEST(gpu::drafts_that_fit(1, 15) == 15U);
  BOOST_TEST(gpu::drafts_that_fit(64, 64) == 64U);
  BOOST_TEST(gpu::drafts_that_fit(160, 64) == 64U);
  BOOST_TEST(gpu::drafts_that_fit(200, 64) == 56U);
  BOOST_TEST(gpu::drafts_that_fit(kernels::sample_columns_max, 64) == 0U);
}

BOOST_AUTO_TEST_CASE(a_mask_is_named_by_its_row) {
  const engine::sampling_params params{};
  const std::uint32_t words[1] = {1};
  engine::sample_request asked{.params = &params};
  BOOST_TEST(gpu::device_request(asked, 0, 7).masked == 0U);
  asked.allowed = words;
  BOOST_TEST(gpu::device_request(asked, 0, 0).masked == 1U);
  BOOST_TEST(gpu::device_request(asked, 0, 7).masked == 8U);
}

BOOST_AUTO_TEST_CASE(a_request_keeps_every_field) {
  const engine::sampling_params params{.temperature = 0.5F,
                                       .top_k = 7,
                                       .top_p = 0.75F,
                                       .min_p = 0.125F,
                                       .repetition_penalty = 1.5F,
                                       .presence_penalty = 0.25F,
                                       .frequency_penalty = -0.5F,
                                       .repeat_last_n = 33,
                                       .biases = {{1, 2.0F}, {5, -1.0F}}};
  const auto got = gpu::device_request({.params = &params,
                                        .draw = 0.75,
                                        .remaining = 9,
                                        .stop_at_end = false,
                                        .logprobs = true,
                                        .top_logprobs = 5},
                                       3);
  BOOST_TEST(got.temperature == 0.5F);
  BOOST_TEST(got.top_k == 7U);
  BOOST_TEST(got.top_p == 0.75F);
  BOOST_TEST(got.min_p == 0.125F);
  BOOST_TEST(got.repetition_penalty == 1.5F);
  BOOST_TEST(got.presence_penalty == 0.25F);
  BOOST_TEST(got.frequency_penalty == -0.5F);
  BOOST_TEST(got.window == 33U);
  BOOST_TEST(got.draw_high == 0x180000U);
  BOOST_TEST(got.draw_low == 0U);
  BOOST_TEST(got.logprobs == 6U);
  BOOST_TEST(got.remaining == 9U);
  BOOST_TEST(got.stop_at_end == 0U);
  BOOST_TEST(got.result == 3U);
  BOOST_TEST(got.biases == 2U);
}

// The device's choice is not used then: it has the cheapest one to make.
BOOST_AUTO_TEST_CASE(a_request_that_needs_the_logits_asks_the_device_for_nothing) {
  engine::sampling_params params{
      .temperature = 0.5F, .top_k = 7, .repetition_penalty = 1.5F, .repeat_last_n = 9000};
  params.typical_p = 0.5F;
  const auto got = gpu::device_request({.params = &params, .draw = 0.5, .remaining = 4, .logprobs = true}, 3);
  BOOST_TEST(kernels::is_plain(got));
  BOOST_TEST((got.remaining == 4U && got.result == 3U));
}

BOOST_AUTO_TEST_CASE(no_penalties_mean_no_window_and_the_last_draw_fits) {
  const engine::sampling_params params{};
  const auto got = gpu::device_request({.params = &params, .draw = 1.0 - 0x1.0p-53}, 0);
  BOOST_TEST(got.window == 0U);
  BOOST_TEST(got.logprobs == 0U);
  BOOST_TEST(got.draw_high == 0x1FFFFFU);
  BOOST_TEST(got.draw_low == 0xFFFFFFFFU);
}

BOOST_AUTO_TEST_CASE(a_result_becomes_the_hosts_log_probabilities) {
  const std::vector<float> logits{1.0F, 3.0F, 2.0F};
  const auto scale = engine::measure_logits(logits);
  kernels::sample_result result;
  result.token = 2;
  result.total = scale.total;
  result.gap = scale.gap(logits[2]);
  result.listed = 2;
  result.ids[0] = 1;
  result.gaps[0] = scale.gap(logits[1]);
  result.ids[1] = 2;
  result.gaps[1] = scale.gap(logits[2]);
  const auto got = gpu::sampled_from(engine::slot_id{4}, result);
  const auto expected = engine::logprobs_of(logits, 2, 2);
  BOOST_TEST(got.token == 2);
  BOOST_TEST((got.slot == engine::slot_id{4}));
  BOOST_TEST(got.logprobs.chosen == expected.chosen);
  BOOST_REQUIRE(got.logprobs.listed == 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(got.logprobs.top[i].token == expected.top[i].token);
    BOOST_TEST(got.logprobs.top[i].logprob == expected.top[i].logprob);
  }
  result.total = 0;
  BOOST_TEST(gpu::sampled_from(engine::slot_id{0}, result).logprobs.listed == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
