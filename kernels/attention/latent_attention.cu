// Latent attention. A block has a token and 16 or 32 of its heads, and all or some of its pages:
//
//   queries --> shared memory, once             rows: VRAM --> shared memory, 64 at a time, one chunk ahead
//   for each chunk:  scores        each warp 8 positions, all heads          mma: heads x positions
//                    softmax       eight threads a head                      scores, probabilities: shared
//                    values        each warp up to 64 dimensions, all heads  mma: heads x dimensions, in
//                                                                            registers
//   page done:       folded into totals in registers;
//                    or, where blocks share a token's pages, written out, and the last block to arrive
//                    folds all pages
//
// So every row is read once for all heads of the block, for its scores and its values.
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/attention/latent_attention.hpp"
#include "kernels/attention/paged_attention.cuh"
#include "kernels/device/arrival.cuh"
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/matrices.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t warps = 8;
constexpr std::uint32_t threads = 32 * warps;
constexpr std::uint32_t chunk_positions = 64;
constexpr std::uint32_t page_chunks = engine::kv_page_positions / chunk_positions;
constexpr std::uint32_t row_pad = 8;  ///< halves behind a row: neighbours lie in other banks
constexpr std::uint32_t probability_stride = chunk_positions + 8;
constexpr std::uint32_t score_stride = chunk_positions + 4;
constexpr std::uint32_t groups_max = latent_rank_max / 16 / warps;  ///< of 16 dimensions, of a warp
constexpr std::uint32_t fold_pages = 32;  ///< whose factors lie in shared memory at a time
static_assert(threads == row_threads && fold_pages * sizeof(fold_factors) <= score_stride * sizeof(float));

/// Shared memory of a block with `Tiles` times 16 heads.
template <std::uint32_t Tiles>
struct block_memory {
  static constexpr std::uint32_t heads = 16 * Tiles;

  /// Halves of rows are 16 bytes off a multiple of 32, so that the eight rows of an ldmatrix are apart.
  __device__ block_memory(uint4* bytes, std::uint32_t width)
      : stride(width + row_pad),
        queries(reinterpret_cast<__half*>(bytes)),
        rows(queries + heads * stride),
        probabilities(rows + 2 * chunk_positions * stride),
        scores(reinterpret_cast<float*>(probabilities + heads * probability_stride)),
        page(reinterpret_cast<softmax_state*>(scores + heads * score_stride)),
        total(page + heads),
        keep(reinterpret_cast<float*>(total + heads)) {}
  [[nodiscard]] static constexpr std::size_t bytes(std::uint32_t width) {
    return (std::size_t{heads} + 2 * chunk_positions) * (width + row_pad) * 2 +
           heads * probability_stride * std::size_t{2} + heads * score_stride * sizeof(float) +
           heads * (2 * sizeof(softmax_state) + sizeof(float));
  }

  std::uint32_t stride;
  __half* queries;        ///< [heads][stride]
  __half* rows;           ///< [2][chunk_positions][stride]
  __half* probabilities;  ///< [heads][probability_stride]
  float* scores;          ///< [heads][score_stride]
  softmax_state* page;    ///< [heads]
  softmax_state* total;   ///< [heads]
  float* keep;            ///< [heads], what the last chunk scales earlier sums by
};

/// A block's token, its heads and its share of the token's pages, every `workers`-th; chunks are counted
/// through all of them.
struct block_work {
  std::uint32_t column, first_head, heads;
  std::uint32_t worker, workers;
  std::uint32_t pages;   ///< of the token
  std::uint32_t chunks;  ///< of the block
  step_token step;

  __device__ block_work(const latent_attention_args& a, std::uint32_t block_heads)
      : column(blockIdx.x),
        first_head(blockIdx.y * block_heads),
        heads(min(block_heads, a.heads - first_head)),
        worker(blockIdx.z),
        workers(gridDim.z),
        pages(0),
        chunks(0),
        step(a.steps[blockIdx.x]) {
    if (step.position < 0) return;
    const auto position = static_cast<std::uint32_t>(step.position);
    pages = position / engine::kv_page_positions + 1;
    const std::uint32_t own = worker < pages ? (pages - worker - 1) / workers + 1 : 0;
    if (own == 0) return;
    const bool has_last = (pages - 1) % workers == worker;
    const std::uint32_t unseen = page_chunks - 1 - position % engine::kv_page_positions / chunk_positions;
    chunks = own * page_chunks - (has_last ? unseen : 0);
  }
  [[nodiscard]] __device__ std::uint32_t page_of(std::uint32_t chunk) const {
    return worker + chunk / page_chunks * workers;
  }
  [[nodiscard]] __device__ std::int32_t first_position(std::uint32_t chunk) const {
    return static_cast<std::int32_t>(page_of(chunk) * engine::kv_page_positions +
                                     chunk % page_chunks * chunk_positions);
  }
  [[nodiscard]] __device__ bool ends_page(std::uint32_t chunk) const {
    return chunk % page_chunks == page_chunks - 1 || chunk + 1 == chunks;
  }
  [[nodiscard]] __device__ std::uint64_t pair(std::uint32_t head, std::uint32_t all) const {
    return static_cast<std::uint64_t>(column) * all + first_head + head;
  }
};

/// Sums of weighted values: rows g and g + 8 of each tile of heads, dimensions of the warp's groups.
template <std::uint32_t Tiles>
using value_sums = float[Tiles][groups_max][2][4];

template <std::uint32_t Tiles>
__device__ void clear(value_sums<Tiles>& sums) {
#pragma unroll
  for (std::uint32_t i = 0; i < Tiles * groups_max * 8; ++i)
    sums[i / (groups_max * 8)][i / 8 % groups_max][i / 4 % 2][i % 4] = 0.0F;
}

/// Calls f(tile, group, half, i, head, dimension) for every value of the warp that the rank has.
template <std::uint32_t Tiles, class F>
__device__ __forceinline__ void for_each_value(std::uint32_t rank, F f) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t group = 0; group < groups_max; ++group) {
    const std::uint32_t first = (threadIdx.x / 32 + group * warps) * 16;
    if (first >= rank) continue;
#pragma unroll
    for (std::uint32_t tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (std::uint32_t i = 0; i < 8; ++i)
        f(tile, group, i / 4, i % 4, tile * 16 + lane / 4 + i % 4 / 2 * 8,
          first + i / 4 * 8 + lane % 4 * 2 + i % 2);
    }
  }
}

template <std::uint32_t Tiles>
__device__ void load_queries(const latent_attention_args& a, const block_work& work, std::uint32_t width,
                             const block_memory<Tiles>& memory) {
  for (std::uint32_t i = threadIdx.x; i < memory.heads * width; i += threads) {
    const std::uint32_t head = i / width;
    const std::uint32_t d = i % width;
    __half value = __float2half_rn(0.0F);
    if (head < work.heads) {
      const std::uint64_t pair = work.pair(head, a.heads);
      value = d < a.rank ? to_half(a.latent_q[pair * a.rank + d])
                         : a.rotated_q[pair * (width - a.rank) + d - a.rank];
    }
    memory.queries[head * memory.stride + d] = value;
  }
  if (threadIdx.x < memory.heads) memory.page[threadIdx.x] = memory.total[threadIdx.x] = {-INFINITY, 0.0F};
}

/// Begins to copy a chunk's rows into one of the two places.
template <std::uint32_t Tiles>
__device__ void fetch(const latent_attention_args& a, const block_work& work, std::uint32_t width,
                      std::uint32_t chunk, const block_memory<Tiles>& memory) {
  const std::int32_t id =
      a.cache.page_table[static_cast<std::uint32_t>(work.step.slot) * a.cache.pages_per_slot +
                         work.page_of(chunk)];
  const __half* const from = a.cache.rows + (static_cast<std::uint64_t>(id) * engine::kv_page_positions +
                                             chunk % page_chunks * chunk_positions) *
                                                width;
  __half* const to = memory.rows + chunk % 2 * chunk_positions * memory.stride;
  const std::uint32_t words = width / 8;
  for (std::uint32_t i = threadIdx.x; i < chunk_positions * words; i += threads) {
    copy_16(shared_address_of(to + i / words * memory.stride + i % words * 8), from + std::uint64_t{i} * 8);
  }
}

/// Each warp: scores of eight positions, masked.
template <std::uint32_t Tiles>
__device__ void score_chunk(const latent_attention_args& a, const block_work& work, std::uint32_t width,
                            std::uint32_t chunk, const block_memory<Tiles>& memory) {
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t warp = threadIdx.x / 32;
  const __half* const rows = memory.rows + chunk % 2 * chunk_positions * memory.stride;
  const __half* const keys = rows + (warp * 8 + lane % 8) * memory.stride + lane / 8 * 8;
  const __half* const queries = memory.queries + lane % 16 * memory.stride + lane / 16 * 8;
  float sums[Tiles][4] = {};
  for (std::uint32_t k = 0; k < width; k += 32) {
    std::uint32_t b[4];
    load_matrices(b, shared_address_of(keys + k));
#pragma unroll
    for (std::uint32_t tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (std::uint32_t half = 0; half < 2; ++half) {
        std::uint32_t q[4];
        load_matrices(q, shared_address_of(queries + tile * 16 * memory.stride + k + half * 16));
        mma_16x8x16(sums[tile], q, b[2 * half], b[2 * half + 1]);
      }
    }
  }
  const std::uint32_t first = warp * 8 + lane % 4 * 2;
  const std::int32_t position = work.first_position(chunk) + static_cast<std::int32_t>(first);
  const float factor = score_form{a.scale, 0.0F}.factor();
#pragma unroll
  for (std::uint32_t tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      const bool seen = position + static_cast<std::int32_t>(i % 2) <= work.step.position;
      memory.scores[(tile * 16 + lane / 4 + i / 2 * 8) * score_stride + first + i % 2] =
          seen ? __fmul_rn(sums[tile][i], factor) : -INFINITY;
    }
  }
}

/// Eight threads a head: probabilities of the chunk, and the page's state with it.
template <std::uint32_t Tiles>
__device__ void weigh_chunk(const block_memory<Tiles>& memory) {
  const std::uint32_t head = threadIdx.x / 8;
  const std::uint32_t part = threadIdx.x % 8;
  if (head >= memory.heads) return;  // whole warps
  const softmax_state before = memory.page[head];
  float score[8];
  float maximum = before.maximum;
#pragma unroll
  for (std::uint32_t i = 0; i < 8; ++i) {
    score[i] = memory.scores[head * score_stride + part * 8 + i];
    maximum = fmaxf(maximum, score[i]);
  }
#pragma unroll
  for (std::uint32_t offset = 1; offset < 8; offset *= 2)
    maximum = fmaxf(maximum, __shfl_xor_sync(0xFFFFFFFFU, maximum, offset));
  const float finite = finite_maximum(maximum);
  float sum = 0.0F;
#pragma unroll
  for (std::uint32_t i = 0; i < 8; ++i) {
    const float p = exp2_of(__fsub_rn(score[i], finite));
    sum = __fadd_rn(sum, p);
    memory.probabilities[head * probability_stride + part * 8 + i] = __float2half_rn(p);
  }
#pragma unroll
  for (std::uint32_t offset = 1; offset < 8; offset *= 2)
    sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, offset));
  if (part != 0) return;
  const float keep = exp2_of(__fsub_rn(before.maximum, finite));
  memory.keep[head] = keep;
  memory.page[head] = {maximum, __fmaf_rn(before.sum, keep, sum)};
}

/// Each warp: adds the chunk's weighted values of its dimensions to the page's.
template <std::uint32_t Tiles>
__device__ void add_values(std::uint32_t rank, std::uint32_t chunk, const block_memory<Tiles>& memory,
                           value_sums<Tiles>& sums) {
  const std::uint32_t lane = threadIdx.x % 32;
  const __half* const rows = memory.rows + chunk % 2 * chunk_positions * memory.stride;
  for_each_value<Tiles>(rank, [&](auto tile, auto group, auto half, auto i, auto head, auto) {
    sums[tile][group][half][i] = __fmul_rn(sums[tile][group][half][i], memory.keep[head]);
  });
#pragma unroll
  for (std::uint32_t k = 0; k < chunk_positions; k += 16) {
    std::uint32_t p[Tiles][4];
#pragma unroll
    for (std::uint32_t tile = 0; tile < Tiles; ++tile)
      load_matrices(
          p[tile], shared_address_of(memory.probabilities + (tile * 16 + lane % 16) * probability_stride + k +
                                     lane / 16 * 8));
#pragma unroll
    for (std::uint32_t group = 0; group < groups_max; ++group) {
      const std::uint32_t first = (threadIdx.x / 32 + group * warps) * 16;
      if (first >= rank) continue;
      std::uint32_t v[4];
      load_transposed(v, shared_address_of(rows + (k + lane % 16) * memory.stride + first + lane / 16 * 8));
#pragma unroll
      for (std::uint32_t tile = 0; tile < Tiles; ++tile) {
        mma_16x8x16(sums[tile][group][0], p[tile], v[0], v[1]);
        mma_16x8x16(sums[tile][group][1], p[tile], v[2], v[3]);
      }
    }
  }
}

/// Folds the page into the totals, in registers and, of the states, in shared memory.
template <std::uint32_t Tiles>
__device__ void fold_page(std::uint32_t rank, const block_memory<Tiles>& memory, value_sums<Tiles>& sums,
                          value_sums<Tiles>& totals) {
  fold_factors factors[Tiles][2];
#pragma unroll
  for (std::uint32_t i = 0; i < 2 * Tiles; ++i) {
    const std::uint32_t head = i / 2 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
    softmax_state state = memory.total[head];
    factors[i / 2][i % 2] = fold_state(state, memory.page[head]);
  }
  for_each_value<Tiles>(rank, [&](auto tile, auto group, auto half, auto i, auto, auto) {
    totals[tile][group][half][i] =
        fold_value(totals[tile][group][half][i], sums[tile][group][half][i], factors[tile][i / 2]);
  });
  __syncthreads();
  if (threadIdx.x < memory.heads) {
    softmax_state state = memory.total[threadIdx.x];
    fold_state(state, memory.page[threadIdx.x]);
    memory.total[threadIdx.x] = state;
  }
}

/// Where the page's result of a head lies: its values, then its state.
__device__ inline float* partial_of(const latent_attention_args& a, const block_work& work,
                                    std::uint32_t page, std::uint32_t head) {
  const std::uint64_t at =
      (static_cast<std::uint64_t>(work.column) * a.cache.pages_per_slot + page) * a.heads + work.first_head +
      head;
  return a.partials + at * (a.rank + 2);
}

template <std::uint32_t Tiles>
__device__ void write_page(const latent_attention_args& a, const block_work& work, std::uint32_t page,
                           const block_memory<Tiles>& memory, const value_sums<Tiles>& sums) {
  for_each_value<Tiles>(a.rank, [&](auto tile, auto group, auto half, auto i, auto head, auto d) {
    if (head < work.heads) partial_of(a, work, page, head)[d] = sums[tile][group][half][i];
  });
  if (threadIdx.x < work.heads) {
    float* const state = partial_of(a, work, page, threadIdx.x) + a.rank;
    state[0] = memory.page[threadIdx.x].maximum;
    state[1] = memory.page[threadIdx.x].sum;
  }
}

__device__ inline void store_value(const latent_attention_args& a, const block_work& work, std::uint32_t head,
                                   std::uint32_t d, const softmax_state& state, float value) {
  if (head >= work.heads) return;
  a.out[work.pair(head, a.heads) * a.out_stride + d] =
      to_half(__fmul_rn(value, output_factor(state, nullptr, head)));
}

/// The last block of a token: folds all of its pages, as fold_page() does. Totals lie where rows were.
template <std::uint32_t Tiles>
__device__ void fold_pages_of_all(const latent_attention_args& a, const block_work& work,
                                  const block_memory<Tiles>& memory) {
  auto* const totals = reinterpret_cast<float*>(memory.rows);
  auto* const factors = reinterpret_cast<fold_factors*>(memory.scores);  // [fold_pages][heads]
  const std::uint32_t values = work.heads * a.rank;
  for (std::uint32_t i = threadIdx.x; i < values; i += threads) totals[i] = 0.0F;
  softmax_state state{-INFINITY, 0.0F};
  for (std::uint32_t first = 0; first < work.pages; first += fold_pages) {
    const std::uint32_t count = min(fold_pages, work.pages - first);
    __syncthreads();
    if (threadIdx.x < work.heads) {
      for (std::uint32_t p = 0; p < count; ++p) {
        const float* const added = partial_of(a, work, first + p, threadIdx.x) + a.rank;
        factors[p * memory.heads + threadIdx.x] = fold_state(state, {__ldcg(added), __ldcg(added + 1)});
      }
      memory.total[threadIdx.x] = state;
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < values; i += threads) {
      const std::uint32_t head = i / a.rank;
      float total = totals[i];
#pragma unroll 4
      for (std::uint32_t p = 0; p < count; ++p)
        total = fold_value(total, __ldcg(partial_of(a, work, first + p, head) + i % a.rank),
                           factors[p * memory.heads + head]);
      totals[i] = total;
    }
  }
  for (std::uint32_t i = threadIdx.x; i < values; i += threads)
    store_value(a, work, i / a.rank, i % a.rank, memory.total[i / a.rank], totals[i]);
}

/// grid: (columns, heads / (16 * Tiles), rounded up; page workers).
template <std::uint32_t Tiles>
__global__ void __launch_bounds__(threads, 1) latent_kernel(const __grid_constant__ latent_attention_args a) {
  extern __shared__ uint4 shared_bytes[];
  __shared__ bool is_last;
  const std::uint32_t width = padded_latent_row(a.rank, a.rotated);
  const block_memory<Tiles> memory(shared_bytes, width);
  wait_for_previous_kernel();
  allow_next_kernel();
  const block_work work(a, memory.heads);
  if (work.step.position < 0) return;
  if (work.chunks > 0) fetch(a, work, width, 0, memory);
  asm volatile("cp.async.commit_group;" ::: "memory");
  load_queries(a, work, width, memory);
  value_sums<Tiles> sums;
  value_sums<Tiles> totals;
  clear<Tiles>(sums);
  clear<Tiles>(totals);
  for (std::uint32_t chunk = 0; chunk < work.chunks; ++chunk) {
    if (chunk + 1 < work.chunks) fetch(a, work, width, chunk + 1, memory);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    score_chunk(a, work, width, chunk, memory);
    __syncthreads();
    weigh_chunk(memory);
    __syncthreads();
    add_values<Tiles>(a.rank, chunk, memory, sums);
    if (work.ends_page(chunk)) {
      if (work.workers == 1)
        fold_page<Tiles>(a.rank, memory, sums, totals);
      else
        write_page<Tiles>(a, work, work.page_of(chunk), memory, sums);
      clear<Tiles>(sums);
      __syncthreads();
      if (threadIdx.x < memory.heads) memory.page[threadIdx.x] = {-INFINITY, 0.0F};
    }
    __syncthreads();
  }
  if (work.workers > 1) {
    if (arrives_last(a.arrivals + static_cast<std::uint64_t>(work.column) * a.heads + blockIdx.y,
                     work.workers, is_last))
      fold_pages_of_all(a, work, memory);
    return;
  }
  for_each_value<Tiles>(a.rank, [&](auto tile, auto group, auto half, auto i, auto head, auto d) {
    store_value(a, work, head, d, memory.total[head], totals[tile][group][half][i]);
  });
}

template <std::uint32_t Tiles>
int launch(const latent_attention_args& a, cudaStream_t stream) {
  const std::size_t bytes = block_memory<Tiles>::bytes(padded_latent_row(a.rank, a.rotated));
  constexpr std::size_t most =
      block_memory<Tiles>::bytes(padded_latent_row(latent_rank_max, latent_rotated_max));
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(latent_kernel<Tiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (opted_in != cudaSuccess) return opted_in;
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  const std::uint32_t groups = (a.heads + 16 * Tiles - 1) / (16 * Tiles);
  const std::uint32_t wanted = a.spread ? multiprocessors / (a.columns * groups) : 1;
  const std::uint32_t workers = std::clamp(wanted, 1U, a.cache.pages_per_slot);
  return launch_dependent(latent_kernel<Tiles>, dim3(a.columns, groups, workers), dim3(threads), bytes,
                          stream, a);
}

}  // namespace

int launch_latent_attention(const latent_attention_args& a, CUstream_st* stream) {
  if (a.latent_q == nullptr || a.rotated_q == nullptr || a.steps == nullptr || a.columns == 0 ||
      a.heads == 0 || a.rank == 0 || a.rank % latent_rank_step != 0 || a.rank > latent_rank_max ||
      a.rotated == 0 || a.rotated % 2 != 0 || a.rotated > latent_rotated_max || a.out == nullptr ||
      a.out_stride < a.rank || a.cache.rows == nullptr || a.cache.page_table == nullptr ||
      a.cache.pages_per_slot == 0 || (a.spread && (a.partials == nullptr || a.arrivals == nullptr)))
    return cudaErrorInvalidValue;
  return a.heads <= 16 ? launch<1>(a, stream) : launch<2>(a, stream);
}

}  // namespace orcd::kernels
