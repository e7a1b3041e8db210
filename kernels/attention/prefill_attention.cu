// Attention of many tokens of one sequence, or of several, each in blocks of its own. A warp has two tiles of
// eight query vectors, so every key and value that it reads serves both; the sums of the current page stay in
// its registers.
//
//   queries --> shared memory, once            keys, values --> registers as operand A
//   for each page, for each of its 8 spans:    scores, softmax, weighted values, folded in registers
//   page done:                                 folded into the set's totals, shared memory, page by page
//
// All warps of a block that work on the same page read the same span at the same time, so that the first one
// brings it into L1. Where queries are few, several warps share the same two tiles and alternate in pages.
// f16 keys and values have a kernel of their own, where queries are more than a few (warpgroup_prefill.cuh).
#include <algorithm>

#include "kernels/attention/attention_dispatch.cuh"
#include "kernels/attention/prefill_parts.cuh"
#include "kernels/attention/warpgroup_prefill.cuh"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

template <std::uint32_t W>
constexpr std::uint32_t prefill_blocks = W <= 96 ? 2 : 1;  ///< of a multiprocessor

template <std::uint32_t W>
__device__ __forceinline__ bool any_sees_span(const attention_args_paged& a, const warp_place<W>& at,
                                              std::int32_t begin) {
  bool sees = sees_span(at.about_seen(a, 0), begin);
  if constexpr (warp_tiles < W >> 1) sees = sees || sees_span(at.about_seen(a, 1), begin);
  return __any_sync(0xFFFFFFFFU, sees) != 0;
}

/// grid: (kv heads, sets of queries of all chunks): the sets of all heads that see most positions begin
/// first, so that the last blocks are short.
template <std::uint32_t W, kv_type K, kv_type V>
__global__ void __launch_bounds__(prefill_threads, prefill_blocks<W>)
    prefill_kernel(const __grid_constant__ attention_args_paged a, const __grid_constant__ chunk_grid grid,
                   std::uint32_t page_workers) {
  extern __shared__ uint4 shared_bytes[];
  auto& shared = *reinterpret_cast<prefill_shared<W, prefill_warps>*>(shared_bytes);
  wait_for_previous_kernel();
  allow_next_kernel();
  const warp_place<W> at(a, chunk_place(grid), page_workers);
  const std::uint32_t sets = prefill_warps / page_workers;
  const seen_pages range(a, at.column, at.queries, at.first - at.set * warp_queries<W>,
                         sets * warp_queries<W>);
  begin_set(a, at, shared);
  __syncthreads();
  const std::int32_t slot = a.steps[at.column].slot;
#pragma unroll 1
  for (std::uint32_t page = range.first + at.worker; page <= range.last; page += page_workers) {
    const page_place place = page_of<W, K, V>(a, slot, page, blockIdx.x);
    page_sums<W> sums;
    sums.clear();
    bool seen = false;
#pragma unroll 1
    for (std::uint32_t span = 0; span < page_spans; ++span) {
      const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions + span * span_positions);
      at.sync_readers();
      if (any_sees_span(a, at, begin)) {
        const span_of_page<W, K, V> kv{place, span * span_positions};
        span_scores<W> scores;
        score_span<K>(at, kv, shared, scores);
        fold_span<V>(a, at, kv, begin, scores, shared, sums);
        seen = true;
      } else {
        sums.fold_nothing();
      }
    }
    fold_into_set(at, page - range.first, seen, shared, sums);
  }
  __syncthreads();
  store_set(a, at, shared);
}

/// The same for f16 keys and values by warpgroups; a span is brought into shared memory while the one before
/// is read.
template <std::uint32_t W, std::uint32_t Sets, std::uint32_t Workers, std::uint32_t Blocks>
__global__ void __launch_bounds__(warpgroup_shared<W, Sets, Workers>::threads, Blocks)
    warpgroup_prefill_kernel(const __grid_constant__ attention_args_paged a,
                             const __grid_constant__ chunk_grid grid) {
  using shared_memory = warpgroup_shared<W, Sets, Workers>;
  extern __shared__ uint4 shared_bytes[];
  auto& shared = *reinterpret_cast<shared_memory*>(shared_bytes);
  wait_for_previous_kernel();
  allow_next_kernel();
  const warpgroup_place at(a, chunk_place(grid), Sets, Workers);
  const seen_pages range(a, at.column, at.queries, at.first - at.set * warpgroup_queries,
                         Sets * warpgroup_queries);
  begin_warpgroup_set(a, at, shared);
  const std::uint32_t queries = shared_address_of(shared.queries[at.set]);
  const std::uint32_t spans = shared_address_of(shared.spans[at.worker][0]);
  const std::uint32_t readers_warp = at.set * warpgroup_warps + threadIdx.x % warpgroup_threads / 32;
  span_stager<W, Sets * warpgroup_warps> stager(readers_warp);
  const std::int32_t slot = a.steps[at.column].slot;
  const auto number_of = [&](std::uint32_t page) {
    return page_number(a, slot, min(page, range.last), blockIdx.x);
  };
  const auto load = [&](std::uint32_t number, std::uint32_t span) {
    stager.load(place_of<W, kv_type::f16, kv_type::f16>(a, number), span);
  };
  std::uint32_t number = number_of(range.first + at.worker);
  const std::uint32_t first_span = at.worker == 0 ? range.first_span : 0;
  load(number, first_span * span_positions);
  stager.store(spans + first_span % 2 * span_bytes<W>::whole);
  __syncthreads();
#pragma unroll 1
  for (std::uint32_t page = range.first + at.worker; page <= range.last; page += Workers) {
    const std::uint32_t next = number_of(page + Workers);
    warpgroup_sums<W> sums;
    sums.clear();
    bool seen = false;
    const std::uint32_t end = page == range.last ? range.last_span + 1 : page_spans;
#pragma unroll 1
    for (std::uint32_t span = page == range.first ? range.first_span : 0; span < end; ++span) {
      const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions + span * span_positions);
      const std::uint32_t here = spans + span % 2 * span_bytes<W>::whole;
      const bool last = span + 1 == end;
      const bool goes_on = !last || page + Workers <= range.last;
      if (goes_on) load(last ? next : number, last ? 0 : (span + 1) * span_positions);
      if (at.any_sees(begin)) {
        float scores[16];
        score_span_of_set<shared_memory>(queries, here, scores);
        fold_span_of_set<shared_memory>(a, at, here, begin, scores, sums);
        seen = true;
      } else {
        sums.fold_nothing();
      }
      if (goes_on) stager.store(spans + (span + 1) % 2 * span_bytes<W>::whole);
      named_barrier(at.worker + 1, Sets * warpgroup_threads);
    }
    if (end < page_spans) sums.fold_nothing();
    fold_page_into_set(at, page - range.first, seen, shared, sums);
    number = next;
  }
  __syncthreads();
  store_warpgroup_set(a, at, shared);
}

/// Warps that share a set: so many that at least one block and a half a multiprocessor are launched, if
/// queries are few.
std::uint32_t prefill_page_workers(std::uint32_t queries, std::uint32_t of_warp, std::uint32_t kv_heads,
                                   std::uint32_t multiprocessors) {
  std::uint32_t workers = 1;
  while (workers < prefill_warps &&
         (queries * workers + of_warp * prefill_warps - 1) / (of_warp * prefill_warps) * kv_heads <
             multiprocessors + multiprocessors / 2)
    workers *= 2;
  return workers;
}

/// Chunks of `columns` columns each, the first of which begins at `first`; a block has `per_block` queries.
chunk_grid grid_of(const std::uint32_t* columns, std::uint32_t count, std::uint32_t first,
                   std::uint32_t group, std::uint32_t per_block) {
  chunk_grid grid{};
  grid.count = count;
  grid.first_column[0] = first;
  for (std::uint32_t i = 0; i < count; ++i) {
    grid.first_column[i + 1] = grid.first_column[i] + columns[i];
    grid.first_block[i + 1] = grid.first_block[i] + (columns[i] * group + per_block - 1) / per_block;
  }
  return grid;
}

/// Calls launch(grid, number of blocks) for as many chunks at a time as a launch has.
template <class Launch>
cudaError_t with_chunks(const attention_args_paged& a, const std::uint32_t* chunks, std::uint32_t count,
                        std::uint32_t per_block, Launch launch) {
  std::uint32_t column = 0;
  for (std::uint32_t at = 0; at < count; at += grid_chunks_max) {
    const chunk_grid grid =
        grid_of(chunks + at, std::min(grid_chunks_max, count - at), column, a.heads / a.kv_heads, per_block);
    column = grid.first_column[grid.count];
    const cudaError_t status = launch(grid, dim3(a.kv_heads, grid.first_block[grid.count]));
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

template <std::uint32_t W, std::uint32_t Sets, std::uint32_t Workers, std::uint32_t Blocks>
cudaError_t launch_warpgroups(const attention_args_paged& a, const std::uint32_t* chunks, std::uint32_t count,
                              cudaStream_t stream) {
  constexpr auto* kernel = &warpgroup_prefill_kernel<W, Sets, Workers, Blocks>;
  using shared_memory = warpgroup_shared<W, Sets, Workers>;
  constexpr std::size_t bytes = sizeof(shared_memory);
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (opted_in != cudaSuccess) return opted_in;
  return with_chunks(a, chunks, count, Sets * warpgroup_queries, [&](const chunk_grid& grid, dim3 blocks) {
    return launch_dependent(kernel, blocks, dim3(shared_memory::threads), bytes, stream, a, grid);
  });
}

template <std::uint32_t W, kv_type K, kv_type V>
int launch_prefill(const attention_args_paged& a, const std::uint32_t* chunks, std::uint32_t count,
                   cudaStream_t stream) {
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  const std::uint32_t queries = a.columns * (a.heads / a.kv_heads);
  if constexpr (K == kv_type::f16 && V == kv_type::f16 && W <= narrow_head_max) {
    // Wide heads fill a multiprocessor with the registers of three warpgroups.
    constexpr std::uint32_t blocks = W <= 96 ? 2 : 1;
    constexpr std::uint32_t sets = W <= 96 ? 2 : 3;
    const auto blocks_of = [&](std::uint32_t of_block) {
      return (queries + of_block - 1) / of_block * a.kv_heads;
    };
    // One worker a set, where that gives more than a wave of blocks; two where queries are fewer; so few that
    // most multiprocessors would have none are left to single warps.
    if (2 * blocks_of(sets * warpgroup_queries) >= (blocks + 1) * multiprocessors)
      return launch_warpgroups<W, sets, 1, blocks>(a, chunks, count, stream);
    if (4 * blocks_of(warpgroup_queries) >= multiprocessors)
      return launch_warpgroups<W, 1, 2, blocks>(a, chunks, count, stream);
  }
  const std::uint32_t workers = prefill_page_workers(queries, warp_queries<W>, a.kv_heads, multiprocessors);
  constexpr std::size_t bytes = sizeof(prefill_shared<W, prefill_warps>);
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(prefill_kernel<W, K, V>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (opted_in != cudaSuccess) return opted_in;
  const std::uint32_t per_block = prefill_warps / workers * warp_queries<W>;
  return with_chunks(a, chunks, count, per_block, [&](const chunk_grid& grid, dim3 blocks) {
    return launch_dependent(prefill_kernel<W, K, V>, blocks, dim3(prefill_threads), bytes, stream, a, grid,
                            workers);
  });
}

/// Whether there is a chunk, none is empty and together they are all columns.
bool fill_columns(const std::uint32_t* chunks, std::uint32_t count, std::uint32_t columns) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (chunks[i] == 0) return false;
    sum += chunks[i];
  }
  return count > 0 && sum == columns;
}

}  // namespace

int launch_attention_prefill(const attention_args_paged& a, const std::uint32_t* chunks, std::uint32_t count,
                             CUstream_st* stream) {
  if (!valid_attention(a) || a.q == nullptr || !fill_columns(chunks, count, a.columns) ||
      (a.end != 0 && (a.window != 0 || count != 1)))
    return cudaErrorInvalidValue;
  return with_shape(a, [&]<std::uint32_t W, kv_type K, kv_type V>() {
    return launch_prefill<W, K, V>(a, chunks, count, stream);
  });
}

}  // namespace orcd::kernels
