// LoRA adapters of columns of different slots (decode steps): a cluster of blocks does a column, or two do,
// in one kernel that follows the product. All that does not need the product's outputs is done beside it:
//
//   beside the product   A x: values made by groups of threads, sent to all blocks of the cluster
//                        the first adapter's B (A x) for the outputs of each thread --> shared memory
//   after it             added to the outputs, further adapters too; gate and up are activated
//
// A block is small enough to be resident beside one of the few-column product, which leaves it shared memory
// if it is told to (lora_shared_bytes).
#pragma once

#include <algorithm>

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/layer/lora_parts.cuh"
#include "kernels/layer/lora_step.hpp"

namespace orcd::kernels::lora_parts {

constexpr std::uint32_t cluster_blocks = 8;
constexpr std::uint32_t column_threads = 256;
constexpr std::uint32_t column_groups = column_threads / threads;  ///< of a block; one makes a value of A x
constexpr std::uint32_t column_residents = 4;                      ///< blocks that registers are limited for
constexpr std::uint32_t inner_bytes_max = 40 * 1024;               ///< A x of a column
constexpr std::uint32_t b_ahead = 16;  ///< values of B of a thread that are loaded beside A x

/// From one adapter's A x to the next.
ORCD_HD constexpr std::uint32_t inner_stride(const lora_add_args& a) {
  return (a.rank_max + 3) / 4 * 4;
}

/// What the launch decides.
struct column_work {
  std::uint32_t clusters = 1;  ///< of a column
  std::uint32_t begin = 0;     ///< first position in a row of y that a matrix has; of gate and up, in gate
  std::uint32_t end = 0;       ///< behind the last
  std::uint32_t ahead = 0;     ///< values of a thread for which B (A x) is made beside the product
  bool all_ahead = true;       ///< those are all
  bool aligned = false;        ///< rows of x, whose values come in fours
};

/// A pair of an adapter of the column.
struct column_pair {
  const float* a;
  const float* b;
  std::uint32_t rank;
  float factor;
};
struct column_shared {
  column_pair pairs[lora_matrices_max][lora_adapters_max];
  column_pair next[lora_matrices_max][lora_adapters_max];  ///< of the product after this one
  std::uint32_t adapters;
  float sums[2][column_groups][warps];
};

/// A group of a block waits for itself; barrier 0 is __syncthreads().
__device__ __forceinline__ void sync_group(std::uint32_t group) {
  static_assert(column_groups == 2);
  if (group == 0)
    asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
  else
    asm volatile("bar.sync 2, %0;" ::"n"(threads) : "memory");
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

/// What a column has beside a place as its n-th adapter; rank 0: nothing.
__device__ __forceinline__ lora_found find_pair(const lora_columns& of, const lora_tables& tables,
                                                std::uint32_t column, std::uint32_t place, std::uint32_t n) {
  const lora_slot& slot = slot_of(of, column);
  lora_found found{static_cast<std::uint32_t>(slot.count), 0, 0, 0.0F};
  if (n >= found.adapters) return found;
  const lora_use use = slot.uses[n];
  const lora_held held = held_of(tables, use.adapter, place);
  found.adapter = static_cast<std::uint32_t>(use.adapter);
  found.rank = static_cast<std::uint32_t>(held.rank);
  found.factor = __fmul_rn(use.strength, held.scale);
  return found;
}

/// The matrix that a value of a row of y belongs to; a.count: to none.
__device__ __forceinline__ std::uint32_t matrix_at(const lora_add_args& a, std::uint32_t at) {
  std::uint32_t m = 0;
  while (m < a.count && at - a.matrices[m].y_at >= a.matrices[m].out) ++m;  // wraps where it begins later
  return m;
}
/// `y` with what adapter n of the column adds at a value of matrix m.
__device__ __forceinline__ float add_pair(const lora_add_args& a, const column_shared& s, const float* inner,
                                          float y, std::uint32_t at, std::uint32_t m, std::uint32_t n) {
  const column_pair& pair = s.pairs[m][n];
  if (pair.rank == 0) return y;
  const float* const of_pair[1] = {inner + (m * lora_adapters_max + n) * inner_stride(a)};
  float sum[1][1] = {{y}};
  add_ranks<1, 1>(pair.b + (at - a.matrices[m].y_at), lora_stride(a.matrices[m].out), pair.rank, pair.factor,
                  of_pair, sum);
  return sum[0][0];
}
/// `y` with what the adapters from n on add. Not inlined: it is rarely needed, and in many places.
static __device__ __noinline__ float add_pairs(const lora_add_args& a, const column_shared& s,
                                               const float* inner, float y, std::uint32_t at,
                                               std::uint32_t n) {
  const std::uint32_t m = matrix_at(a, at);
  if (m == a.count) return y;
#pragma unroll 1
  for (; n < s.adapters; ++n) y = add_pair(a, s, inner, y, at, m, n);
  return y;
}

/// What a block knows of its column. Positions are those of a row of y; of gate and up they are in gate, and
/// each stands for the one in up as well.
class column_block {
 public:
  __device__ __forceinline__ column_block(const lora_add_args& args, const column_work& work,
                                          column_shared& shared, float* inner)
      : a(args),
        w(work),
        s(shared),
        inner_(inner),
        deltas_(inner + args.count * lora_adapters_max * inner_stride(args)),
        column(blockIdx.x / (cluster_blocks * work.clusters)) {}

  /// Finds the pairs: one warp those of this product, another what is prefetched of the next. Tables and what
  /// has been found are constants by now (prefetch_ranks()). Synchronized at the end.
  __device__ __forceinline__ void read_pairs(const lora_sequel& sequel) const {
    const std::uint32_t m = threadIdx.x % 32 / lora_adapters_max;
    const std::uint32_t n = threadIdx.x % lora_adapters_max;
    const bool ahead = threadIdx.x >= 32;
    if (threadIdx.x < 64 && m < (ahead ? sequel.next.count : a.count)) {
      const lora_matrix& matrix = ahead ? sequel.next.matrices[m] : a.matrices[m];
      const std::uint32_t row = a.of.rows == nullptr ? column : static_cast<std::uint32_t>(a.of.rows[column]);
      const lora_found found =
          sequel.found != nullptr
              ? sequel.found[(row * a.tables.places + matrix.place) * lora_adapters_max + n]
              : find_pair(a.of, a.tables, column, matrix.place, n);
      if (threadIdx.x == 0) s.adapters = found.adapters;
      const float* const room = a.tables.values + found.adapter * a.tables.room;
      (ahead ? s.next : s.pairs)[m][n] = {room + matrix.a_at, room + matrix.b_at, found.rank, found.factor};
    }
    __syncthreads();
  }

  /// Asks L2 for what the next product's kernel will read: memory that is busy with weights would take a
  /// microsecond for each round of it. Each block of the cluster asks for a part.
  __device__ __forceinline__ void prefetch(const lora_next& next) const {
    const std::uint32_t m = (threadIdx.x - 64) / lora_adapters_max;
    const std::uint32_t n = threadIdx.x % lora_adapters_max;
    if (threadIdx.x < 64 || m >= next.count) return;
    const column_pair& pair = s.next[m][n];
    if (pair.rank == 0) return;
    prefetch_part(pair.a, pair.rank * lora_stride(next.in));
    prefetch_part(pair.b, pair.rank * lora_stride(next.matrices[m].out));
  }

  /// A x of the column for all matrices and adapters, by all groups of the cluster, into `inner` of each of
  /// its blocks, [matrices][lora_adapters_max][rank_max].
  __device__ __forceinline__ void multiply() const {
    std::uint32_t parity = 0;
    const std::uint32_t each = s.adapters * a.rank_max;
#pragma unroll 1
    for (std::uint32_t item = cluster_rank() * column_groups + threadIdx.x / threads; item < a.count * each;
         item += cluster_blocks * column_groups) {
      const std::uint32_t m = item / each;
      const std::uint32_t n = item % each / a.rank_max;
      const std::uint32_t r = item % a.rank_max;
      const column_pair& pair = s.pairs[m][n];
      if (r >= pair.rank) continue;
      const float value = multiply_row(pair.a + r * lora_stride(a.in), parity);
      parity ^= 1;
      if (threadIdx.x % threads < cluster_blocks)
        store_in_block(inner_ + (m * lora_adapters_max + n) * inner_stride(a) + r, threadIdx.x % threads,
                       value);
    }
  }

  /// Starts to load what the first adapter has of B for the thread's j-th value.
  __device__ __forceinline__ void load_b(std::uint32_t j, float (&b)[b_ahead]) const {
    const b_place place = place_of(j);
#pragma unroll
    for (std::uint32_t r = 0; r < b_ahead; ++r) {
      b[r] = 0.0F;
      if (r < place.rank) b[r] = place.b[r * place.stride];
    }
  }

  /// After cluster_meets(): keeps the first adapter's B (A x) for the thread's values. `b`: of the first
  /// value.
  __device__ __forceinline__ void keep_deltas(const float (&b)[b_ahead]) const {
    if (s.adapters == 0) return;
    keep_delta(0, b);
#pragma unroll 1
    for (std::uint32_t j = 1; j < w.ahead; j += 2) {
      float two[2][b_ahead];
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) load_b(j + i, two[i]);
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) keep_delta(j + i, two[i]);
    }
  }

  /// When the product has ended: adds to the thread's values.
  __device__ __forceinline__ void add() const {
    constexpr std::uint32_t together = 4;  // loads under way
    if (s.adapters == 0) return;
    float* const row = row_of_y();
#pragma unroll 1
    for (std::uint32_t k = 0; position(k) < w.end; k += together) {
      float y[together];
#pragma unroll
      for (std::uint32_t i = 0; i < together; ++i)
        y[i] = position(k + i) < w.end ? row[position(k + i)] : 0.0F;
#pragma unroll
      for (std::uint32_t i = 0; i < together; ++i) {
        if (position(k + i) < w.end) row[position(k + i)] = with_delta(y[i], k + i);
      }
    }
    if (!needs_more()) return;
#pragma unroll 1
    for (std::uint32_t k = 0; position(k) < w.end; ++k)
      row[position(k)] = with_others(row[position(k)], position(k), k);
  }
  /// The same of gate and up, activated.
  __device__ __forceinline__ void activate() const {
    constexpr std::uint32_t together = 2;
    const float* const gate = row_of_y();
    const float* const up = gate + a.gated.width;
    __half* const act = a.gated.act + static_cast<std::uint64_t>(column) * a.gated.act_stride;
    const auto store = [&](std::uint32_t at, float g, float u) {
      act[at] = to_half(a.gated.clamped ? swiglu_clamped(g, u) : silu(g) * u);
    };
    if (needs_more()) {
#pragma unroll 1
      for (std::uint32_t k = 0; position(k) < w.end; ++k) {
        const std::uint32_t at = position(k);
        const float g = with_others(with_delta(gate[at], 2 * k), at, 2 * k);
        store(at, g, with_others(with_delta(up[at], 2 * k + 1), a.gated.width + at, 2 * k + 1));
      }
      return;
    }
#pragma unroll 1
    for (std::uint32_t k = 0; position(k) < w.end; k += together) {
      float y[together][2];
#pragma unroll
      for (std::uint32_t i = 0; i < together; ++i) {
        const std::uint32_t at = position(k + i);
        y[i][0] = at < w.end ? gate[at] : 0.0F;
        y[i][1] = at < w.end ? up[at] : 0.0F;
      }
#pragma unroll
      for (std::uint32_t i = 0; i < together; ++i) {
        const std::uint32_t at = position(k + i);
        if (at < w.end) store(at, with_delta(y[i][0], 2 * (k + i)), with_delta(y[i][1], 2 * (k + i) + 1));
      }
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ bool is_gated() const {
    return a.gated.act != nullptr;
  }
  [[nodiscard]] __device__ __forceinline__ float* row_of_y() const {
    return a.y + static_cast<std::uint64_t>(column) * a.y_stride;
  }
  /// This block's number among those of the column.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t block() const {
    return blockIdx.x % (cluster_blocks * w.clusters);
  }
  /// The thread's k-th.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t position(std::uint32_t k) const {
    return w.begin + (k * cluster_blocks * w.clusters + block()) * column_threads + threadIdx.x;
  }
  /// One value of A x by the group, as multiply_rows() makes it; all its threads get it. `parity` alternates.
  [[nodiscard]] __device__ __forceinline__ float multiply_row(const float* row, std::uint32_t parity) const {
    const std::uint32_t group = threadIdx.x / threads;
    const std::uint32_t thread = threadIdx.x % threads;
    const float sum = warp_sum(w.aligned && a.halves != nullptr ? multiply_halves(row + 4 * thread, thread)
                                                                : multiply_any(row, thread));
    if (thread % 32 == 0) s.sums[parity][group][thread / 32] = sum;
    sync_group(group);
    float all = 0.0F;
#pragma unroll
    for (std::uint32_t warp = 0; warp < warps; ++warp) all += s.sums[parity][group][warp];
    return all;
  }
  [[nodiscard]] __device__ __forceinline__ static float add_four(float sum, const four& weights,
                                                                 const four& x) {
#pragma unroll
    for (std::uint32_t v = 0; v < 4; ++v) sum = fmaf(weights.v[v], x.v[v], sum);
    return sum;
  }
  /// A thread's part, of rows of x in f16 whose values come in fours.
  [[nodiscard]] __device__ __forceinline__ float multiply_halves(const float* row,
                                                                 std::uint32_t thread) const {
    constexpr std::uint32_t together = 4, step = 4 * threads;
    const __half* x = a.halves + static_cast<std::uint64_t>(column) * a.x_stride + 4 * thread;
    float sum = 0.0F;
#pragma unroll 1
    for (std::uint32_t c = 4 * thread; c < a.in; c += step * together) {
      four weights[together];
      uint2 halves[together];
#pragma unroll
      for (std::uint32_t i = 0; i < together; ++i) {
        if (c + i * step >= a.in) break;
        weights[i] = load_four(row + i * step);
        halves[i] = *reinterpret_cast<const uint2*>(x + i * step);
      }
#pragma unroll
      for (std::uint32_t i = 0; i < together; ++i) {
        if (c + i * step >= a.in) break;
        const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&halves[i].x));
        const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&halves[i].y));
        sum = add_four(sum, weights[i], {{low.x, low.y, high.x, high.y}});
      }
      row += step * together;
      x += step * together;
    }
    return sum;
  }
  /// The same of any rows.
  [[nodiscard]] __device__ __forceinline__ float multiply_any(const float* row, std::uint32_t thread) const {
    float sum = 0.0F;
#pragma unroll 2
    for (std::uint32_t c = 4 * thread; c < a.in; c += 4 * threads)
      sum = add_four(sum, load_four(row + c), load_x(a, column, c, w.aligned));
    return sum;
  }

  /// This block's part of `floats` floats.
  __device__ __forceinline__ void prefetch_part(const float* from, std::uint64_t floats) const {
    const std::uint64_t each = (floats / cluster_blocks + 3) / 4 * 4;  // whole units of 16 bytes
    const std::uint64_t begin = cluster_rank() * each;
    if (begin < floats && block() < cluster_blocks)
      prefetch_l2(from + begin, min(each, floats - begin) * sizeof(float));
  }
  /// Where the thread's j-th value lies in a row of y; past w.end and all matrices: it has none.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t value_at(std::uint32_t j) const {
    const std::uint32_t at = position(is_gated() ? j / 2 : j);
    if (at >= w.end) return 0xFFFFFFFFU;
    return is_gated() && j % 2 != 0 ? a.gated.width + at : at;
  }
  /// What the first adapter has of B for a value.
  struct b_place {
    const float* b = nullptr;
    const float* inner = nullptr;  ///< A x
    std::uint32_t rank = 0;
    std::uint32_t stride = 0;
    float factor = 0.0F;
  };
  [[nodiscard]] __device__ __forceinline__ b_place place_of(std::uint32_t j) const {
    const std::uint32_t at = value_at(j);
    const std::uint32_t m = matrix_at(a, at);
    if (m == a.count || s.adapters == 0) return {};
    const column_pair& pair = s.pairs[m][0];
    return {pair.b + (at - a.matrices[m].y_at), inner_ + m * lora_adapters_max * inner_stride(a), pair.rank,
            static_cast<std::uint32_t>(lora_stride(a.matrices[m].out)), pair.factor};
  }
  /// Nothing is -0, to which every number adds without a change.
  __device__ __forceinline__ void keep_delta(std::uint32_t j, const float (&b)[b_ahead]) const {
    const b_place place = place_of(j);
    float sum = 0.0F;
#pragma unroll
    for (std::uint32_t r = 0; r < b_ahead; r += 4) {
      const four inner = r < place.rank ? load_four(place.inner + r) : four{};
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        if (r + i < place.rank) sum = fmaf(b[r + i], inner.v[i], sum);
      }
    }
#pragma unroll 4
    for (std::uint32_t r = b_ahead; r < place.rank; ++r)
      sum = fmaf(place.b[r * place.stride], place.inner[r], sum);
    const float delta = place.rank == 0 ? -0.0F : __fmul_rn(place.factor, sum);
    deltas_[j * column_threads + threadIdx.x] = delta;
  }
  /// With what the first adapter adds to the thread's j-th value, if that has been made.
  [[nodiscard]] __device__ __forceinline__ float with_delta(float y, std::uint32_t j) const {
    const bool made = s.adapters > 0 && j < w.ahead;
    return made ? __fadd_rn(y, deltas_[j * column_threads + threadIdx.x]) : y;
  }
  /// Whether with_others() has anything to add.
  [[nodiscard]] __device__ __forceinline__ bool needs_more() const {
    return s.adapters > 1 || (s.adapters > 0 && !w.all_ahead);
  }
  /// With what the other adapters add, after with_delta().
  [[nodiscard]] __device__ __forceinline__ float with_others(float y, std::uint32_t at,
                                                             std::uint32_t j) const {
    return add_pairs(a, s, inner_, y, at, j < w.ahead ? 1 : 0);
  }

  const lora_add_args& a;
  const column_work& w;
  column_shared& s;
  float* inner_;
  float* deltas_;  ///< of each thread's values

 public:
  const std::uint32_t column;
};

/// grid: clusters. Before its wait the kernel reads x, which the kernel before the product has written.
__global__ void __launch_bounds__(column_threads, column_residents)
    lora_column_kernel(const __grid_constant__ lora_add_args a, const __grid_constant__ column_work work,
                       const __grid_constant__ lora_sequel sequel) {
  extern __shared__ __align__(16) float inner[];
  __shared__ column_shared shared;
  cluster_arrives();
  const column_block block(a, work, shared, inner);
  block.read_pairs(sequel);
  float b[b_ahead];
  block.load_b(0, b);
  cluster_begins();
  block.multiply();
  cluster_meets();
  block.keep_deltas(b);
  block.prefetch(sequel.next);
  wait_for_previous_kernel();
  allow_next_kernel();
  if (a.gated.act != nullptr)
    block.activate();
  else
    block.add();
}

/// Bytes of A x of a column.
inline std::uint64_t inner_bytes(const lora_add_args& a) {
  return std::uint64_t{a.count} * lora_adapters_max * inner_stride(a) * sizeof(float);
}

/// How the kernel does the columns.
inline column_work work_of(const lora_add_args& a, bool aligned) {
  column_work work;
  work.aligned = aligned && a.in % 4 == 0;
  work.begin = a.matrices[0].y_at;
  for (std::uint32_t m = 0; m < a.count; ++m) {
    work.begin = std::min(work.begin, a.matrices[m].y_at);
    work.end = std::max(work.end, a.matrices[m].y_at + a.matrices[m].out);
  }
  const bool gated = a.gated.act != nullptr;
  if (gated) {
    work.begin = 0;
    work.end = a.gated.width;
  }
  constexpr std::uint32_t round = cluster_blocks * column_threads;
  constexpr std::uint32_t few_columns = 8;  // whose blocks all run at a time even with two clusters each
  if (gated && work.end > round && a.of.columns <= few_columns) work.clusters = 2;
  const std::uint32_t each = round * work.clusters;
  const std::uint32_t values = (work.end - work.begin + each - 1) / each * (gated ? 2 : 1);
  constexpr std::uint64_t other_bytes = 1024 + sizeof(column_shared);  // CUDA takes 1 KiB a block
  const std::uint64_t used = other_bytes + inner_bytes(a);
  const std::uint64_t left = used < lora_shared_bytes ? lora_shared_bytes - used : 0;
  const std::uint64_t most = left / (column_threads * sizeof(float));
  work.ahead = static_cast<std::uint32_t>(std::min<std::uint64_t>(values, most));
  work.all_ahead = work.ahead == values;
  return work;
}

inline cudaError_t launch_columns(const lora_add_args& a, bool aligned, const lora_sequel& sequel,
                                  cudaStream_t stream) {
  const column_work work = work_of(a, aligned);
  // One value more: they are made in twos behind the first.
  const std::uint64_t deltas = std::uint64_t{work.ahead + 1} * column_threads * sizeof(float);
  return launch_dependent_clusters(lora_column_kernel, cluster_blocks,
                                   dim3(a.of.columns * cluster_blocks * work.clusters), dim3(column_threads),
                                   inner_bytes(a) + deltas, stream, a, work, sequel);
}

}  // namespace orcd::kernels::lora_parts
