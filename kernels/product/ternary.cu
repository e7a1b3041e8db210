// Two kernels with the same bits, because sums of integers are the same in any order. Both use mma.m16n8k32
// of unsigned codes and signed activations, whose order of k is free.
//
// Few columns: a block takes 16 or 32 rows and 8 or 16 columns, and its warps divide the row's pieces of 64
// bytes, 256 columns, among themselves. Lane t of a row's four takes 16 of the 64 bytes: four words, each the
// codes of four quarters (ternary_matrix.hpp). Masked but not shifted they are 64, 16, 4 or 1 times the
// codes, and so are their sums, which each quarter has of its own. Weights are on their way before the
// activations are there.
//
// Many columns: wgmma of a block's 128 rows, half of them a warpgroup's, and 64 columns. Lane t of a row's
// four takes words t and t + 4 of a block's 32 bytes, whose codes at each shift are the fragment's registers
// for a quarter; the activations of that quarter are 32 bytes of a column. Copies of activations run three
// blocks ahead, loads of weights one.
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/product/int8_math.cuh"
#include "kernels/product/ternary.hpp"
#include "kernels/product/wgmma.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t block_bytes = ternary_block_cols / 4;
constexpr std::uint32_t threads = 256;
constexpr std::uint32_t warps = threads / 32;

/// Four codes of a word, those of the quarter q of a block.
__device__ __forceinline__ std::uint32_t codes_of(std::uint32_t word, std::uint32_t q) {
  return word >> (6 - 2 * q) & 0x03030303U;
}

/// Which matrix has a row of all of them together, and which of its rows that is.
struct matrix_row {
  std::uint32_t matrix, row;
};
__device__ __forceinline__ matrix_row find_row(const ternary_matmul_args& a, std::uint32_t row) {
  std::uint32_t m = 0;
#pragma unroll
  for (std::uint32_t i = 0; i + 1 < ternary_matrices_max; ++i) {
    if (m == i && i + 1 < a.matrices && row >= a.w[i].rows) {
      row -= a.w[i].rows;
      m = i + 1;
    }
  }
  return {m, row};
}
__device__ __forceinline__ const ternary_matrix& matrix_at(const ternary_matmul_args& a, std::uint32_t m) {
  return m == 0 ? a.w[0] : m == 1 ? a.w[1] : a.w[2];
}
std::uint32_t rows_of(const ternary_matmul_args& a) {
  std::uint32_t rows = 0;
  for (std::uint32_t i = 0; i < a.matrices; ++i) rows += a.w[i].rows;
  return rows;
}

/// `codes`: the sum of codes from 0 to 2 times the activations.
__device__ __forceinline__ void finish(const ternary_matmul_args& a, std::uint32_t row, std::uint32_t column,
                                       float code_scale, std::int32_t codes) {
  const float y = ternary_value(codes, a.x.sums[column], a.x.scales[column], code_scale);
  float* const out = a.out + static_cast<std::uint64_t>(column) * a.out_stride + row;
  *out = a.add ? __fadd_rn(*out, y) : y;
}

/// Where a lane reads the weights of one of its rows, and where the sums of the row go.
struct lane_row {
  const std::byte* from;
  std::uint32_t row;
  float code_scale;
};
__device__ __forceinline__ lane_row row_of(const ternary_matmul_args& a, std::uint32_t rows,
                                           std::uint32_t row) {
  const matrix_row at = find_row(a, min(row, rows - 1));
  const ternary_matrix& w = matrix_at(a, at.matrix);
  return {w.data + static_cast<std::uint64_t>(at.row) * (w.cols / 4), row, w.code_scale};
}

constexpr std::uint32_t piece_bytes = 64;
constexpr std::uint32_t fragment_rows = 16;

/// A lane's weights of a piece: of two rows, 16 bytes each; zeros past the row's end.
struct piece_codes {
  uint4 upper, lower;

  __device__ __forceinline__ void load(const std::byte* upper_row, const std::byte* lower_row,
                                       std::uint32_t at, std::uint32_t row_bytes) {
    upper = at < row_bytes ? __ldg(reinterpret_cast<const uint4*>(upper_row + at)) : uint4{};
    lower = at < row_bytes ? __ldg(reinterpret_cast<const uint4*>(lower_row + at)) : uint4{};
  }
  /// Adds the products with quarter q's activations.
  __device__ __forceinline__ void multiply(std::uint32_t q, const uint4& x, std::int32_t (&sums)[4]) const {
    const std::uint32_t mask = 0xC0C0C0C0U >> (2 * q);
    mma_u8_s8(sums, {upper.x & mask, lower.x & mask, upper.y & mask, lower.y & mask}, x.x, x.y);
    mma_u8_s8(sums, {upper.z & mask, lower.z & mask, upper.w & mask, lower.w & mask}, x.z, x.w);
  }
};

/// grid: (rows of all matrices / (fragment_rows * Fragments), columns / (8 * Tiles))
template <std::uint32_t Fragments, std::uint32_t Tiles>
__global__ void __launch_bounds__(threads) few_columns_kernel(ternary_matmul_args a, std::uint32_t rows) {
  constexpr std::uint32_t block_rows = fragment_rows * Fragments;
  __shared__ std::int32_t sums[warps][block_rows][8 * Tiles];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t first_row = blockIdx.x * block_rows;
  const std::uint32_t row_bytes = a.w[0].cols / 4;
  const std::byte* from[Fragments][2];
#pragma unroll
  for (std::uint32_t f = 0; f < Fragments; ++f) {
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half)
      from[f][half] = row_of(a, rows, first_row + fragment_rows * f + 8 * half + g).from;
  }
  piece_codes next[Fragments];
  const auto load = [&](std::uint32_t at) {
#pragma unroll
    for (std::uint32_t f = 0; f < Fragments; ++f) next[f].load(from[f][0], from[f][1], at, row_bytes);
  };
  std::uint32_t at = warp * piece_bytes + 16 * t;
  load(at);
  for (std::uint32_t later = at + warps * piece_bytes; later < row_bytes; later += warps * piece_bytes) {
#pragma unroll
    for (std::uint32_t f = 0; f < Fragments; ++f) {
      prefetch_sector(from[f][0] + later);
      prefetch_sector(from[f][1] + later);
    }
  }
  wait_for_previous_kernel();
  allow_next_kernel();
  // Byte `at` of a row meets byte at % 32 of each quarter of block at / 32. Columns past the last are copies.
  const std::uint32_t first_column = blockIdx.y * 8 * Tiles;
  const std::int8_t* x[Tiles];
#pragma unroll
  for (std::uint32_t n = 0; n < Tiles; ++n)
    x[n] = a.x.values +
           static_cast<std::uint64_t>(min(first_column + 8 * n + g, a.columns - 1)) * a.x.stride +
           at / block_bytes * ternary_block_cols + at % block_bytes;
  std::int32_t acc[Fragments][Tiles][4][4] = {};
#pragma unroll 1
  for (std::uint32_t first = warp * piece_bytes; first < row_bytes; first += warps * piece_bytes) {
    piece_codes codes[Fragments];
#pragma unroll
    for (std::uint32_t f = 0; f < Fragments; ++f) codes[f] = next[f];
    const bool inside = at < row_bytes;
    at += warps * piece_bytes;
    load(at);
#pragma unroll
    for (std::uint32_t n = 0; n < Tiles; ++n) {
      uint4 values[4];
#pragma unroll
      for (std::uint32_t q = 0; q < 4; ++q)
        values[q] = inside ? *reinterpret_cast<const uint4*>(x[n] + q * (ternary_block_cols / 4)) : uint4{};
      x[n] += warps * piece_bytes * 4;
#pragma unroll
      for (std::uint32_t q = 0; q < 4; ++q) {
#pragma unroll
        for (std::uint32_t f = 0; f < Fragments; ++f) codes[f].multiply(q, values[q], acc[f][n][q]);
      }
    }
  }
#pragma unroll
  for (std::uint32_t f = 0; f < Fragments; ++f) {
#pragma unroll
    for (std::uint32_t n = 0; n < Tiles; ++n) {
      const auto& of = acc[f][n];
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)
        sums[warp][fragment_rows * f + g + i / 2 * 8][8 * n + 2 * t + i % 2] =
            of[3][i] + (of[2][i] >> 2) + (of[1][i] >> 4) + (of[0][i] >> 6);
    }
  }
  __syncthreads();
  // Neighbouring threads store neighbouring rows.
  for (std::uint32_t i = threadIdx.x; i < block_rows * 8 * Tiles; i += threads) {
    const std::uint32_t row = i % block_rows;
    const std::uint32_t column = i / block_rows;
    if (first_row + row >= rows || first_column + column >= a.columns) continue;
    std::int32_t sum = 0;
#pragma unroll
    for (std::uint32_t w = 0; w < warps; ++w) sum += sums[w][row][column];
    finish(a, first_row + row, first_column + column, row_of(a, rows, first_row + row).code_scale, sum);
  }
}

constexpr std::uint32_t tile_rows = 16 * warps;
constexpr std::uint32_t tile_columns = 64;
/// Blocks of columns whose activations are in shared memory or on their way.
constexpr std::uint32_t stages = 4;
constexpr std::uint32_t stage_bytes = tile_columns * ternary_block_cols;

/// Starts to copy a tile's activations of block `k` to shared address `to`, in the order of operand_b();
/// columns past the last are zeros.
__device__ __forceinline__ void copy_values(const ternary_matmul_args& a, std::uint32_t first_column,
                                            std::uint32_t k, std::uint32_t to) {
  constexpr std::uint32_t row_pieces = ternary_block_cols / 16;
#pragma unroll
  for (std::uint32_t i = threadIdx.x; i < tile_columns * row_pieces; i += threads) {
    const std::uint32_t column = i / row_pieces;
    const std::uint32_t piece = i % row_pieces;
    const bool inside = first_column + column < a.columns;
    const std::int8_t* from = a.x.values +
                              static_cast<std::uint64_t>(inside ? first_column + column : 0) * a.x.stride +
                              k * ternary_block_cols + 16 * piece;
    const std::uint32_t address = to + column * ternary_block_cols + 16 * (piece ^ column % 8);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  }
}
__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// A lane's weights of a block of columns: two words of each of its two rows.
struct block_codes {
  std::uint32_t words[4];

  __device__ __forceinline__ void load(const std::byte* upper, const std::byte* lower, std::uint32_t k) {
    const auto word = [k](const std::byte* row, std::uint32_t i) {
      return __ldg(reinterpret_cast<const std::uint32_t*>(row + k * block_bytes) + i);
    };
    words[0] = word(upper, 0);
    words[1] = word(lower, 0);
    words[2] = word(upper, 4);
    words[3] = word(lower, 4);
  }
  /// Operand A of a quarter.
  __device__ __forceinline__ void operand(std::uint32_t q, std::uint32_t (&to)[4]) const {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) to[i] = codes_of(words[i], q);
  }
};

/// grid: (row tiles, column tiles). Shared memory: the stages.
__global__ void __launch_bounds__(threads) many_columns_kernel(ternary_matmul_args a, std::uint32_t rows) {
  extern __shared__ __align__(1024) std::int8_t values[];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t first_row = blockIdx.x * tile_rows + threadIdx.x / 32 * fragment_rows;
  const std::uint32_t first_column = blockIdx.y * tile_columns;
  const std::uint32_t blocks = a.w[0].cols / ternary_block_cols;
  const std::uint32_t stage_0 = shared_address_of(values);
  const std::byte* const upper = row_of(a, rows, first_row + g).from + 4 * t;
  const std::byte* const lower = row_of(a, rows, first_row + g + 8).from + 4 * t;
  block_codes next;
  next.load(upper, lower, 0);
  wait_for_previous_kernel();
  allow_next_kernel();
#pragma unroll
  for (std::uint32_t k = 0; k + 1 < stages; ++k) {
    if (k < blocks) copy_values(a, first_column, k, stage_0 + k * stage_bytes);
    end_copies();
  }
  std::int32_t sums[tile_columns / 2] = {};
#pragma unroll 1
  for (std::uint32_t k = 0; k < blocks; ++k) {
    std::uint32_t operands[4][4];
#pragma unroll
    for (std::uint32_t q = 0; q < 4; ++q) next.operand(q, operands[q]);
    next.load(upper, lower, min(k + 1, blocks - 1));
    asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
    fence_shared_for_async();
    __syncthreads();  // block k is there, and block k - 1 has been multiplied by all
    const std::uint32_t later = k + stages - 1;
    if (later < blocks) copy_values(a, first_column, later, stage_0 + later % stages * stage_bytes);
    end_copies();
    const std::uint64_t b = operand_b(stage_0 + k % stages * stage_bytes);
    pin(sums);
#pragma unroll
    for (auto& operand : operands) pin(operand);
    wgmma_fence();
#pragma unroll
    for (std::uint32_t q = 0; q < 4; ++q) wgmma_u8_s8(sums, operands[q], b + 2 * q);
    wgmma_commit();
    wgmma_wait<0>();
    pin(sums);
  }
#pragma unroll
  for (std::uint32_t half = 0; half < 2; ++half) {
    const lane_row its = row_of(a, rows, first_row + g + 8 * half);
    if (its.row >= rows) break;
#pragma unroll
    for (std::uint32_t n = 0; n < tile_columns / 8; ++n) {
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t column = first_column + 8 * n + 2 * t + i;
        if (column < a.columns) finish(a, its.row, column, its.code_scale, sums[4 * n + 2 * half + i]);
      }
    }
  }
}

bool is_valid(const ternary_matmul_args& a) {
  if (a.matrices == 0 || a.matrices > ternary_matrices_max || a.columns == 0 || a.out == nullptr)
    return false;
  if (a.x.values == nullptr || a.x.scales == nullptr || a.x.sums == nullptr || a.x.stride % 16 != 0)
    return false;
  for (std::uint32_t i = 0; i < a.matrices; ++i) {
    const ternary_matrix& w = a.w[i];
    if (w.data == nullptr || w.rows == 0 || w.cols == 0 || w.cols != a.w[0].cols) return false;
  }
  const std::uint32_t cols = a.w[0].cols;
  return cols % ternary_block_cols == 0 && cols <= a.x.stride && rows_of(a) <= a.out_stride;
}

template <std::uint32_t Fragments, std::uint32_t Tiles>
int launch_few(const ternary_matmul_args& a, std::uint32_t rows, cudaStream_t stream) {
  constexpr std::uint32_t block_rows = fragment_rows * Fragments;
  const dim3 grid((rows + block_rows - 1) / block_rows, (a.columns + 8 * Tiles - 1) / (8 * Tiles));
  return launch_dependent(few_columns_kernel<Fragments, Tiles>, grid, dim3(threads), 0, stream, a, rows);
}
template <std::uint32_t Fragments>
int launch_few(const ternary_matmul_args& a, std::uint32_t rows, cudaStream_t stream) {
  return a.columns > 8 ? launch_few<Fragments, 2>(a, rows, stream)
                       : launch_few<Fragments, 1>(a, rows, stream);
}

/// Rows from which two fragments a warp, which share their activations, leave enough blocks.
constexpr std::uint32_t many_rows = 8192;

int launch_many(const ternary_matmul_args& a, cudaStream_t stream) {
  const std::uint32_t rows = rows_of(a);
  const dim3 grid((rows + tile_rows - 1) / tile_rows, (a.columns + tile_columns - 1) / tile_columns);
  return launch_dependent(many_columns_kernel, grid, dim3(threads), stages * stage_bytes, stream, a, rows);
}

}  // namespace

int launch_ternary_matmul(const ternary_matmul_args& a, CUstream_st* stream) {
  if (!is_valid(a)) return cudaErrorInvalidValue;
  if (a.columns > ternary_few_columns) return launch_many(a, stream);
  const std::uint32_t rows = rows_of(a);
  return rows >= many_rows ? launch_few<2>(a, rows, stream) : launch_few<1>(a, rows, stream);
}

}  // namespace orcd::kernels
