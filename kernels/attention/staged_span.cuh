// Spans of f16 keys and values on their way to warps that all read the same ones:
//
//   VRAM --> registers of the group's warps, 16 bytes a lane --> shared memory, by matrices of 8 rows
//        --> registers of each warp as operand A, as key_fragment() and value_fragment() have them
//
// A row is cut into blocks of 32 values, of which lane t of four loads values 8t to 8t + 7, four words. Word
// w of the four lanes becomes piece w of the block in shared memory: so a warp gets the registers of an
// operand side by side, where 16 bytes of a row would have to be moved there one register after the other.
// Pieces are permuted by rows, so that those of eight rows lie in different banks.
#pragma once

#include "kernels/attention/paged_attention.cuh"
#include "kernels/device/matrices.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t piece_bytes = 16;
inline constexpr std::uint32_t block_pieces = 4;  ///< of 32 values

/// Pieces of a row of keys.
template <std::uint32_t W>
constexpr std::uint32_t key_pieces = W / 8;

/// By what the number of a piece is permuted in rows that have so many.
template <std::uint32_t Pieces>
__device__ __forceinline__ std::uint32_t permuted_by(std::uint32_t row) {
  return Pieces % 8 == 0 ? row & 7U : row >> 1U & 3U;
}

/// Where a group of warps keeps two spans, of which one is read while the next is stored.
template <std::uint32_t W>
struct staged_spans {
  static constexpr std::uint32_t half_bytes = span_positions * W * 2;  ///< of the keys, and of the values
  static constexpr std::uint32_t span_bytes = 2 * half_bytes;
  static constexpr std::uint32_t bytes = 2 * span_bytes;
};

/// A warp's share of bringing spans into shared memory, by `Warps` warps of which it is one. A span's keys
/// are loaded, then stored, then its values.
template <std::uint32_t W, std::uint32_t Warps>
class span_stager {
 public:
  /// `to` is the address of a staged_spans in shared memory.
  __device__ __forceinline__ span_stager(std::uint32_t to, std::uint32_t warp) : to_(to), warp_(warp) {}

  __device__ __forceinline__ void load_keys(const page_place& place, std::uint32_t span) {
    const auto* const keys = reinterpret_cast<const __half*>(place.keys) + span * W;
    each([&](std::uint32_t unit, uint4& held) {
      held = *reinterpret_cast<const uint4*>(keys + (key_row(unit) + lane() / 4) * W + key_block(unit) * 32 +
                                             8 * (lane() % 4));
    });
  }
  __device__ __forceinline__ void store_keys(std::uint32_t buffer) {
    each([&](std::uint32_t unit, const uint4& held) {
      const std::uint32_t row = key_row(unit) + lane() % 8;
      const std::uint32_t piece =
          (key_block(unit) * block_pieces + lane() / 8) ^ permuted_by<key_pieces<W>>(row);
      store_matrices(at(buffer) + (row * key_pieces<W> + piece) * piece_bytes, held);
    });
  }
  __device__ __forceinline__ void load_values(const page_place& place, std::uint32_t span) {
    const auto* const values = reinterpret_cast<const __half*>(place.values) + span;
    each([&](std::uint32_t unit, uint4& held) {
      held = *reinterpret_cast<const uint4*>(values + (8 * unit + lane() / 4) * engine::kv_page_positions +
                                             8 * (lane() % 4));
    });
  }
  __device__ __forceinline__ void store_values(std::uint32_t buffer) {
    each([&](std::uint32_t unit, const uint4& held) {
      const std::uint32_t row = 8 * unit + lane() % 8;
      const std::uint32_t piece = lane() / 8 ^ permuted_by<block_pieces>(row);
      store_matrices(at(buffer) + staged_spans<W>::half_bytes + (row * block_pieces + piece) * piece_bytes,
                     held);
    });
  }

 private:
  static constexpr std::uint32_t units = W / 8;  ///< of 8 rows by 32 values, of the keys and of the values
  static constexpr std::uint32_t of_warp = (units + Warps - 1) / Warps;

  static __device__ __forceinline__ std::uint32_t lane() { return threadIdx.x % 32; }
  static __device__ __forceinline__ std::uint32_t key_row(std::uint32_t unit) { return unit / (W / 32) * 8; }
  static __device__ __forceinline__ std::uint32_t key_block(std::uint32_t unit) { return unit % (W / 32); }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t at(std::uint32_t buffer) const {
    return to_ + buffer * staged_spans<W>::span_bytes;
  }
  template <class Do>
  __device__ __forceinline__ void each(Do what) {
#pragma unroll
    for (std::uint32_t i = 0; i < of_warp; ++i) {
      const std::uint32_t unit = warp_ + i * Warps;
      if (units % Warps == 0 || unit < units) what(unit, held_[i]);
    }
  }

  std::uint32_t to_;
  std::uint32_t warp_;
  uint4 held_[of_warp];
};

/// A span in shared memory, as the operands that key_fragment() and value_fragment() read from a page.
template <std::uint32_t W>
class staged_span {
 public:
  __device__ __forceinline__ staged_span(std::uint32_t from, std::uint32_t buffer) {
    const std::uint32_t row = threadIdx.x % 16;
    const std::uint32_t half = threadIdx.x % 32 / 16;
    const std::uint32_t keys = from + buffer * staged_spans<W>::span_bytes;
    const std::uint32_t by = permuted_by<key_pieces<W>>(row);
    key_row_ = keys + row * (key_pieces<W> * piece_bytes);
    key_piece_ = (half ^ by) * piece_bytes;
    value_row_ = keys + staged_spans<W>::half_bytes + row * (block_pieces * piece_bytes);
    value_piece_ = (half ^ permuted_by<block_pieces>(row)) * piece_bytes;
  }
  /// Positions 16 r + {0..15}, dimensions 32 j + {0..31}.
  [[nodiscard]] __device__ __forceinline__ kv_fragment key(std::uint32_t r, std::uint32_t j) const {
    const std::uint32_t rows = key_row_ + r * (16 * key_pieces<W> * piece_bytes);
    kv_fragment v;
    load_matrices(v.first, rows + (key_piece_ ^ (j * block_pieces * piece_bytes)));
    load_matrices(v.second, rows + (key_piece_ ^ ((j * block_pieces + 2) * piece_bytes)));
    return v;
  }
  /// Dimensions 16 d + {0..15}.
  [[nodiscard]] __device__ __forceinline__ kv_fragment value(std::uint32_t d) const {
    const std::uint32_t rows = value_row_ + d * (16 * block_pieces * piece_bytes);
    kv_fragment v;
    load_matrices(v.first, rows + value_piece_);
    load_matrices(v.second, rows + (value_piece_ ^ (2 * piece_bytes)));
    return v;
  }

 private:
  std::uint32_t key_row_;
  std::uint32_t key_piece_;
  std::uint32_t value_row_;
  std::uint32_t value_piece_;
};

}  // namespace orcd::kernels
