// What the rows of a chunk bring to a scan: a block's copies of them in shared memory, the next chunk's on
// their way while one is computed, and the products of a chunk's rows with each other.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device/bulk_copy.cuh"
#include "kernels/recurrent/recurrent_layer.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t key_lanes = 16;     ///< that share the keys of a value
inline constexpr std::uint32_t block_values = 32;  ///< of a head
inline constexpr std::uint32_t scan_stages = 2;

/// A chunk's rows; those of offsets before the step's first are kept ones, without queries.
template <std::uint32_t Keys>
struct alignas(16) staged_chunk {
  float keys[chunk_rows][Keys];
  float queries[chunk_rows][Keys];
  float values[chunk_rows][block_values];
  float decays[chunk_rows];
  float factors[chunk_rows];
  wanted_state wanted;  ///< of the boundary behind it
};

struct alignas(16) chunk_weights {
  float by_key[chunk_rows][chunk_rows];    ///< [t][i]: e^(l_t - l_i) k_t.k_i, i < t
  float by_query[chunk_rows][chunk_rows];  ///< e^(l_t - l_i) q_t.k_i, i <= t
  float shrunk[chunk_rows];                ///< e^l_t
  float to_end[chunk_rows];                ///< e^(l_7 - l_i)
};

/// Where a run's rows lie, for one head.
struct scan_place {
  __device__ scan_place(const scan_args& a, const device_run& run)
      : run(run),
        head(blockIdx.y),
        key_head(a.in_turn ? head % a.key_heads : head / (a.value_heads / a.key_heads)),
        first_value(blockIdx.z * block_values),
        slot(a.kept.slots + static_cast<std::uint64_t>(run.slot) * a.kept.slot_stride) {}

  [[nodiscard]] __device__ std::int32_t end() const { return run.position + run.count; }
  [[nodiscard]] __device__ std::uint64_t column(std::int32_t position) const {
    return static_cast<std::uint64_t>(run.column + position - run.position);
  }
  [[nodiscard]] __device__ static std::uint32_t place(const scan_args& a, std::int32_t position) {
    return static_cast<std::uint32_t>(position) % a.kept.rows;
  }
  [[nodiscard]] __device__ float* key(const scan_args& a, std::int32_t position) const {
    return slot + a.kept.keys +
           (static_cast<std::uint64_t>(place(a, position)) * a.key_heads + key_head) * a.key_length;
  }
  [[nodiscard]] __device__ float* update(const scan_args& a, std::int32_t position) const {
    return slot + a.kept.updates +
           (static_cast<std::uint64_t>(place(a, position)) * a.value_heads + head) * a.value_length;
  }
  [[nodiscard]] __device__ float* state(const scan_args& a, std::int32_t boundary) const {
    return slot + a.kept.states +
           static_cast<std::uint32_t>(boundary) / chunk_rows % a.kept.state_count * a.kept.state_values +
           static_cast<std::uint64_t>(head) * a.value_length * a.key_length;
  }

  const device_run run;
  const std::uint32_t head, key_head, first_value;
  float* const slot;
};

__device__ __forceinline__ void stage_zeros(float* to) {
  *reinterpret_cast<float4*>(to) = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
}
__device__ __forceinline__ void stage_4(float* to, const float* from) {
  copy_float(shared_address_of(to), from);
}
__device__ __forceinline__ void stage_16(float* to, const float* from) {
  copy_16(shared_address_of(to), from);
}
/// All that this thread has sent on its way has come.
__device__ __forceinline__ void stage_wait() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Sends the chunk's values of the block on their way.
template <std::uint32_t Threads, std::uint32_t Keys>
__device__ __forceinline__ void stage_values(const scan_args& a, const scan_place& at, std::int32_t begin,
                                             staged_chunk<Keys>& to) {
  for (std::uint32_t i = threadIdx.x; i < chunk_rows * block_values; i += Threads) {
    const std::uint32_t t = i / block_values, v = i % block_values;
    const std::int32_t position = begin + static_cast<std::int32_t>(t);
    const bool inside =
        position >= at.run.position && position < at.end() && at.first_value + v < a.value_length;
    if (inside)
      stage_4(&to.values[t][v], a.values + at.column(position) * a.stride +
                                    static_cast<std::uint64_t>(at.head) * a.value_length + at.first_value +
                                    v);
    else
      to.values[t][v] = 0.0F;
  }
}

/// Thread t: the gates of the row at this position, the t-th of the chunk.
template <std::uint32_t Keys>
__device__ __forceinline__ void stage_gates(const scan_args& a, const scan_place& at, std::int32_t position,
                                            staged_chunk<Keys>& to) {
  const std::uint32_t t = threadIdx.x;
  if (position < at.run.position)
    return stage_4(&to.decays[t],
                   at.slot + a.kept.decays + scan_place::place(a, position) * a.value_heads + at.head);
  if (position >= at.end()) {
    to.decays[t] = 0.0F;
    return;
  }
  const std::uint64_t gate = at.column(position) * a.value_heads + at.head;
  stage_4(&to.decays[t], a.decays + gate);
  stage_4(&to.factors[t], a.factors + gate);
  if (t + 1 != chunk_rows) return;
  const auto* const wanted = reinterpret_cast<const float*>(a.pass.wanted + at.column(position));
  stage_4(reinterpret_cast<float*>(&to.wanted.position), wanted);
  stage_4(reinterpret_cast<float*>(&to.wanted.page), wanted + 1);
}

/// Sends the rows of the chunk that begins at `begin` on their way; what is not there is 0.
template <std::uint32_t Threads, std::uint32_t Keys>
__device__ __forceinline__ void stage_chunk(const scan_args& a, const scan_place& at, std::int32_t begin,
                                            staged_chunk<Keys>& to) {
  constexpr std::uint32_t row_quads = Keys / 4;
  for (std::uint32_t i = threadIdx.x; i < chunk_rows * row_quads; i += Threads) {
    const std::uint32_t t = i / row_quads, k = i % row_quads * 4;
    const std::int32_t position = begin + static_cast<std::int32_t>(t);
    const bool inside = position < at.end() && k < a.key_length;
    if (inside && position >= at.run.position) {
      const std::uint64_t row = at.column(position) * a.stride + at.key_head * a.key_length + k;
      stage_16(&to.keys[t][k], a.keys + row);
      stage_16(&to.queries[t][k], a.queries + row);
      continue;
    }
    stage_zeros(&to.queries[t][k]);
    if (inside)
      stage_16(&to.keys[t][k], at.key(a, position) + k);
    else
      stage_zeros(&to.keys[t][k]);
  }
  stage_values<Threads>(a, at, begin, to);
  if (threadIdx.x < chunk_rows) stage_gates(a, at, begin + static_cast<std::int32_t>(threadIdx.x), to);
}

/// sum + a . b, component by component.
__device__ __forceinline__ float add_product(const float4& a, const float4& b, float sum) {
  sum = __fmaf_rn(a.x, b.x, sum);
  sum = __fmaf_rn(a.y, b.y, sum);
  sum = __fmaf_rn(a.z, b.z, sum);
  return __fmaf_rn(a.w, b.w, sum);
}

/// Sums over all lanes of sixteen values at once: lanes 2 n and 2 n + 1 get the n-th.
__device__ __forceinline__ float sum_sixteen(float (&x)[16]) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t width = 8, bit = 16; width > 0; width /= 2, bit /= 2) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (std::uint32_t i = 0; i < 8; ++i) {
      if (i >= width) continue;
      const float sent = upper ? x[i] : x[i + width];
      const float kept = upper ? x[i + width] : x[i];
      x[i] = __fadd_rn(kept, __shfl_xor_sync(0xFFFFFFFFU, sent, bit));
    }
  }
  return __fadd_rn(x[0], __shfl_xor_sync(0xFFFFFFFFU, x[0], 1));
}

/// A warp: row t of the weights, `sums` being those of the decays.
template <std::uint32_t Keys>
__device__ __forceinline__ void weigh_row(const staged_chunk<Keys>& chunk, const float (&sums)[chunk_rows],
                                          std::uint32_t t, chunk_weights& weights) {
  const std::uint32_t lane = threadIdx.x % 32;
  float products[2 * chunk_rows] = {};
#pragma unroll
  for (std::uint32_t first = 0; first < Keys; first += 128) {
    const std::uint32_t k = first + lane * 4;
    if (k >= Keys) continue;
    const float4 key = *reinterpret_cast<const float4*>(&chunk.keys[t][k]);
    const float4 query = *reinterpret_cast<const float4*>(&chunk.queries[t][k]);
#pragma unroll
    for (std::uint32_t i = 0; i < chunk_rows; ++i) {
      const float4 other = *reinterpret_cast<const float4*>(&chunk.keys[i][k]);
      products[i] = add_product(key, other, products[i]);
      products[chunk_rows + i] = add_product(query, other, products[chunk_rows + i]);
    }
  }
  const float total = sum_sixteen(products);
  const std::uint32_t n = lane / 2, i = n % chunk_rows;
  float own = 0.0F, other = 0.0F;
#pragma unroll
  for (std::uint32_t r = 0; r < chunk_rows; ++r) {
    own = r == t ? sums[r] : own;
    other = r == i ? sums[r] : other;
  }
  if (lane % 2 != 0 || i > t) return;
  (n < chunk_rows ? weights.by_key : weights.by_query)[t][i] = __fmul_rn(expf(__fadd_rn(own, -other)), total);
}

/// The weights of rows [first, end). Whoever reads them synchronizes first.
template <std::uint32_t Threads, std::uint32_t Keys>
__device__ __forceinline__ void weigh_rows(const staged_chunk<Keys>& chunk, std::uint32_t first,
                                           std::uint32_t end, chunk_weights& weights) {
  constexpr std::uint32_t warps = Threads / 32;
  float sums[chunk_rows], sum = 0.0F;
#pragma unroll
  for (std::uint32_t t = 0; t < chunk_rows; ++t) {
    sum = __fadd_rn(sum, chunk.decays[t]);
    sums[t] = sum;
  }
  if (threadIdx.x < chunk_rows) {
    float own = 0.0F;
#pragma unroll
    for (std::uint32_t t = 0; t < chunk_rows; ++t) own = t == threadIdx.x ? sums[t] : own;
    weights.shrunk[threadIdx.x] = expf(own);
    weights.to_end[threadIdx.x] = expf(__fadd_rn(sum, -own));
  }
  const std::uint32_t warp = threadIdx.x / 32;
#pragma unroll 1
  for (std::uint32_t t = warp; t < chunk_rows; t += warps) {
    if (t >= first && t < end) weigh_row(chunk, sums, t, weights);
  }
}

}  // namespace orcd::kernels
