// The scan of layers with a state: a block has some values of a head of one run, and their part of the state
// in registers, the keys of a value in sixteen lanes. It goes through chunks of eight positions: whole ones
// with all rows together, others row by row, by the same operations in the same order. Of a whole chunk
//
//   all warps   what the state has for the rows' keys and queries, and the rows' products with each other
//   one warp    row after row what each adds to the state and what it gives, a value a lane
//   all warps   the state behind it; meanwhile the next chunk's rows are on their way to shared memory
#pragma once

#include "kernels/recurrent/scan_stage.cuh"

namespace orcd::kernels {

template <std::uint32_t Keys>
struct scan_memory {
  staged_chunk<Keys> chunks[scan_stages];
  chunk_weights weights;
  float updates[block_values][chunk_rows];  ///< of the chunk at hand
  float sums[block_values][2]
            [chunk_rows];  ///< what the state has for the keys and the queries of a whole one
};

/// `Short`: no run has more rows than a step with drafts, and each is computed row by row.
template <std::uint32_t Keys, bool Delta, bool Short>
class scan_block {
 public:
  static constexpr std::uint32_t thread_values = 2;
  static constexpr std::uint32_t threads = block_values / thread_values * key_lanes;
  /// Of a multiprocessor: few rows wait for memory alone, so that many blocks are to be under way.
  static constexpr std::uint32_t blocks = Short && Keys <= 128 ? 4 : 1;

  __device__ __forceinline__ scan_block(const scan_args& a, const device_run& run, scan_memory<Keys>& memory)
      : a_(a),
        at_(a, run),
        memory_(memory),
        lane_(threadIdx.x % key_lanes),
        local_value_(threadIdx.x / key_lanes * thread_values) {}

  /// What was kept before this step.
  __device__ __forceinline__ void begin() {
    const std::int32_t boundary = chunk_of(at_.run.position);
    const float* const from = at_.state(a_, boundary);
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        const std::uint32_t k = key_of(j);
        const bool inside = boundary > 0 && k < a_.key_length && has(v);
        state_[v][j] = inside ? *reinterpret_cast<const float4*>(
                                    from + static_cast<std::uint64_t>(value_of(v)) * a_.key_length + k)
                              : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      }
    }
    // A value's first lanes are its open chunk's rows. They come with the first chunk.
    const std::int32_t position = boundary + static_cast<std::int32_t>(lane_);
    if (lane_ >= chunk_rows) return;
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
      float* const to = &memory_.updates[local_value_ + v][lane_];
      if (position < at_.run.position && has(v))
        stage_4(to, at_.update(a_, position) + value_of(v));
      else
        *to = 0.0F;
    }
  }

  __device__ __forceinline__ void walk() {
    constexpr auto size = static_cast<std::int32_t>(chunk_rows);
    std::int32_t begin = chunk_of(at_.run.position);
    stage_chunk<threads>(a_, at_, begin, memory_.chunks[0]);
#pragma unroll 1
    for (std::uint32_t stage = 0; begin < at_.end(); begin += size, stage ^= 1) {
      stage_wait();
      __syncthreads();  // and what the chunk before has used can be written again
      if constexpr (!Short) {
        if (begin >= at_.run.position && begin + size <= at_.end()) {
          whole_chunk(begin, stage);
          continue;
        }
      }
      part_of_chunk(begin, stage);
    }
  }

 private:
  static __device__ __forceinline__ std::int32_t chunk_of(std::int32_t position) {
    return position / static_cast<std::int32_t>(chunk_rows) * static_cast<std::int32_t>(chunk_rows);
  }
  __device__ __forceinline__ std::uint32_t key_of(std::uint32_t quad) const {
    return (quad * key_lanes + lane_) * 4;
  }
  __device__ __forceinline__ std::uint32_t value_of(std::uint32_t v) const {
    return at_.first_value + local_value_ + v;
  }
  __device__ __forceinline__ bool has(std::uint32_t v) const {
    return value_of(v) < a_.value_length;
  }

  /// The chunk behind the one at hand, once nobody reads what was in its stage.
  __device__ __forceinline__ void stage_next(std::int32_t begin, std::uint32_t stage) {
    const std::int32_t next = begin + static_cast<std::int32_t>(chunk_rows);
    if (next < at_.end()) stage_chunk<threads>(a_, at_, next, memory_.chunks[stage ^ 1]);
  }

  __device__ __forceinline__ void whole_chunk(std::int32_t begin, std::uint32_t stage) {
    const staged_chunk<Keys>& chunk = memory_.chunks[stage];
    weigh_rows<threads>(chunk, 0, chunk_rows, memory_.weights);
#pragma unroll
    for (std::uint32_t first = 0; first < chunk_rows; first += rows_at_once) read_rows(first, chunk);
    __syncthreads();
    stage_next(begin, stage);
    if (threadIdx.x < block_values) walk_rows(begin, chunk);
    __syncthreads();
    advance(begin, chunk);
  }
  /// One warp, a value a lane.
  __device__ __forceinline__ void walk_rows(std::int32_t begin, const staged_chunk<Keys>& chunk) {
    const std::uint32_t lane = threadIdx.x, of_head = at_.first_value + lane;
    float by_key[chunk_rows], by_query[chunk_rows], updates[chunk_rows];
    load_eight(memory_.sums[lane][0], by_key);
    load_eight(memory_.sums[lane][1], by_query);
    float* const out = a_.out + static_cast<std::uint64_t>(at_.head) * a_.value_length + of_head;
    const std::int32_t kept = at_.end() - static_cast<std::int32_t>(a_.kept.rows);
#pragma unroll
    for (std::uint32_t t = 0; t < chunk_rows; ++t) {
      float key_weights[chunk_rows], query_weights[chunk_rows];
      if (Delta) load_eight(memory_.weights.by_key[t], key_weights);
      load_eight(memory_.weights.by_query[t], query_weights);
      const float value = chunk.values[t][lane];
      float before = 0.0F, given = 0.0F;
#pragma unroll
      for (std::uint32_t i = 0; i < t; ++i) {
        if (Delta) before = __fmaf_rn(key_weights[i], updates[i], before);
        given = __fmaf_rn(query_weights[i], updates[i], given);
      }
      updates[t] = update_of(t, value, chunk.factors[t], by_key[t], before);
      const float o = result_of(t, value, by_query[t], __fmaf_rn(query_weights[t], updates[t], given));
      const std::int32_t position = begin + static_cast<std::int32_t>(t);
      if (of_head >= a_.value_length) continue;
      out[at_.column(position) * a_.stride] = o;
      if (position >= kept) at_.update(a_, position)[of_head] = updates[t];
    }
    auto* const to = reinterpret_cast<float4*>(memory_.updates[lane]);
    to[0] = make_float4(updates[0], updates[1], updates[2], updates[3]);
    to[1] = make_float4(updates[4], updates[5], updates[6], updates[7]);
  }
  static __device__ __forceinline__ void load_eight(const float* from, float (&to)[chunk_rows]) {
    const float4 low = *reinterpret_cast<const float4*>(from),
                 high = *reinterpret_cast<const float4*>(from + 4);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
  }

  /// What the boundary's state has for the keys and queries of some rows, into shared memory: a lane of a
  /// value's adds up one of as many sums, of rows, values, and keys or queries.
  __device__ __forceinline__ void read_rows(std::uint32_t first, const staged_chunk<Keys>& chunk) {
    float sums[key_lanes];
#pragma unroll
    for (std::uint32_t r = 0; r < rows_at_once; ++r) {
      float4 keys[thread_values] = {}, queries[thread_values] = {};
      add_state(first + r, chunk, keys, queries);
#pragma unroll
      for (std::uint32_t v = 0; v < thread_values; ++v) {
        sums[v * rows_at_once + r] = Delta ? sum_four(keys[v]) : 0.0F;
        sums[key_lanes / 2 + v * rows_at_once + r] = sum_four(queries[v]);
      }
    }
#pragma unroll
    for (std::uint32_t width = key_lanes / 2; width > 0; width /= 2) {
      const bool upper = (lane_ & width) != 0;
#pragma unroll
      for (std::uint32_t i = 0; i < key_lanes / 2; ++i) {
        if (i >= width) continue;
        const float sent = upper ? sums[i] : sums[i + width];
        const float kept = upper ? sums[i + width] : sums[i];
        sums[i] = __fadd_rn(kept, __shfl_xor_sync(0xFFFFFFFFU, sent, width));
      }
    }
    const std::uint32_t of_kind = lane_ % (key_lanes / 2);
    memory_.sums[local_value_ + of_kind / rows_at_once][lane_ / (key_lanes / 2)]
                [first + of_kind % rows_at_once] = sums[0];
  }
  /// The products of a row's key and query with the state, four of a lane.
  __device__ __forceinline__ void add_state(std::uint32_t t, const staged_chunk<Keys>& chunk,
                                            float4 (&keys)[thread_values],
                                            float4 (&queries)[thread_values]) const {
#pragma unroll
    for (std::uint32_t j = 0; j < quads; ++j) {
      const float4 key = *reinterpret_cast<const float4*>(&chunk.keys[t][key_of(j)]);
      const float4 query = *reinterpret_cast<const float4*>(&chunk.queries[t][key_of(j)]);
#pragma unroll
      for (std::uint32_t v = 0; v < thread_values; ++v) {
        if (Delta) add_lanewise(keys[v], state_[v][j], key);
        add_lanewise(queries[v], state_[v][j], query);
      }
    }
  }

  /// The chunk's rows that the run has, one by one.
  __device__ __forceinline__ void part_of_chunk(std::int32_t begin, std::uint32_t stage) {
    const staged_chunk<Keys>& chunk = memory_.chunks[stage];
    const auto first = static_cast<std::uint32_t>(max(at_.run.position - begin, 0));
    const auto end =
        static_cast<std::uint32_t>(min(at_.end() - begin, static_cast<std::int32_t>(chunk_rows)));
    weigh_rows<threads>(chunk, first, end, memory_.weights);
    __syncthreads();
    stage_next(begin, stage);
#pragma unroll 1
    for (std::uint32_t t = first; t < end; ++t) {
      float by_key[thread_values], by_query[thread_values], out[thread_values], own[thread_values];
      read_state(t, chunk, by_key, by_query);
#pragma unroll
      for (std::uint32_t v = 0; v < thread_values; ++v) {
        const float value = chunk.values[t][local_value_ + v];
        float before = 0.0F, given = 0.0F;
#pragma unroll 1
        for (std::uint32_t i = 0; i < t; ++i) {
          const float u = memory_.updates[local_value_ + v][i];
          if (Delta) before = __fmaf_rn(memory_.weights.by_key[t][i], u, before);
          given = __fmaf_rn(memory_.weights.by_query[t][i], u, given);
        }
        own[v] = update_of(t, value, chunk.factors[t], by_key[v], before);
        out[v] = result_of(t, value, by_query[v], __fmaf_rn(memory_.weights.by_query[t][t], own[v], given));
      }
      __syncwarp();  // all have read what is there
      if (lane_ == t) {
        store_row(begin + static_cast<std::int32_t>(t), out, own);
#pragma unroll
        for (std::uint32_t v = 0; v < thread_values; ++v) memory_.updates[local_value_ + v][t] = own[v];
      }
      __syncwarp();
    }
    if (end == chunk_rows) advance(begin, chunk);
  }

  /// What a row adds to the state, `before` being what the chunk's rows before it have of its key.
  __device__ __forceinline__ float update_of(std::uint32_t t, float value, float factor, float by_key,
                                             float before) const {
    if (!Delta) return __fmul_rn(factor, value);
    const float rest = __fmaf_rn(-memory_.weights.shrunk[t], by_key, value);
    return __fmul_rn(factor, __fadd_rn(rest, -before));
  }
  __device__ __forceinline__ float result_of(std::uint32_t t, float value, float by_query,
                                             float given) const {
    const float o = __fmaf_rn(memory_.weights.shrunk[t], by_query, given);
    return a_.skip == nullptr ? o : __fmaf_rn(a_.skip[at_.head], value, o);
  }

  /// What the boundary's state has for a row's key and query.
  __device__ __forceinline__ void read_state(std::uint32_t t, const staged_chunk<Keys>& chunk,
                                             float (&by_key)[thread_values],
                                             float (&by_query)[thread_values]) const {
    float4 keys[thread_values] = {}, queries[thread_values] = {};
    add_state(t, chunk, keys, queries);
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
      by_key[v] = Delta ? sum_lanes(keys[v]) : 0.0F;
      by_query[v] = sum_lanes(queries[v]);
    }
  }
  static __device__ __forceinline__ void add_lanewise(float4& sum, const float4& a, const float4& b) {
    sum.x = __fmaf_rn(a.x, b.x, sum.x);
    sum.y = __fmaf_rn(a.y, b.y, sum.y);
    sum.z = __fmaf_rn(a.z, b.z, sum.z);
    sum.w = __fmaf_rn(a.w, b.w, sum.w);
  }
  static __device__ __forceinline__ float sum_four(const float4& x) {
    return __fadd_rn(__fadd_rn(x.x, x.y), __fadd_rn(x.z, x.w));
  }
  static __device__ __forceinline__ float sum_lanes(const float4& x) {
    float sum = sum_four(x);
#pragma unroll
    for (std::uint32_t bit = key_lanes / 2; bit > 0; bit /= 2)
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFU, sum, bit));
    return sum;
  }

  /// Of this thread's lane. Updates, and keys in short runs, are kept as far as a later step can read them.
  __device__ __forceinline__ void store_row(std::int32_t position, const float (&out)[thread_values],
                                            const float (&own)[thread_values]) const {
    float* const to =
        a_.out + at_.column(position) * a_.stride + static_cast<std::uint64_t>(at_.head) * a_.value_length;
    const bool kept = Short || position >= at_.end() - static_cast<std::int32_t>(a_.kept.rows);
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
      if (!has(v)) continue;
      to[value_of(v)] = out[v];
      if (kept) at_.update(a_, position)[value_of(v)] = own[v];
    }
    if (Short && keeps_keys()) keep_key(position);
  }
  /// Of the threads that store a row one for each of its key heads.
  __device__ __forceinline__ bool keeps_keys() const {
    const bool first_of_key =
        a_.in_turn ? at_.head < a_.key_heads : at_.head % (a_.value_heads / a_.key_heads) == 0;
    return first_of_key && blockIdx.z == 0 && threadIdx.x < key_lanes;
  }
  __device__ __forceinline__ void keep_key(std::int32_t position) const {
    const float* const from = a_.keys + at_.column(position) * a_.stride + at_.key_head * a_.key_length;
    float* const to = at_.key(a_, position);
    for (std::uint32_t k = 0; k < a_.key_length; k += 4)
      *reinterpret_cast<float4*>(to + k) = *reinterpret_cast<const float4*>(from + k);
  }

  /// The state behind the chunk, to memory where a later step can go on from it or it is wanted in a page.
  __device__ __forceinline__ void advance(std::int32_t begin, const staged_chunk<Keys>& chunk) {
    const float shrunk = memory_.weights.shrunk[chunk_rows - 1];
    float to_end[chunk_rows], updates[thread_values][chunk_rows];
    load_eight(memory_.weights.to_end, to_end);
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v)
      load_eight(memory_.updates[local_value_ + v], updates[v]);
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
      for (std::uint32_t v = 0; v < thread_values; ++v) factors[v] = __fmul_rn(updates[v][i], to_end[i]);
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        const float4 key = *reinterpret_cast<const float4*>(&chunk.keys[i][key_of(j)]);
#pragma unroll
        for (std::uint32_t v = 0; v < thread_values; ++v)
          add_lanewise(state_[v][j], make_float4(factors[v], factors[v], factors[v], factors[v]), key);
      }
    }
    const std::int32_t boundary = begin + static_cast<std::int32_t>(chunk_rows);
    const auto states = static_cast<std::int32_t>(a_.kept.state_count * chunk_rows);
    if (boundary + states > at_.end()) store_state(at_.state(a_, boundary));
    if (chunk.wanted.position != boundary) return;
    store_state(a_.kept.pages + static_cast<std::uint64_t>(chunk.wanted.page) * a_.kept.page_stride +
                static_cast<std::uint64_t>(at_.head) * a_.value_length * a_.key_length);
  }
  /// A page's part need not lie at a multiple of 16 bytes.
  __device__ __forceinline__ void store_state(float* to) const {
#pragma unroll
    for (std::uint32_t v = 0; v < thread_values; ++v) {
#pragma unroll
      for (std::uint32_t j = 0; j < quads; ++j) {
        if (!has(v) || key_of(j) >= a_.key_length) continue;
        float* const at = to + static_cast<std::uint64_t>(value_of(v)) * a_.key_length + key_of(j);
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

  /// Of a whole chunk: as many as a value's lanes have sums for.
  static constexpr std::uint32_t rows_at_once = key_lanes / 2 / thread_values;
  static constexpr std::uint32_t quads = Keys / key_lanes / 4;  ///< of keys, four a thread, of a value

  const scan_args& a_;
  const scan_place at_;
  scan_memory<Keys>& memory_;
  const std::uint32_t lane_, local_value_;
  float4 state_[thread_values][quads];
};

}  // namespace orcd::kernels
