// Norms, activations and routing of one x86 level; definitions in kernels/host/{rms_norm,swiglu,moe}.hpp.
#include "kernels/host/isa/exponential.hpp"
#include "kernels/host/isa/hyperbolic.hpp"
#include "kernels/host/isa/sixteens.hpp"
#include "kernels/host/kernel_table.hpp"
#include "kernels/host/moe.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/scale.hpp"
#include "kernels/host/swiglu.hpp"

namespace orcd::kernels::host::ORCD_ISA {
namespace {

void norm_vector(const float* x, const float* weight, float* out, std::uint32_t width, float eps) {
  float_lanes squares = splat(0.0F);
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    const float_lanes v = load_some(x + i, count);
    squares = squares + v * v;
  });
  const float mean = fold(squares) / static_cast<float>(width);
  const float scale = 1.0F / __builtin_sqrtf(mean + eps);
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    const float_lanes normed = scale * load_some(x + i, count);
    store_some(out + i, weight == nullptr ? normed : normed * load_some(weight + i, count), count);
  });
}

/// g / (1 + e^(-alpha g))
ORCD_INLINE float_lanes gated(float_lanes g, float alpha) {
  return g / (exponential(-alpha * g) + 1.0F);
}

}  // namespace

void rms_norm_row(const rms_norm_args& a, std::uint32_t row) {
  for (std::uint32_t head = 0; head < a.heads; ++head) {
    const std::size_t offset = std::size_t{head} * a.width;
    const float* const weight =
        a.weight == nullptr ? nullptr : a.weight + std::size_t{head} * a.weight_stride;
    norm_vector(a.x + row * a.x_stride + offset, weight, a.out + row * a.out_stride + offset, a.width, a.eps);
  }
}

void swiglu_row(const swiglu_args& a, std::uint32_t row) {
  const float* gate = a.gate + row * a.in_stride;
  const float* up = a.up + row * a.in_stride;
  float* out = a.out + std::size_t{row} * a.width;
  each_sixteen(a.width, [&](std::uint32_t i, std::uint32_t count) {
    float_lanes g = load_some(gate + i, count);
    float_lanes u = load_some(up + i, count);
    if (a.kind == gated_activation::squared) {
      g = larger(g, splat(0.0F));
      return store_some(out + i, g * g * u, count);
    }
    if (a.kind == gated_activation::gelu) return store_some(out + i, gelu_tanh(g) * u, count);
    const bool clamped = a.kind == gated_activation::clamped;
    if (clamped) {
      g = smaller(g, splat(swiglu_clamp_limit));
      u = larger(smaller(u, splat(swiglu_clamp_limit)), splat(-swiglu_clamp_limit)) + 1.0F;
    }
    store_some(out + i, gated(g, clamped ? swiglu_clamp_alpha : 1.0F) * u, count);
  });
}

void scale_row(const scale_args& a, std::uint32_t row) {
  float* x = a.x + row * a.stride;
  each_sixteen(a.width, [&](std::uint32_t i, std::uint32_t count) {
    const float_lanes scaled = a.scale * load_some(x + i, count);
    store_some(x + i, a.cap > 0.0F ? a.cap * hyperbolic_tangent(scaled / splat(a.cap)) : scaled, count);
  });
}

namespace {

/// Whether a score is above another one; NaN is above none, and below all.
bool is_above(float score, float other) {
  return score > other || (other != other && score == score);
}

/// The chosen ones, highest score first, ties to the lowest id; those that are taken before are left out.
void choose(const float* scores, std::uint32_t count, std::uint32_t used, bool* taken,
            std::uint32_t* chosen) {
  for (std::uint32_t i = 0; i < used; ++i) {
    std::uint32_t best = count;
    for (std::uint32_t e = 0; e < count; ++e) {
      if (!taken[e] && (best == count || is_above(scores[e], scores[best]))) best = e;
    }
    taken[best] = true;
    chosen[i] = best;
  }
}

/// What orders groups.
float rank_of_group(const float* ranks, std::uint32_t size, group_ranking ranking) {
  bool taken[moe_experts_max] = {};
  std::uint32_t best[2];
  choose(ranks, size, ranking == group_ranking::best ? 1 : 2, taken, best);
  return ranking == group_ranking::best ? ranks[best[0]] : ranks[best[0]] + ranks[best[1]];
}

/// Takes the experts of groups that are not chosen from, which a rank of minus infinity would not: experts
/// in chosen groups may have it.
void leave_groups_out(const moe_route_args& a, const float* ranks, bool* taken) {
  const std::uint32_t size = a.experts / a.groups.count;
  float sums[moe_experts_max];
  std::uint32_t best[moe_experts_max];
  bool kept[moe_experts_max] = {};
  for (std::uint32_t g = 0; g < a.groups.count; ++g)
    sums[g] = rank_of_group(ranks + std::size_t{g} * size, size, a.groups.ranking);
  choose(sums, a.groups.count, a.groups.used, kept, best);
  for (std::uint32_t e = 0; e < a.experts; ++e) taken[e] = !kept[e / size];
}

/// Softmax, of the logits less the largest: over the chosen, or over all.
void weigh_by_softmax(const moe_route_args& a, const float* logits, const std::uint32_t* chosen,
                      float* weights) {
  const float largest = logits[chosen[0]];
  for (std::uint32_t i = 0; i < a.used; ++i) weights[i] = exponential(logits[chosen[i]] - largest);
  if (!softmax_over_all(a.weighting)) return;
  float total = 0.0F;
  for (std::uint32_t e = 0; e < a.experts; ++e) total += exponential(logits[e] - largest);
  for (std::uint32_t i = 0; i < a.used; ++i) weights[i] /= total;
}

/// What each expert would be weighed by: its sigmoid, or the softmax over all.
void score(const moe_route_args& a, const float* logits, float* scores) {
  if (is_sigmoid(a.weighting)) {
    for (std::uint32_t e = 0; e < a.experts; ++e) scores[e] = 1.0F / (1.0F + exponential(-logits[e]));
    return;
  }
  float largest = logits[0];
  for (std::uint32_t e = 1; e < a.experts; ++e) largest = logits[e] > largest ? logits[e] : largest;
  float total = 0.0F;
  for (std::uint32_t e = 0; e < a.experts; ++e) total += scores[e] = exponential(logits[e] - largest);
  for (std::uint32_t e = 0; e < a.experts; ++e) scores[e] /= total;
}

void choose_experts(const moe_route_args& a, const float* ranks, std::uint32_t* chosen) {
  bool taken[moe_experts_max] = {};
  if (a.groups.count > 1) leave_groups_out(a, ranks, taken);
  choose(ranks, a.experts, a.used, taken, chosen);
}

/// Chooses by scores with a bias, and weighs without it.
void choose_by_score(const moe_route_args& a, const float* logits, std::uint32_t* chosen, float* weights) {
  float scores[moe_experts_max];
  float ranks[moe_experts_max];
  score(a, logits, scores);
  for (std::uint32_t e = 0; e < a.experts; ++e)
    ranks[e] = a.choice_bias == nullptr ? scores[e] : scores[e] + a.choice_bias[e];
  choose_experts(a, ranks, chosen);
  for (std::uint32_t i = 0; i < a.used; ++i) weights[i] = scores[chosen[i]];
}

/// Logits order experts, and groups by their best, as the softmax does. Sums of them do not.
bool takes_scores(const moe_route_args& a) {
  return is_sigmoid(a.weighting) || a.choice_bias != nullptr ||
         (a.groups.count > 1 && a.groups.ranking == group_ranking::two_best);
}

}  // namespace

void moe_route_column(const moe_route_args& a, std::uint32_t column) {
  const float* logits = a.logits + std::size_t{column} * a.experts;
  std::uint32_t* chosen = a.chosen + std::size_t{column} * a.used;
  float* weights = a.weights + std::size_t{column} * a.used;
  if (takes_scores(a)) {
    choose_by_score(a, logits, chosen, weights);
  } else {
    choose_experts(a, logits, chosen);
    weigh_by_softmax(a, logits, chosen, weights);
  }
  if (renormalises(a.weighting)) {
    float sum = 0.0F;
    for (std::uint32_t i = 0; i < a.used; ++i) sum += weights[i];
    // Scores may all be 0; the softmax of the best is not.
    if (sum > 0.0F) {
      for (std::uint32_t i = 0; i < a.used; ++i) weights[i] /= sum;
    }
  }
  if (a.scale != 1.0F) {
    for (std::uint32_t i = 0; i < a.used; ++i) weights[i] *= a.scale;
  }
}

void moe_combine_column(const moe_combine_args& a, std::uint32_t column) {
  float* residual = a.residual + std::size_t{column} * a.width;
  const float* weights = a.weights + std::size_t{column} * a.used;
  const float* expert_out = a.expert_out + std::size_t{column} * a.used * a.width;
  each_sixteen(a.width, [&](std::uint32_t i, std::uint32_t count) {
    float_lanes sum = splat(0.0F);
    for (std::uint32_t e = 0; e < a.used; ++e)
      sum = sum + weights[e] * load_some(expert_out + std::size_t{e} * a.width + i, count);
    store_some(residual + i, load_some(residual + i, count) + sum, count);
  });
}

}  // namespace orcd::kernels::host::ORCD_ISA
