// Mixture of experts: which experts a token uses, and the weighted sum of their outputs. The experts'
// products are ordinary matmuls with row lists (matmul.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

inline constexpr std::uint32_t moe_experts_max = 512;

struct moe_route_args {
  const float* logits = nullptr;    ///< [columns][experts]
  std::uint32_t* chosen = nullptr;  ///< [columns][used], highest logit first, ties to the lowest id
  float* weights = nullptr;         ///< [columns][used]
  std::uint32_t columns = 0;
  std::uint32_t experts = 0;  ///< at most moe_experts_max
  std::uint32_t used = 0;     ///< 1 .. experts
  /// false: softmax over the chosen logits. true: softmax over all, then the chosen ones renormalised.
  bool softmax_all = false;
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
