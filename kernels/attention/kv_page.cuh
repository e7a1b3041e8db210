// A page of the KV cache as operand A of the tensor cores, for every kv_type. The definition of the types
// is in engine/model/kv_type.hpp, the layout in kernels/attention/kv_layout.hpp.
//
// The other operand (q or the probabilities) is f16. For f16 and q8_0 so is this one. A bf16 operand keeps
// its range: the f16 values of the other side are split into two bf16 terms that sum up to them exactly,
// and each has its own mma.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/kv_layout.hpp"
#include "kernels/device/device_math.cuh"
#include "kernels/product/packed_tile.cuh"

namespace orcd::kernels {

/// Sixteen rows by 32 summed columns. Lane (g, t) = (lane / 4, lane % 4) has columns 8t .. 8t+7 of rows g
/// and g + 8: the first four in `first`, the others in `second`.
struct kv_fragment {
  std::uint32_t first[4];
  std::uint32_t second[4];
};

/// For 16-bit values; `row` and `column` are the lane's own.
template <std::uint32_t Columns>
__device__ inline kv_fragment plain_fragment(const void* matrix, std::uint32_t row, std::uint32_t column) {
  const auto* at = static_cast<const std::uint16_t*>(matrix) + row * Columns + column;
  const uint4 low = *reinterpret_cast<const uint4*>(at);
  const uint4 high = *reinterpret_cast<const uint4*>(at + 8 * Columns);
  return {{low.x, high.x, low.y, high.y}, {low.z, high.z, low.w, high.w}};
}

/// d * q for the low or the high two bytes of `quants`, rounded to f16.
template <bool High>
__device__ inline std::uint32_t quant_pair(std::uint32_t quants, __half2 d) {
  // A byte b below the byte 0x64 is the half 1024 + b.
  const std::uint32_t bits = __byte_perm(quants, 0x64646464U, High ? 0x4342 : 0x4140);
  return as_bits(__hmul2(__hsub2(as_half2(bits), __float2half2_rn(1024.0F + kv_quant_bias)), d));
}

/// Positions first + {0..15} of a page, dimensions 32 block + {0..31}.
template <engine::kv_type Type, std::uint32_t W>
__device__ inline kv_fragment key_fragment(const void* page, std::uint32_t first, std::uint32_t block) {
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  if constexpr (Type != engine::kv_type::q8_0) {
    return plain_fragment<W>(page, first + g, 32 * block + 8 * t);
  } else {
    const auto* bytes = static_cast<const std::uint8_t*>(page);
    const uint4 q = *reinterpret_cast<const uint4*>(bytes + kv_quant_place(first + g, 32 * block + 8 * t, W));
    const auto* scales = reinterpret_cast<const __half*>(bytes + engine::kv_page_positions * W);
    const auto pair = *reinterpret_cast<const __half2*>(scales + kv_key_scale_place(first + g, block));
    const __half2 low = __low2half2(pair);
    const __half2 high = __high2half2(pair);
    return {{quant_pair<false>(q.x, low), quant_pair<false>(q.z, high), quant_pair<true>(q.x, low),
             quant_pair<true>(q.z, high)},
            {quant_pair<false>(q.y, low), quant_pair<false>(q.w, high), quant_pair<true>(q.y, low),
             quant_pair<true>(q.w, high)}};
  }
}

/// Dimensions first + {0..15}, positions span + {0..31} of a page.
template <engine::kv_type Type, std::uint32_t W>
__device__ inline kv_fragment value_fragment(const void* page, std::uint32_t first, std::uint32_t span) {
  const std::uint32_t g = threadIdx.x % 32 / 4;
  const std::uint32_t t = threadIdx.x % 4;
  if constexpr (Type != engine::kv_type::q8_0) {
    return plain_fragment<engine::kv_page_positions>(page, first + g, span + 8 * t);
  } else {
    const auto* bytes = static_cast<const std::uint8_t*>(page);
    const uint4 q = *reinterpret_cast<const uint4*>(
        bytes + kv_quant_place(first + g, span + 8 * t, engine::kv_page_positions));
    const auto* scales = reinterpret_cast<const __half*>(bytes + engine::kv_page_positions * W);
    const uint4 d = *reinterpret_cast<const uint4*>(scales + kv_value_scale_place(span + 8 * t, first / 32));
    return {{quant_pair<false>(q.x, as_half2(d.x)), quant_pair<false>(q.z, as_half2(d.x)),
             quant_pair<true>(q.x, as_half2(d.y)), quant_pair<true>(q.z, as_half2(d.y))},
            {quant_pair<false>(q.y, as_half2(d.z)), quant_pair<false>(q.w, as_half2(d.z)),
             quant_pair<true>(q.y, as_half2(d.w)), quant_pair<true>(q.w, as_half2(d.w))}};
  }
}

/// Splits two f16 values into sums of two bf16 values, exactly: 11 bits of significand are 8 and 3.
__device__ inline void split_pair(std::uint32_t halves, std::uint32_t& high, std::uint32_t& low) {
  const float2 v = __half22float2(as_half2(halves));
  const __nv_bfloat162 top = __floats2bfloat162_rn(v.x, v.y);
  const float2 kept = __bfloat1622float2(top);
  const __nv_bfloat162 rest = __floats2bfloat162_rn(__fsub_rn(v.x, kept.x), __fsub_rn(v.y, kept.y));
  high = *reinterpret_cast<const std::uint32_t*>(&top);
  low = *reinterpret_cast<const std::uint32_t*>(&rest);
}

__device__ inline void mma_bfloat(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// acc += A * B. Column lane / 4 of B holds f16 values for the columns that this lane has of A.
template <engine::kv_type Type>
__device__ inline void multiply_fragment(float (&acc)[4], const kv_fragment& a, const uint4& b) {
  if constexpr (Type != engine::kv_type::bf16) {
    mma_16x8x16(acc, a.first, b.x, b.y);
    mma_16x8x16(acc, a.second, b.z, b.w);
  } else {
    uint4 high;
    uint4 low;
    split_pair(b.x, high.x, low.x);
    split_pair(b.y, high.y, low.y);
    split_pair(b.z, high.z, low.z);
    split_pair(b.w, high.w, low.w);
    mma_bfloat(acc, a.first, high.x, high.y);
    mma_bfloat(acc, a.second, high.z, high.w);
    mma_bfloat(acc, a.first, low.x, low.y);
    mma_bfloat(acc, a.second, low.z, low.w);
  }
}

/// Bytes of the keys or of the values of a (page, kv head).
ORCD_HD constexpr std::uint64_t head_page_bytes(engine::kv_type type, std::uint32_t padded_width) {
  return type == engine::kv_type::q8_0 ? std::uint64_t{engine::kv_page_positions} *
                                             (padded_width / engine::kv_block_values) * engine::kv_block_bytes
                                       : std::uint64_t{engine::kv_page_positions} * padded_width * 2;
}

__device__ inline float limited(float v, float limit) {
  return fminf(fmaxf(v, -limit), limit);
}

/// One warp: stores 32 values of one position as a q8_0 block, dimension d in lane d % 32. `quant_place` is
/// the lane's byte, `scale_place` the index of the block's scale.
__device__ inline void store_block(std::uint8_t* page, float value, std::uint32_t padded_width,
                                   std::uint32_t quant_place, std::uint32_t scale_place) {
  const float x = limited(value, engine::kv_half_limit);
  float largest = fabsf(x);
#pragma unroll
  for (std::uint32_t offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, offset));
  }
  const float d = __fdiv_rn(largest, 127.0F);
  const __half scale = __float2half_rn(fminf(d, engine::kv_scale_limit));
  const bool none = __half_as_ushort(scale) == 0;
  const int q = none ? 0 : static_cast<int>(roundf(__fmul_rn(x, __fdiv_rn(1.0F, d))));
  page[quant_place] = static_cast<std::uint8_t>(q + static_cast<int>(kv_quant_bias));
  if (threadIdx.x % 32 == 0)
    reinterpret_cast<__half*>(page + engine::kv_page_positions * padded_width)[scale_place] = scale;
}

/// One warp: stores a head's vector, padded with zeros, at position `place` of the (page, kv head) at `page`.
__device__ inline void store_kv_row(engine::kv_type type, bool is_v, std::byte* page, std::uint32_t place,
                                    std::uint32_t padded_width, const float* head) {
  const std::uint32_t columns = is_v ? engine::kv_page_positions : padded_width;
  for (std::uint32_t d = threadIdx.x % 32; d < padded_width; d += 32) {
    const std::uint32_t row = is_v ? d : place;
    const std::uint32_t column = is_v ? place : d;
    const std::uint32_t plain = row * columns + column;
    if (type == engine::kv_type::f16) {
      reinterpret_cast<__half*>(page)[plain] = to_half(head[d]);
    } else if (type == engine::kv_type::bf16) {
      reinterpret_cast<__nv_bfloat16*>(page)[plain] =
          __float2bfloat16_rn(limited(head[d], engine::kv_bfloat_limit));
    } else {
      const std::uint32_t block = d / engine::kv_block_values;
      store_block(reinterpret_cast<std::uint8_t*>(page), head[d], padded_width,
                  kv_quant_place(row, column, columns),
                  is_v ? kv_value_scale_place(place, block) : kv_key_scale_place(place, block));
    }
  }
}

}  // namespace orcd::kernels
