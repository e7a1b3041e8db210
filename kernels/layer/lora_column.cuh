// LoRA adapters of columns of different slots (decode steps): a cluster of blocks does a column in one
// kernel. Its blocks make some values of A x each and send them to all of the cluster, then add B to some
// values of y.
#pragma once

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/layer/lora_parts.cuh"

namespace orcd::kernels::lora_parts {

constexpr std::uint32_t cluster_blocks = 8;
constexpr std::uint32_t cluster_threads = 512;
constexpr std::uint32_t cluster_groups = cluster_threads / threads;  ///< of a block; one makes a value of A x
constexpr std::uint32_t cluster_shared_max = 40 * 1024;              ///< bytes of A x of a column

/// A group of a block waits for itself; barrier 0 is __syncthreads().
__device__ __forceinline__ void sync_group(std::uint32_t group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(threads) : "memory");
}
/// Writes into the shared memory of a block of the cluster; seen there after cluster_meets().
__device__ __forceinline__ void store_in_block(const float* to, std::uint32_t block, float value) {
  const std::uint32_t there = address_in_block(shared_address_of(to), block);
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
}
__device__ __forceinline__ void cluster_meets() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// One value of A x by the group, as multiply_rows() makes it; all threads get it. `parity` alternates.
__device__ __forceinline__ float multiply_row(const lora_add_args& a, const float* row, std::uint32_t column,
                                              bool aligned, float (&sums)[2][cluster_groups][warps],
                                              std::uint32_t parity) {
  const std::uint32_t group = threadIdx.x / threads;
  const std::uint32_t thread = threadIdx.x % threads;
  constexpr std::uint32_t together = 4;  // loads under way
  float sum = 0.0F;
  for (std::uint32_t first = 4 * thread; first < a.in; first += 4 * threads * together) {
    four weights[together];
    four x[together];
#pragma unroll
    for (std::uint32_t i = 0; i < together; ++i) {
      const std::uint32_t c = first + 4 * threads * i;
      if (c < a.in) {
        weights[i] = load_four(row + c);
        x[i] = load_x(a, column, c, aligned);
      }
    }
#pragma unroll
    for (std::uint32_t i = 0; i < together; ++i) {
      if (first + 4 * threads * i >= a.in) break;
#pragma unroll
      for (std::uint32_t v = 0; v < 4; ++v) sum = fmaf(weights[i].v[v], x[i].v[v], sum);
    }
  }
  sum = warp_sum(sum);
  if (thread % 32 == 0) sums[parity][group][thread / 32] = sum;
  sync_group(group);
  float all = 0.0F;
#pragma unroll
  for (std::uint32_t w = 0; w < warps; ++w) all += sums[parity][group][w];
  return all;
}

/// A x of the column for all matrices and adapters, by all groups of the cluster: into `inner` of each block,
/// [matrices][lora_adapters_max][rank_max]. With `prefetch` its rows of A are prefetched, and nothing else.
__device__ __forceinline__ void multiply_column(const lora_add_args& a, const lora_slot& slot,
                                                std::uint32_t column, bool aligned, bool prefetch,
                                                float* inner) {
  __shared__ float sums[2][cluster_groups][warps];
  const std::uint32_t group = threadIdx.x / threads;
  const std::uint32_t thread = threadIdx.x % threads;
  const std::uint32_t each = static_cast<std::uint32_t>(slot.count) * a.rank_max;
  std::uint32_t parity = 0;
  for (std::uint32_t item = cluster_rank() * cluster_groups + group; item < a.count * each;
       item += cluster_blocks * cluster_groups) {
    const lora_matrix& matrix = a.matrices[item / each];
    const std::uint32_t n = item % each / a.rank_max;
    const std::uint32_t r = item % a.rank_max;
    const std::int32_t adapter = slot.uses[n].adapter;
    if (r >= static_cast<std::uint32_t>(held_of(a.tables, adapter, matrix.place).rank)) continue;
    const float* row = room_of(a.tables, adapter) + matrix.a_at + r * lora_stride(a.in);
    if (prefetch) {
      // Eight values are a sector.
      for (std::uint32_t c = 8 * thread; c < a.in; c += 8 * threads) prefetch_sector(row + c);
      continue;
    }
    const float value = multiply_row(a, row, column, aligned, sums, parity);
    parity ^= 1;
    const std::uint32_t at = (item / each * lora_adapters_max + n) * a.rank_max + r;
    if (thread < cluster_blocks) store_in_block(inner + at, thread, value);
  }
}

/// Values of the column's row of y from `at` on, with what the slot's adapters have there.
template <std::uint32_t Values>
__device__ __forceinline__ void column_sums(const lora_add_args& a, const lora_slot& slot, const float* row,
                                            std::uint32_t at, const float* inner, float (&y)[1][Values]) {
  load_values(row + at, y[0]);
  for (std::uint32_t m = 0; m < a.count; ++m) {
    const lora_matrix& matrix = a.matrices[m];
    if (at < matrix.y_at || at - matrix.y_at >= matrix.out) continue;
    for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n) {
      const float* const of_adapter[1] = {inner + (m * lora_adapters_max + n) * a.rank_max};
      add_adapter_rows<Values, 1>(a.tables, matrix, at - matrix.y_at, slot.uses[n], of_adapter, y);
    }
  }
}

/// Adds B to the values that the thread has of the column.
template <std::uint32_t Values>
__device__ __forceinline__ void add_to_column(const lora_add_args& a, const lora_slot& slot,
                                              std::uint32_t column, std::uint32_t first, const float* inner) {
  float* const row = a.y + static_cast<std::uint64_t>(column) * a.y_stride;
  for (std::uint32_t m = 0; m < a.count; ++m) {
    const lora_matrix& matrix = a.matrices[m];
    for (std::uint32_t i = first; i < matrix.out; i += cluster_blocks * cluster_threads * Values) {
      float y[1][Values];
      column_sums<Values>(a, slot, row, matrix.y_at + i, inner, y);
      if constexpr (Values == 4) {
        *reinterpret_cast<float4*>(row + matrix.y_at + i) = make_float4(y[0][0], y[0][1], y[0][2], y[0][3]);
      } else {
        row[matrix.y_at + i] = y[0][0];
      }
    }
  }
}

/// The same of gate and up, activated.
template <std::uint32_t Values>
__device__ __forceinline__ void activate_column(const lora_add_args& a, const lora_slot& slot,
                                                std::uint32_t column, std::uint32_t first,
                                                const float* inner) {
  const float* const row = a.y + static_cast<std::uint64_t>(column) * a.y_stride;
  __half* const act = a.gated.act + static_cast<std::uint64_t>(column) * a.gated.act_stride;
  for (std::uint32_t i = first; i < a.gated.width; i += cluster_blocks * cluster_threads * Values) {
    float gate[1][Values];
    float up[1][Values];
    column_sums<Values>(a, slot, row, i, inner, gate);
    column_sums<Values>(a, slot, row, a.gated.width + i, inner, up);
#pragma unroll
    for (std::uint32_t v = 0; v < Values; ++v) {
      const float g = gate[0][v];
      const float u = up[0][v];
      act[i + v] = to_half(a.gated.clamped ? swiglu_clamped(g, u) : silu(g) * u);
    }
  }
}

/// grid: clusters, one a column. The warps of a column's blocks take turns in y.
template <std::uint32_t Values>
__global__ void __launch_bounds__(cluster_threads) lora_column_kernel(lora_add_args a, bool aligned) {
  extern __shared__ float inner[];
  cluster_arrives();
  const std::uint32_t column = blockIdx.x / cluster_blocks;
  const std::uint32_t warp = threadIdx.x / 32 * cluster_blocks + cluster_rank();
  const std::uint32_t first = (warp * 32 + threadIdx.x % 32) * Values;
  const lora_slot& slot = slot_of(a.of, column);
  multiply_column(a, slot, column, aligned, true, inner);
  for (std::uint32_t m = 0; m < a.count; ++m) prefetch_ranks<Values>(a, a.matrices[m], column, first);
  wait_for_previous_kernel();
  allow_next_kernel();
  __syncwarp();  // lanes part where they prefetch
  cluster_begins();
  multiply_column(a, slot, column, aligned, false, inner);
  cluster_meets();
  if (a.gated.act != nullptr) {
    activate_column<Values>(a, slot, column, first, inner);
  } else if (slot.count > 0) {
    add_to_column<Values>(a, slot, column, first, inner);
  }
}

/// Bytes of A x of a column.
inline std::uint64_t column_bytes(const lora_add_args& a) {
  return std::uint64_t{a.count} * lora_adapters_max * a.rank_max * sizeof(float);
}

template <std::uint32_t Values>
cudaError_t launch_columns(const lora_add_args& a, bool aligned, cudaStream_t stream) {
  return launch_dependent_clusters(lora_column_kernel<Values>, cluster_blocks,
                                   dim3(a.of.columns * cluster_blocks), dim3(cluster_threads),
                                   column_bytes(a), stream, a, aligned);
}

}  // namespace orcd::kernels::lora_parts
