// What a product of packed weights and a step's activations is given. kernels/product/packed_matmul.hpp says
// what is done with it, and by which kernels. Shared by host and device code; no CUDA types.
#pragma once

#include "kernels/product/packed_matrix.hpp"

struct __half;

namespace orcd::kernels {

enum class matmul_output : std::uint8_t {
  store,           ///< out[m][r] = y
  add,             ///< out[m][r] += y (the residual stream)
  swiglu,          ///< w[0] gate, w[1] up: act[m][r] = f16(silu(g) * u)
  swiglu_clamped,  ///< act[m][r] = f16(min(g,7) * sigmoid(1.702 min(g,7)) * (clamp(u,-7,7) + 1))
  geglu,           ///< act[m][r] = f16(G(g) * u), G the tanh form of GELU; not in the decode program
};

/// The order of a row's halves within each 64 of them.
enum class half_order : std::uint8_t {
  natural,
  /// As tensor cores read them: word w (two halves) of quarter q is word 4 w + q. The throughput product
  /// copies such rows to shared memory without a detour through registers; no other kernel reads them.
  packed,
};
/// Where half i of a row lies.
ORCD_HD constexpr std::uint32_t place_of_half(half_order order, std::uint32_t i) {
  if (order == half_order::natural) return i;
  return i / 64 * 64 + i % 16 / 2 * 8 + i / 16 % 4 * 2 + i % 2;
}

struct packed_matmul_args {
  packed_matrix w[3];         ///< outputs follow each other; gate and up have equal shapes
  const float* bias[3] = {};  ///< [rows of w[i]] each, or null; experts: [experts][rows]
  std::uint32_t matrices = 1;
  std::uint32_t columns = 0;  ///< m = 0 .. columns-1

  const __half* x = nullptr;                 ///< [..][x_stride], zero from cols up to the next multiple of 64
  std::uint32_t x_stride = 0;                ///< halves, a multiple of 8, at least the padded columns
  half_order x_order = half_order::natural;  ///< of x, and of act; packed: strides are multiples of 64
  /// If set, instead of x: f16(norm_x * norm_weight / sqrt(mean(norm_x^2) + eps)); the decode program alone
  /// computes it.
  const float* norm_x = nullptr;       ///< [columns][cols]
  const float* norm_weight = nullptr;  ///< [cols]
  float norm_eps = 0.0F;

  matmul_output output = matmul_output::store;
  float* out = nullptr;  ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
  __half* act = nullptr;  ///< [columns][act_stride]
  std::uint32_t act_stride = 0;

  /// Mixture of experts: column m uses expert experts[m] and reads row m / x_divisor of x.
  const std::int32_t* experts = nullptr;  ///< device, [columns]
  std::uint32_t x_divisor = 1;
};

/// Whether the output combines a gate and an up matrix.
ORCD_HD constexpr bool is_paired(matmul_output output) {
  return output >= matmul_output::swiglu;
}
ORCD_HD constexpr bool is_paired(const packed_matmul_args& a) {
  return is_paired(a.output);
}

/// Most columns of one launch of a few-column product.
inline constexpr std::uint32_t matvec_columns_max = 8;
/// Columns up to which it is faster than the throughput product, measured on an H200.
inline constexpr std::uint32_t matvec_columns_best = 4;

struct expert_tile {
  std::int32_t expert;
  std::int32_t first;  ///< index into `order`
  std::int32_t count;  ///< at most tile_columns
};
/// The throughput product: any number of columns. With experts, columns must be sorted by expert and `tiles`
/// list them. None of tile_columns, row_blocks and split changes a bit.
struct tiled_matmul_args {
  packed_matmul_args matmul;
  const std::int32_t* order = nullptr;       ///< device: column m of a sorted list, or null = identity
  const expert_tile* tiles = nullptr;        ///< device, or null = one range of all columns
  const std::int32_t* tile_count = nullptr;  ///< device; launches past it do nothing
  std::uint32_t tiles_max = 0;
  std::uint32_t tiles_likely = 0;  ///< expected tile_count, 0 as 1; for the choice of an instance
  /// Columns of a tile: 16, 32, 64 or 128 (packed: not 16); 0: the fastest. With `tiles`, the most of one.
  std::uint32_t tile_columns = 0;
  /// Sets of 64 rows of a block: 1, 2 or 4; 0: the fastest. Tiles of 128 have 2, others in packed order 4.
  std::uint32_t row_blocks = 0;
  /// Blocks that share the k of their rows: 1 to 8, more than one only without `tiles`; 0: the fastest.
  std::uint32_t split = 0;
};

}  // namespace orcd::kernels
