// The other ways in which a router's logits become experts and weights: softmax over all experts, sigmoids,
// a bias for the choice, groups of experts. One warp, as in expert_choice.cuh; these are for launches alone.
#pragma once

#include "kernels/device/device_math.cuh"
#include "kernels/layer/expert_choice.cuh"
#include "kernels/layer/expert_groups.hpp"

namespace orcd::kernels {

__device__ __forceinline__ float sigmoid_of(float v) {
  return __fdiv_rn(1.0F, __fadd_rn(1.0F, expf(-v)));
}

/// One warp: the largest logit; NaN is below everything.
template <class Logit>
__device__ __forceinline__ float largest_logit(const route_args& a, Logit logit_at) {
  std::uint32_t rank = 0;
  for (std::uint32_t e = threadIdx.x % 32; e < a.experts; e += 32) rank = max(rank, rank_of(logit_at(e)));
  return logit_of_rank(__reduce_max_sync(0xFFFFFFFFU, rank));
}

/// One warp: e^(logit - largest) summed over all experts, a lane's own first, then in a fixed tree.
template <class Logit>
__device__ __forceinline__ float softmax_sum(const route_args& a, Logit logit_at, float largest) {
  float sum = 0.0F;
  for (std::uint32_t e = threadIdx.x % 32; e < a.experts; e += 32)
    sum = __fadd_rn(sum, expf(__fsub_rn(logit_at(e), largest)));
  return warp_sum(sum);
}

/// What a router's logits give experts: sigmoids, or their softmax over all, after add_up().
template <class Logit>
class expert_scores {
 public:
  __device__ expert_scores(const route_args& a, const expert_groups& groups, Logit logit_at)
      : a_(a),
        logit_at_(logit_at),
        sigmoids_(a.weighting == route_weighting::sigmoid ||
                  a.weighting == route_weighting::sigmoid_renormalised),
        by_logit_(!sigmoids_ && a.choice_bias == nullptr &&
                  (groups.count == 1 || groups.ranking == group_ranking::best)) {}

  __device__ bool are_sigmoids() const { return sigmoids_; }
  /// Whether experts are chosen by logits, which order them, and groups by their best, as the softmax does.
  /// The first choice has the largest then.
  __device__ bool choose_by_logit() const { return by_logit_; }
  /// One warp.
  __device__ void add_up(float largest) {
    largest_ = largest;
    sum_ = softmax_sum(a_, logit_at_, largest);
  }

  __device__ float of_logit(float logit) const {
    return sigmoids_ ? sigmoid_of(logit) : __fdiv_rn(expf(__fsub_rn(logit, largest_)), sum_);
  }
  /// What an expert is chosen by.
  __device__ float for_choice(std::uint32_t e) const {
    const float logit = logit_at_(e);
    if (by_logit_) return logit;
    return a_.choice_bias == nullptr ? of_logit(logit) : __fadd_rn(of_logit(logit), a_.choice_bias[e]);
  }

 private:
  const route_args& a_;
  Logit logit_at_;
  bool sigmoids_;
  bool by_logit_;
  float largest_ = 0.0F;
  float sum_ = 1.0F;
};

/// One warp: takes the one with the highest rank_at(i) of `count` that are not taken, ties to the lowest. Bit
/// k of a lane's `taken` is i = lane + 32 k. There must be one.
template <class Rank>
__device__ __forceinline__ std::uint32_t take_best(std::uint32_t count, std::uint32_t& taken, Rank rank_at) {
  constexpr std::uint32_t all = 0xFFFFFFFFU;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t rank = 0;
  std::uint32_t id = all;
  for (std::uint32_t k = 0; lane + 32 * k < count; ++k) {
    if (taken >> k & 1U) continue;
    const std::uint32_t its = rank_at(lane + 32 * k);
    if (id == all || its > rank) {
      rank = its;
      id = lane + 32 * k;
    }
  }
  // A lane that has none left must not win with a rank of 0.
  const std::uint32_t best = __reduce_max_sync(all, id == all ? 0U : rank);
  const std::uint32_t winner = __reduce_min_sync(all, id != all && rank == best ? id : all);
  if (winner % 32 == lane) taken |= 1U << winner / 32;
  return winner;
}

/// What orders groups, of a group of `size` experts from `first` on.
template <class Logit>
__device__ __forceinline__ float rank_of_group(const expert_scores<Logit>& scores, std::uint32_t first,
                                               std::uint32_t size, group_ranking ranking) {
  float best = __uint_as_float(0xFF800000U);  // minus infinity
  float second = best;
  for (std::uint32_t e = first; e < first + size; ++e) {
    const float score = scores.for_choice(e);
    if (score > best) {
      second = best;
      best = score;
    } else if (score > second) {
      second = score;
    }
  }
  return ranking == group_ranking::best ? best : __fadd_rn(best, second);
}

/// One warp: the experts of groups that are not chosen from, as bits of take_best(). A lane finds the ranks
/// of every 32nd group.
template <class Logit>
__device__ std::uint32_t left_out(const expert_scores<Logit>& scores, const expert_groups& groups,
                                  std::uint32_t experts) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t size = experts / groups.count;
  std::uint32_t ranks[experts_max / 2 / 32];
  for (std::uint32_t k = 0; lane + 32 * k < groups.count; ++k)
    ranks[k] = rank_of(rank_of_group(scores, (lane + 32 * k) * size, size, groups.ranking));
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < groups.used; ++i)
    take_best(groups.count, kept, [&](std::uint32_t g) { return ranks[g / 32]; });
  std::uint32_t out = 0;
  for (std::uint32_t k = 0; 32 * k < experts; ++k) {
    const std::uint32_t e = lane + 32 * k;
    const std::uint32_t g = e < experts ? e / size : 0;
    const std::uint32_t its_lane = __shfl_sync(0xFFFFFFFFU, kept, g % 32);
    if ((its_lane >> g / 32 & 1U) == 0) out |= 1U << k;
  }
  return out;
}

/// One warp: the `used` experts of the highest scores, highest first, ties to the lowest id, and their
/// weights.
template <class Logit>
__device__ void choose_and_weigh(const route_args& a, const expert_groups& groups, Logit logit_at,
                                 std::int32_t* chosen, float* weights) {
  const std::uint32_t lane = threadIdx.x % 32;
  expert_scores<Logit> scores(a, groups, logit_at);
  if (!scores.are_sigmoids() && !scores.choose_by_logit()) scores.add_up(largest_logit(a, logit_at));
  std::uint32_t taken = groups.count > 1 ? left_out(scores, groups, a.experts) : 0;
  float mine = 0.0F;  // lane i keeps the logit of choice i
  std::uint32_t own = 0;
  for (std::uint32_t i = 0; i < a.used; ++i) {
    const std::uint32_t winner =
        take_best(a.experts, taken, [&](std::uint32_t e) { return rank_of(scores.for_choice(e)); });
    if (lane != i) continue;
    mine = logit_at(winner);
    own = winner;
    chosen[i] = static_cast<std::int32_t>(winner);
  }
  if (scores.choose_by_logit()) scores.add_up(__shfl_sync(0xFFFFFFFFU, mine, 0));
  float weight = scores.of_logit(mine);
  float sum = 0.0F;
  for (std::uint32_t i = 0; i < a.used; ++i) sum = __fadd_rn(sum, __shfl_sync(0xFFFFFFFFU, weight, i));
  const bool renormalised =
      a.weighting == route_weighting::selected || a.weighting == route_weighting::sigmoid_renormalised;
  if (renormalised && sum > 0.0F) weight = __fdiv_rn(weight, sum);
  weight = __fmul_rn(weight, a.scale);
  if (lane >= a.used) return;
  if (a.expert_scales != nullptr) weight = __fmul_rn(weight, a.expert_scales[own]);
  weights[lane] = weight;
}

}  // namespace orcd::kernels
