// Shapes of the layers that bench_cuda_layer_floor runs through, known when it is compiled.
#pragma once

#include <cstdint>

#include "kernels/decode_program.hpp"
#include "kernels/device_math.cuh"
#include "kernels/packed_matrix.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t blocks = 132;
constexpr std::uint32_t warps = 16;  ///< that multiply
constexpr std::uint32_t threads = warps * 32;
constexpr std::uint32_t bringing_warps = row_threads / 32;  ///< that bring a phase's input
constexpr std::uint32_t storing_threads = 128;              ///< the last: one for each output
constexpr std::uint32_t slots = 4;                          ///< of a warp's ring
constexpr std::uint32_t slot_bytes = 2304;                  ///< of a chunk of Q4_K, the largest here
constexpr std::uint32_t chunks_max = 32;                    ///< of a warp, in a layer
constexpr std::uint32_t sums_max = 144;                     ///< chunks of a block, in a phase
constexpr std::uint32_t experts = 32;
constexpr std::uint32_t used = 4;

/// A warp's first chunk of a product; every warps-th after it is its own, too. Those that bring no input come
/// first.
__device__ __forceinline__ std::uint32_t first_chunk(std::uint32_t warp) {
  return (warp + warps - bringing_warps) % warps;
}

template <std::uint32_t Width, std::uint32_t Ffn, std::uint32_t Heads, std::uint32_t KvHeads,
          std::uint32_t HeadWidth, std::uint32_t Layers, bool Mixture>
struct shape {
  static constexpr std::uint32_t width = Width, ffn = Ffn, heads = Heads, head_width = HeadWidth;
  static constexpr std::uint32_t layers = Layers, qkv = (Heads + 2 * KvHeads) * HeadWidth;
  static constexpr bool mixture = Mixture;
  static constexpr std::uint32_t items = Mixture ? used : 1;  ///< products that gate and up, and down, are of
  static constexpr std::uint32_t phases = Mixture ? 7 : 5;
};
/// Columns of Q4_K must be a multiple of 256: Qwen's 896 are 1,024 here, which is 16 % more bytes.
using qwen = shape<1024, 4864, 16, 2, 64, 24, false>;
using phi = shape<3072, 8192, 32, 32, 96, 32, false>;
/// Its QKV and output products are Q4_K here, half of its own bytes, and QKV's columns 2,816.
using gpt_oss = shape<2880, 2880, 64, 8, 64, 24, true>;

/// A product of `Items` times Rows / 16 row tiles; gate and up are two members of one.
template <packed_format Format, std::uint32_t Rows, std::uint32_t Cols, std::uint32_t Members,
          std::uint32_t Items, std::uint64_t At>
struct product_shape {
  static constexpr packed_format format = Format;
  static constexpr unit_layout unit = layout_of(Format);
  static constexpr std::uint32_t cols = Cols / unit.cols * unit.cols;
  static constexpr std::uint32_t members = Members;
  static constexpr std::uint32_t item_tiles = Rows / tile_rows, tiles = item_tiles * Items;
  static constexpr std::uint32_t chunks = (cols + chunk_cols - 1) / chunk_cols;  ///< of a row tile
  static constexpr std::uint32_t chunk_bytes = unit.bytes() * (chunk_cols / unit.cols);
  static constexpr std::uint32_t tile_bytes = unit.bytes() * (cols / unit.cols);
  static constexpr bool of_experts = Items > 1;
  static constexpr std::uint64_t expert_bytes = std::uint64_t{item_tiles} * members * tile_bytes;
  static constexpr std::uint64_t read = expert_bytes * Items;  ///< bytes
  static constexpr std::uint64_t at = At;                      ///< its first byte in a layer
  static constexpr std::uint64_t end = At + expert_bytes * (of_experts ? experts : 1);
  // Of one block, at most:
  static constexpr std::uint32_t outputs_most = (tiles + blocks - 1) / blocks * tile_rows;
  static constexpr std::uint32_t chunks_most = outputs_most / tile_rows * members * chunks;
  static constexpr std::uint32_t warp_chunks_most = (chunks_most + warps - 1) / warps;
  static_assert(outputs_most <= storing_threads && chunks_most <= sums_max && chunk_bytes <= slot_bytes);
  static_assert(blocks % Items == 0);  // a block's tiles are of one expert

  static __device__ __forceinline__ std::uint32_t first_tile() { return tiles * blockIdx.x / blocks; }
  static __device__ __forceinline__ std::uint32_t tiles_here() {
    return tiles * (blockIdx.x + 1) / blocks - first_tile();
  }
  static __device__ __forceinline__ std::uint32_t chunks_here() { return tiles_here() * members * chunks; }
  /// Which of the chosen experts the block has a part of.
  static __device__ __forceinline__ std::uint32_t item() { return first_tile() / item_tiles; }
  /// Of a chunk of a row tile.
  static __device__ __forceinline__ std::uint32_t bytes_of(std::uint32_t chunk) {
    return min(chunk_bytes, tile_bytes - chunk * chunk_bytes);
  }
  static __device__ __forceinline__ std::uint32_t groups(std::uint32_t chunk) {
    constexpr std::uint32_t last = (cols - (chunks - 1) * chunk_cols) / group_cols;
    return last == groups_per_chunk || chunk + 1 < chunks ? groups_per_chunk : last;
  }
};

template <class S>
struct layer_of {
  static constexpr packed_format dense = packed_format::q4_k;
  static constexpr packed_format ffn = S::mixture ? packed_format::mxfp4 : dense;
  using qkv = product_shape<dense, S::qkv, S::width, 1, 1, 0>;
  using output = product_shape<dense, S::width, S::heads * S::head_width, 1, 1, qkv::end>;
  using gate_up = product_shape<ffn, S::ffn, S::width, 2, S::items, output::end>;
  using down = product_shape<ffn, S::width, S::ffn, 1, S::items, gate_up::end>;
  static constexpr std::uint64_t bytes = down::end;
  static constexpr std::uint64_t read = qkv::read + output::read + gate_up::read + down::read;
  static_assert(bytes <= 0xFFFFFFFFU);
  static_assert(qkv::warp_chunks_most + output::warp_chunks_most + gate_up::warp_chunks_most +
                    down::warp_chunks_most <=
                chunks_max);
  static_assert(output::outputs_most <= own_rows_max);
};

}  // namespace
}  // namespace orcd::kernels
