// Two kernels with the same bits, because sums of integers are the same in any order.
//
// Few columns: a warp takes `few_rows` rows. Lane l loads word l of each 128 bytes of a row: byte j of a
// block's 32 with its three neighbours. Shifted by 6, 4, 2 and 0 and masked it is four codes that meet the
// four activations at j, j + 32, j + 64 and j + 96, which lie in shared memory, in one dp4a each.
//
// Many columns: mma.m16n8k32 of unsigned codes and signed activations. The order of k is free, so lane t of a
// row's four takes bytes 8 t to 8 t + 7 of a block, and at each shift its two words are the fragment's two
// registers. A block has 128 rows and 64 columns; activations of the next 128 values of k are copied while
// these are multiplied.
#include "kernels/device/device_math.cuh"
#include "kernels/device/device_room.hpp"
#include "kernels/device/launch.cuh"
#include "kernels/product/ternary.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t all_lanes = 0xFFFFFFFFU;
constexpr std::uint32_t block_bytes = ternary_block_cols / 4;
constexpr std::uint32_t threads = 256;
constexpr std::uint32_t warps = threads / 32;
constexpr std::uint32_t few_rows = 2;

/// Four codes of a word, those of the quarter q of a block.
__device__ __forceinline__ std::uint32_t codes_of(std::uint32_t word, std::uint32_t q) {
  return word >> (6 - 2 * q) & 0x03030303U;
}

/// a: four unsigned bytes, b: four signed ones.
__device__ __forceinline__ std::int32_t add_products(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  std::int32_t out;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
  return out;
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
  const auto sum = static_cast<float>(codes - a.x.sums[column]);
  const float y = __fmul_rn(__fdiv_rn(sum, a.x.scales[column]), code_scale);
  float* const out = a.out + static_cast<std::uint64_t>(column) * a.out_stride + row;
  *out = a.add ? __fadd_rn(*out, y) : y;
}

/// grid: rows of all matrices / (warps * few_rows). Shared memory: the activations of all columns.
template <std::uint32_t Columns>
__global__ void __launch_bounds__(threads) few_columns_kernel(ternary_matmul_args a, std::uint32_t rows) {
  extern __shared__ __align__(16) std::uint32_t values[];  // [Columns][cols / 4]
  const std::uint32_t cols = a.w[0].cols;
  const std::uint32_t row_words = cols / 16;
  const std::uint32_t value_words = cols / 4;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t first = (blockIdx.x * warps + threadIdx.x / 32) * few_rows;
  const std::uint32_t* from[few_rows];
#pragma unroll
  for (std::uint32_t r = 0; r < few_rows; ++r) {
    const matrix_row at = find_row(a, min(first + r, rows - 1));
    from[r] = reinterpret_cast<const std::uint32_t*>(matrix_at(a, at.matrix).data) +
              static_cast<std::uint64_t>(at.row) * row_words;
    if (lane < row_words / 8) prefetch_sector(from[r] + lane * 8);
  }
  wait_for_previous_kernel();
  allow_next_kernel();
#pragma unroll
  for (std::uint32_t c = 0; c < Columns; ++c) {
    const auto* x = reinterpret_cast<const uint4*>(a.x.values + static_cast<std::uint64_t>(c) * a.x.stride);
    auto* const to = reinterpret_cast<uint4*>(values + c * value_words);
    for (std::uint32_t i = threadIdx.x; i < value_words / 4; i += threads) to[i] = x[i];
  }
  __syncthreads();
  std::int32_t sums[few_rows][Columns] = {};
#pragma unroll 4
  for (std::uint32_t w = lane; w < row_words; w += 32) {
    std::uint32_t words[few_rows];
#pragma unroll
    for (std::uint32_t r = 0; r < few_rows; ++r) words[r] = __ldg(from[r] + w);
    const std::uint32_t at = w / 8 * (ternary_block_cols / 4) + w % 8;
#pragma unroll
    for (std::uint32_t c = 0; c < Columns; ++c) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        // Lanes of other blocks read another quarter, or four of them would meet in each bank.
        const std::uint32_t q = (i + lane / 8) % 4;
        const std::uint32_t x = values[c * value_words + at + 8 * q];
#pragma unroll
        for (std::uint32_t r = 0; r < few_rows; ++r)
          sums[r][c] = add_products(codes_of(words[r], q), x, sums[r][c]);
      }
    }
  }
#pragma unroll
  for (std::uint32_t r = 0; r < few_rows; ++r) {
    const float code_scale = matrix_at(a, find_row(a, min(first + r, rows - 1)).matrix).code_scale;
#pragma unroll
    for (std::uint32_t c = 0; c < Columns; ++c) {
      const std::int32_t sum = __reduce_add_sync(all_lanes, sums[r][c]);
      if (lane == 0 && first + r < rows) finish(a, first + r, c, code_scale, sum);
    }
  }
}

constexpr std::uint32_t tile_rows = 16 * warps;
constexpr std::uint32_t tile_columns = 64;
/// Bytes between columns in shared memory: lanes of a load then meet no bank twice.
constexpr std::uint32_t column_bytes = ternary_block_cols + 32;

/// Starts to copy a tile's activations of block `k`; columns past the last are zeros.
__device__ __forceinline__ void copy_values(const ternary_matmul_args& a, std::uint32_t first_column,
                                            std::uint32_t k, std::int8_t* to) {
  constexpr std::uint32_t pieces = tile_columns * ternary_block_cols / 16;
#pragma unroll
  for (std::uint32_t i = threadIdx.x; i < pieces; i += threads) {
    const std::uint32_t column = i / (ternary_block_cols / 16);
    const std::uint32_t byte = i % (ternary_block_cols / 16) * 16;
    const bool inside = first_column + column < a.columns;
    const std::int8_t* from = a.x.values +
                              static_cast<std::uint64_t>(inside ? first_column + column : 0) * a.x.stride +
                              k * ternary_block_cols + byte;
    const auto address =
        static_cast<std::uint32_t>(__cvta_generic_to_shared(to + column * column_bytes + byte));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void multiply(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Where a lane reads the weights of one of its two rows, and where the sums of the row go.
struct lane_row {
  const uint2* from;
  std::uint32_t row;
  float code_scale;
};
__device__ __forceinline__ lane_row row_of(const ternary_matmul_args& a, std::uint32_t rows,
                                           std::uint32_t row) {
  const matrix_row at = find_row(a, min(row, rows - 1));
  const ternary_matrix& w = matrix_at(a, at.matrix);
  return {reinterpret_cast<const uint2*>(w.data + static_cast<std::uint64_t>(at.row) * (w.cols / 4)) +
              threadIdx.x % 4,
          row, w.code_scale};
}

/// grid: (row tiles, column tiles)
__global__ void __launch_bounds__(threads) many_columns_kernel(ternary_matmul_args a, std::uint32_t rows) {
  __shared__ alignas(16) std::int8_t values[2][tile_columns * column_bytes];
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t g = lane / 4;
  const std::uint32_t t = lane % 4;
  const std::uint32_t first_row = blockIdx.x * tile_rows + threadIdx.x / 32 * 16;
  const std::uint32_t first_column = blockIdx.y * tile_columns;
  const lane_row upper = row_of(a, rows, first_row + g);
  const lane_row lower = row_of(a, rows, first_row + g + 8);
  const std::uint32_t blocks = a.w[0].cols / ternary_block_cols;
  wait_for_previous_kernel();
  allow_next_kernel();
  std::int32_t sums[tile_columns / 8][4] = {};
  copy_values(a, first_column, 0, values[0]);
  uint2 top = __ldg(upper.from);
  uint2 bottom = __ldg(lower.from);
  for (std::uint32_t k = 0; k < blocks; ++k) {
    const std::uint32_t next = min(k + 1, blocks - 1);
    copy_values(a, first_column, next, values[(k + 1) % 2]);
    const uint2 next_top = __ldg(upper.from + next * (block_bytes / 8));
    const uint2 next_bottom = __ldg(lower.from + next * (block_bytes / 8));
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (std::uint32_t q = 0; q < 4; ++q) {
      const std::uint32_t codes[4] = {codes_of(top.x, q), codes_of(bottom.x, q), codes_of(top.y, q),
                                      codes_of(bottom.y, q)};
#pragma unroll
      for (std::uint32_t n = 0; n < tile_columns / 8; ++n) {
        const uint2 x =
            *reinterpret_cast<const uint2*>(values[k % 2] + (8 * n + g) * column_bytes + 32 * q + 8 * t);
        multiply(sums[n], codes, x.x, x.y);
      }
    }
    __syncthreads();  // before the next copy but one writes here
    top = next_top;
    bottom = next_bottom;
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll
  for (std::uint32_t n = 0; n < tile_columns / 8; ++n) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const lane_row& its = i < 2 ? upper : lower;
      const std::uint32_t column = first_column + 8 * n + 2 * t + i % 2;
      if (column < a.columns && its.row < rows) finish(a, its.row, column, its.code_scale, sums[n][i]);
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

template <std::uint32_t Columns>
int launch_few(const ternary_matmul_args& a, cudaStream_t stream) {
  const std::uint32_t rows = rows_of(a);
  const std::size_t shared = std::size_t{Columns} * a.w[0].cols;
  const auto kernel = few_columns_kernel<Columns>;
  // Once, and never while a graph is captured: the first launch is a warm-up's.
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, multiprocessor_shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  const std::uint32_t blocks = (rows + warps * few_rows - 1) / (warps * few_rows);
  return launch_dependent(kernel, dim3(blocks), dim3(threads), shared, stream, a, rows);
}

int launch_many(const ternary_matmul_args& a, cudaStream_t stream) {
  const std::uint32_t rows = rows_of(a);
  const dim3 grid((rows + tile_rows - 1) / tile_rows, (a.columns + tile_columns - 1) / tile_columns);
  return launch_dependent(many_columns_kernel, grid, dim3(threads), 0, stream, a, rows);
}

}  // namespace

int launch_ternary_matmul(const ternary_matmul_args& a, CUstream_st* stream) {
  if (!is_valid(a)) return cudaErrorInvalidValue;
  if (a.columns > ternary_few_columns || std::size_t{a.columns} * a.w[0].cols > multiprocessor_shared_bytes)
    return launch_many(a, stream);
  switch (a.columns) {
    case 1: return launch_few<1>(a, stream);
    case 2: return launch_few<2>(a, stream);
    case 3: return launch_few<3>(a, stream);
    case 4: return launch_few<4>(a, stream);
    case 5: return launch_few<5>(a, stream);
    case 6: return launch_few<6>(a, stream);
    case 7: return launch_few<7>(a, stream);
    default: return launch_few<8>(a, stream);
  }
}

}  // namespace orcd::kernels
