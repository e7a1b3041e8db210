#include "engine/sampling/logprobs.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "engine/base/ensure.hpp"
#include "engine/sampling/portable_exp.hpp"

namespace orcd::engine {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float weight_one = 0x1.0p40F;

// ln m = 2 atanh(s) with s = (m - 1) / (m + 1). m is within a factor of sqrt 2 of 1, so that s^2 < 0.0295 and
// the terms after the twelfth sum to less than 2^-53.
double portable_log(double x) noexcept {
  constexpr double ln2 = 0x1.62e42fefa39efp-1;
  constexpr std::uint64_t mantissa = (std::uint64_t{1} << 52U) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & mantissa) | std::uint64_t{1023} << 52U);
  if (m > 0x1.6a09e667f3bcdp0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int term = 12; term >= 0; --term) sum = sum * square + 1.0 / (2 * term + 1);
  return static_cast<double>(exponent) * ln2 + 2.0 * s * sum;
}

bool ranks_before(float a, token_id a_id, float b, token_id b_id) noexcept {
  return a > b || (a == b && a_id < b_id);
}

}  // namespace

float logit_scale::gap(float logit) const noexcept {
  if (!(logit > -infinity)) return -infinity;
  if (best == infinity) return logit == infinity ? 0.0F : -infinity;
  return logit - best;
}

logit_scale measure_logits(std::span<const float> logits) noexcept {
  logit_scale out{-infinity, 0};
  for (const float logit : logits) out.best = logit > out.best ? logit : out.best;
  if (out.best == -infinity) return out;
  for (const float logit : logits) {
    const float gap = out.gap(logit);
    const float exponent = gap > portable_exp_lowest ? gap : portable_exp_lowest;
    out.total += static_cast<std::uint64_t>(static_cast<std::int64_t>(portable_exp(exponent) * weight_one));
  }
  return out;
}

float logprob_of(float gap, std::uint64_t total) noexcept {
  return static_cast<float>(static_cast<double>(gap) - portable_log(static_cast<double>(total) * 0x1.0p-40));
}

token_logprobs logprobs_of(std::span<const float> logits, token_id chosen, std::uint32_t count) {
  ORCD_ENSURE(chosen >= 0 && static_cast<std::size_t>(chosen) < logits.size() && count <= top_logprobs_max);
  const logit_scale scale = measure_logits(logits);
  token_logprobs out;
  if (scale.total == 0) return out;
  out.chosen = logprob_of(scale.gap(logits[static_cast<std::size_t>(chosen)]), scale.total);
  // Insertion into a short list: most tokens fail the first comparison.
  auto& list = out.top;
  for (std::size_t i = 0; i < logits.size() && count > 0; ++i) {
    const auto id = static_cast<token_id>(i);
    const float logit = logits[i];
    if (!(logit > -infinity)) continue;
    if (out.listed == count && !ranks_before(logit, id, list[count - 1].logprob, list[count - 1].token))
      continue;
    std::uint32_t place = out.listed < count ? out.listed++ : count - 1;
    for (; place > 0 && ranks_before(logit, id, list[place - 1].logprob, list[place - 1].token); --place) {
      list[place] = list[place - 1];
    }
    list[place] = {id, logit};
  }
  for (std::uint32_t i = 0; i < out.listed; ++i) {
    list[i].logprob = logprob_of(scale.gap(list[i].logprob), scale.total);
  }
  return out;
}

}  // namespace orcd::engine
