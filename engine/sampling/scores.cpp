#include "engine/sampling/scores.hpp"

#include <algorithm>
#include <array>

#include "engine/sampling/portable_exp.hpp"

namespace orcd::engine {

// NaN is never taken, because the comparison with it is false. Sixteen lanes let the compiler use vector
// maxima; a maximum does not depend on the order.
float highest(std::span<const float> values) noexcept {
  std::array<float, 16> lanes;
  lanes.fill(never);
  std::size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (std::size_t j = 0; j < lanes.size(); ++j)
      lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
  }
  float best = *std::max_element(lanes.begin(), lanes.end());
  for (; i < values.size(); ++i) best = values[i] > best ? values[i] : best;
  return best;
}

// One pass by blocks, then a search in the first block that holds the highest value.
token_id argmax(std::span<const float> values) noexcept {
  constexpr std::size_t block = 2048;
  float best = never;
  std::size_t best_block = 0;
  for (std::size_t start = 0; start < values.size(); start += block) {
    const float value = highest(values.subspan(start, std::min(block, values.size() - start)));
    if (value > best) {
      best = value;
      best_block = start;
    }
  }
  if (best == never) return -1;
  const auto found = std::find(values.begin() + static_cast<std::ptrdiff_t>(best_block), values.end(), best);
  return static_cast<token_id>(found - values.begin());
}

void copy_choosable(std::span<const float> logits, std::span<const token_id> banned, token_mask allowed,
                    std::vector<float>& scores) {
  scores.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) scores[i] = logits[i] > never ? logits[i] : never;
  if (!allowed.empty()) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (!allows(allowed, static_cast<token_id>(i))) scores[i] = never;
    }
  }
  for (const token_id token : banned) {
    if (token >= 0 && row(token) < scores.size()) scores[row(token)] = never;
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
    if (token < 0 || row(token) >= scores.size() || scores[row(token)] == never) continue;
    float score = scores[row(token)];
    score = score > 0.0F ? score / params.repetition_penalty : score * params.repetition_penalty;
    score = score - (params.presence_penalty + count * params.frequency_penalty);
    scores[row(token)] = score;
  }
}

void resolve_infinity(std::vector<float>& scores) noexcept {
  for (float& score : scores) score = score == -never ? 0.0F : never;
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

std::uint64_t target_of(double draw, std::uint64_t total) noexcept {
  __extension__ using wide = unsigned __int128;
  const auto steps = static_cast<std::uint64_t>(draw * 0x1.0p53);
  return static_cast<std::uint64_t>(static_cast<wide>(steps) * total >> 53U);
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

}  // namespace orcd::engine
