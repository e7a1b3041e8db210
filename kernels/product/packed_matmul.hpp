// y[m][r] = sum_c W[r][c] * x[m][c] on tensor cores, straight from packed quantized weights.
//
// One numeric definition for every number of columns and every launch: weights as f16 (packed_tile.cuh),
// activations as f16, mma.m16n8k16 with f32 accumulation over 256 columns in the order of packed_matrix.hpp,
// then the sums of 256 added left to right in f32, then times the row scale, then plus the bias. How the work
// is split over warps, blocks and launches never changes a bit.
//
// Kernels. "matvec" in a name means few columns (up to eight), "matmul" any number:
//   decode program      decode_program/       one sequence (or two), all products of a step in one kernel
//   few-column          balanced_matvec.cu    1 to 8 columns, or experts that few tokens chose
//   throughput          packed_matmul*        any number of columns, sorted by expert for experts
//   images              image_matmul*         the same for prompts, whose activations are images of operand B
//
// Determinism class: run-to-run, batch-invariant, launch-invariant. Bound: memory bandwidth up to about 64
// columns, tensor cores beyond.
#pragma once

#include "kernels/product/packed_matmul_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

[[nodiscard]] int launch_packed_matmul(const tiled_matmul_args& args, CUstream_st* stream);
/// Cycles that a multiprocessor of the current device is estimated to take for it; 2^64 - 1: it cannot run
/// it.
[[nodiscard]] std::uint64_t packed_matmul_cycles(const tiled_matmul_args& args);
/// Whether the current device can run the shape that `args` ask for.
[[nodiscard]] bool packed_matmul_takes(const tiled_matmul_args& args);

/// The few-column product: 1 to matvec_columns_max columns of args.x, or experts with `tiles` of at
/// most tile_columns of them. A single product leaves so many bytes of a multiprocessor's shared memory to
/// the kernel after it, if that fits.
[[nodiscard]] int launch_balanced_matvec(const tiled_matmul_args& args, CUstream_st* stream,
                                         std::uint32_t leaves = 0);
/// Whether the input of so many columns, and their sums, fit into a block's memory.
[[nodiscard]] bool balanced_matvec_takes(const packed_matmul_args& args, std::uint32_t columns);
/// Whether it is faster than the throughput product, measured on an H200: not for many long columns,
/// which leave little room for weights, unless of a pair.
[[nodiscard]] inline bool balanced_matvec_best(const packed_matmul_args& args, std::uint32_t columns) {
  constexpr std::uint32_t many_cols = 8 * 1024;
  const bool has_room = columns <= matvec_columns_best || args.w[0].cols <= many_cols || is_paired(args);
  return has_room && balanced_matvec_takes(args, columns);
}

}  // namespace orcd::kernels
