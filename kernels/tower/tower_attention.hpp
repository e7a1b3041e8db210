// Attention of a tower: patches of one view, or positions of a sound, see all of a range of their neighbours.
// There is no mask and no cache.
//
// A range is taken in tiles of its positions, from its first on: scores are f32 sums of f16 products, its
// probabilities e^x = 2^(x log2 e) by ex2.approx, rounded to f16 for the product with the values; maximum,
// sum and weighted values are f32 and go from tile to tile. So a query's bits depend on its own range alone.
//
// Determinism class: run-to-run, independent of other queries, ranges and launches. Bound: tensor cores
// (mma.m16n8k16). Error: 2^-11 of what enters as f16 and of the result.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

inline constexpr std::uint32_t tower_head_max = 256;   ///< values of a head at most
inline constexpr std::uint32_t tower_query_tile = 64;  ///< queries of a block

/// The width that heads are padded to with zeros: one that there is a kernel for.
[[nodiscard]] ORCD_HD constexpr std::uint32_t tower_head_width(std::uint32_t width) noexcept {
  constexpr std::uint32_t step = 16;
  const std::uint32_t padded = (width + step - 1) / step * step;
  return padded <= 96 ? padded : padded <= 128 ? 128 : tower_head_max;
}

/// Up to tower_query_tile queries in a row, and the keys that each of them sees.
struct tower_range {
  std::uint32_t first_query = 0, queries = 0;
  std::uint32_t first_key = 0, keys = 0;
};

struct tower_attention_args {
  const __half* q = nullptr;  ///< [heads][positions][padded width], 16-byte aligned
  const __half* k = nullptr;
  const __half* v = nullptr;
  std::uint32_t positions = 0;
  std::uint32_t heads = 0;
  std::uint32_t width = 0;              ///< of a head
  const tower_range* ranges = nullptr;  ///< device, [count]; null: all positions see all
  std::uint32_t count = 0;              ///< of ranges
  float scale = 0.0F;                   ///< multiplies q.k; above 0
  __half* out = nullptr;                ///< [positions][out_stride]: heads * width halves, head-major
  std::uint32_t out_stride = 0;         ///< halves
};
[[nodiscard]] int launch_tower_attention(const tower_attention_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
