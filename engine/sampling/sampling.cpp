#include "engine/sampling/sampling.hpp"

#include <algorithm>
#include <cstddef>

#include "engine/base/ensure.hpp"
#include "engine/sampling/likelihood_cut.hpp"
#include "engine/sampling/scores.hpp"

namespace orcd::engine {

namespace {

token_id draw_from_all(std::span<const std::uint64_t> weights, double draw) noexcept {
  std::uint64_t total = 0;
  for (const std::uint64_t weight : weights) total += weight;
  std::uint64_t left = target_of(draw, total);
  std::size_t i = 0;
  while (weights[i] <= left) left -= weights[i++];
  return static_cast<token_id>(i);
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

token_id sample(std::span<const float> logits, const sampling_params& params,
                std::span<const token_id> recent, std::span<const token_id> banned, double draw,
                sampling_workspace& workspace, token_mask allowed) {
  ORCD_ENSURE(!logits.empty() && logits.size() <= vocab_max);
  ORCD_ENSURE(draw >= 0.0 && draw < 1.0);
  const bool greedy = params.temperature == 0.0F;
  workspace.kept.clear();
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
  if (best == never) return -1;
  if (best == -never) {
    resolve_infinity(scores);
    best = 0.0F;
  }
  weigh(scores, best, params.temperature, workspace.weights);
  const bool cuts = params.top_k > 0 || params.top_p < 1.0F || params.min_p > 0.0F;
  if (!cuts && !params.tells_drawn) {
    return draw_from_all(workspace.weights, draw);
  }
  filter(params, workspace);
  return draw_from_kept(workspace.kept, workspace.weights, draw);
}

}  // namespace orcd::engine
