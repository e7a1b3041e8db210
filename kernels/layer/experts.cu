// The kernels of a mixture of experts: router, choice, sort, weighted sum.
#include <algorithm>
#include <bit>

#include "kernels/device/arrival.cuh"
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/norm_row.cuh"
#include "kernels/images/column_image.hpp"
#include "kernels/layer/expert_choice.cuh"
#include "kernels/layer/expert_weighting.cuh"
#include "kernels/layer/experts.hpp"
#include "kernels/layer/route_tile.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t row_warps = row_threads / 32;
static_assert(row_warps == 8, "route_bytes()");

struct route_shared {
  std::uint64_t barrier;
  float scratch[8];
  bool chooses;
};

/// One warp: a column's choice, once its logits are there.
__device__ __forceinline__ void choose_for(const route_args& a, const expert_groups& groups,
                                           std::uint32_t column) {
  const float* const logits = a.logits + static_cast<std::uint64_t>(column) * a.experts;
  const auto logit_at = [&](std::uint32_t e) { return __ldcg(logits + e); };
  std::int32_t* const chosen = a.chosen + column * a.used;
  float* const weights = a.weights + column * a.used;
  const bool plain = a.weighting == route_weighting::selected && a.choice_bias == nullptr &&
                     a.scale == 1.0F && groups.count == 1 && a.expert_scales == nullptr;
  if (plain)
    choose(a, logit_at, chosen, weights, [] {});
  else
    choose_and_weigh(a, groups, logit_at, chosen, weights);
}

/// grid: (blocks that share the columns, groups of at most eight experts). One warp an expert: its row of the
/// router is loaded before the input and is kept for all columns of the block. The last block to finish a
/// column chooses its experts, unless choose_kernel does. Shared memory: the norm, then the rows.
__global__ void __launch_bounds__(row_threads)
    route_kernel(const __grid_constant__ route_args a, const __grid_constant__ expert_groups from,
                 std::uint32_t group, bool last_chooses) {
  extern __shared__ __align__(16) float normed[];
  __shared__ route_shared shared;
  const std::uint32_t first = blockIdx.y * group;
  const std::uint32_t experts = min(group, a.experts - first);
  float* const rows = normed + a.width;
  const std::uint32_t row_bytes = a.width * static_cast<std::uint32_t>(sizeof(float));
  const std::uint32_t barrier = shared_address_of(&shared.barrier);
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barrier_init_done();
    barrier_expect(barrier, experts * row_bytes);
    bulk_copy(shared_address_of(rows), a.router + static_cast<std::uint64_t>(first) * a.width,
              experts * row_bytes, barrier);
  }
  const norm_weights weights(a.norm_weight, a.width);
  wait_for_previous_kernel();
  allow_next_kernel();
  for (std::uint32_t column = blockIdx.x; column < a.columns; column += gridDim.x) {
    __half* const half_row = a.normed + static_cast<std::uint64_t>(column) * padded_cols(a.width);
    const bool keeps_half = a.normed != nullptr && first == 0;
    norm_row(a.x + static_cast<std::uint64_t>(column) * a.width, a.width, padded_cols(a.width), weights,
             a.norm_eps, shared.scratch, [&](std::uint32_t i, float value) {
               if (i < a.width) normed[i] = value;
               if (keeps_half) half_row[place_of_half(a.normed_order, i)] = to_half(value);
             });
    __syncthreads();
    barrier_wait(barrier, 0);
    if (const std::uint32_t warp = threadIdx.x / 32; warp < experts) {
      float logit = logit_of(rows + warp * a.width, normed, a.width);
      if (threadIdx.x % 32 == 0) {
        if (a.bias != nullptr) logit = __fadd_rn(logit, a.bias[first + warp]);
        a.logits[static_cast<std::uint64_t>(column) * a.experts + first + warp] = logit;
      }
    }
    if (last_chooses && arrives_last(a.arrivals + column, gridDim.y, shared.chooses) && threadIdx.x < 32)
      choose_for(a, from, column);
    __syncthreads();  // before the norm and the answer are written again
  }
}

/// One warp a column.
__global__ void __launch_bounds__(row_threads)
    choose_kernel(const __grid_constant__ route_args a, const __grid_constant__ expert_groups from) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t column = blockIdx.x * row_warps + threadIdx.x / 32;
  if (column < a.columns) choose_for(a, from, column);
}

/// One warp: where each expert's pairs and tiles begin, 32 experts at a time. Returns the tiles of all.
template <class CountOf, class TilesOf>
__device__ std::int32_t number_experts(std::uint32_t experts, CountOf count_of, std::int32_t* starts,
                                       std::int32_t* first_tiles, TilesOf tiles_of) {
  constexpr std::uint32_t all = 0xFFFFFFFFU;
  const std::uint32_t lane = threadIdx.x;
  std::int32_t start = 0;
  std::int32_t tile = 0;
  for (std::uint32_t base = 0; base < experts; base += 32) {
    const std::uint32_t e = base + lane;
    const std::int32_t pairs = e < experts ? count_of(e) : 0;
    const std::int32_t tiles = tiles_of(pairs);
    std::int32_t pairs_to = pairs;
    std::int32_t tiles_to = tiles;
#pragma unroll
    for (std::uint32_t offset = 1; offset < 32; offset *= 2) {
      const std::int32_t pairs_before = __shfl_up_sync(all, pairs_to, offset);
      const std::int32_t tiles_before = __shfl_up_sync(all, tiles_to, offset);
      if (lane < offset) continue;
      pairs_to += pairs_before;
      tiles_to += tiles_before;
    }
    if (e < experts) {
      starts[e] = start + pairs_to - pairs;
      first_tiles[e] = tile + tiles_to - tiles;
    }
    start += __shfl_sync(all, pairs_to, 31);
    tile += __shfl_sync(all, tiles_to, 31);
  }
  return tile;
}

constexpr std::uint32_t sort_warps = 32;

/// One warp: walks its share of the pairs in their order. Calls use(pair, expert, n) for each, where n is
/// counts[expert] and what the walk has added to it: one for each pair of that expert.
template <class Use>
__device__ __forceinline__ void walk_pairs(const sort_experts_args& a, std::uint16_t* counts, Use use) {
  constexpr std::uint32_t all = 0xFFFFFFFFU;
  constexpr std::uint32_t ahead = 4;  // reads under way
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t share = (a.pairs + 32 * sort_warps - 1) / (32 * sort_warps) * 32;
  const std::uint32_t begin = threadIdx.x / 32 * share;
  const std::uint32_t end = min(begin + share, a.pairs);
  for (std::uint32_t base = begin; base < end; base += 32 * ahead) {
    std::int32_t chosen[ahead];
#pragma unroll
    for (std::uint32_t i = 0; i < ahead; ++i) {
      const std::uint32_t pair = base + 32 * i + lane;
      chosen[i] = pair < end ? a.chosen[pair] : -1;
    }
#pragma unroll
    for (std::uint32_t i = 0; i < ahead; ++i) {
      const std::uint32_t same = __match_any_sync(all, chosen[i]);
      const std::uint32_t before = __popc(same & ((1U << lane) - 1));
      const std::uint32_t n = chosen[i] < 0 ? 0 : counts[chosen[i]];
      __syncwarp();
      if (chosen[i] >= 0) {
        if (before == 0) counts[chosen[i]] = static_cast<std::uint16_t>(n + __popc(same));
        use(base + 32 * i + lane, chosen[i], n + before);
      }
      __syncwarp();
    }
  }
}

/// One block: each warp counts the experts of its share of the pairs, and then puts them behind those of the
/// warps before it, so that each expert's pairs keep their order. With Images, `image_tiles` are written in
/// place of a.tiles: as even as eights of columns allow.
template <bool Images>
__global__ void __launch_bounds__(sort_warps * 32) sort_kernel(sort_experts_args a, image_tile* image_tiles) {
  __shared__ std::uint16_t of_warp[sort_warps][experts_max];  // first counts, then those of the warps before
  __shared__ std::int32_t counts[experts_max];
  __shared__ std::int32_t starts[experts_max];
  __shared__ std::int32_t first_tiles[experts_max];
  __shared__ std::int32_t image_starts[Images ? experts_max : 1];
  const auto step = static_cast<std::int32_t>(a.tile_columns);
  const auto tiles_of = [&](std::int32_t n) { return (n + step - 1) / step; };
  const std::uint32_t warp = threadIdx.x / 32;
  const std::uint32_t lane = threadIdx.x % 32;
  wait_for_previous_kernel();
  allow_next_kernel();
  for (std::uint32_t e = lane; e < a.experts; e += 32) of_warp[warp][e] = 0;
  __syncwarp();
  walk_pairs(a, of_warp[warp], [](std::uint32_t, std::int32_t, std::uint32_t) {});
  __syncthreads();
  if (threadIdx.x < a.experts) {
    std::uint32_t sum = 0;
    for (std::uint32_t w = 0; w < sort_warps; ++w) {
      const std::uint32_t its = of_warp[w][threadIdx.x];
      of_warp[w][threadIdx.x] = static_cast<std::uint16_t>(sum);
      sum += its;
    }
    counts[threadIdx.x] = static_cast<std::int32_t>(sum);
  }
  __syncthreads();
  if (warp == 0) {
    if constexpr (Images) {
      const auto aligned = [&](std::uint32_t e) {
        return static_cast<std::int32_t>(image_columns(static_cast<std::uint32_t>(counts[e])));
      };
      number_experts(a.experts, aligned, image_starts, first_tiles, tiles_of);
    }
    const std::int32_t tiles = number_experts(
        a.experts, [&](std::uint32_t e) { return counts[e]; }, starts, first_tiles, tiles_of);
    if (lane == 0) *a.tile_count = tiles;
  }
  __syncthreads();
  walk_pairs(a, of_warp[warp], [&](std::uint32_t pair, std::int32_t e, std::uint32_t n) {
    a.order[starts[e] + static_cast<std::int32_t>(n)] = static_cast<std::int32_t>(pair);
  });
  for (std::uint32_t e = warp; e < a.experts; e += sort_warps) {
    const std::int32_t tiles = tiles_of(counts[e]);
    const auto even = static_cast<std::int32_t>(
        image_columns(static_cast<std::uint32_t>((counts[e] + tiles - 1) / max(tiles, 1))));
    const std::int32_t each = Images ? even : step;
    for (auto t = static_cast<std::int32_t>(lane); t < tiles; t += 32) {
      const expert_tile tile{static_cast<std::int32_t>(e), starts[e] + t * each,
                             min(each, counts[e] - t * each)};
      if constexpr (Images)
        image_tiles[first_tiles[e] + t] = {tile.expert, tile.first, tile.count, image_starts[e] + t * each};
      else
        a.tiles[first_tiles[e] + t] = tile;
    }
  }
}

__global__ void __launch_bounds__(row_threads) combine_kernel(combine_experts_args a) {
  allow_next_kernel();  // a norm follows (launch.cuh)
  wait_for_previous_kernel();
  const std::uint32_t c = blockIdx.x * row_threads + threadIdx.x;
  if (c >= a.width) return;
  const std::uint64_t m = blockIdx.y;
  float* out = a.residual + m * a.width + c;
  const float sum = combined(a.used, a.weights + m * a.used,
                             [&](std::uint32_t i) { return a.expert_out[(m * a.used + i) * a.width + c]; });
  *out = a.stores ? sum : __fadd_rn(*out, sum);
}

cudaError_t launch_choose(const route_args& a, const expert_groups& from, cudaStream_t stream) {
  return launch_dependent(choose_kernel, dim3((a.columns + row_warps - 1) / row_warps), dim3(row_threads), 0,
                          stream, a, from);
}

}  // namespace

int launch_route(const route_args& a, const expert_groups& from, CUstream_st* stream) {
  if (a.x == nullptr || a.norm_weight == nullptr || a.router == nullptr || a.logits == nullptr ||
      a.chosen == nullptr || a.weights == nullptr || a.arrivals == nullptr || a.columns == 0 ||
      !route_takes(a.width, a.experts, a.used) || !groups_take(from, a.experts, a.used))
    return cudaErrorInvalidValue;
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(route_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, route_bytes_max);
  if (opted_in != cudaSuccess) return opted_in;
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  const dim3 tiles((a.columns + logit_tile - 1) / logit_tile, (a.experts + logit_tile - 1) / logit_tile);
  if (3 * tiles.x * tiles.y >= multiprocessors) {
    const cudaError_t status = launch_dependent(logits_kernel, tiles, dim3(logit_warps * 32), 0, stream, a);
    return status != cudaSuccess ? status : launch_choose(a, from, stream);
  }
  // A block reads its rows alone, so that few columns are given to as many blocks as there are.
  std::uint32_t group = row_warps;
  while (group > 1 && a.columns * ((a.experts + group / 2 - 1) / (group / 2)) <= multiprocessors) group /= 2;
  const std::uint32_t groups = (a.experts + group - 1) / group;
  const std::uint32_t bytes = route_bytes(a.width, a.experts);
  // As many blocks as run at the same time.
  const std::uint32_t of_one = std::clamp(route_bytes_max / bytes, 1U, 2048 / row_threads);
  const std::uint32_t blocks = std::max(1U, multiprocessors * of_one / groups);
  const bool last_chooses = a.columns <= blocks;
  const cudaError_t status = launch_dependent(route_kernel, dim3(std::min(a.columns, blocks), groups),
                                              dim3(row_threads), bytes, stream, a, from, group, last_chooses);
  return status != cudaSuccess || last_chooses ? status : launch_choose(a, from, stream);
}

int launch_sort_experts(const sort_experts_args& a, CUstream_st* stream) {
  if (a.chosen == nullptr || a.order == nullptr || a.tiles == nullptr || a.tile_count == nullptr ||
      a.pairs == 0 || a.pairs > sorted_pairs_max || a.experts == 0 || a.experts > experts_max ||
      !std::has_single_bit(a.tile_columns)) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(sort_kernel<false>, dim3(1), dim3(sort_warps * 32), 0, stream, a,
                          static_cast<image_tile*>(nullptr));
}

int launch_sort_experts(const sort_experts_args& a, image_tile* tiles, CUstream_st* stream) {
  if (a.chosen == nullptr || a.order == nullptr || tiles == nullptr || a.tile_count == nullptr ||
      a.pairs == 0 || a.pairs > sorted_pairs_max || a.experts == 0 || a.experts > experts_max ||
      a.tile_columns == 0 || a.tile_columns % image_align != 0)
    return cudaErrorInvalidValue;
  return launch_dependent(sort_kernel<true>, dim3(1), dim3(sort_warps * 32), 0, stream, a, tiles);
}

int launch_combine_experts(const combine_experts_args& a, CUstream_st* stream) {
  if (a.expert_out == nullptr || a.weights == nullptr || a.residual == nullptr || a.width == 0 ||
      a.used == 0 || a.columns == 0) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(combine_kernel, dim3((a.width + row_threads - 1) / row_threads, a.columns),
                          dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
