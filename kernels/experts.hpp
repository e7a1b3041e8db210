// Mixture of experts around the packed matmuls: router logits, choice, sorting for prefill, weighted sum.
// Ties go to the lowest expert id. Determinism class: run-to-run, batch-invariant. Bound: latency.
#pragma once

#include "kernels/packed_matmul.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t experts_max = 512;
inline constexpr std::uint32_t experts_used_max = 16;

/// logits[m][e] = router[e] . norm(x[m]) + bias[e], all in f32: routing decides which weights are read,
/// so its input is not rounded to f16. Then the `used` highest logits of each column, and the softmax over
/// them. Softmax over all experts with the chosen ones renormalised is the same value, so there is one
/// formula.
struct route_args {
  const float* x = nullptr;            ///< [columns][width]
  const float* norm_weight = nullptr;  ///< [width]
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
  /// Out, or null: f16(norm(x[m])) as a product's input, [columns][padded_cols(width)].
  __half* normed = nullptr;
};
[[nodiscard]] int launch_route(const route_args& args, CUstream_st* stream);

/// Dynamic shared memory of the router: the norm and the rows of up to eight experts.
inline constexpr std::uint32_t route_bytes_max = 226 * 1024;
[[nodiscard]] constexpr std::uint64_t route_bytes(std::uint32_t width, std::uint32_t experts) {
  return std::uint64_t{width} * (1 + (experts < 8 ? experts : 8)) * sizeof(float);
}
/// Whether the router takes a model of these shapes.
[[nodiscard]] constexpr bool route_takes(std::uint32_t width, std::uint32_t experts, std::uint32_t used) {
  return width > 0 && width % 4 == 0 && experts > 0 && experts <= experts_max && used > 0 &&
         used <= experts_used_max && used <= experts && route_bytes(width, experts) <= route_bytes_max;
}

/// Sorts the pairs (column, rank) by expert and cuts each expert's run into tiles of `tile_columns`.
struct sort_experts_args {
  const std::int32_t* chosen = nullptr;  ///< [pairs]
  std::uint32_t pairs = 0;
  std::uint32_t experts = 0;
  std::int32_t* order = nullptr;       ///< [pairs]
  expert_tile* tiles = nullptr;        ///< [sorted_tiles_max(pairs, experts)]
  std::int32_t* tile_count = nullptr;  ///< [1]
  std::uint32_t tile_columns = 0;      ///< a power of two; see sorted_tiles_max()
};
/// Whether an expert has so few of the pairs that launch_dealt_matvec() is the faster way (measured on an
/// H200).
[[nodiscard]] constexpr bool few_pairs(std::uint32_t pairs, std::uint32_t experts) {
  return pairs <= 3 * experts;
}
/// Wide tiles turn a weight into an operand once for many columns, narrow ones waste less on experts that
/// few pairs chose.
[[nodiscard]] constexpr std::uint32_t expert_tile_columns(std::uint32_t pairs, std::uint32_t experts) {
  return pairs <= 8 * experts ? 16 : pairs < 12 * experts ? 32 : pairs < 24 * experts ? 64 : 128;
}
/// A bound for all numbers of pairs up to `pairs`.
[[nodiscard]] constexpr std::uint32_t sorted_tiles_max(std::uint32_t pairs, std::uint32_t experts) {
  const std::uint32_t chosen = experts < pairs ? experts : pairs;
  return pairs / 128 + 3 * chosen;
}
/// What to expect when tokens choose all experts alike.
[[nodiscard]] constexpr std::uint32_t sorted_tiles_likely(std::uint32_t pairs, std::uint32_t experts,
                                                          std::uint32_t tile_columns) {
  const std::uint32_t chosen = experts < pairs ? experts : pairs;
  const std::uint32_t cut = pairs / tile_columns + chosen / 2;
  return cut > chosen ? cut : chosen;
}
[[nodiscard]] int launch_sort_experts(const sort_experts_args& args, CUstream_st* stream);

/// residual[m] += sum over i, ascending, of weights[m][i] * parts[m * used + i].
struct combine_experts_args {
  const float* parts = nullptr;  ///< [columns * used][width]
  const float* weights = nullptr;
  float* residual = nullptr;  ///< [columns][width]
  std::uint32_t width = 0;
  std::uint32_t used = 0;
  std::uint32_t columns = 0;
};
[[nodiscard]] int launch_combine_experts(const combine_experts_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
