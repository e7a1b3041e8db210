// Mixture of experts: which experts a token uses, and the weighted sum of their outputs. The experts'
// products are ordinary matmuls with row lists (matmul.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/layer/expert_groups.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t moe_experts_max = 512;

/// softmax over the chosen logits, which is also softmax over all with the chosen ones renormalised; over
/// all; or the sigmoid of each logit, renormalised or not. Experts are chosen by sigmoid or by softmax over
/// all, plus the bias of the choice; by logits, where these order the same. NaN is below everything.
enum class expert_weighting { selected, all_renormalised, all, sigmoid_renormalised, sigmoid };
[[nodiscard]] constexpr bool is_sigmoid(expert_weighting weighting) noexcept {
  return weighting == expert_weighting::sigmoid || weighting == expert_weighting::sigmoid_renormalised;
}
[[nodiscard]] constexpr bool softmax_over_all(expert_weighting weighting) noexcept {
  return weighting == expert_weighting::all || weighting == expert_weighting::all_renormalised;
}
[[nodiscard]] constexpr bool renormalises(expert_weighting weighting) noexcept {
  return weighting != expert_weighting::all && weighting != expert_weighting::sigmoid;
}

struct moe_route_args {
  const float* logits = nullptr;  ///< [columns][experts]
  /// [experts] or null: added to sigmoids, or to the softmax over all, for the choice alone.
  const float* choice_bias = nullptr;
  std::uint32_t* chosen = nullptr;  ///< [columns][used], highest first, ties to the lowest id
  float* weights = nullptr;         ///< [columns][used]
  std::uint32_t columns = 0;
  std::uint32_t experts = 0;  ///< at most moe_experts_max
  std::uint32_t used = 0;     ///< 1 .. experts
  expert_weighting weighting = expert_weighting::selected;
  float scale = 1.0F;         ///< multiplies the weights
  expert_groups groups = {};  ///< as groups_take() has it
};

/// residual[c] += sum over i of weights[c][i] * expert_out[c * used + i], in ascending i.
struct moe_combine_args {
  const float* expert_out = nullptr;  ///< [columns * used][width]
  const float* weights = nullptr;     ///< [columns][used]
  float* residual = nullptr;          ///< [columns][width]
  std::uint32_t columns = 0;
  std::uint32_t used = 0;
  std::uint32_t width = 0;
};

namespace host {
class thread_pool;
void moe_route(const moe_route_args& args, thread_pool& pool);
void moe_combine(const moe_combine_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
