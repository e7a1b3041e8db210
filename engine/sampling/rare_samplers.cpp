#include "engine/sampling/rare_samplers.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/ensure.hpp"
#include "engine/base/portable_log.hpp"
#include "engine/sampling/dry.hpp"
#include "engine/sampling/likelihood_cut.hpp"
#include "engine/sampling/portable_exp.hpp"
#include "engine/sampling/scores.hpp"

namespace orcd::engine {

namespace {

// Tokens of the vocabulary that are left, by id, with their scores and weights; one sampler after the other
// takes some away.
class candidates {
 public:
  explicit candidates(sampling_workspace& work) : work_(work), kept_(work.kept) {
    kept_.clear();
    for (std::size_t i = 0; i < work.scores.size(); ++i) {
      if (work.scores[i] > never) kept_.push_back(static_cast<token_id>(i));
    }
  }

  void keep_near_highest(float deviations);
  void keep_likely(std::uint32_t count) {
    if (kept_.size() > count) cut_at(cut_after_count(kept_, work_.scores, count, work_.narrowed));
  }
  void weigh_all() { weigh(work_.scores, highest(), 1.0F, work_.weights); }
  void keep_typical(double share);
  void keep_share(double share) {
    cut_at(cut_after_share(kept_, work_.scores, work_.weights, share, work_.narrowed));
  }
  void keep_above(double share_of_highest) {
    std::uint64_t most = 0;
    for (const token_id token : kept_) most = std::max(most, weight(token));
    const double least = share_of_highest * static_cast<double>(most);
    std::erase_if(kept_, [&](token_id token) { return static_cast<double>(weight(token)) < least; });
  }
  void leave_out_top(double threshold);
  [[nodiscard]] float temperature(const sampling_params& params) const;
  [[nodiscard]] token_id most_likely() const {
    token_id best = kept_.front();
    for (const token_id token : kept_) best = score(token) > score(best) ? token : best;
    return best;
  }
  [[nodiscard]] token_id draw(float temperature, double draw);

 private:
  [[nodiscard]] float score(token_id token) const { return work_.scores[row(token)]; }
  [[nodiscard]] std::uint64_t weight(token_id token) const { return work_.weights[row(token)]; }
  [[nodiscard]] float highest() const { return score(most_likely()); }
  void cut_at(const likelihood_cut& cut) {
    std::erase_if(kept_, [&](token_id token) { return !cut.keeps(score(token), token); });
  }
  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const token_id token : kept_) sum += weight(token);
    return sum;
  }
  /// -log p of a token with a weight, of all whose sum has this logarithm.
  [[nodiscard]] double surprise(token_id token, double log_total) const {
    return log_total - portable_log(static_cast<double>(weight(token)));
  }
  [[nodiscard]] double entropy(double all, double log_total) const {
    double sum = 0.0;
    for (const token_id token : kept_) {
      if (weight(token) > 0) sum += static_cast<double>(weight(token)) / all * surprise(token, log_total);
    }
    return sum;
  }

  sampling_workspace& work_;
  std::vector<token_id>& kept_;
};

void candidates::keep_near_highest(float deviations) {
  double sum = 0.0;
  for (const token_id token : kept_) sum += static_cast<double>(score(token));
  const auto count = static_cast<double>(kept_.size());
  const double mean = sum / count;
  double squares = 0.0;
  for (const token_id token : kept_) {
    const double difference = static_cast<double>(score(token)) - mean;
    squares += difference * difference;
  }
  // A square root is rounded once, as IEEE 754 says, on every CPU.
  const double least =
      static_cast<double>(highest()) - static_cast<double>(deviations) * std::sqrt(squares / count);
  std::erase_if(kept_, [&](token_id token) { return static_cast<double>(score(token)) < least; });
}

// The tokens before the cut are found as top_p's are, by halves, of which only one is looked at further.
void candidates::keep_typical(double share) {
  std::erase_if(kept_, [&](token_id token) { return weight(token) == 0; });
  const auto all = static_cast<double>(total());
  const double log_total = portable_log(all);
  const double usual = entropy(all, log_total);
  auto& ranked = work_.ranked;
  ranked.clear();
  for (const token_id token : kept_) ranked.emplace_back(std::abs(surprise(token, log_total) - usual), token);
  const double need = share * all;
  std::uint64_t passed = 0;
  auto from = ranked.begin();
  auto to = ranked.end();
  while (to - from > 1) {
    const auto middle = from + (to - from) / 2;
    std::nth_element(from, middle, to);
    std::uint64_t sum = passed;
    for (auto at = from; at != middle; ++at) sum += weight(at->second);
    if (static_cast<double>(sum) > need) {
      to = middle;
    } else {
      passed = sum;
      from = middle;
    }
  }
  kept_.clear();
  for (auto at = ranked.begin(); at != to; ++at) kept_.push_back(at->second);
  std::sort(kept_.begin(), kept_.end());
}

void candidates::leave_out_top(double threshold) {
  const double least = threshold * static_cast<double>(total());
  const auto is_top = [&](token_id token) { return static_cast<double>(weight(token)) >= least; };
  token_id last = -1;  // of the top: by likelihood, then by id
  for (const token_id token : kept_) {
    if (is_top(token) && (last < 0 || score(token) <= score(last))) last = token;
  }
  std::erase_if(kept_, [&](token_id token) { return is_top(token) && token != last; });
}

float candidates::temperature(const sampling_params& params) const {
  if (!(params.dynatemp_range > 0.0F) || kept_.size() < 2) return params.temperature;
  const auto all = static_cast<double>(total());
  const double most = portable_log(static_cast<double>(kept_.size()));
  const double share = std::clamp(entropy(all, portable_log(all)) / most, 0.0, 1.0);
  const float low = std::max(0.0F, params.temperature - params.dynatemp_range);
  const float high = params.temperature + params.dynatemp_range;
  float risen = params.dynatemp_exponent > 0.0F ? 0.0F : 1.0F;
  if (share > 0.0 && params.dynatemp_exponent > 0.0F) {
    const auto exponent =
        static_cast<float>(static_cast<double>(params.dynatemp_exponent) * portable_log(share));
    risen = portable_exp(std::clamp(exponent, portable_exp_lowest, 0.0F));
  }
  return low + (high - low) * risen;
}

token_id candidates::draw(float temperature, double draw) {
  const float best = highest();
  for (const token_id token : kept_) {
    const float exponent = (score(token) - best) / temperature;
    const float share = portable_exp(exponent > portable_exp_lowest ? exponent : portable_exp_lowest);
    work_.weights[row(token)] = static_cast<std::uint64_t>(static_cast<std::int64_t>(share * weight_one));
  }
  return draw_from_kept(kept_, work_.weights, draw);
}

}  // namespace

// The finalizer of splitmix64, of which every bit depends on all bits of the draw.
double second_draw(double draw) noexcept {
  auto z = static_cast<std::uint64_t>(draw * 0x1.0p53) + 0x9E3779B97F4A7C15ULL;
  z = (z ^ z >> 30U) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ z >> 27U) * 0x94D049BB133111EBULL;
  z ^= z >> 31U;
  return static_cast<double>(z >> 11U) * 0x1.0p-53;
}

token_id choose_rarely(std::span<const float> logits, const sampling_params& params,
                       std::span<const token_id> seen, std::span<const token_id> banned, double draw,
                       sampling_workspace& work, token_mask allowed) {
  ORCD_ENSURE(!logits.empty() && logits.size() <= vocab_max);
  ORCD_ENSURE(draw >= 0.0 && draw < 1.0);
  work.reserve(logits.size(), seen.size());
  copy_choosable(logits, banned, allowed, work.scores);
  add_biases(params.biases, work.scores);
  if (params.penalises()) {
    const auto window = std::min<std::size_t>(seen.size(), params.repeat_last_n);
    apply_penalties(params, seen.last(window), work.narrowed, work.scores);
  }
  if (params.uses_dry()) penalise_repetitions(params, seen, work);
  const float best = highest(work.scores);
  work.kept.clear();
  if (best == never) return -1;
  if (best == -never) resolve_infinity(work.scores);

  candidates left(work);
  if (params.top_n_sigma > 0.0F) left.keep_near_highest(params.top_n_sigma);
  if (params.top_k > 0) left.keep_likely(params.top_k);
  left.weigh_all();
  if (params.typical_p < 1.0F) left.keep_typical(params.typical_p);
  if (params.top_p < 1.0F) left.keep_share(params.top_p);
  if (params.min_p > 0.0F) left.keep_above(params.min_p);
  if (params.uses_xtc() && second_draw(draw) < static_cast<double>(params.xtc_probability)) {
    left.leave_out_top(params.xtc_threshold);
  }
  const float temperature = left.temperature(params);
  if (temperature > 0.0F) return left.draw(temperature, draw);
  const token_id sure = left.most_likely();
  work.kept.clear();
  return sure;
}

}  // namespace orcd::engine
