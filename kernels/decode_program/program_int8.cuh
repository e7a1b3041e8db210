// The input of a ternary product in a decode program: a row that other blocks hand over becomes its norm, and
// that integers with one scale, by the first row_threads threads of every block. The bits are those of
// launch_norm_to_int8(), whose 1,024 threads sum the squares of every 1,024th value: a thread here has two
// neighbouring values of every 512 and keeps four of those sums. The scale of a row is int8_scale_of() of its
// largest value (int8_math.cuh).
//
//   words of other blocks --> values in registers --> sum of squares --> norm, largest --> shared int8
//                                                barrier            barrier
//
// Integers lie as a row's weights do: of each 512 columns the first quarter's of four blocks of 128, then the
// second's, ... So the 16 bytes of a row from byte m on meet those from byte m on of each quarter.
//
// Part of program_kernel.cuh.
#pragma once

#include "kernels/decode_program/program_block.cuh"
#include "kernels/product/int8_math.cuh"

namespace orcd::kernels {
namespace {

/// Columns that a pair of each of the row threads has.
constexpr std::uint32_t pairs_cols = 2 * row_threads;

/// Where the integer of a column lies among those of its 512.
__device__ __forceinline__ std::uint32_t int8_place(std::uint32_t column) {
  return column % 32 | column / 128 % 4 * 32 | column / 32 % 4 * 128;
}

/// Pair m of a thread: values 512 m + 2 thread and the next.
template <bool Halves>
struct value_pair;
template <>
struct value_pair<true> : flagged_one {
  static constexpr std::uint32_t words = 1;
  [[nodiscard]] __device__ __forceinline__ float2 values() const {
    return __half22float2(__halves2half2(__ushort_as_half(static_cast<unsigned short>(data())),
                                         __ushort_as_half(static_cast<unsigned short>(data() >> 16U))));
  }
};
template <>
struct value_pair<false> : flagged_two {
  static constexpr std::uint32_t words = 2;
  [[nodiscard]] __device__ __forceinline__ float2 values() const {
    return {__uint_as_float(data(0)), __uint_as_float(data(1))};
  }
};

/// Pairs of this thread in a row.
__device__ __forceinline__ std::uint32_t pairs_of(std::uint32_t thread, std::uint32_t cols) {
  return thread < cols / 2 ? (cols / 2 - thread + row_threads - 1) / row_threads : 0;
}

/// The sums of squares of a thread's values, and from them what the norm multiplies by.
class pair_squares {
 public:
  /// `m` is that of the pair, or differs from it by an even number.
  __device__ __forceinline__ void add(std::uint32_t m, float2 v) {
    sums_[m % 2].x = fmaf(v.x, v.x, sums_[m % 2].x);
    sums_[m % 2].y = fmaf(v.y, v.y, sums_[m % 2].y);
  }
  /// All row threads. A warp of the kernel of its own is half a warp here.
  __device__ __forceinline__ float norm_scale(int8_scratch& scratch, std::uint32_t cols, float eps) {
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) {
#pragma unroll
      for (float2& sum : sums_) {
        sum.x = __fadd_rn(sum.x, __shfl_xor_sync(0xFFFFFFFFU, sum.x, offset));
        sum.y = __fadd_rn(sum.y, __shfl_xor_sync(0xFFFFFFFFU, sum.y, offset));
      }
    }
    const std::uint32_t thread = thread_here();
    if (thread % 16 == 0) {
#pragma unroll
      for (std::uint32_t m = 0; m < 2; ++m)
        scratch.squares[thread / 16 + 16 * m] = __fadd_rn(sums_[m].x, sums_[m].y);
    }
    sync_row_threads();
    float all = scratch.squares[thread % 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      all = __fadd_rn(all, __shfl_xor_sync(0xFFFFFFFFU, all, offset));
    return rms_scale(all, cols, eps);
  }

 private:
  float2 sums_[2] = {};
};

__device__ __forceinline__ float2 normed(float2 v, float scale, float2 weight) {
  return {__fmul_rn(__fmul_rn(v.x, scale), weight.x), __fmul_rn(__fmul_rn(v.y, scale), weight.y)};
}

/// All row threads: what rounds the row, from each thread's largest magnitude, which is not NaN.
__device__ __forceinline__ float int8_scale_of_row(int8_scratch& scratch, float largest) {
  const std::uint32_t thread = thread_here();
  // Bits of floats that are not negative have their order.
  const std::uint32_t of_warp = __reduce_max_sync(0xFFFFFFFFU, __float_as_uint(largest));
  if (thread % 32 == 0) scratch.largest[thread / 32] = __uint_as_float(of_warp);
  sync_row_threads();
#pragma unroll
  for (const float of_other : scratch.largest) largest = fmaxf(largest, of_other);
  const float scale = int8_scale_of(largest);
  if (thread == 0) scratch.scale = scale;
  return scale;
}

/// Stores the integers of a pair and returns their sum. `x` is where those of the thread's first pair go.
__device__ __forceinline__ std::int32_t store_integers(std::int8_t* x, std::uint32_t m, float2 v,
                                                       float scale) {
  const std::int32_t first = to_int8(v.x, scale);
  const std::int32_t second = to_int8(v.y, scale);
  *reinterpret_cast<std::uint16_t*>(x + m * pairs_cols) =
      static_cast<std::uint16_t>((first & 0xFF) | (second & 0xFF) << 8);
  return first + second;
}

__device__ __forceinline__ void keep_sum_of_integers(int8_scratch& scratch, std::int32_t sum) {
  sum = __reduce_add_sync(0xFFFFFFFFU, sum);
  const std::uint32_t thread = thread_here();
  if (thread % 32 == 0) scratch.sums[thread / 32] = sum;
}

/// The row threads: the input of `its` product, of up to `Pairs` pairs a thread.
template <bool Halves, std::uint32_t Pairs>
__device__ __forceinline__ void round_at_once(const std::uint64_t* in, const ternary_phase& its,
                                              std::uint32_t cols, std::uint32_t flag, std::int8_t* x,
                                              int8_scratch& scratch) {
  using pair = value_pair<Halves>;
  const std::uint32_t thread = thread_here();
  const std::uint32_t inside = pairs_of(thread, cols);
  const bool has_norm = its.norm_weight != nullptr;
  float2 v[Pairs];
  float2 weights[Pairs];
  {
    pair words[Pairs];
    gather(
        words, inside, flag, [&](std::uint32_t m) { return in + pair::words * (thread + m * row_threads); },
        [&] {
#pragma unroll
          for (std::uint32_t m = 0; m < Pairs; ++m)
            weights[m] =
                has_norm && m < inside
                    ? __ldg(reinterpret_cast<const float2*>(its.norm_weight) + thread + m * row_threads)
                    : float2{1.0F, 1.0F};
        });
#pragma unroll
    for (std::uint32_t m = 0; m < Pairs; ++m) v[m] = words[m].values();
  }
  float scale = 1.0F;
  if (has_norm) {
    pair_squares squares;
#pragma unroll
    for (std::uint32_t m = 0; m < Pairs; ++m) squares.add(m, v[m]);
    scale = squares.norm_scale(scratch, cols, its.eps);
  }
  float largest = int8_least_range;
#pragma unroll
  for (std::uint32_t m = 0; m < Pairs; ++m) {
    v[m] = normed(v[m], scale, weights[m]);
    largest = fmaxf(largest, fmaxf(fabsf(v[m].x), fabsf(v[m].y)));
  }
  const float to_int = int8_scale_of_row(scratch, largest);
  std::int8_t* const to = x + int8_place(2 * thread);
  std::int32_t sum = 0;
#pragma unroll
  for (std::uint32_t m = 0; m < Pairs; ++m)
    if (m < inside) sum += store_integers(to, m, v[m], to_int);
  keep_sum_of_integers(scratch, sum);
}

/// The same for a row of any width, which is read three times.
template <bool Halves>
__device__ __forceinline__ void round_in_parts(const std::uint64_t* in, const ternary_phase& its,
                                               std::uint32_t cols, std::uint32_t flag, std::int8_t* x,
                                               int8_scratch& scratch) {
  using pair = value_pair<Halves>;
  constexpr std::uint32_t at_once = 4;  // even, as pair_squares needs
  const std::uint32_t thread = thread_here();
  const std::uint32_t inside = pairs_of(thread, cols);
  const bool has_norm = its.norm_weight != nullptr;
  const auto each = [&](auto use) {
#pragma unroll 1
    for (std::uint32_t first = 0; first < inside; first += at_once) {
      pair words[at_once];
      gather(words, inside - first, flag,
             [&](std::uint32_t k) { return in + pair::words * (thread + (first + k) * row_threads); });
#pragma unroll
      for (std::uint32_t k = 0; k < at_once; ++k)
        if (first + k < inside) use(k, first + k, words[k].values());
    }
  };
  float scale = 1.0F;
  if (has_norm) {
    pair_squares squares;
    each([&](std::uint32_t k, std::uint32_t, float2 v) { squares.add(k, v); });
    scale = squares.norm_scale(scratch, cols, its.eps);
  }
  const auto value = [&](std::uint32_t m, float2 v) {
    const auto* const weights = reinterpret_cast<const float2*>(its.norm_weight);
    return normed(v, scale, has_norm ? __ldg(weights + thread + m * row_threads) : float2{1.0F, 1.0F});
  };
  float largest = int8_least_range;
  each([&](std::uint32_t, std::uint32_t m, float2 v) {
    v = value(m, v);
    largest = fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y)));
  });
  const float to_int = int8_scale_of_row(scratch, largest);
  std::int8_t* const to = x + int8_place(2 * thread);
  std::int32_t sum = 0;
  each([&](std::uint32_t, std::uint32_t m, float2 v) { sum += store_integers(to, m, value(m, v), to_int); });
  keep_sum_of_integers(scratch, sum);
}

/// The row threads: waits for the words of a product's input and leaves it as integers in `x`, with its scale
/// and sums in `scratch`. They have synchronized since the scale was stored, not since the sums were.
template <bool Halves>
__device__ __forceinline__ void round_input(const std::uint64_t* in, const ternary_phase& its,
                                            std::uint32_t cols, std::uint32_t flag, std::int8_t* x,
                                            int8_scratch& scratch) {
  if (cols <= 5 * pairs_cols)
    round_at_once<Halves, 5>(in, its, cols, flag, x, scratch);
  else if (cols <= 14 * pairs_cols)
    round_at_once<Halves, 14>(in, its, cols, flag, x, scratch);
  else
    round_in_parts<Halves>(in, its, cols, flag, x, scratch);
}

}  // namespace
}  // namespace orcd::kernels
