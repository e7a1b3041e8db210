// The epilogue of the throughput product: row scale and bias, then stored, added to the residual stream, or
// combined with the sums of the neighbouring warp as gate and up.
#pragma once

#include "kernels/device/device_math.cuh"
#include "kernels/product/packed_matmul_memory.cuh"
#include "kernels/product/paired_activation.cuh"

namespace orcd::kernels {

/// Scales and biases of four neighbouring output rows of one matrix.
struct output_rows {
  float scale[4];
  float bias[4];
  std::uint32_t inside = 0;  ///< how many of the four rows there are
  bool scaled = false;
  bool biased = false;

  __device__ output_rows(const packed_matmul_args& a, std::uint32_t matrix, std::uint32_t first, bool live,
                         std::uint32_t expert)
      : scaled(a.w[matrix].row_scale != nullptr), biased(a.bias[matrix] != nullptr) {
    const packed_matrix& w = a.w[matrix];
    if (live && first < w.rows) inside = min(4U, w.rows - first);
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) {
      scale[i] = scaled && i < inside ? w.row_scale[expert * w.row_scale_stride + first + i] : 1.0F;
      bias[i] = biased && i < inside ? a.bias[matrix][expert * w.rows + first + i] : 0.0F;
    }
  }
  /// In the order of the few-column epilogue: scale, then bias, each only if there is one.
  [[nodiscard]] __device__ float4 finish(const float4& sums) const {
    return {finish(sums.x, 0), finish(sums.y, 1), finish(sums.z, 2), finish(sums.w, 3)};
  }

 private:
  [[nodiscard]] __device__ float finish(float sum, std::uint32_t i) const {
    if (scaled) sum = __fmul_rn(sum, scale[i]);
    if (biased) sum = __fadd_rn(sum, bias[i]);
    return sum;
  }
};

/// Transposes 16 rows by 8 columns of a warp's sums through its 1 KiB of shared memory, which has room for
/// two such tiles. Before, lane (g, t) has rows g and g + 8 of columns 2t and 2t + 1, as the tensor cores
/// leave them; afterwards a lane has four neighbouring rows of one column. Neither access has a bank
/// conflict: columns are 16 floats, those of t = 0 to 3 in the order 0, 1, 4, 5 (odd columns two further),
/// those of t = 2 and 3 with their halves exchanged.
struct tile_exchange {
  float4* base;  ///< of the block
  std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t warp = threadIdx.x / 32;

  /// The row and column that the lane has afterwards.
  [[nodiscard]] __device__ std::uint32_t row() const { return (lane % 4 * 4) ^ (lane / 16 * 8); }
  [[nodiscard]] __device__ std::uint32_t column() const {
    return 2 * (lane / 4 % 2 + lane / 16 * 2) + lane / 8 % 2;
  }

  /// Writes the lane's four sums of a column tile, as the tensor cores leave them.
  __device__ void put(std::uint32_t which, const float* sums) const {
    const std::uint32_t t = lane % 4;
    auto* to = reinterpret_cast<float*>(base + warp * 64 + which * 32) + (t % 2 + t / 2 * 4) * 16 + lane / 4;
    const std::uint32_t first = t / 2 * 8;
    to[first] = sums[0];
    to[first + 32] = sums[1];
    to[8 - first] = sums[2];
    to[8 - first + 32] = sums[3];
  }
  [[nodiscard]] __device__ float4 take(std::uint32_t from_warp, std::uint32_t which) const {
    return base[from_warp * 64 + which * 32 + lane];
  }
};

/// Finishes the sums of four neighbouring rows and stores them or adds them to the residual stream.
class row_writer {
 public:
  /// Row `row` of the tile and the three after it.
  __device__ row_writer(const tiled_matmul_args& args, const column_range& range, const row_tile& place,
                        std::uint32_t row)
      : args_(args),
        range_(range),
        rows_(args.matmul, place.matrix, place.tile * tile_rows + row, place.live, range.expert),
        out_(args.matmul.out + place.out_row + place.tile * tile_rows + row),
        quads_(rows_.inside == 4 && args.matmul.out_stride % 4 == 0 &&
               reinterpret_cast<std::uintptr_t>(out_) % 16 == 0),
        adding_(args.matmul.output == matmul_output::add) {}

  /// The address of a column of the item; null for none.
  [[nodiscard]] __device__ float* target(std::uint32_t column) const {
    if (column >= range_.count) return nullptr;
    return out_ +
           static_cast<std::uint64_t>(column_at(args_, range_.first + column)) * args_.matmul.out_stride;
  }
  /// Reads what is stored there, for write(); may be called early.
  [[nodiscard]] __device__ float4 old(const float* to) const {
    return adding_ && quads_ && to != nullptr ? *reinterpret_cast<const float4*>(to) : float4{};
  }
  __device__ void write(float* to, const float4& old, const float4& sums) const {
    if (to == nullptr) return;
    const float4 value = rows_.finish(sums);
    if (quads_) {
      *reinterpret_cast<float4*>(to) = adding_ ? float4{__fadd_rn(old.x, value.x), __fadd_rn(old.y, value.y),
                                                        __fadd_rn(old.z, value.z), __fadd_rn(old.w, value.w)}
                                               : value;
      return;
    }
    const float one[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (std::uint32_t r = 0; r < 4; ++r) {
      if (r < rows_.inside) to[r] = adding_ ? __fadd_rn(to[r], one[r]) : one[r];
    }
  }

 private:
  const tiled_matmul_args& args_;
  const column_range& range_;
  output_rows rows_;
  float* out_;
  bool quads_;
  bool adding_;
};

/// Activates and stores the gate and up sums of the same four rows, in this order.
template <half_order Order>
class pair_writer {
 public:
  __device__ pair_writer(const tiled_matmul_args& args, const column_range& range, const row_tile& place,
                         std::uint32_t row)
      : args_(args),
        range_(range),
        gate_(args.matmul, 0, place.tile * tile_rows + row, place.live, range.expert),
        up_(args.matmul, 1, place.tile * tile_rows + row, place.live, range.expert),
        act_(args.matmul.act + place_of_half(Order, place.tile * tile_rows + row)),
        quads_(gate_.inside == 4 && args.matmul.act_stride % 4 == 0 &&
               reinterpret_cast<std::uintptr_t>(act_) % 8 == 0),
        output_(args.matmul.output) {}

  __device__ void write(std::uint32_t column, const float4& gate_sums, const float4& up_sums) const {
    if (column >= range_.count) return;
    const float4 gate = gate_.finish(gate_sums);
    const float4 up = up_.finish(up_sums);
    const float g[4] = {gate.x, gate.y, gate.z, gate.w};
    const float u[4] = {up.x, up.y, up.z, up.w};
    __half values[4];
#pragma unroll
    for (std::uint32_t r = 0; r < 4; ++r) values[r] = activated(output_, g[r], u[r]);
    __half* const to =
        act_ + static_cast<std::uint64_t>(column_at(args_, range_.first + column)) * args_.matmul.act_stride;
    const uint2 words{as_bits(__halves2half2(values[0], values[1])),
                      as_bits(__halves2half2(values[2], values[3]))};
    if constexpr (Order == half_order::packed) {
      // Rows are a multiple of 64 then, so that there are all four or none.
      if (gate_.inside == 0) return;
      *reinterpret_cast<std::uint32_t*>(to) = words.x;
      *reinterpret_cast<std::uint32_t*>(to + place_of_half(Order, 2)) = words.y;
      return;
    }
    if (quads_) {
      *reinterpret_cast<uint2*>(to) = words;
      return;
    }
#pragma unroll
    for (std::uint32_t r = 0; r < 4; ++r) {
      if (r < gate_.inside) to[r] = values[r];
    }
  }

 private:
  const tiled_matmul_args& args_;
  const column_range& range_;
  output_rows gate_;
  output_rows up_;
  __half* act_;
  bool quads_;
  matmul_output output_;
};

/// Stores a warp's row tile: sums[4c + i] is row g + 8 (i / 2), column 8c + 2t + i % 2.
template <std::uint32_t N>
__device__ void store_sums(const tiled_matmul_args& args, const column_range& range, const row_tile& place,
                           const float (&sums)[N / 2], float4* exchange) {
  const tile_exchange tile{exchange};
  const row_writer rows(args, range, place, tile.row());
#pragma unroll
  for (std::uint32_t c = 0; c < N / 8; c += 2) {
    float* to[2] = {};
    float4 old[2] = {};
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
      to[i] = rows.target((c + i) * 8 + tile.column());
      old[i] = rows.old(to[i]);
      tile.put(i, sums + 4 * (c + i));
    }
    __syncwarp();
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) rows.write(to[i], old[i], tile.take(tile.warp, i));
    __syncwarp();
  }
}

/// Stores gate and up of a pair of warps: the even warp takes the even column tiles, the other the odd ones.
template <std::uint32_t N, half_order Order>
__device__ void store_paired(const tiled_matmul_args& args, const column_range& range, const row_tile& place,
                             const float (&sums)[N / 2], float4* exchange) {
  const tile_exchange tile{exchange};
  const std::uint32_t even = tile.warp & ~1U;
  const std::uint32_t mine = tile.warp % 2;
  const pair_writer<Order> rows(args, range, place, tile.row());
#pragma unroll
  for (std::uint32_t c = 0; c < N / 8; c += 2) {
    tile.put(0, sums + 4 * c);
    tile.put(1, sums + 4 * c + 4);
    named_barrier(1 + tile.warp / 2, 64);
    const float4 gate = tile.take(even, mine);
    const float4 up = tile.take(even + 1, mine);
    named_barrier(1 + tile.warp / 2, 64);
    rows.write((c + mine) * 8 + tile.column(), gate, up);
  }
}

}  // namespace orcd::kernels
