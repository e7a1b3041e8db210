// A block has up to 64 queries of a head, 16 a warp, as operand A; it walks through the keys of their range:
//
//   keys, values   VRAM --> shared memory, a tile ahead (cp.async) --> operand B (ldmatrix)
//   scores         in registers, as accumulators; then probabilities, which are operand A as they lie there
//   weighted       in registers from the first tile to the last
#include "kernels/attention/paged_attention.cuh"
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/matrices.cuh"
#include "kernels/product/packed_tile.cuh"
#include "kernels/tower/tower_attention.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t attention_threads = 128;
constexpr std::uint32_t warp_rows = 16;
constexpr std::uint32_t piece_bytes = 16;
constexpr std::uint32_t piece_halves = piece_bytes / 2;

/// Keys of a tile: the widest heads leave registers for fewer.
template <std::uint32_t W>
constexpr std::uint32_t key_tile = W <= narrow_head_max ? 64 : 32;

/// Rows are 16 bytes off a multiple of 32, so that eight of them are read without bank conflicts.
template <std::uint32_t W>
constexpr std::uint32_t row_halves = W + piece_halves;

template <std::uint32_t W>
struct tower_shared {
  alignas(16) __half queries[tower_query_tile][row_halves<W>];
  alignas(16) __half keys[2][key_tile<W>][row_halves<W>];
  alignas(16) __half values[2][key_tile<W>][row_halves<W>];
};

/// Copies 16 bytes to shared memory, or zeros where there is nothing.
__device__ __forceinline__ void copy_piece(std::uint32_t to, const __half* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Starts to copy `Rows` rows of W halves, of which `there` exist.
template <std::uint32_t W, std::uint32_t Rows>
__device__ __forceinline__ void copy_rows(__half (*to)[row_halves<W>], const __half* from,
                                          std::uint32_t there) {
  constexpr std::uint32_t pieces = W / piece_halves;
#pragma unroll
  for (std::uint32_t i = threadIdx.x; i < Rows * pieces; i += attention_threads) {
    const std::uint32_t row = i / pieces;
    const std::uint32_t piece = i % pieces;
    const bool exists = row < there;
    copy_piece(shared_address_of(&to[row][piece * piece_halves]),
               from + static_cast<std::uint64_t>(exists ? row : 0) * W + piece * piece_halves, exists);
  }
}

/// Operand A of 16 rows and 16 of k, whose first row and value are at `from`.
template <std::uint32_t W>
__device__ __forceinline__ void load_rows(std::uint32_t (&a)[4], const __half* from) {
  const std::uint32_t lane = threadIdx.x % 32;
  load_matrices(a, shared_address_of(from + lane % 16 * row_halves<W> + lane / 16 * 8));
}
/// Operand B of two times eight columns, which are rows there, and 16 of k.
template <std::uint32_t W>
__device__ __forceinline__ void load_keys(std::uint32_t (&b)[4], const __half* from) {
  const std::uint32_t lane = threadIdx.x % 32;
  load_matrices(b, shared_address_of(from + (lane / 16 * 8 + lane % 8) * row_halves<W> + lane / 8 % 2 * 8));
}
/// Operand B of two times eight columns and 16 of k, which are rows there.
template <std::uint32_t W>
__device__ __forceinline__ void load_values(std::uint32_t (&b)[4], const __half* from) {
  const std::uint32_t lane = threadIdx.x % 32;
  load_transposed(b, shared_address_of(from + lane % 16 * row_halves<W> + lane / 16 * 8));
}

/// A warp's 16 queries: each lane has two of them, rows lane / 4 and eight more, of which it holds a quarter
/// of the columns.
template <std::uint32_t W>
struct query_sums {
  float maximum[2] = {-INFINITY, -INFINITY};  ///< in units of log2_e
  float sum[2] = {0.0F, 0.0F};                ///< of the lane's own columns
  float value[W / 8][4] = {};
};

/// The products of a warp's queries with a tile of keys.
template <std::uint32_t W>
__device__ __forceinline__ void score_tile(const std::uint32_t (&kept)[W / 16][4], const __half* queries,
                                           const __half (*keys)[row_halves<W>],
                                           float (&scores)[key_tile<W> / 8][4]) {
#pragma unroll
  for (std::uint32_t n = 0; n < key_tile<W> / 8; ++n) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) scores[n][i] = 0.0F;
  }
#pragma unroll
  for (std::uint32_t k = 0; k < W / 16; ++k) {
    std::uint32_t a[4];
    if constexpr (W <= narrow_head_max) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) a[i] = kept[k][i];
    } else {
      load_rows<W>(a, queries + 16 * k);
    }
#pragma unroll
    for (std::uint32_t n = 0; n < key_tile<W> / 16; ++n) {
      std::uint32_t b[4];
      load_keys<W>(b, &keys[16 * n][16 * k]);
      mma_16x8x16(scores[2 * n], a, b[0], b[1]);
      mma_16x8x16(scores[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// Turns scores into probabilities, and folds the sums so far to their maximum. Keys from `there` on are not
/// seen.
template <std::uint32_t W>
__device__ __forceinline__ void weigh_tile(float (&scores)[key_tile<W> / 8][4], std::uint32_t there,
                                           float factor, query_sums<W>& sums) {
  constexpr std::uint32_t tiles = key_tile<W> / 8;
  if (there < key_tile<W>) {
#pragma unroll
    for (std::uint32_t n = 0; n < tiles; ++n) {
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i)
        if (8 * n + 2 * (threadIdx.x % 4) + i % 2 >= there) scores[n][i] = -INFINITY;
    }
  }
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    float maximum = -INFINITY;
#pragma unroll
    for (std::uint32_t n = 0; n < tiles; ++n)
      maximum = fmaxf(maximum, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFFFFFFU, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFFFFFFU, maximum, 2));
    maximum = fmaxf(sums.maximum[r], __fmul_rn(maximum, factor));
    const float keep = exp2_of(__fsub_rn(sums.maximum[r], maximum));
    sums.maximum[r] = maximum;
    float added = 0.0F;
#pragma unroll
    for (std::uint32_t n = 0; n < tiles; ++n) {
#pragma unroll
      for (std::uint32_t c = 0; c < 2; ++c) {
        float& score = scores[n][2 * r + c];
        score = exp2_of(__fmaf_rn(score, factor, -maximum));
        added = __fadd_rn(added, score);
      }
    }
    sums.sum[r] = __fmaf_rn(sums.sum[r], keep, added);
#pragma unroll
    for (std::uint32_t d = 0; d < W / 8; ++d) {
      sums.value[d][2 * r] = __fmul_rn(sums.value[d][2 * r], keep);
      sums.value[d][2 * r + 1] = __fmul_rn(sums.value[d][2 * r + 1], keep);
    }
  }
}

__device__ __forceinline__ std::uint32_t pair_of(float low, float high) {
  return as_bits(__floats2half2_rn(low, high));
}

/// Adds the tile's values, weighted.
template <std::uint32_t W>
__device__ __forceinline__ void add_values(const float (&weights)[key_tile<W> / 8][4],
                                           const __half (*values)[row_halves<W>], query_sums<W>& sums) {
#pragma unroll
  for (std::uint32_t k = 0; k < key_tile<W> / 16; ++k) {
    const float(&low)[4] = weights[2 * k];
    const float(&high)[4] = weights[2 * k + 1];
    const std::uint32_t a[4] = {pair_of(low[0], low[1]), pair_of(low[2], low[3]), pair_of(high[0], high[1]),
                                pair_of(high[2], high[3])};
#pragma unroll
    for (std::uint32_t d = 0; d < W / 16; ++d) {
      std::uint32_t b[4];
      load_values<W>(b, &values[16 * k][16 * d]);
      mma_16x8x16(sums.value[2 * d], a, b[0], b[1]);
      mma_16x8x16(sums.value[2 * d + 1], a, b[2], b[3]);
    }
  }
}

/// Values at and at + 1 of a head, as far as it has so many, where pairs are not aligned.
__device__ __forceinline__ void store_up_to(__half* out, std::uint32_t at, std::uint32_t width,
                                            const __half2& pair) {
  if (at < width) out[at] = pair.x;
  if (at + 1 < width) out[at + 1] = pair.y;
}

template <std::uint32_t W>
__device__ __forceinline__ void store_queries(const tower_attention_args& a, const tower_range& range,
                                              std::uint32_t head, query_sums<W>& sums) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t r = 0; r < 2; ++r) {
    float sum = sums.sum[r];
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 1));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, 2));
    const float factor = __fdiv_rn(1.0F, sum);
    const std::uint32_t query = threadIdx.x / 32 * warp_rows + lane / 4 + 8 * r;
    if (query >= range.queries) continue;
    __half* const out = a.out + static_cast<std::uint64_t>(range.first_query + query) * a.out_stride +
                        static_cast<std::uint64_t>(head) * a.width;
#pragma unroll
    for (std::uint32_t d = 0; d < W / 8; ++d) {
      const std::uint32_t at = 8 * d + 2 * (lane % 4);
      const __half2 pair{to_half(__fmul_rn(sums.value[d][2 * r], factor)),
                         to_half(__fmul_rn(sums.value[d][2 * r + 1], factor))};
      if (at + 1 < a.width && a.width % 2 == 0)
        *reinterpret_cast<__half2*>(out + at) = pair;
      else
        store_up_to(out, at, a.width, pair);
    }
  }
}

/// Without a list all positions are one range, cut into tiles of queries.
__device__ __forceinline__ tower_range range_of(const tower_attention_args& a, std::uint32_t index) {
  if (a.ranges != nullptr) return a.ranges[index];
  const std::uint32_t first = index * tower_query_tile;
  return {first, min(tower_query_tile, a.positions - first), 0, a.positions};
}

/// Blocks of a multiprocessor that registers and shared memory leave room for.
template <std::uint32_t W>
constexpr std::uint32_t tower_blocks = W <= 96    ? 3
                                       : W <= 128 ? 2
                                                  : 1;

/// grid: (ranges, heads)
template <std::uint32_t W>
__global__ void __launch_bounds__(attention_threads, tower_blocks<W>)
    tower_attention_kernel(const __grid_constant__ tower_attention_args a) {
  extern __shared__ uint4 shared_bytes[];
  auto& shared = *reinterpret_cast<tower_shared<W>*>(shared_bytes);
  wait_for_previous_kernel();
  allow_next_kernel();
  constexpr std::uint32_t tile = key_tile<W>;
  const tower_range range = range_of(a, blockIdx.x);
  const std::uint64_t head = static_cast<std::uint64_t>(blockIdx.y) * a.positions;
  const __half* const keys = a.k + (head + range.first_key) * W;
  const __half* const values = a.v + (head + range.first_key) * W;
  const auto load = [&](std::uint32_t first) {
    const std::uint32_t stage = first / tile % 2;
    copy_rows<W, tile>(shared.keys[stage], keys + static_cast<std::uint64_t>(first) * W, range.keys - first);
    copy_rows<W, tile>(shared.values[stage], values + static_cast<std::uint64_t>(first) * W,
                       range.keys - first);
    commit_copies();
  };
  copy_rows<W, tower_query_tile>(shared.queries, a.q + (head + range.first_query) * W, range.queries);
  load(0);
  wait_for_copies<0>();
  __syncthreads();
  const __half* const queries = shared.queries[threadIdx.x / 32 * warp_rows];
  std::uint32_t kept[W / 16][4] = {};
  if constexpr (W <= narrow_head_max) {
#pragma unroll
    for (std::uint32_t k = 0; k < W / 16; ++k) load_rows<W>(kept[k], queries + 16 * k);
  }
  const float factor = __fmul_rn(a.scale, log2_e);
  query_sums<W> sums;
#pragma unroll 1
  for (std::uint32_t first = 0; first < range.keys; first += tile) {
    const bool more = first + tile < range.keys;
    if (more) load(first + tile);
    const std::uint32_t stage = first / tile % 2;
    float scores[tile / 8][4];
    score_tile<W>(kept, queries, shared.keys[stage], scores);
    weigh_tile<W>(scores, range.keys - first, factor, sums);
    add_values<W>(scores, shared.values[stage], sums);
    if (!more) break;
    wait_for_copies<0>();
    __syncthreads();
  }
  store_queries<W>(a, range, blockIdx.y, sums);
}

template <std::uint32_t W>
int launch(const tower_attention_args& a, std::uint32_t ranges, cudaStream_t stream) {
  constexpr std::size_t bytes = sizeof(tower_shared<W>);
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      tower_attention_kernel<W>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (opted_in != cudaSuccess) return opted_in;
  return launch_dependent(tower_attention_kernel<W>, dim3(ranges, a.heads), dim3(attention_threads), bytes,
                          stream, a);
}

}  // namespace

int launch_tower_attention(const tower_attention_args& a, CUstream_st* stream) {
  if (a.q == nullptr || a.k == nullptr || a.v == nullptr || a.out == nullptr || a.positions == 0 ||
      a.heads == 0 || a.heads > 0xFFFFU || a.width == 0 || a.width > tower_head_max ||
      a.out_stride < a.heads * a.width || a.out_stride % 2 != 0 || !(a.scale > 0.0F) ||
      (a.ranges != nullptr && a.count == 0))
    return cudaErrorInvalidValue;
  const std::uint32_t ranges =
      a.ranges != nullptr ? a.count : (a.positions + tower_query_tile - 1) / tower_query_tile;
  switch (tower_head_width(a.width)) {
    case 16: return launch<16>(a, ranges, stream);
    case 32: return launch<32>(a, ranges, stream);
    case 48: return launch<48>(a, ranges, stream);
    case 64: return launch<64>(a, ranges, stream);
    case 80: return launch<80>(a, ranges, stream);
    case 96: return launch<96>(a, ranges, stream);
    case 128: return launch<128>(a, ranges, stream);
    default: return launch<tower_head_max>(a, ranges, stream);
  }
}

}  // namespace orcd::kernels
