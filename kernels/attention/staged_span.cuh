// Spans of f16 keys and values on their way to warpgroups that all read the same ones:
//
//   VRAM --> registers, 16 bytes a lane --> shared memory, as matrices of 8 rows by 16 bytes --> operand B
//
// paged_attention.cuh says in which order the dimensions of a head are multiplied: of 32, those that are 0 to
// 3 modulo 8 come first. So word w of the four lanes that load 32 dimensions is piece w, the matrix that has
// eight values of k. Queries, operand A, are cut in the same way.
//
// Scores are [query][position]. Lane t of four gets eight positions of a query: such ones that it can add its
// probabilities in the order of span_softmax(), and that they are its part of operand A of the product with
// the values as they are. That is position_of_row(); values_of() has the same order. Each 16 positions are
// those of one mma of decode, in another order: tensor cores of Hopper add 16 products to a sum at once, so
// that their order changes no bit (attention_test.cpp would show it).
#pragma once

#include "kernels/attention/paged_attention.cuh"
#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/matrices.cuh"
#include "kernels/product/wgmma_shared.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t warpgroup_queries = 64;
inline constexpr std::uint32_t piece_values = 8;
inline constexpr std::uint32_t block_values = 32;  ///< dimensions that four lanes load
inline constexpr std::uint32_t span_matrices = span_positions / piece_values;

/// Matrices of eight rows of a head.
template <std::uint32_t W>
constexpr std::uint32_t row_matrices = W / piece_values;

/// The position in its span of row `row` of the keys: row 8n + 2t + c has the (n % 2 * 2 + c)-th eight's
/// position t + n / 2 * 4.
__device__ __forceinline__ std::uint32_t position_of_row(std::uint32_t row) {
  const std::uint32_t n = row / 8;
  return piece_values * (n % 2 * 2 + row % 2) + row % 8 / 2 + n / 2 * 4;
}

/// One warp: eight rows by 32 values as matrices from `to` on. Lane l has 8 (l % 4) to 8 (l % 4) + 7 of row l
/// / 4.
__device__ __forceinline__ void store_pieces(std::uint32_t to, const uint4& values) {
  const std::uint32_t lane = threadIdx.x % 32;
  store_matrices(to + lane / 8 * matrix_bytes + lane % 8 * 16, values);
}

/// Shared memory of a span: the keys, 32 rows, then the values, a row a dimension.
template <std::uint32_t W>
struct span_bytes {
  static constexpr std::uint32_t half = span_positions * W * 2;
  static constexpr std::uint32_t whole = 2 * half;
};

/// A warp's share of bringing spans into shared memory, by `Warps` warps of which it is one.
template <std::uint32_t W, std::uint32_t Warps>
class span_stager {
 public:
  __device__ __forceinline__ explicit span_stager(std::uint32_t warp) : warp_(warp) {
    const std::uint32_t lane = threadIdx.x % 32;
    each<key_units>([&](std::uint32_t unit, std::uint32_t i) {
      const std::uint32_t rows = unit / blocks;
      const std::uint32_t block = unit % blocks;
      keys_[i].from = position_of_row(rows * 8 + lane / 4) * W + block * block_values + 8 * (lane % 4);
      keys_[i].to = (rows * row_matrices<W> + block * (block_values / piece_values)) * matrix_bytes;
      keep(keys_[i]);
    });
    each<value_units>([&](std::uint32_t unit, std::uint32_t i) {
      const std::uint32_t row = 16 * unit + lane % 16;
      const std::uint32_t half = lane / 16;
      values_[i].from = row * engine::kv_page_positions + 16 * half;
      values_[i].to = span_bytes<W>::half + (row / 8 * span_matrices + half) * matrix_bytes + row % 8 * 16;
      keep(values_[i]);
    });
  }

  /// `span`: its first position in the page.
  __device__ __forceinline__ void load(const page_place& place, std::uint32_t span) {
    const auto* const keys = reinterpret_cast<const __half*>(place.keys);
    each<key_units>([&](std::uint32_t, std::uint32_t i) {
      held_keys_[i] = *reinterpret_cast<const uint4*>(keys + (span * W + keys_[i].from));
    });
    const auto* const values = reinterpret_cast<const __half*>(place.values);
    each<value_units>([&](std::uint32_t, std::uint32_t i) {
      const auto* const from = reinterpret_cast<const uint4*>(values + (span + values_[i].from));
      low_values_[i] = from[0];
      high_values_[i] = from[1];
    });
  }
  __device__ __forceinline__ void store(std::uint32_t to) const {
    each<key_units>([&](std::uint32_t, std::uint32_t i) { store_pieces(to + keys_[i].to, held_keys_[i]); });
    each<value_units>([&](std::uint32_t, std::uint32_t i) {
      const uint4& low = low_values_[i];
      const uint4& high = high_values_[i];
      store_piece(to + values_[i].to, low.x, low.y, high.x, high.y);
      store_piece(to + values_[i].to + 2 * matrix_bytes, low.z, low.w, high.z, high.w);
    });
    fence_shared_for_async();
  }

 private:
  /// Where a lane's part of a unit comes from, in values from the span's first, and goes to, in bytes.
  struct lane_way {
    std::uint32_t from;
    std::uint32_t to;
  };
  static constexpr std::uint32_t blocks = W / block_values;
  static constexpr std::uint32_t key_units = span_positions / 8 * blocks;  ///< of 8 positions, 32 dimensions
  static constexpr std::uint32_t value_units = W / 16;                     ///< of 16 dimensions, 32 positions
  template <std::uint32_t Units>
  static constexpr std::uint32_t of_warp = (Units + Warps - 1) / Warps;

  /// Keeps the compiler from computing them again for each span.
  static __device__ __forceinline__ void keep(lane_way& way) {
    asm volatile("" : "+r"(way.from), "+r"(way.to));
  }
  /// Positions 2w and 2w + 1 of one eight in `low`, of the next in `high`, two words each: four words with a
  /// position of each eight.
  static __device__ __forceinline__ void store_piece(std::uint32_t to, std::uint32_t low0, std::uint32_t low1,
                                                     std::uint32_t high0, std::uint32_t high1) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(__byte_perm(low0, high0, 0x5410)),
                 "r"(__byte_perm(low0, high0, 0x7632)), "r"(__byte_perm(low1, high1, 0x5410)),
                 "r"(__byte_perm(low1, high1, 0x7632))
                 : "memory");
  }
  template <std::uint32_t Units, class Do>
  __device__ __forceinline__ void each(Do what) const {
#pragma unroll
    for (std::uint32_t i = 0; i < of_warp<Units>; ++i) {
      const std::uint32_t unit = warp_ + i * Warps;
      if (Units % Warps == 0 || unit < Units) what(unit, i);
    }
  }

  std::uint32_t warp_;
  lane_way keys_[of_warp<key_units>];
  lane_way values_[of_warp<value_units>];
  uint4 held_keys_[of_warp<key_units>];
  uint4 low_values_[of_warp<value_units>];   ///< positions 16 h + {0..7} of a dimension
  uint4 high_values_[of_warp<value_units>];  ///< positions 16 h + {8..15}
};

/// The keys of the span at `span` as operand B; the values, from dimension `first` on.
template <std::uint32_t W>
__device__ __forceinline__ std::uint64_t keys_of(std::uint32_t span) {
  return operand_of_matrices(span, row_matrices<W> * matrix_bytes);
}
template <std::uint32_t W>
__device__ __forceinline__ std::uint64_t values_of(std::uint32_t span, std::uint32_t first) {
  constexpr std::uint32_t next_rows = span_matrices * matrix_bytes;
  return operand_of_matrices(span + span_bytes<W>::half + first / 8 * next_rows, next_rows);
}

}  // namespace orcd::kernels
