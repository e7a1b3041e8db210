#include "engine/sampling/logprobs.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/ensure.hpp"
#include "engine/base/portable_log.hpp"
#include "engine/sampling/portable_exp.hpp"
#include "engine/sampling/scores.hpp"

namespace orcd::engine {

namespace {

constexpr float infinity = -never;

bool ranks_before(float a, token_id a_id, float b, token_id b_id) noexcept {
  return a > b || (a == b && a_id < b_id);
}

/// Insertion into a short list: most tokens fail the first comparison.
void add_to_list(token_logprobs& out, std::uint32_t count, token_id id, float rank) {
  auto& top = out.top;
  if (out.listed == count && !ranks_before(rank, id, top[count - 1].logprob, top[count - 1].token)) return;
  std::uint32_t place = out.listed < count ? out.listed++ : count - 1;
  for (; place > 0 && ranks_before(rank, id, top[place - 1].logprob, top[place - 1].token); --place) {
    top[place] = top[place - 1];
  }
  top[place] = {id, rank};
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
  for (std::size_t i = 0; i < logits.size() && count > 0; ++i) {
    if (logits[i] > -infinity) add_to_list(out, count, static_cast<token_id>(i), logits[i]);
  }
  for (std::uint32_t i = 0; i < out.listed; ++i) {
    out.top[i].logprob = logprob_of(scale.gap(out.top[i].logprob), scale.total);
  }
  return out;
}

std::uint32_t rank_of(std::span<const float> logits, token_id token) noexcept {
  const auto number = [](float logit) { return std::isnan(logit) ? -infinity : logit; };
  const float own = number(logits[static_cast<std::size_t>(token)]);
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    before += ranks_before(number(logits[i]), static_cast<token_id>(i), own, token) ? 1U : 0U;
  }
  return before + 1;
}

token_logprobs logprobs_after(std::span<const float> logits, const sampling_params& params,
                              const sampling_workspace& work, token_id chosen, std::uint32_t count) {
  if (!params.tells_drawn) {
    token_logprobs all = logprobs_of(logits, chosen, count);
    if (params.tells_rank) all.rank = rank_of(logits, chosen);
    return all;
  }
  token_logprobs out;
  const auto weight = [&](token_id token) { return work.weights[static_cast<std::size_t>(token)]; };
  std::uint64_t total = 0;
  for (const token_id token : work.kept) total += weight(token);
  if (total == 0) {  // the token was sure
    if (count > 0) add_to_list(out, count, chosen, 0.0F);
    return out;
  }
  const double log_total = portable_log(static_cast<double>(total));
  const auto logprob = [&](token_id token) {
    return static_cast<float>(portable_log(static_cast<double>(weight(token))) - log_total);
  };
  out.chosen = logprob(chosen);
  for (const token_id token : work.kept) {
    if (count > 0 && weight(token) > 0) add_to_list(out, count, token, logprob(token));
  }
  return out;
}

}  // namespace orcd::engine
