// Mixture of experts around the products: router logits, choice, sorting of tokens by expert, weighted sum.
// Ties go to the lowest expert id. Determinism class: run-to-run, batch-invariant. Bound: latency.
#pragma once

#include "kernels/images/column_image.hpp"
#include "kernels/layer/expert_groups.hpp"
#include "kernels/layer/experts_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

[[nodiscard]] int launch_route(const route_args& args, const expert_groups& groups, CUstream_st* stream);

/// Dynamic shared memory of the router: the norm and the rows of up to eight experts.
inline constexpr std::uint32_t route_bytes_max = 226 * 1024;
[[nodiscard]] constexpr std::uint64_t route_bytes(std::uint32_t width, std::uint32_t experts) {
  return std::uint64_t{width} * (1 + (experts < 8 ? experts : 8)) * sizeof(float);
}
/// Whether the router can run a model of these shapes.
[[nodiscard]] constexpr bool route_takes(std::uint32_t width, std::uint32_t experts, std::uint32_t used) {
  return width > 0 && width % 4 == 0 && experts > 0 && experts <= experts_max && used > 0 &&
         used <= experts_used_max && used <= experts && route_bytes(width, experts) <= route_bytes_max;
}

/// Whether experts have so few of the pairs that the few-column product is faster; measured on an
/// H200.
[[nodiscard]] constexpr bool few_pairs(std::uint32_t pairs, std::uint32_t experts) {
  return pairs <= 3 * experts;
}
/// A wide tile unpacks a weight once for many columns; narrow tiles waste less on experts that few tokens
/// chose.
[[nodiscard]] constexpr std::uint32_t expert_tile_columns(std::uint32_t pairs, std::uint32_t experts) {
  return pairs <= 8 * experts ? 16 : pairs < 12 * experts ? 32 : pairs < 24 * experts ? 64 : 128;
}
/// The same with activations in packed order, whose tiles of up to 64 have more rows; 0 where natural order
/// is faster.
[[nodiscard]] constexpr std::uint32_t packed_tile_columns(std::uint32_t pairs, std::uint32_t experts) {
  if (pairs <= 8 * experts) return 0;
  return pairs < 24 * experts ? 32 : pairs < 192 * experts ? 64 : 128;
}
struct expert_tiles {
  std::uint32_t columns;
  half_order order;  ///< of what experts read
};
/// The tiles of the throughput product for a layer whose experts can, or cannot, read in packed order.
[[nodiscard]] constexpr expert_tiles expert_tiles_of(std::uint32_t pairs, std::uint32_t experts,
                                                     bool take_packed) {
  const std::uint32_t packed = take_packed ? packed_tile_columns(pairs, experts) : 0;
  if (packed != 0) return {packed, half_order::packed};
  return {expert_tile_columns(pairs, experts), half_order::natural};
}
/// An upper bound of the tiles: full ones, and for each expert one that is not.
[[nodiscard]] constexpr std::uint32_t sorted_tiles_max(std::uint32_t pairs, std::uint32_t experts,
                                                       std::uint32_t tile_columns) {
  const std::uint32_t chosen = experts < pairs ? experts : pairs;
  return pairs / tile_columns + chosen;
}
/// The number of tiles to expect if tokens choose all experts equally often.
[[nodiscard]] constexpr std::uint32_t sorted_tiles_likely(std::uint32_t pairs, std::uint32_t experts,
                                                          std::uint32_t tile_columns) {
  const std::uint32_t chosen = experts < pairs ? experts : pairs;
  const std::uint32_t cut = pairs / tile_columns + chosen / 2;
  return cut > chosen ? cut : chosen;
}
/// Pairs that can be sorted; of one expert 65,536, because 16 bits count those before each. An expert has a
/// column at most once.
inline constexpr std::uint32_t sorted_pairs_max = 1U << 23U;
[[nodiscard]] int launch_sort_experts(const sort_experts_args& args, CUstream_st* stream);
/// The same for a product whose activations are images: an expert's tiles are as even as multiples of
/// image_align allow, of tile_columns at most, a multiple of it too. args.tiles is not looked at.
[[nodiscard]] int launch_sort_experts(const sort_experts_args& args, image_tile* tiles, CUstream_st* stream);

[[nodiscard]] int launch_combine_experts(const combine_experts_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
