#include "gpu/plan/step_results.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "engine/sampling/logprobs.hpp"

namespace orcd::gpu {
namespace {

static_assert(kernels::sample_columns_max * launch_depth * sizeof(kernels::sample_result) <= 96 * 1024);
static_assert(kernels::top_logprobs_max == engine::top_logprobs_max);
static_assert(kernels::sample_biases_max == engine::logit_biases_max);

}  // namespace

std::uint64_t result_ring_bytes(std::uint32_t results) noexcept {
  return std::uint64_t{results} * launch_depth * sizeof(kernels::sample_result);
}

std::uint32_t drafts_that_fit(std::uint32_t slots, std::uint32_t wanted) noexcept {
  return std::min(wanted, kernels::sample_columns_max - std::min(slots, kernels::sample_columns_max));
}

kernels::sample_request device_request(const engine::sample_request& asked, std::uint32_t result,
                                       std::uint32_t mask) {
  const engine::sampling_params& p = *asked.params;
  // The host chooses, and the device whatever costs it least.
  if (p.needs_logits()) return {.remaining = asked.remaining, .result = result};
  ORCD_ENSURE(p.repeat_last_n <= kernels::sample_window_max && asked.draw >= 0.0 && asked.draw < 1.0);
  ORCD_ENSURE(asked.top_logprobs <= kernels::top_logprobs_max &&
              p.biases.size() <= kernels::sample_biases_max);
  const auto draw = static_cast<std::uint64_t>(asked.draw * 0x1.0p53);
  return {.temperature = p.temperature,
          .top_k = p.top_k,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .repetition_penalty = p.repetition_penalty,
          .presence_penalty = p.presence_penalty,
          .frequency_penalty = p.frequency_penalty,
          .window = p.penalises() ? p.repeat_last_n : 0,
          .draw_high = static_cast<std::uint32_t>(draw >> 32U),
          .draw_low = static_cast<std::uint32_t>(draw),
          .logprobs = asked.logprobs ? 1 + asked.top_logprobs : 0,
          .remaining = asked.remaining,
          .stop_at_end = asked.stop_at_end ? 1U : 0U,
          .result = result,
          .masked = asked.allowed.empty() ? 0U : 1 + mask,
          .biases = static_cast<std::uint32_t>(p.biases.size())};
}

engine::sampled_token sampled_from(engine::slot_id slot, const kernels::sample_result& result) {
  engine::sampled_token out{slot, result.token};
  if (result.total == 0) return out;
  out.logprobs.chosen = engine::logprob_of(result.gap, result.total);
  out.logprobs.listed = std::min(result.listed, engine::top_logprobs_max);
  for (std::uint32_t i = 0; i < out.logprobs.listed; ++i) {
    out.logprobs.top[i] = {result.ids[i], engine::logprob_of(result.gaps[i], result.total)};
  }
  return out;
}

}  // namespace orcd::gpu
