// A block makes some values of A x; a thread adds to some values of y. Columns without adapters leave at
// once. Where all columns are of one slot (prompts), a block takes several of them, so that A and B are read
// once for those.
#include <algorithm>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/layer/lora.hpp"
#include "kernels/layer/lora_column.cuh"
#include "kernels/layer/lora_parts.cuh"

namespace orcd::kernels {
namespace {

using namespace lora_parts;

constexpr std::uint32_t tile = 4;  ///< rows of A, and columns, of a block where all are of one slot

__device__ __forceinline__ float* inner_of(const lora_add_args& a, std::uint32_t column, std::uint32_t matrix,
                                           std::uint32_t n) {
  const std::uint64_t at = static_cast<std::uint64_t>(column) * lora_matrices_max + matrix;
  return a.inner + (at * lora_adapters_max + n) * a.rank_max;
}

/// The first `rows` of Rows rows of A from `first` on, times x of the first `columns` of Columns columns;
/// each value goes to its place in `inner`. All threads of the block call it.
template <std::uint32_t Rows, std::uint32_t Columns>
__device__ void multiply_rows(const lora_add_args& a, const float* first, std::uint32_t rows,
                              std::uint32_t column, std::uint32_t columns, bool aligned, float* inner,
                              std::uint64_t inner_step) {
  __shared__ float sums[warps][Rows * Columns];
  const std::uint64_t stride = lora_stride(a.in);
  float sum[Rows][Columns] = {};
#pragma unroll 2
  for (std::uint32_t c = 4 * threadIdx.x; c < a.in; c += 4 * threads) {
    four row[Rows];
#pragma unroll
    for (std::uint32_t r = 0; r < Rows; ++r) row[r] = load_four(first + (r < rows ? r : 0) * stride + c);
#pragma unroll
    for (std::uint32_t m = 0; m < Columns; ++m) {
      const four x = load_x(a, column + (m < columns ? m : 0), c, aligned);
#pragma unroll
      for (std::uint32_t r = 0; r < Rows; ++r) {
#pragma unroll
        for (std::uint32_t i = 0; i < 4; ++i) sum[r][m] = fmaf(row[r].v[i], x.v[i], sum[r][m]);
      }
    }
  }
#pragma unroll
  for (std::uint32_t r = 0; r < Rows; ++r) {
#pragma unroll
    for (std::uint32_t m = 0; m < Columns; ++m) {
      const float of_warp = warp_sum(sum[r][m]);
      if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][r * Columns + m] = of_warp;
    }
  }
  __syncthreads();
  if (threadIdx.x < Rows * Columns) {
    const std::uint32_t r = threadIdx.x / Columns;
    const std::uint32_t m = threadIdx.x % Columns;
    float of_block = 0.0F;
    for (std::uint32_t w = 0; w < warps; ++w) of_block += sums[w][threadIdx.x];
    if (r < rows && m < columns) inner[m * inner_step + r] = of_block;
  }
  __syncthreads();  // before the sums are written again
}

/// Prefetches what a block reads of A, as prefetch_ranks() does of B.
__device__ __forceinline__ void prefetch_rows(const lora_add_args& a, const lora_matrix& matrix,
                                              std::uint32_t column, std::uint32_t r) {
  const lora_slot& slot = slot_of(a.of, column);
  if (threadIdx.x % 2 != 0) return;  // two threads read a sector
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n) {
    const std::int32_t adapter = slot.uses[n].adapter;
    if (r >= static_cast<std::uint32_t>(held_of(a.tables, adapter, matrix.place).rank)) continue;
    const float* row = room_of(a.tables, adapter) + matrix.a_at + r * lora_stride(a.in);
    for (std::uint32_t c = 4 * threadIdx.x; c < a.in; c += 4 * threads) prefetch_sector(row + c);
  }
}
/// grid: (tiles of columns, tiles of rows of A, matrices)
template <std::uint32_t Rows, std::uint32_t Columns>
__global__ void __launch_bounds__(threads) lora_in_kernel(lora_add_args a, bool aligned) {
  const std::uint32_t column = blockIdx.x * Columns;
  const std::uint32_t columns = min(Columns, a.of.columns - column);
  const std::uint32_t r = blockIdx.y * Rows;
  const lora_matrix& matrix = a.matrices[blockIdx.z];
  if constexpr (Columns == 1) prefetch_rows(a, matrix, column, r);
  wait_for_previous_kernel();
  allow_next_kernel();
  const lora_slot& slot = slot_of(a.of, column);
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n) {
    const std::int32_t adapter = slot.uses[n].adapter;
    const auto rank = static_cast<std::uint32_t>(held_of(a.tables, adapter, matrix.place).rank);
    if (r >= rank) continue;
    const float* first = room_of(a.tables, adapter) + matrix.a_at + r * lora_stride(a.in);
    multiply_rows<Rows, Columns>(a, first, min(Rows, rank - r), column, columns, aligned,
                                 inner_of(a, column, blockIdx.z, n) + r,
                                 std::uint64_t{lora_matrices_max} * lora_adapters_max * a.rank_max);
  }
}

/// A's column of each token; grid: (columns, 1, matrices)
__global__ void __launch_bounds__(threads) lora_token_kernel(lora_add_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const lora_matrix& matrix = a.matrices[blockIdx.z];
  const lora_slot& slot = slot_of(a.of, blockIdx.x);
  const std::int32_t token = step_of(a.of, blockIdx.x).token;
  const bool known = token >= 0 && static_cast<std::uint32_t>(token) < a.in;
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n) {
    const std::int32_t adapter = slot.uses[n].adapter;
    const auto rank = static_cast<std::uint32_t>(held_of(a.tables, adapter, matrix.place).rank);
    const float* first = room_of(a.tables, adapter) + matrix.a_at;
    float* inner = inner_of(a, blockIdx.x, blockIdx.z, n);
    for (std::uint32_t r = threadIdx.x; r < rank; r += threads)
      inner[r] = known ? first[r * lora_stride(a.in) + static_cast<std::uint32_t>(token)] : 0.0F;
  }
}

/// The same of adapter n of the slot, whose A x another kernel has made.
template <std::uint32_t Values, std::uint32_t Columns>
__device__ __forceinline__ void add_adapter(const lora_add_args& a, std::uint32_t m, std::uint32_t row,
                                            std::uint32_t column, std::uint32_t columns, const lora_use& use,
                                            std::uint32_t n, float (&y)[Columns][Values]) {
  const float* inner[Columns];
#pragma unroll
  for (std::uint32_t c = 0; c < Columns; ++c) inner[c] = inner_of(a, column + (c < columns ? c : 0), m, n);
  add_adapter_rows<Values, Columns>(a.tables, a.matrices[m], row, use, inner, y);
}

/// grid: (tiles of columns, blocks of the widest matrix, matrices)
template <std::uint32_t Values, std::uint32_t Columns>
__global__ void __launch_bounds__(threads) lora_out_kernel(lora_add_args a) {
  const std::uint32_t column = blockIdx.x * Columns;
  const std::uint32_t columns = min(Columns, a.of.columns - column);
  const lora_matrix& matrix = a.matrices[blockIdx.z];
  const std::uint32_t row = (blockIdx.y * threads + threadIdx.x) * Values;
  if constexpr (Columns == 1) prefetch_ranks<Values>(a, matrix, column, row);
  wait_for_previous_kernel();
  allow_next_kernel();
  const lora_slot& slot = slot_of(a.of, column);
  if (slot.count == 0 || row >= matrix.out) return;
  float* to[Columns];
  float y[Columns][Values];
#pragma unroll
  for (std::uint32_t c = 0; c < Columns; ++c) {
    to[c] = a.y + static_cast<std::uint64_t>(column + (c < columns ? c : 0)) * a.y_stride + matrix.y_at + row;
    load_values(to[c], y[c]);
  }
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n)
    add_adapter<Values, Columns>(a, blockIdx.z, row, column, columns, slot.uses[n], n, y);
#pragma unroll
  for (std::uint32_t c = 0; c < Columns; ++c) {
    if (c >= columns) break;
    if constexpr (Values == 4) {
      *reinterpret_cast<float4*>(to[c]) = make_float4(y[c][0], y[c][1], y[c][2], y[c][3]);
    } else {
      *to[c] = y[c][0];
    }
  }
}

/// The values from `at` on of rows of y, with what the adapters of the columns' slot have there.
template <std::uint32_t Values, std::uint32_t Columns>
__device__ __forceinline__ void sums_at(const lora_add_args& a, std::uint32_t at, std::uint32_t column,
                                        std::uint32_t columns, const lora_slot& slot,
                                        float (&y)[Columns][Values]) {
#pragma unroll
  for (std::uint32_t c = 0; c < Columns; ++c) {
    const float* from = a.y + static_cast<std::uint64_t>(column + (c < columns ? c : 0)) * a.y_stride + at;
    load_values(from, y[c]);
  }
  for (std::uint32_t m = 0; m < a.count; ++m) {
    const lora_matrix& matrix = a.matrices[m];
    if (at < matrix.y_at || at - matrix.y_at >= matrix.out) continue;
    for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n)
      add_adapter<Values, Columns>(a, m, at - matrix.y_at, column, columns, slot.uses[n], n, y);
  }
}

/// grid: (tiles of columns, blocks of the width)
template <std::uint32_t Values, std::uint32_t Columns>
__global__ void __launch_bounds__(threads) lora_gated_kernel(lora_add_args a) {
  const std::uint32_t column = blockIdx.x * Columns;
  const std::uint32_t columns = min(Columns, a.of.columns - column);
  const std::uint32_t i = (blockIdx.y * threads + threadIdx.x) * Values;
  if constexpr (Columns == 1) {
    for (std::uint32_t m = 0; m < a.count; ++m) {
      for (const std::uint32_t at : {i, a.gated.width + i}) {
        const lora_matrix& matrix = a.matrices[m];
        if (i < a.gated.width && at >= matrix.y_at)
          prefetch_ranks<Values>(a, matrix, column, at - matrix.y_at);
      }
    }
  }
  wait_for_previous_kernel();
  allow_next_kernel();
  if (i >= a.gated.width) return;
  const lora_slot& slot = slot_of(a.of, column);
  float gate[Columns][Values];
  float up[Columns][Values];
  sums_at<Values, Columns>(a, i, column, columns, slot, gate);
  sums_at<Values, Columns>(a, a.gated.width + i, column, columns, slot, up);
#pragma unroll
  for (std::uint32_t c = 0; c < Columns; ++c) {
    if (c >= columns) break;
    __half* to = a.gated.act + static_cast<std::uint64_t>(column + c) * a.gated.act_stride + i;
#pragma unroll
    for (std::uint32_t v = 0; v < Values; ++v) {
      const float g = gate[c][v];
      const float u = up[c][v];
      to[v] = to_half(a.gated.clamped ? swiglu_clamped(g, u) : silu(g) * u);
    }
  }
}

__global__ void __launch_bounds__(threads) lora_store_kernel(lora_store_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x; i < a.count;
       i += std::uint64_t{gridDim.x} * threads) {
    const std::uint64_t row = (a.first + i) / a.width;
    const std::uint64_t column = (a.first + i) % a.width;
    a.to[row * a.row_step + column * a.column_step] = a.from[i];
  }
}

/// grid: (columns, blocks of pairs)
__global__ void __launch_bounds__(threads) lora_find_kernel(lora_find_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t i = blockIdx.y * threads + threadIdx.x;
  if (i >= a.tables.places * lora_adapters_max) return;
  a.found[static_cast<std::uint64_t>(blockIdx.x) * a.tables.places * lora_adapters_max + i] =
      find_pair(a.of, a.tables, blockIdx.x, i / lora_adapters_max, i % lora_adapters_max);
}

bool is_whole(const lora_columns& of) {
  return of.steps != nullptr && of.slots != nullptr && of.columns > 0 && !(of.one_slot && of.rows != nullptr);
}

bool is_whole_gated(const lora_add_args& a) {
  return a.gated.act == nullptr || (a.gated.width > 0 && a.gated.act_stride >= a.gated.width &&
                                    a.y_stride >= 2 * std::uint64_t{a.gated.width});
}

bool is_whole(const lora_add_args& a) {
  const bool reads = a.halves != nullptr || a.floats != nullptr;
  if (!is_whole(a.of) || a.tables.held == nullptr || a.tables.values == nullptr || a.inner == nullptr ||
      a.y == nullptr || a.rank_max == 0 || a.in == 0 || a.tables.room % 4 != 0 ||
      (a.halves != nullptr && a.floats != nullptr) || (reads && a.x_stride < a.in) || a.count == 0 ||
      a.count > lora_matrices_max || !is_whole_gated(a)) {
    return false;
  }
  for (std::uint32_t m = 0; m < a.count; ++m) {
    const lora_matrix& matrix = a.matrices[m];
    if (matrix.place >= a.tables.places || matrix.out == 0 || matrix.a_at % 4 != 0 || matrix.b_at % 4 != 0 ||
        a.y_stride < std::uint64_t{matrix.y_at} + matrix.out) {
      return false;
    }
  }
  return true;
}

bool is_aligned(const void* p, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

std::uint32_t blocks_of(std::uint32_t values, std::uint32_t each) {
  return (values + each - 1) / each;
}

bool reads_rows(const lora_add_args& a) {
  return a.halves != nullptr || a.floats != nullptr;
}
bool has_aligned_rows(const lora_add_args& a) {
  return a.x_stride % 4 == 0 && is_aligned(a.halves, 4 * sizeof(__half)) &&
         is_aligned(a.floats, 4 * sizeof(float));
}

/// Tiles of columns share what they read.
bool is_of_one_slot(const lora_add_args& a) {
  return a.of.one_slot && a.of.columns > 1;
}
bool takes_columns(const lora_add_args& a) {
  return !is_of_one_slot(a) && reads_rows(a) && inner_bytes(a) <= inner_bytes_max;
}

cudaError_t launch_in(const lora_add_args& a, cudaStream_t stream) {
  if (!reads_rows(a)) {
    return launch_dependent(lora_token_kernel, dim3(a.of.columns, 1, a.count), dim3(threads), 0, stream, a);
  }
  const bool aligned = has_aligned_rows(a);
  if (is_of_one_slot(a)) {
    const dim3 tiles(blocks_of(a.of.columns, tile), blocks_of(a.rank_max, tile), a.count);
    return launch_dependent(lora_in_kernel<tile, tile>, tiles, dim3(threads), 0, stream, a, aligned);
  }
  return launch_dependent(lora_in_kernel<1, 1>, dim3(a.of.columns, a.rank_max, a.count), dim3(threads), 0,
                          stream, a, aligned);
}

template <std::uint32_t Values, std::uint32_t Columns>
cudaError_t launch_out(const lora_add_args& a, std::uint32_t widest, cudaStream_t stream) {
  dim3 blocks(blocks_of(a.of.columns, Columns), blocks_of(widest, threads * Values), a.count);
  if (a.gated.act == nullptr)
    return launch_dependent(lora_out_kernel<Values, Columns>, blocks, dim3(threads), 0, stream, a);
  blocks.y = blocks_of(a.gated.width, threads * Values);
  blocks.z = 1;
  return launch_dependent(lora_gated_kernel<Values, Columns>, blocks, dim3(threads), 0, stream, a);
}

}  // namespace

int launch_lora(const lora_add_args& a, CUstream_st* stream, const lora_sequel& sequel) {
  if (!is_whole(a)) return cudaErrorInvalidValue;
  if (takes_columns(a)) return launch_columns(a, has_aligned_rows(a), sequel, stream);
  bool fours = a.y_stride % 4 == 0 && is_aligned(a.y, 4 * sizeof(float)) && a.gated.width % 4 == 0;
  std::uint32_t widest = 0;
  for (std::uint32_t m = 0; m < a.count; ++m) {
    fours = fours && a.matrices[m].out % 4 == 0 && a.matrices[m].y_at % 4 == 0;
    widest = std::max(widest, a.matrices[m].out);
  }
  const bool several = is_of_one_slot(a);
  if (const auto failed = launch_in(a, stream); failed != cudaSuccess) return failed;
  if (fours) return several ? launch_out<4, tile>(a, widest, stream) : launch_out<4, 1>(a, widest, stream);
  return several ? launch_out<1, tile>(a, widest, stream) : launch_out<1, 1>(a, widest, stream);
}

int launch_lora_find(const lora_find_args& a, CUstream_st* stream) {
  if (!is_whole(a.of) || a.of.rows != nullptr || a.tables.held == nullptr || a.tables.places == 0 ||
      a.found == nullptr)
    return cudaErrorInvalidValue;
  const dim3 blocks(a.of.columns, blocks_of(a.tables.places * lora_adapters_max, threads));
  return launch_dependent(lora_find_kernel, blocks, dim3(threads), 0, stream, a);
}

int launch_lora_store(const lora_store_args& a, CUstream_st* stream) {
  if (a.from == nullptr || a.to == nullptr || a.count == 0 || a.width == 0 || a.row_step == 0 ||
      a.column_step == 0) {
    return cudaErrorInvalidValue;
  }
  constexpr std::uint64_t blocks_max = 1024;
  const std::uint64_t blocks = (a.count + threads - 1) / threads;
  return launch_dependent(lora_store_kernel, dim3(static_cast<std::uint32_t>(std::min(blocks, blocks_max))),
                          dim3(threads), 0, stream, a);
}

int load_lora_kernels() {
  const auto load = [](auto... kernels) {
    cudaFuncAttributes attributes{};
    cudaError_t status = cudaSuccess;
    ((status = status == cudaSuccess ? cudaFuncGetAttributes(&attributes, kernels) : status), ...);
    return status;
  };
  return load(lora_in_kernel<1, 1>, lora_in_kernel<tile, tile>, lora_token_kernel, lora_out_kernel<4, 1>,
              lora_out_kernel<4, tile>, lora_out_kernel<1, 1>, lora_out_kernel<1, tile>,
              lora_gated_kernel<4, 1>, lora_gated_kernel<4, tile>, lora_gated_kernel<1, 1>,
              lora_gated_kernel<1, tile>, lora_column_kernel, lora_find_kernel, lora_store_kernel);
}

}  // namespace orcd::kernels
