// Decode attention of steps with drafts. Columns of one sequence in a row see nearly the same positions, and
// with few query heads of a key they fit one tile of the mma together, so that what is read serves them all.
//
//   queries, keys and values of all columns: rope_store, the kernel before
//   tile:   the queries of up to tile_columns / (heads / kv_heads) columns, token-major
//   pages:  worker w (a block) has every workers-th page of the tile; a partial result a query and page
//   last worker: folds each query's own pages left to right (attention_partials.cuh)
//
// Which columns are in a row is known on the device alone, because a graph serves every step of so many
// columns: each block finds the tiles, and takes every gridDim.x-th of them. A query's fold has the steps
// that it has in decode_attention.cuh, so the bits are the same.
#include "kernels/attention/attention_dispatch.cuh"
#include "kernels/attention/decode_attention.cuh"
#include "kernels/attention/paged_attention.hpp"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

using engine::kv_type;

/// Columns of a launch at most: tokens of a step that sample.
constexpr std::uint32_t columns_max = 256;

/// Where the tiles of a launch begin, in ascending order, and then its columns' end.
struct row_tiles {
  std::uint32_t count;
  std::uint32_t first[columns_max + 1];
};

/// One warp: a tile has up to `most` columns of one sequence, counted from the first one that it has in the
/// step.
__device__ __forceinline__ void find_tiles(const attention_args_paged& a, std::uint32_t most,
                                           row_tiles& tiles) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t count = 0;
  std::uint32_t row_first = 0;  // of the row that goes on into the next 32 columns
#pragma unroll 1
  for (std::uint32_t begin = 0; begin < a.columns; begin += 32) {
    const std::uint32_t column = begin + lane;
    const bool is_one = column < a.columns;
    const bool begins = is_one && (column == 0 || a.steps[column].slot != a.steps[column - 1].slot);
    const std::uint32_t rows = __ballot_sync(0xFFFFFFFFU, begins);
    const std::uint32_t up_to_here = rows & (0xFFFFFFFFU >> (31 - lane));
    const std::uint32_t first =
        up_to_here == 0 ? row_first : begin + 31 - __clz(static_cast<int>(up_to_here));
    const bool leads = is_one && (column - first) % most == 0;
    const std::uint32_t leaders = __ballot_sync(0xFFFFFFFFU, leads);
    if (leads) tiles.first[count + __popc(leaders & ((1U << lane) - 1))] = column;
    count += __popc(leaders);
    row_first = __shfl_sync(0xFFFFFFFFU, first, 31);
  }
  if (lane > 0) return;
  tiles.first[count] = a.columns;
  tiles.count = count;
}

/// What a block works on at a time: a tile's columns, of one kv head.
struct row_tile {
  std::uint32_t first;
  std::uint32_t columns;
  std::uint32_t group;  ///< query heads of the kv head
  std::uint32_t kv_head;
  std::uint32_t first_page;
  std::uint32_t last_page;

  __device__ __forceinline__ row_tile(const attention_args_paged& a, const row_tiles& tiles,
                                      std::uint32_t index)
      : first(tiles.first[index]),
        columns(tiles.first[index + 1] - first),
        group(a.heads / a.kv_heads),
        kv_head(blockIdx.y),
        first_page(page_range(a, a.steps[first].position).first),
        last_page(page_range(a, a.steps[first + columns - 1].position).last) {}
  [[nodiscard]] __device__ __forceinline__ std::uint32_t queries() const { return columns * group; }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t column_of(std::uint32_t query) const {
    return first + query / group;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t head_of(std::uint32_t query) const {
    return kv_head * group + query % group;
  }
  /// As decode attention's prefetching needs it.
  [[nodiscard]] __device__ __forceinline__ decode_tile as_decode_tile() const {
    return {first, kv_head, kv_head * group, queries()};
  }
};

/// The partial results of a tile's queries, where those of their columns and heads are; pages are counted
/// from the first that the tile sees.
template <std::uint32_t W>
struct row_partials {
  float* workspace;
  std::uint32_t pages;  ///< from head to head
  std::uint32_t heads;
  row_tile tile;
  const uint2* seen;  ///< [queries], first and last page, counted like the others

  [[nodiscard]] __device__ __forceinline__ float* at(std::uint32_t query, std::uint32_t page,
                                                     std::uint32_t d) const {
    const std::uint64_t row = tile.column_of(query) * heads + tile.head_of(query);
    return workspace + (row * pages + page) * (W + 2) + d;
  }
  __device__ __forceinline__ void write(std::uint32_t query, std::uint32_t page, std::uint32_t d,
                                        float2 value) const {
    *reinterpret_cast<float2*>(at(query, page, d)) = value;
  }
  [[nodiscard]] __device__ __forceinline__ float2 read(std::uint32_t query, std::uint32_t page,
                                                       std::uint32_t d) const {
    return __ldcg(reinterpret_cast<const float2*>(at(query, page, d)));
  }
  /// Folding a page that the query does not see would change the sign of a zero.
  [[nodiscard]] __device__ __forceinline__ bool folds(std::uint32_t query, std::uint32_t page) const {
    return page >= seen[query].x && page <= seen[query].y;
  }
};

template <std::uint32_t W>
struct row_shared {
  page_shared<W> page;
  alignas(16) __half q[tile_columns][W];
  pages_shared pages;
  uint2 seen[tile_columns];
  bool folds;
  row_tiles tiles;
};

/// Brings the tile's queries into shared memory, zeros for those that it lacks.
template <std::uint32_t W>
__device__ __forceinline__ void begin_tile(const attention_args_paged& a, const row_tile& tile,
                                           row_shared<W>& shared) {
  for (std::uint32_t i = threadIdx.x; i < tile_columns * W / 8; i += row_threads) {
    const std::uint32_t query = i / (W / 8);
    uint4 q{};
    if (query < tile.queries()) {
      const std::uint64_t row =
          static_cast<std::uint64_t>(tile.column_of(query)) * a.heads + tile.head_of(query);
      q = reinterpret_cast<const uint4*>(a.q + row * W)[i % (W / 8)];
    }
    reinterpret_cast<uint4*>(shared.q[query])[i % (W / 8)] = q;
  }
  if (threadIdx.x < tile.queries()) {
    const page_range seen(a, a.steps[tile.column_of(threadIdx.x)].position);
    shared.seen[threadIdx.x] = {seen.first - tile.first_page, seen.last - tile.first_page};
  }
}

/// What the lane's two columns of the accumulators see, and its query as operand B.
template <std::uint32_t W>
__device__ __forceinline__ lane_queries queries_of_lane(const attention_args_paged& a, const row_tile& tile,
                                                        const row_shared<W>& shared) {
  lane_queries mine;
  mine.q = shared.q[threadIdx.x % 32 / 4];
#pragma unroll
  for (std::uint32_t c = 0; c < 2; ++c) {
    const std::uint32_t query = 2 * (threadIdx.x % 4) + c;
    mine.position[c] = query < tile.queries() ? a.steps[tile.column_of(query)].position : -1;
    mine.first_seen[c] = first_seen(max(mine.position[c], 0), a.window);
  }
  return mine;
}

/// Calls write(query, d, state, value) for values d and d + 1 of queries that see one page, which this block
/// has.
template <std::uint32_t W, class Write>
__device__ __forceinline__ void write_only_page(std::uint32_t queries, const page_shared<W>& page,
                                                Write write) {
  for (std::uint32_t i = threadIdx.x; i < queries * W / 2; i += row_threads) {
    const std::uint32_t query = 2 * i / W;
    const std::uint32_t d = 2 * i % W;
    softmax_state state{-INFINITY, 0.0F};
    const fold_factors factors = fold_state(state, page.page[query]);
    const float2 value{page_value(page, query, d), page_value(page, query, d + 1)};
    write(query, d, state, fold_values({0.0F, 0.0F}, value, factors));
  }
}

/// The worker's pages of a tile; the last worker to arrive folds all of them and writes the result.
template <std::uint32_t W, kv_type K, kv_type V>
__device__ __forceinline__ void attend_tile(const decode_attention_args& args, const row_tile& tile,
                                            row_shared<W>& shared) {
  const attention_args_paged& a = args.attend;
  const step_token last = a.steps[tile.first + tile.columns - 1];
  const std::uint32_t pages = tile.last_page - tile.first_page + 1;
  const std::uint32_t worker = blockIdx.z;
  const std::uint32_t workers = gridDim.z;
  if (last.position < 0 || worker >= pages) return;
  begin_tile(a, tile, shared);
  __syncthreads();
  const lane_queries mine = queries_of_lane(a, tile, shared);
  const row_partials<W> partials{args.partials, a.cache.pages_per_slot, a.heads, tile, shared.seen};
  const score_form form{a.scale, a.softcap};
  const std::uint32_t span = threadIdx.x / 32 * span_positions;
#pragma unroll 1
  for (std::uint32_t page = tile.first_page + worker; page <= tile.last_page; page += workers) {
    const std::uint32_t later = page + args.pages_asked * workers;
    if (args.pages_asked > 0 && later <= tile.last_page)
      prefetch_next<W, K, V>(a, tile.as_decode_tile(), last, later);
    const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions + span);
    const page_place place = page_of<W, K, V>(a, last.slot, page, tile.kv_head);
    span_in_memory<W, K, V> kv(place.keys, place.values, span);
    attend_span<W, K, V>(kv, begin, form, mine, shared.page);
    fold_page(shared.page);
    if (pages == 1) break;
    write_partial(tile.queries(), page - tile.first_page, partials, shared.page);
    sync_row_threads();
  }
  const auto write = [&](std::uint32_t query, std::uint32_t d, const softmax_state& state, float2 value) {
    if (d >= a.width) return;
    const std::uint32_t head = tile.head_of(query);
    __half* const out = a.out + static_cast<std::uint64_t>(tile.column_of(query)) * a.out_stride;
    const float factor = output_factor(state, a.sinks, head);
    *reinterpret_cast<__half2*>(out + head * a.width + d) = {to_half(__fmul_rn(value.x, factor)),
                                                             to_half(__fmul_rn(value.y, factor))};
  };
  if (pages == 1) return write_only_page(tile.queries(), shared.page, write);
  std::uint32_t* const arrivals = args.arrivals + tile.first * a.heads + tile.head_of(0);
  if (!arrives_last(arrivals, min(workers, pages), shared.folds)) return;
  fold_pages<W>(tile.queries(), pages, partials, reinterpret_cast<float2*>(shared.page.values), shared.pages,
                write);
}

/// Blocks of a multiprocessor.
template <std::uint32_t W>
constexpr std::uint32_t row_blocks = W <= 64 ? 3 : 4;

/// grid: (as many blocks as share the tiles, kv heads, page workers).
template <std::uint32_t W, kv_type K, kv_type V>
__global__ void __launch_bounds__(row_threads, row_blocks<W>)
    row_kernel(const __grid_constant__ decode_attention_args args) {
  __shared__ row_shared<W> shared;
  const attention_args_paged& a = args.attend;
  if (threadIdx.x < 32) find_tiles(a, tile_columns / (a.heads / a.kv_heads), shared.tiles);
  __syncthreads();
  if (blockIdx.x < shared.tiles.count) {
    // The step's own positions may be prefetched as they were: what is written to them is written in L2.
    const row_tile tile(a, shared.tiles, blockIdx.x);
    prefetch_pages<W, K, V>(a, tile.as_decode_tile(), a.steps[tile.first + tile.columns - 1], blockIdx.z,
                            gridDim.z, args.pages_asked, threadIdx.x, row_threads);
  }
  wait_for_previous_kernel();
  allow_next_kernel();
#pragma unroll 1
  for (std::uint32_t index = blockIdx.x; index < shared.tiles.count; index += gridDim.x) {
    attend_tile<W, K, V>(args, row_tile(a, shared.tiles, index), shared);
    __syncthreads();
  }
}

template <std::uint32_t W, kv_type K, kv_type V>
int launch_rows(decode_attention_args args, cudaStream_t stream) {
  if constexpr (W > narrow_head_max) {
    return cudaErrorInvalidValue;
  } else {
    const attention_args_paged& a = args.attend;
    std::uint32_t multiprocessors = 0;
    if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess)
      return status;
    // Blocks for as few tiles as there can be, and workers that fill the device with them.
    const std::uint32_t most = tile_columns / (a.heads / a.kv_heads);
    const std::uint32_t tiles = (a.columns + most - 1) / most;
    const dim3 grid(tiles, a.kv_heads, decode_page_workers(a, tiles, 4 * multiprocessors));
    args.pages_asked =
        pages_to_ask<W, K, V>(grid.x * grid.y * grid.z, 4 * multiprocessors, row_blocks<W> * multiprocessors);
    return launch_dependent(row_kernel<W, K, V>, grid, dim3(row_threads), 0, stream, args);
  }
}

}  // namespace

bool rows_share(const attention_args_paged& a) {
  return a.heads / a.kv_heads <= tile_columns / 2 && a.padded_width <= narrow_head_max;
}

int launch_attention_rows(const decode_attention_args& a, CUstream_st* stream) {
  if (!valid_attention(a.attend) || a.attend.q == nullptr || a.partials == nullptr || a.arrivals == nullptr ||
      !a.stored || a.attend.columns > columns_max || !rows_share(a.attend))
    return cudaErrorInvalidValue;
  return with_shape(a.attend,
                    [&]<std::uint32_t W, kv_type K, kv_type V>() { return launch_rows<W, K, V>(a, stream); });
}

}  // namespace orcd::kernels
