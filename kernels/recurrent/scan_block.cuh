// The scan of layers with a state: a block has some values of a head of one run, and their part of the state
// in registers, two values a thread and the keys in eight lanes. It goes through chunks of eight positions;
// while it computes one, the next one's rows are on their way to shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/device/bulk_copy.cuh"
#include "kernels/recurrent/recurrent_layer.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t scan_threads = 128;
inline constexpr std::uint32_t key_lanes = 8;      ///< that share the keys of a value
inline constexpr std::uint32_t thread_values = 2;  ///< of a thread
inline constexpr std::uint32_t block_values = scan_threads / key_lanes * thread_values;
inline constexpr std::uint32_t stages = 2;

/// A chunk's rows in shared memory; those of offsets before the step's first are kept ones, without queries.
template <std::uint32_t Keys>
struct alignas(16) staged_chunk {
  float keys[chunk_rows][Keys];
  float queries[chunk_rows][Keys];
  float values[chunk_rows][block_values];
  float decays[chunk_rows];
  float factors[chunk_rows];
  wanted_state wanted;  ///< of the boundary behind it
};

struct chunk_weights {
  float by_key[chunk_rows][chunk_rows];    ///< [t][i]: e^(l_t - l_i) k_t.k_i, i < t
  float by_query[chunk_rows][chunk_rows];  ///< e^(l_t - l_i) q_t.k_i, i <= t
  float shrunk[chunk_rows];                ///< e^l_t
  float to_end[chunk_rows];                ///< e^(l_7 - l_i)
  float sums[chunk_rows];                  ///< l_t
};

template <std::uint32_t Keys>
class scan_block {
 public:
  static constexpr std::uint32_t quads =
      Keys / key_lanes / 4;  ///< float4 of keys that a thread has of a value

  __device__ __forceinline__ scan_block(const scan_args& a, const device_run& run, staged_chunk<Keys>* chunks,
                                        chunk_weights& weights)
      : a_(a),
        run_(run),
        chunks_(chunks),
        weights_(weights),
        head_(blockIdx.y),
        key_head_(a.in_turn ? head_ % a.key_heads : head_ / (a.value_heads / a.key_heads)),
        first_value_(blockIdx.z * block_values),
        lane_(threadIdx.x % key_lanes),
        own_value_(first_value_ + threadIdx.x / key_lanes * thread_values),
        slot_(a.kept.slots + static_cast<std::uint64_t>(run.slot) * a.kept.slot_stride) {}

  __device__ __forceinline__ void walk() {
    const std::int32_t end = run_.position + run_.count;
    std::int32_t begin =
        run_.position / static_cast<std::int32_t>(chunk_rows) * static_cast<std::int32_t>(chunk_rows);
    fetch(begin, end, 0);
    copies_commit();
    load_state(begin);
    load_updates(begin);
    for (std::uint32_t stage = 0; begin < end; begin += chunk_rows, stage ^= 1) {
      const std::int32_t next = begin + static_cast<std::int32_t>(chunk_rows);
      if (next < end) fetch(next, end, stage ^ 1);
      copies_commit();
      copies_wait<1>();
      __syncthreads();
      rows(begin, max(run_.position, begin), min(next, end), chunks_[stage]);
      if (next <= end) advance(next, end, chunks_[stage]);
      __syncthreads();  // before the stage and the weights are written again
    }
  }

 private:
  __device__ __forceinline__ const float* in_step(const float* rows, std::int32_t position) const {
    return rows + static_cast<std::uint64_t>(run_.column + position - run_.position) * a_.stride;
  }
  __device__ __forceinline__ std::uint32_t place(std::int32_t position) const {
    return static_cast<std::uint32_t>(position) % a_.kept.rows;
  }
  __device__ __forceinline__ float* kept_update(std::int32_t position) const {
    return slot_ + a_.kept.updates +
           (static_cast<std::uint64_t>(place(position)) * a_.value_heads + head_) * a_.value_length;
  }
  __device__ __forceinline__ float* state_at(std::int32_t boundary) const {
    return slot_ + a_.kept.states +
           static_cast<std::uint32_t>(boundary) / chunk_rows % a_.kept.state_count * a_.kept.state_values +
           static_cast<std::uint64_t>(head_) * a_.value_length * a_.key_length;
  }

  /// Sends the chunk's rows up to `end` on their way. Thread by thread 16 bytes of a row.
  __device__ __forceinline__ void fetch(std::int32_t begin, std::int32_t end, std::uint32_t stage) {
    staged_chunk<Keys>& to = chunks_[stage];
    constexpr std::uint32_t row_quads = Keys / 4;
    for (std::uint32_t i = threadIdx.x; i < chunk_rows * row_quads; i += scan_threads) {
      const std::uint32_t t = i / row_quads, k = i % row_quads * 4;
      const std::int32_t position = begin + static_cast<std::int32_t>(t);
      const bool inside = position < end && k < a_.key_length;
      const bool in_run = position >= run_.position;
      const std::uint32_t at = key_head_ * a_.key_length + k;
      if (!inside) {
        zero(&to.keys[t][k]);
        zero(&to.queries[t][k]);
      } else if (in_run) {
        copy16(&to.keys[t][k], in_step(a_.keys, position) + at);
        copy16(&to.queries[t][k], in_step(a_.queries, position) + at);
      } else {
        const std::uint64_t width = static_cast<std::uint64_t>(a_.key_heads) * a_.key_length;
        copy16(&to.keys[t][k], slot_ + a_.kept.keys + place(position) * width + at);
        zero(&to.queries[t][k]);
      }
    }
    fetch_values(begin, end, to);
    if (threadIdx.x < chunk_rows) fetch_gates(begin + static_cast<std::int32_t>(threadIdx.x), end, to);
  }
  __device__ __forceinline__ void fetch_values(std::int32_t begin, std::int32_t end, staged_chunk<Keys>& to) {
    for (std::uint32_t i = threadIdx.x; i < chunk_rows * block_values; i += scan_threads) {
      const std::uint32_t t = i / block_values, at = i % block_values, v = first_value_ + at;
      const std::int32_t position = begin + static_cast<std::int32_t>(t);
      const bool inside = position >= run_.position && position < end && v < a_.value_length;
      if (inside)
        copy4(&to.values[t][at],
              in_step(a_.values, position) + static_cast<std::uint64_t>(head_) * a_.value_length + v);
      else
        to.values[t][at] = 0.0F;
    }
  }
  /// Thread t has the chunk's row t.
  __device__ __forceinline__ void fetch_gates(std::int32_t position, std::int32_t end,
                                              staged_chunk<Keys>& to) {
    const std::uint32_t t = threadIdx.x;
    if (position < run_.position) {
      copy4(&to.decays[t], slot_ + a_.kept.decays + place(position) * a_.value_heads + head_);
    } else if (position < end) {
      const std::uint64_t column = static_cast<std::uint64_t>(run_.column + position - run_.position);
      copy4(&to.decays[t], a_.decays + column * a_.value_heads + head_);
      copy4(&to.factors[t], a_.factors + column * a_.value_heads + head_);
      if (t + 1 != chunk_rows) return;
      const auto* const wanted = reinterpret_cast<const float*>(a_.pass.wanted + column);
      copy4(reinterpret_cast<float*>(&to.wanted.position), wanted);
      copy4(reinterpret_cast<float*>(&to.wanted.page), wanted + 1);
    } else {
      to.decays[t] = 0.0F;
    }
  }
  static __device__ __forceinline__ void zero(float* to) {
    *reinterpret_cast<float4*>(to) = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  }
  static __device__ __forceinline__ void copy16(float* to, const float* from) {
    copy_16(shared_address_of(to), from);
  }
  static __device__ __forceinline__ void copy4(float* to, const float* from) {
    copy_float(shared_address_of(to), from);
  }
  static __device__ __forceinline__ void copies_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int Left>
  static __device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
  }

  static __device__ __forceinline__ std::uint32_t key_of(std::uint32_t quad, std::uint32_t lane) {
    return (quad * key_lanes + lane) * 4;
  }
  __device__ __forceinline__ bool has(std::uint32_t v) const { return own_value_ + v < a_.value_length; }

  __device__ __forceinline__ void load_state(std::int32_t boundary) {
    const float* const from = state_at(boundary);
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        const std::uint32_t k = key_of(j, lane_);
        const bool inside = boundary > 0 && k < a_.key_length && has(v);
        state_[v][j] = inside ? *reinterpret_cast<const float4*>(
                                    from + static_cast<std::uint64_t>(own_value_ + v) * a_.key_length + k)
                              : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      }
    }
  }
  /// What the open chunk's rows before the run have given.
  __device__ __forceinline__ void load_updates(std::int32_t begin) {
#pragma unroll
    for (std::uint32_t t = 0; t < chunk_rows; ++t) {
      const std::int32_t position = begin + static_cast<std::int32_t>(t);
#pragma unroll
      for (std::uint32_t v = 0; v < thread_values; ++v) {
        const bool kept = position < run_.position && has(v);
        updates_[t][v] = kept ? kept_update(position)[own_value_ + v] : 0.0F;
      }
    }
  }

  /// Rows at [from, to) of the chunk that begins at `begin`.
  __device__ __forceinline__ void rows(std::int32_t begin, std::int32_t from, std::int32_t to,
                                       const staged_chunk<Keys>& chunk) {
    const auto first = static_cast<std::uint32_t>(from - begin), end = static_cast<std::uint32_t>(to - begin);
    sum_decays(chunk);
    multiply_rows(first, end, chunk);
    float by_key[chunk_rows][thread_values], by_query[chunk_rows][thread_values];
    read_state(first, end, chunk, by_key, by_query);
    __syncthreads();
    float out[thread_values] = {}, update[thread_values] = {};
#pragma unroll
    for (std::uint32_t t = 0; t < chunk_rows; ++t) {
      if (t < first || t >= end) continue;
#pragma unroll
      for (std::uint32_t v = 0; v < thread_values; ++v) {
        const float value = chunk.values[t][own_value_ - first_value_ + v];
        const float o = row(t, v, value, chunk.factors[t], by_key[t][v], by_query[t][v]);
        out[v] = t == lane_ ? o : out[v];
        update[v] = t == lane_ ? updates_[t][v] : update[v];
      }
    }
    store_rows(begin, first, end, out, update);
  }

  /// A row of one value: what it adds to the state, and what it gives.
  __device__ __forceinline__ float row(std::uint32_t t, std::uint32_t v, float value, float factor,
                                       float by_key, float by_query) {
    float u = __fmul_rn(factor, value);
    if (a_.delta_net) {
      float sum = 0.0F;
#pragma unroll
      for (std::uint32_t i = 0; i < chunk_rows; ++i) {
        if (i < t) sum = __fmaf_rn(weights_.by_key[t][i], updates_[i][v], sum);
      }
      const float rest = __fmaf_rn(-weights_.shrunk[t], by_key, value);
      u = __fmul_rn(factor, __fadd_rn(rest, -sum));
    }
    updates_[t][v] = u;
    float sum = 0.0F;
#pragma unroll
    for (std::uint32_t i = 0; i < chunk_rows; ++i) {
      if (i <= t) sum = __fmaf_rn(weights_.by_query[t][i], updates_[i][v], sum);
    }
    const float o = __fmaf_rn(weights_.shrunk[t], by_query, sum);
    return a_.skip == nullptr ? o : __fmaf_rn(a_.skip[head_], value, o);
  }

  /// Lane t of a value's has row t. Updates are kept as far as a later step can read them.
  __device__ __forceinline__ void store_rows(std::int32_t begin, std::uint32_t first, std::uint32_t end,
                                             const float (&out)[thread_values],
                                             const float (&update)[thread_values]) const {
    if (lane_ < first || lane_ >= end) return;
    const std::int32_t position = begin + static_cast<std::int32_t>(lane_);
    const std::uint64_t column = static_cast<std::uint64_t>(run_.column + position - run_.position);
    float* const to = a_.out + column * a_.stride + static_cast<std::uint64_t>(head_) * a_.value_length;
    const bool kept = position >= run_.position + run_.count - static_cast<std::int32_t>(a_.kept.rows);
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
      if (!has(v)) continue;
      to[own_value_ + v] = out[v];
      if (kept) kept_update(position)[own_value_ + v] = update[v];
    }
    if (a_.pass.short_runs && keeps_keys()) keep_key(position);
  }
  __device__ __forceinline__ bool keeps_keys() const {
    const bool first_of_key =
        a_.in_turn ? head_ < a_.key_heads : head_ % (a_.value_heads / a_.key_heads) == 0;
    return first_of_key && blockIdx.z == 0 && threadIdx.x < key_lanes;
  }
  __device__ __forceinline__ void keep_key(std::int32_t position) const {
    const float* const from =
        in_step(a_.keys, position) + static_cast<std::uint64_t>(key_head_) * a_.key_length;
    float* const to =
        slot_ + a_.kept.keys +
        (static_cast<std::uint64_t>(place(position)) * a_.key_heads + key_head_) * a_.key_length;
    for (std::uint32_t k = 0; k < a_.key_length; k += 4)
      *reinterpret_cast<float4*>(to + k) = *reinterpret_cast<const float4*>(from + k);
  }

  /// The decays' sums from the chunk's beginning, and powers of them; every warp of its own, for itself.
  __device__ __forceinline__ void sum_decays(const staged_chunk<Keys>& chunk) {
    float sum = 0.0F;
#pragma unroll
    for (std::uint32_t t = 0; t < chunk_rows; ++t) {
      sum = __fadd_rn(sum, chunk.decays[t]);
      sums_[t] = sum;
    }
    if (threadIdx.x < chunk_rows) {
      float own = 0.0F;
#pragma unroll
      for (std::uint32_t t = 0; t < chunk_rows; ++t) own = t == threadIdx.x ? sums_[t] : own;
      weights_.shrunk[threadIdx.x] = expf(own);
      weights_.to_end[threadIdx.x] = expf(__fadd_rn(sum, -own));
    }
  }

  /// Products of the chunk's rows with each other, times powers of their decays: a warp has rows of its own.
  __device__ __forceinline__ void multiply_rows(std::uint32_t first, std::uint32_t end,
                                                const staged_chunk<Keys>& chunk) {
    constexpr std::uint32_t warps = scan_threads / 32;
    const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (std::uint32_t half = 0; half < chunk_rows / warps; ++half) {
      const std::uint32_t t = half * warps + threadIdx.x / 32;
      if (t < first || t >= end) continue;
      float sums[2 * chunk_rows] = {};
      for (std::uint32_t k = lane * 4; k < Keys; k += 128) {
        const float4 key = *reinterpret_cast<const float4*>(&chunk.keys[t][k]);
        const float4 query = *reinterpret_cast<const float4*>(&chunk.queries[t][k]);
#pragma unroll
        for (std::uint32_t i = 0; i < chunk_rows; ++i) {
          const float4 other = *reinterpret_cast<const float4*>(&chunk.keys[i][k]);
          sums[i] = add_product(key, other, sums[i]);
          sums[chunk_rows + i] = add_product(query, other, sums[chunk_rows + i]);
        }
      }
      const float total = reduce_sixteen(sums, lane);
      // Lanes 2 n and 2 n + 1 have the n-th sum.
      const std::uint32_t n = lane / 2, i = n % chunk_rows;
      float own = 0.0F, other = 0.0F;
#pragma unroll
      for (std::uint32_t r = 0; r < chunk_rows; ++r) {
        own = r == t ? sums_[r] : own;
        other = r == i ? sums_[r] : other;
      }
      if (lane % 2 != 0 || i > t) continue;
      const float weighted = __fmul_rn(expf(__fadd_rn(own, -other)), total);
      (n < chunk_rows ? weights_.by_key : weights_.by_query)[t][i] = weighted;
    }
  }
  static __device__ __forceinline__ float add_product(const float4& a, const float4& b, float sum) {
    sum = __fmaf_rn(a.x, b.x, sum);
    sum = __fmaf_rn(a.y, b.y, sum);
    sum = __fmaf_rn(a.z, b.z, sum);
    return __fmaf_rn(a.w, b.w, sum);
  }
  /// Sums over all lanes of sixteen values at once: lanes 2 n and 2 n + 1 get the n-th.
  static __device__ __forceinline__ float reduce_sixteen(float (&x)[16], std::uint32_t lane) {
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

  /// What the boundary's state has for the rows' keys and queries.
  __device__ __forceinline__ void read_state(std::uint32_t first, std::uint32_t end,
                                             const staged_chunk<Keys>& chunk,
                                             float (&by_key)[chunk_rows][thread_values],
                                             float (&by_query)[chunk_rows][thread_values]) const {
#pragma unroll
    for (std::uint32_t t = 0; t < chunk_rows; ++t) {
      if (t < first || t >= end) continue;
      float4 keys[thread_values] = {}, queries[thread_values] = {};
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        const std::uint32_t k = key_of(j, lane_);
        const float4 key = *reinterpret_cast<const float4*>(&chunk.keys[t][k]);
        const float4 query = *reinterpret_cast<const float4*>(&chunk.queries[t][k]);
#pragma unroll
        for (std::uint32_t v = 0; v < thread_values; ++v) {
          add_lanewise(keys[v], state_[v][j], key);
          add_lanewise(queries[v], state_[v][j], query);
        }
      }
#pragma unroll
      for (std::uint32_t v = 0; v < thread_values; ++v) {
        if (a_.delta_net) by_key[t][v] = sum_lanes(keys[v]);
        by_query[t][v] = sum_lanes(queries[v]);
      }
    }
  }
  static __device__ __forceinline__ void add_lanewise(float4& sum, const float4& a, const float4& b) {
    sum.x = __fmaf_rn(a.x, b.x, sum.x);
    sum.y = __fmaf_rn(a.y, b.y, sum.y);
    sum.z = __fmaf_rn(a.z, b.z, sum.z);
    sum.w = __fmaf_rn(a.w, b.w, sum.w);
  }
  static __device__ __forceinline__ float sum_lanes(const float4& x) {
    float sum = __fadd_rn(__fadd_rn(x.x, x.y), __fadd_rn(x.z, x.w));
#pragma unroll
    for (std::uint32_t bit = 1; bit < key_lanes; bit *= 2)
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, bit));
    return sum;
  }

  /// The state behind the chunk, to memory where a later step can go on from it or it is wanted in a page.
  __device__ __forceinline__ void advance(std::int32_t boundary, std::int32_t end,
                                          const staged_chunk<Keys>& chunk) {
    const float shrunk = weights_.shrunk[chunk_rows - 1];
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        float4& s = state_[v][j];
        s = make_float4(__fmul_rn(shrunk, s.x), __fmul_rn(shrunk, s.y), __fmul_rn(shrunk, s.z),
                        __fmul_rn(shrunk, s.w));
      }
    }
#pragma unroll
    for (std::uint32_t i = 0; i < chunk_rows; ++i) {
      float factors[thread_values];
#pragma unroll
      for (std::uint32_t v = 0; v < thread_values; ++v)
        factors[v] = __fmul_rn(updates_[i][v], weights_.to_end[i]);
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        const float4 key = *reinterpret_cast<const float4*>(&chunk.keys[i][key_of(j, lane_)]);
#pragma unroll
        for (std::uint32_t v = 0; v < thread_values; ++v) {
          const float4 factor = make_float4(factors[v], factors[v], factors[v], factors[v]);
          add_lanewise(state_[v][j], factor, key);
        }
      }
    }
    const auto states = static_cast<std::int32_t>(a_.kept.state_count * chunk_rows);
    if (boundary + states > end) store_state(state_at(boundary));
    if (chunk.wanted.position != boundary) return;
    store_state(a_.kept.pages + static_cast<std::uint64_t>(chunk.wanted.page) * a_.kept.page_stride +
                static_cast<std::uint64_t>(head_) * a_.value_length * a_.key_length);
  }
  /// A page's part need not lie at a multiple of 16 bytes.
  __device__ __forceinline__ void store_state(float* to) const {
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        const std::uint32_t k = key_of(j, lane_);
        if (!has(v) || k >= a_.key_length) continue;
        float* const at = to + static_cast<std::uint64_t>(own_value_ + v) * a_.key_length + k;
        const float4& s = state_[v][j];
        if (reinterpret_cast<std::uintptr_t>(at) % sizeof(float4) == 0) {
          *reinterpret_cast<float4*>(at) = s;
        } else {
          at[0] = s.x;
          at[1] = s.y;
          at[2] = s.z;
          at[3] = s.w;
        }
      }
    }
  }

  const scan_args& a_;
  const device_run run_;
  staged_chunk<Keys>* chunks_;
  chunk_weights& weights_;
  const std::uint32_t head_, key_head_, first_value_, lane_, own_value_;
  float* const slot_;
  float4 state_[thread_values][quads];
  float updates_[chunk_rows][thread_values];
  float sums_[chunk_rows];
};

}  // namespace orcd::kernels
