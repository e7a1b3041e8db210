// Attention of many tokens of one sequence, or of several, each in blocks of its own. A warp has two tiles of
// eight query vectors, so every key and value that it reads serves both; the sums of the current page stay in
// its registers.
//
//   queries --> shared memory, once            keys, values --> registers as operand A
//   for each page, for each of its 8 spans:    scores, softmax, weighted values, folded in registers
//   page done:                                 folded into the set's totals, shared memory, page by page
//
// All warps of a block that work on the same page read the same span at the same time. f16 ones are brought
// into shared memory for all of them while the span before is read (staged_span.cuh); others go through L1,
// where the first warp brings them. Where queries are few, several warps share the same two tiles and
// alternate in pages.
#include <algorithm>

#include "kernels/attention/attention_dispatch.cuh"
#include "kernels/attention/prefill_parts.cuh"
#include "kernels/attention/staged_span.cuh"
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

template <std::uint32_t W>
constexpr std::uint32_t prefill_blocks = W <= 96 ? 2 : 1;  ///< of a multiprocessor

__device__ __forceinline__ bool any_sees_span(const warp_place& at, std::int32_t begin) {
  return __any_sync(0xFFFFFFFFU, sees_span(at.mine[0], begin) || sees_span(at.mine[1], begin)) != 0;
}

/// grid: (sets of queries of all chunks, kv heads).
template <std::uint32_t W, kv_type K, kv_type V>
__global__ void __launch_bounds__(prefill_threads, prefill_blocks<W>)
    prefill_kernel(const __grid_constant__ attention_args_paged a, const __grid_constant__ chunk_grid grid,
                   std::uint32_t page_workers) {
  extern __shared__ uint4 shared_bytes[];
  auto& shared = *reinterpret_cast<prefill_shared<W, prefill_warps>*>(shared_bytes);
  wait_for_previous_kernel();
  allow_next_kernel();
  const warp_place at(a, chunk_place(grid), page_workers);
  const seen_pages range(a, at);
  begin_set(a, at, shared);
  __syncthreads();
  const std::int32_t slot = a.steps[at.column].slot;
#pragma unroll 1
  for (std::uint32_t page = range.first + at.worker; page <= range.last; page += page_workers) {
    const page_place place = page_of<W, K, V>(a, slot, page, blockIdx.y);
    page_sums<W> sums;
    sums.clear();
    bool seen = false;
#pragma unroll 1
    for (std::uint32_t span = 0; span < page_spans; ++span) {
      const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions + span * span_positions);
      at.sync_readers();
      if (any_sees_span(at, begin)) {
        const span_of_page<W, K, V> kv{place, span * span_positions};
        span_scores scores;
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

/// Warps that share a set's pages, where spans are staged: more would need more memory for their spans.
constexpr std::uint32_t staged_workers_max = 2;

template <std::uint32_t W, std::uint32_t Workers>
struct staged_shared {
  alignas(128) std::byte spans[Workers][staged_spans<W>::bytes];
  prefill_shared<W, prefill_warps / Workers> sets;
};

/// The same for f16 keys and values; a span is brought into shared memory while the one before is read.
template <std::uint32_t W, std::uint32_t Workers>
__global__ void __launch_bounds__(prefill_threads, prefill_blocks<W>)
    staged_prefill_kernel(const __grid_constant__ attention_args_paged a,
                          const __grid_constant__ chunk_grid grid) {
  extern __shared__ uint4 shared_bytes[];
  auto& block = *reinterpret_cast<staged_shared<W, Workers>*>(shared_bytes);
  auto& shared = block.sets;
  wait_for_previous_kernel();
  allow_next_kernel();
  const warp_place at(a, chunk_place(grid), Workers);
  const seen_pages range(a, at);
  begin_set(a, at, shared);
  const std::uint32_t spans = shared_address_of(block.spans[at.worker]);
  span_stager<W, prefill_warps / Workers> stager(spans, at.set);
  const std::int32_t slot = a.steps[at.column].slot;
  const auto place_of = [&](std::uint32_t page) {
    return page_of<W, kv_type::f16, kv_type::f16>(a, slot, min(page, range.last), blockIdx.y);
  };
  page_place place = place_of(range.first + at.worker);
  stager.load_keys(place, 0);
  stager.store_keys(0);
  stager.load_values(place, 0);
  stager.store_values(0);
  __syncthreads();
#pragma unroll 1
  for (std::uint32_t page = range.first + at.worker; page <= range.last; page += Workers) {
    const page_place next = place_of(page + Workers);
    page_sums<W> sums;
    sums.clear();
    bool seen = false;
#pragma unroll 1
    for (std::uint32_t span = 0; span < page_spans; ++span) {
      const auto begin = static_cast<std::int32_t>(page * engine::kv_page_positions + span * span_positions);
      const std::uint32_t buffer = span % 2;
      const bool last = span + 1 == page_spans;
      const page_place& from = last ? next : place;
      const std::uint32_t from_span = last ? 0 : (span + 1) * span_positions;
      const staged_span<W> kv(spans, buffer);
      const bool sees = any_sees_span(at, begin);
      span_scores scores;
      stager.load_keys(from, from_span);
      if (sees) score_span<kv_type::f16>(at, kv, shared, scores);
      stager.store_keys(buffer ^ 1U);
      stager.load_values(from, from_span);
      if (sees)
        fold_span<kv_type::f16>(a, at, kv, begin, scores, shared, sums);
      else
        sums.fold_nothing();
      seen = seen || sees;
      stager.store_values(buffer ^ 1U);
      at.sync_readers();
    }
    fold_into_set(at, page - range.first, seen, shared, sums);
    place = next;
  }
  __syncthreads();
  store_set(a, at, shared);
}

/// Warps that share a set: so many that at least one block and a half a multiprocessor are launched, if
/// queries are few.
std::uint32_t prefill_page_workers(std::uint32_t queries, std::uint32_t kv_heads,
                                   std::uint32_t multiprocessors) {
  std::uint32_t workers = 1;
  while (workers < prefill_warps &&
         (queries * workers + warp_queries * prefill_warps - 1) / (warp_queries * prefill_warps) * kv_heads <
             multiprocessors + multiprocessors / 2)
    workers *= 2;
  return workers;
}

/// Chunks of `columns` columns each, the first of which begins at `first`.
chunk_grid grid_of(const std::uint32_t* columns, std::uint32_t count, std::uint32_t first,
                   std::uint32_t group, std::uint32_t workers) {
  const std::uint32_t per_block = prefill_warps / workers * warp_queries;
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
                        std::uint32_t workers, Launch launch) {
  std::uint32_t column = 0;
  for (std::uint32_t at = 0; at < count; at += grid_chunks_max) {
    const chunk_grid grid =
        grid_of(chunks + at, std::min(grid_chunks_max, count - at), column, a.heads / a.kv_heads, workers);
    column = grid.first_column[grid.count];
    const cudaError_t status = launch(grid, dim3(grid.first_block[grid.count], a.kv_heads));
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

template <std::uint32_t W, std::uint32_t Workers>
cudaError_t launch_staged(const attention_args_paged& a, const std::uint32_t* chunks, std::uint32_t count,
                          cudaStream_t stream) {
  constexpr std::size_t bytes = sizeof(staged_shared<W, Workers>);
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      staged_prefill_kernel<W, Workers>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (opted_in != cudaSuccess) return opted_in;
  return with_chunks(a, chunks, count, Workers, [&](const chunk_grid& grid, dim3 blocks) {
    return launch_dependent(staged_prefill_kernel<W, Workers>, blocks, dim3(prefill_threads), bytes, stream,
                            a, grid);
  });
}

template <std::uint32_t W, kv_type K, kv_type V>
int launch_prefill(const attention_args_paged& a, const std::uint32_t* chunks, std::uint32_t count,
                   cudaStream_t stream) {
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  const std::uint32_t workers =
      prefill_page_workers(a.columns * (a.heads / a.kv_heads), a.kv_heads, multiprocessors);
  if constexpr (K == kv_type::f16 && V == kv_type::f16 && W <= narrow_head_max) {
    if (workers == 1) return launch_staged<W, 1>(a, chunks, count, stream);
    if (workers <= staged_workers_max) return launch_staged<W, staged_workers_max>(a, chunks, count, stream);
  }
  constexpr std::size_t bytes = sizeof(prefill_shared<W, prefill_warps>);
  static const cudaError_t opted_in =
      cudaFuncSetAttribute(prefill_kernel<W, K, V>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (opted_in != cudaSuccess) return opted_in;
  return with_chunks(a, chunks, count, workers, [&](const chunk_grid& grid, dim3 blocks) {
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
