// What the kernels of LoRA adapters share: which adapters a column has, where their values lie, and how they
// are multiplied and added (lora.hpp).
#pragma once

#include "kernels/device/device_math.cuh"
#include "kernels/layer/lora_args.hpp"

namespace orcd::kernels::lora_parts {

constexpr std::uint32_t threads = 128;
constexpr std::uint32_t warps = threads / 32;

__device__ __forceinline__ const step_token& step_of(const lora_columns& of, std::uint32_t column) {
  return of.steps[of.rows == nullptr ? column : static_cast<std::uint32_t>(of.rows[column])];
}
__device__ __forceinline__ const lora_slot& slot_of(const lora_columns& of, std::uint32_t column) {
  return of.slots[step_of(of, column).slot];
}
__device__ __forceinline__ lora_held held_of(const lora_tables& all, std::int32_t adapter,
                                             std::uint32_t place) {
  return all.held[static_cast<std::uint64_t>(adapter) * all.places + place];
}
__device__ __forceinline__ const float* room_of(const lora_tables& all, std::int32_t adapter) {
  return all.values + static_cast<std::uint64_t>(adapter) * all.room;
}
struct four {
  float v[4];
};
__device__ __forceinline__ four load_four(const float* at) {
  const float4 loaded = *reinterpret_cast<const float4*>(at);
  return {{loaded.x, loaded.y, loaded.z, loaded.w}};
}

template <std::uint32_t Values>
__device__ __forceinline__ void load_values(const float* from, float (&to)[Values]) {
  static_assert(Values == 1 || Values == 4);
  if constexpr (Values == 4) {
    const four loaded = load_four(from);
#pragma unroll
    for (std::uint32_t v = 0; v < 4; ++v) to[v] = loaded.v[v];
  } else {
    to[0] = *from;
  }
}

/// Four values of x from `c` on; what lies behind the row's end is 0. `aligned`: rows begin at multiples of
/// four values, so that one load takes them.
__device__ __forceinline__ four load_x(const lora_add_args& a, std::uint32_t column, std::uint32_t c,
                                       bool aligned) {
  const std::uint64_t at = static_cast<std::uint64_t>(column) * a.x_stride + c;
  if (aligned && c + 4 <= a.in) {
    if (a.floats != nullptr) return load_four(a.floats + at);
    const uint2 raw = *reinterpret_cast<const uint2*>(a.halves + at);
    const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&raw.x));
    const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&raw.y));
    return {{low.x, low.y, high.x, high.y}};
  }
  four out{};
  for (std::uint32_t i = 0; i < 4 && c + i < a.in; ++i)
    out.v[i] = a.floats != nullptr ? a.floats[at + i] : __half2float(a.halves[at + i]);
  return out;
}

/// Prefetches what a thread reads of B that adds to Values values from `row` of the matrix on, so that it
/// comes while the product before the kernel still runs: the tables, A and B are constants by then
/// (launch.cuh), because other kernels are between what writes them and these.
template <std::uint32_t Values>
__device__ __forceinline__ void prefetch_ranks(const lora_add_args& a, const lora_matrix& matrix,
                                               std::uint32_t column, std::uint32_t row) {
  constexpr std::uint32_t sharing = l2_sector_bytes / sizeof(float) / Values;
  const lora_slot& slot = slot_of(a.of, column);
  if (threadIdx.x % sharing != 0 || row >= matrix.out) return;
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n) {
    const std::int32_t adapter = slot.uses[n].adapter;
    const auto rank = static_cast<std::uint32_t>(held_of(a.tables, adapter, matrix.place).rank);
    const float* b = room_of(a.tables, adapter) + matrix.b_at + row;
    for (std::uint32_t r = 0; r < rank; ++r) prefetch_sector(b + r * lora_stride(matrix.out));
  }
}

/// Adds `rank` ranks of B, which lie `stride` apart from `b` on, to Values values of y of each column;
/// `inner`: A x of each.
template <std::uint32_t Values, std::uint32_t Columns>
__device__ __forceinline__ void add_ranks(const float* b, std::uint64_t stride, std::uint32_t rank,
                                          float factor, const float* const (&inner)[Columns],
                                          float (&y)[Columns][Values]) {
  constexpr std::uint32_t together = Columns * Values == 1 ? 16 : Columns == 1 ? 8 : 4;  // loads under way
  float sum[Columns][Values] = {};
  for (std::uint32_t first = 0; first < rank; first += together) {
    float weight[together][Values];
#pragma unroll
    for (std::uint32_t i = 0; i < together; ++i) {
      if (first + i < rank) load_values(b + (first + i) * stride, weight[i]);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < together; ++i) {
      if (first + i >= rank) break;
#pragma unroll
      for (std::uint32_t c = 0; c < Columns; ++c) {
        const float x = inner[c][first + i];
#pragma unroll
        for (std::uint32_t v = 0; v < Values; ++v) sum[c][v] = fmaf(weight[i][v], x, sum[c][v]);
      }
    }
  }
#pragma unroll
  for (std::uint32_t c = 0; c < Columns; ++c) {
#pragma unroll
    for (std::uint32_t v = 0; v < Values; ++v) y[c][v] = __fadd_rn(y[c][v], __fmul_rn(factor, sum[c][v]));
  }
}

/// Adds an adapter to Values values of y from `row` of the matrix on, of each column; `inner`: A x of each.
template <std::uint32_t Values, std::uint32_t Columns>
__device__ __forceinline__ void add_adapter_rows(const lora_tables& all, const lora_matrix& matrix,
                                                 std::uint32_t row, const lora_use& use,
                                                 const float* const (&inner)[Columns],
                                                 float (&y)[Columns][Values]) {
  const lora_held held = held_of(all, use.adapter, matrix.place);
  if (held.rank == 0) return;
  add_ranks<Values, Columns>(room_of(all, use.adapter) + matrix.b_at + row, lora_stride(matrix.out),
                             static_cast<std::uint32_t>(held.rank), __fmul_rn(use.strength, held.scale),
                             inner, y);
}

}  // namespace orcd::kernels::lora_parts
