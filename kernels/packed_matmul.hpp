// y[m][r] = sum_c W[r][c] * x[m][c] on tensor cores, straight from packed quantized weights.
//
// One numeric definition for every number of columns and every launch: weights as f16 (packed_tile.cuh),
// activations as f16, mma.m16n8k16 with f32 accumulation over 256 columns in the order of
// packed_matrix.hpp, then the sums of 256 added left to right in f32, then times the row scale, then
// plus the bias. How the work is split over warps, blocks and launches never changes a bit.
// Determinism class: run-to-run, batch-invariant, launch-invariant. Bound: memory bandwidth up to
// about 64 columns, tensor cores beyond. Source: design 5, performance notes 4.3 (profile A).
#pragma once

#include "kernels/packed_matrix.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

enum class matmul_output : std::uint8_t {
  store,           ///< out[m][r] = y
  add,             ///< out[m][r] += y (the residual stream)
  swiglu,          ///< w[0] gate, w[1] up: act[m][r] = f16(silu(g) * u)
  swiglu_clamped,  ///< act[m][r] = f16(min(g,7) * sigmoid(1.702 min(g,7)) * (clamp(u,-7,7) + 1))
};

/// Weights that the product after this one will read, known already: this one asks L2 for them.
struct next_weights {
  const std::byte* data = nullptr;  ///< device, or null
  std::uint64_t bytes = 0;          ///< a multiple of 16
};

struct packed_matmul_args {
  packed_matrix w[3];         ///< outputs follow each other; gate and up have equal shapes
  const float* bias[3] = {};  ///< [rows of w[i]] each, or null; experts: [experts][rows]
  std::uint32_t matrices = 1;
  std::uint32_t columns = 0;  ///< m = 0 .. columns-1

  const __half* x = nullptr;   ///< [..][x_stride], zero from cols up to the next multiple of 64
  std::uint32_t x_stride = 0;  ///< halfs, a multiple of 8, at least the padded columns
  /// Instead of x: f16(norm_x * norm_weight / sqrt(mean(norm_x^2) + eps)), computed in the kernel.
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

  next_weights next;
};

/// Whether the output takes a gate and an up matrix.
ORCD_HD constexpr bool is_paired(matmul_output output) {
  return output == matmul_output::swiglu || output == matmul_output::swiglu_clamped;
}
ORCD_HD constexpr bool is_paired(const packed_matmul_args& a) {
  return is_paired(a.output);
}

/// Columns one launch of the latency kernel may have,
inline constexpr std::uint32_t matvec_columns_max = 8;
/// and up to which it is faster than the throughput kernel (measured on an H200).
inline constexpr std::uint32_t matvec_columns_best = 4;

/// For 1 .. 8 columns (each on its own when `experts` is set, then any number).
[[nodiscard]] int launch_packed_matvec(const packed_matmul_args& args, CUstream_st* stream);

struct expert_tile {
  std::int32_t expert;
  std::int32_t first;  ///< index into `order`
  std::int32_t count;  ///< at most tile_columns
};
/// For any number of columns. With experts, columns must be sorted by expert and `tiles` list them.
/// None of tile_columns, row_blocks and split changes a bit.
struct tiled_matmul_args {
  packed_matmul_args matmul;
  const std::int32_t* order = nullptr;       ///< device: column m of a sorted list, or null = identity
  const expert_tile* tiles = nullptr;        ///< device, or null = one range of all columns
  const std::int32_t* tile_count = nullptr;  ///< device; launches past it do nothing
  std::uint32_t tiles_max = 0;
  std::uint32_t tiles_likely = 0;  ///< what to expect of tile_count, 0 as 1; for the choice of an instance
  /// Columns of a tile: 16, 32, 64 or 128; 0 = what is fastest. With `tiles`, the most that one counts.
  std::uint32_t tile_columns = 0;
  std::uint32_t row_blocks = 0;  ///< sets of 64 rows of a block: 1, 2 or 4; 0 = what is fastest
  /// Blocks that share the k of their rows: 1 .. 8, more than one without `tiles` only; 0 = what is fastest.
  std::uint32_t split = 0;
};
[[nodiscard]] int launch_packed_matmul(const tiled_matmul_args& args, CUstream_st* stream);
/// Whether the current device has room for the shape that `args` ask for.
[[nodiscard]] bool packed_matmul_takes(const tiled_matmul_args& args);

/// For 1 .. matvec_columns_max columns of args.x, or experts with `tiles` of at most tile_columns of them:
/// row tiles are dealt evenly and weights read once.
[[nodiscard]] int launch_dealt_matvec(const tiled_matmul_args& args, CUstream_st* stream);
/// Whether rows of so many columns, and their sums, fit into a block's memory.
[[nodiscard]] bool dealt_matvec_takes(const packed_matmul_args& args, std::uint32_t columns);
/// Whether it is the fastest of the three for one product (measured on an H200): not of so many long columns
/// that they leave little room for weights, unless of a pair.
[[nodiscard]] inline bool dealt_matvec_best(const packed_matmul_args& args, std::uint32_t columns) {
  constexpr std::uint32_t many_cols = 8 * 1024;
  const bool has_room = columns <= matvec_columns_best || args.w[0].cols <= many_cols || is_paired(args);
  return has_room && dealt_matvec_takes(args, columns);
}

}  // namespace orcd::kernels
