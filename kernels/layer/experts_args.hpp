// What the kernels around the products of a mixture of experts are given: routing, sorting, summing. They are
// in kernels/layer/experts.hpp. Shared by host and device code; no CUDA types.
#pragma once

#include "kernels/product/packed_matmul_args.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t experts_max = 512;
inline constexpr std::uint32_t experts_used_max = 16;

/// How logits become weights: `selected` is the softmax over the chosen ones, and that over all,
/// renormalised; `all` the softmax over all; sigmoid that of each, renormalised or not. All but the first, a
/// choice_bias, groups and a scale are not in the decode program.
enum class route_weighting : std::uint8_t { selected, all, sigmoid_renormalised, sigmoid };

/// logits[m][e] = router[e] . norm(x[m]) + bias[e], all in f32: routing decides which weights are read, so
/// its input is not rounded to f16. Then the `used` highest of each column, and their weights.
struct route_args {
  const float* x = nullptr;            ///< [columns][width]; 16-byte aligned
  const float* norm_weight = nullptr;  ///< [width]; 16-byte aligned
  float norm_eps = 0.0F;
  const float* router = nullptr;  ///< [experts][width], f32 rows; 16-byte aligned
  const float* bias = nullptr;    ///< [experts] or null
  std::uint32_t width = 0;        ///< a multiple of 4
  std::uint32_t experts = 0;
  std::uint32_t used = 0;
  std::uint32_t columns = 0;
  float* logits = nullptr;            ///< out, [columns][experts]
  std::int32_t* chosen = nullptr;     ///< out, [columns][used]
  float* weights = nullptr;           ///< out, [columns][used]
  std::uint32_t* arrivals = nullptr;  ///< workspace, [columns]; zero between launches
  route_weighting weighting = route_weighting::selected;
  const float* choice_bias = nullptr;  ///< [experts] or null: added for the choice, to sigmoids or softmax
  float scale = 1.0F;                  ///< multiplies the weights
  /// [experts] or null: each multiplies its expert's weight, after all else. Not in the decode program.
  const float* expert_scales = nullptr;
  /// Out, or null: f16(norm(x[m])) as the input of a product, [columns][padded_cols(width)].
  __half* normed = nullptr;
  half_order normed_order = half_order::natural;
};

/// Sorts the pairs (column, rank) by expert and cuts each expert's run into tiles of `tile_columns`.
struct sort_experts_args {
  const std::int32_t* chosen = nullptr;  ///< [pairs]
  std::uint32_t pairs = 0;               ///< at most sorted_pairs_max
  std::uint32_t experts = 0;
  std::int32_t* order = nullptr;       ///< [pairs]
  expert_tile* tiles = nullptr;        ///< [sorted_tiles_max(pairs, experts, tile_columns)]
  std::int32_t* tile_count = nullptr;  ///< [1]
  std::uint32_t tile_columns = 0;      ///< a power of two; see sorted_tiles_max()
};

/// residual[m] += sum over i, ascending, of weights[m][i] * expert_out[m * used + i]; `stores`: it becomes
/// the sum.
struct combine_experts_args {
  const float* expert_out = nullptr;  ///< [columns * used][width]
  const float* weights = nullptr;
  float* residual = nullptr;  ///< [columns][width]
  std::uint32_t width = 0;
  std::uint32_t used = 0;
  std::uint32_t columns = 0;
  bool stores = false;
};

}  // namespace orcd::kernels
