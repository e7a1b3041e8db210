#include "engine/sampling/sampling.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "engine/base/ensure.hpp"
#include "engine/sampling/likelihood_cut.hpp"
#include "engine/sampling/portable_exp.hpp"

namespace orcd::engine {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float weight_one = 0x1.0p40F;
constexpr std::size_t vocab_max = std::size_t{1} << 23U;  // so that a sum of weights fits 63 bits

std::size_t row(token_id token) noexcept {
  return static_cast<std::size_t>(token);
}

// NaN is never taken, because the comparison with it is false. Sixteen lanes let the compiler use vector
// maxima; a maximum does not depend on the order.
float highest(std::span<const float> values) noexcept {
  std::array<float, 16> lanes;
  lanes.fill(-infinity);
  std::size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (std::size_t j = 0; j < lanes.size(); ++j)
      lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
  }
  float best = *std::max_element(lanes.begin(), lanes.end());
  for (; i < values.size(); ++i) best = values[i] > best ? values[i] : best;
  return best;
}

// The lowest id with the highest value; -1 when all are NaN or -infinity. One pass by blocks, then a
// search in the first block that holds the highest value.
token_id argmax(std::span<const float> values) noexcept {
  constexpr std::size_t block = 2048;
  float best = -infinity;
  std::size_t best_block = 0;
  for (std::size_t start = 0; start < values.size(); start += block) {
    const float value = highest(values.subspan(start, std::min(block, values.size() - start)));
    if (value > best) {
      best = value;
      best_block = start;
    }
  }
  if (best == -infinity) return -1;
  const auto found = std::find(values.begin() + static_cast<std::ptrdiff_t>(best_block), values.end(), best);
  return static_cast<token_id>(found - values.begin());
}

void copy_choosable(std::span<const float> logits, std::span<const token_id> banned, token_mask allowed,
                    std::vector<float>& scores) {
  scores.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) scores[i] = logits[i] > -infinity ? logits[i] : -infinity;
  if (!allowed.empty()) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (!allows(allowed, static_cast<token_id>(i))) scores[i] = -infinity;
    }
  }
  for (const token_id token : banned) {
    if (token >= 0 && row(token) < scores.size()) scores[row(token)] = -infinity;
  }
}

void add_biases(std::span<const token_bias> biases, std::vector<float>& scores) noexcept {
  for (const auto& [token, bias] : biases) {
    if (token >= 0 && row(token) < scores.size()) scores[row(token)] += bias;
  }
}

// The window is sorted so that each of its tokens is met once, with its number of occurrences.
void apply_penalties(const sampling_params& params, std::span<const token_id> recent,
                     std::vector<token_id>& window, std::vector<float>& scores) {
  window.assign(recent.begin(), recent.end());
  std::sort(window.begin(), window.end());
  for (auto it = window.begin(); it != window.end();) {
    const token_id token = *it;
    const auto next = std::upper_bound(it, window.end(), token);
    const auto count = static_cast<float>(next - it);
    it = next;
    if (token < 0 || row(token) >= scores.size() || scores[row(token)] == -infinity) continue;
    float score = scores[row(token)];
    score = score > 0.0F ? score / params.repetition_penalty : score * params.repetition_penalty;
    score = score - (params.presence_penalty + count * params.frequency_penalty);
    scores[row(token)] = score;
  }
}

// The limit of softmax: tokens at +infinity are equally likely and no other token is possible.
void resolve_infinity(std::vector<float>& scores) noexcept {
  for (float& score : scores) score = score == infinity ? 0.0F : -infinity;
}

// Three loops over a small buffer: the first two are vectorised, the conversion to 64 bits is not. Below the
// lowest argument of exp a weight is 0 anyway.
void weigh(std::span<const float> scores, float best, float temperature,
           std::vector<std::uint64_t>& weights) {
  constexpr std::size_t block = 512;
  std::array<float, block> shares;
  weights.resize(scores.size());
  for (std::size_t start = 0; start < scores.size(); start += block) {
    const std::size_t count = std::min(block, scores.size() - start);
    for (std::size_t i = 0; i < count; ++i) {
      const float exponent = (scores[start + i] - best) / temperature;
      shares[i] = exponent > portable_exp_lowest ? exponent : portable_exp_lowest;
    }
    for (std::size_t i = 0; i < count; ++i) shares[i] = portable_exp(shares[i]) * weight_one;
    // A signed conversion, because it is one instruction where an unsigned one is several.
    for (std::size_t i = 0; i < count; ++i) {
      weights[start + i] = static_cast<std::uint64_t>(static_cast<std::int64_t>(shares[i]));
    }
  }
}

// floor(draw * total), exactly: a draw has 53 bits and the product at most 116.
std::uint64_t target_of(double draw, std::uint64_t total) noexcept {
  __extension__ using wide = unsigned __int128;
  const auto steps = static_cast<std::uint64_t>(draw * 0x1.0p53);
  return static_cast<std::uint64_t>(static_cast<wide>(steps) * total >> 53U);
}

token_id draw_from_all(std::span<const std::uint64_t> weights, double draw) noexcept {
  std::uint64_t total = 0;
  for (const std::uint64_t weight : weights) total += weight;
  std::uint64_t left = target_of(draw, total);
  std::size_t i = 0;
  while (weights[i] <= left) left -= weights[i++];
  return static_cast<token_id>(i);
}

token_id draw_from_kept(std::span<const token_id> kept, std::span<const std::uint64_t> weights,
                        double draw) noexcept {
  std::uint64_t total = 0;
  for (const token_id token : kept) total += weights[row(token)];
  std::uint64_t left = target_of(draw, total);
  std::size_t i = 0;
  while (weights[row(kept[i])] <= left) left -= weights[row(kept[i++])];
  return kept[i];
}

// Each filter sees what the one before it left; none can drop the most likely token.
void filter(const sampling_params& params, sampling_workspace& work) {
  auto& kept = work.kept;
  kept.clear();
  for (std::size_t i = 0; i < work.weights.size(); ++i) {
    if (work.weights[i] > 0) kept.push_back(static_cast<token_id>(i));
  }
  const auto cut_at = [&](const likelihood_cut& cut) {
    std::erase_if(kept, [&](token_id token) { return !cut.keeps(work.scores[row(token)], token); });
  };
  if (params.top_k > 0 && kept.size() > params.top_k) {
    cut_at(cut_after_count(kept, work.scores, params.top_k, work.narrowed));
  }
  if (params.top_p < 1.0F) {
    cut_at(cut_after_share(kept, work.scores, work.weights, params.top_p, work.narrowed));
  }
  if (params.min_p > 0.0F) {
    const double least = static_cast<double>(params.min_p) * static_cast<double>(weight_one);
    std::erase_if(kept,
                  [&](token_id token) { return static_cast<double>(work.weights[row(token)]) < least; });
  }
}

}  // namespace

void sampling_workspace::reserve(std::size_t vocab, std::size_t window) {
  scores.reserve(vocab);
  weights.reserve(vocab);
  kept.reserve(vocab);
  narrowed.reserve(std::max(vocab, window));
}

token_id sample(std::span<const float> logits, const sampling_params& params,
                std::span<const token_id> recent, std::span<const token_id> banned, double draw,
                sampling_workspace& workspace, token_mask allowed) {
  ORCD_ENSURE(!logits.empty() && logits.size() <= vocab_max);
  ORCD_ENSURE(draw >= 0.0 && draw < 1.0);
  const bool greedy = params.temperature == 0.0F;
  const bool penalised = params.penalises() && !recent.empty();
  if (greedy && !penalised && params.biases.empty()) {
    // Most often the first choice is allowed and no copy of the logits is needed.
    const token_id choice = argmax(logits);
    const bool is_allowed = allowed.empty() || allows(allowed, choice);
    if (is_allowed && std::find(banned.begin(), banned.end(), choice) == banned.end()) return choice;
  }
  workspace.reserve(logits.size(), recent.size());
  auto& scores = workspace.scores;
  copy_choosable(logits, banned, allowed, scores);
  add_biases(params.biases, scores);
  if (penalised) apply_penalties(params, recent, workspace.narrowed, scores);
  if (greedy) return argmax(scores);

  float best = highest(scores);
  if (best == -infinity) return -1;
  if (best == infinity) {
    resolve_infinity(scores);
    best = 0.0F;
  }
  weigh(scores, best, params.temperature, workspace.weights);
  if (params.top_k == 0 && params.top_p >= 1.0F && params.min_p <= 0.0F) {
    return draw_from_all(workspace.weights, draw);
  }
  filter(params, workspace);
  return draw_from_kept(workspace.kept, workspace.weights, draw);
}

}  // namespace orcd::engine
