// What one warp does to a head between the QKV product and attention: the per-head norm that some models
// have, the rotation, and storing keys and values in the cache's types. Lane l holds dimensions l, l + 32,
// ...
#pragma once

#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/kv_page.cuh"
#include "kernels/device/device_math.cuh"

namespace orcd::kernels {

/// Values of a head of a padded width that a lane holds; all narrow heads have the same number.
template <std::uint32_t W>
inline constexpr std::uint32_t head_values_per_lane = (W <= narrow_head_max ? narrow_head_max : W) / 32;

/// Where the product has left a head: `index` counts queries, then keys, then values.
__device__ __forceinline__ std::uint32_t source_of_head(const rope_store_args& a, std::uint32_t index) {
  return a.values_from_keys && index >= a.heads + a.kv_heads ? index - a.kv_heads : index;
}

/// RMS norm of one head, whose weights are 1 where there are none; the sum is a fixed tree over the lanes.
template <std::uint32_t Values>
__device__ inline void norm_head(float (&v)[Values], const float* weight, std::uint32_t width, float eps) {
  const std::uint32_t lane = threadIdx.x % 32;
  float squares = 0.0F;
#pragma unroll
  for (std::uint32_t i = 0; i < Values; ++i) squares = __fmaf_rn(v[i], v[i], squares);
#pragma unroll
  for (std::uint32_t offset = 16; offset > 0; offset /= 2) {
    squares = __fadd_rn(squares, __shfl_xor_sync(0xFFFFFFFFU, squares, offset));
  }
  const float scale = rsqrtf(__fadd_rn(__fdiv_rn(squares, static_cast<float>(width)), eps));
#pragma unroll
  for (std::uint32_t i = 0; i < Values; ++i) {
    const std::uint32_t d = lane + 32 * i;
    v[i] = d < width ? __fmul_rn(__fmul_rn(v[i], scale), weight == nullptr ? 1.0F : weight[d]) : 0.0F;
  }
}

/// Cosine and sine of a pair's angle, both times the table's magnitude, of a column whose token is at a
/// position.
__device__ __forceinline__ float2 rope_cos_sin_of(const rope_store_args& a, std::uint32_t column,
                                                  std::int32_t position, std::uint32_t pair) {
  float sine;
  float cosine;
  if (a.turns != nullptr) position = a.turns[column].of[a.axes[pair]];
  sincosf(__fmul_rn(static_cast<float>(position), a.inv_freq[pair]), &sine, &cosine);
  return {__fmul_rn(cosine, a.magnitude), __fmul_rn(sine, a.magnitude)};
}

/// Rotates the pairs of a head in shared memory by cos_sin(pair).
template <class CosSin>
__device__ __forceinline__ void rotate_head(const rope_store_args& a, CosSin cos_sin, float* head) {
  for (std::uint32_t pair = threadIdx.x % 32; pair < a.rope_dims / 2; pair += 32) {
    const std::uint32_t d0 = a.interleaved ? 2 * pair : pair;
    const std::uint32_t d1 = a.interleaved ? 2 * pair + 1 : pair + a.rope_dims / 2;
    const float2 by = cos_sin(pair);
    const float x0 = head[d0];
    const float x1 = head[d1];
    head[d0] = __fmaf_rn(x0, by.x, -__fmul_rn(x1, by.y));
    head[d1] = __fmaf_rn(x0, by.y, __fmul_rn(x1, by.x));
  }
}

/// v[i] = value lane + 32 i of the head that the product has left at `from`; zeros from `width` on.
template <std::uint32_t Values>
__device__ __forceinline__ void read_head(const float* from, std::uint32_t width, float (&v)[Values]) {
  const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (std::uint32_t i = 0; i < Values; ++i) v[i] = lane + 32 * i < width ? from[lane + 32 * i] : 0.0F;
}

/// head[0 .. 32 * Values) = the head's values `v` as attention needs them: normed, rotated, zeros from
/// a.width on. `index` counts queries, then keys, then values. Synchronizes the warp at the end.
template <std::uint32_t Values, class CosSin>
__device__ __forceinline__ void prepare_head(const rope_store_args& a, CosSin cos_sin, std::uint32_t index,
                                             float (&v)[Values], float* head) {
  const std::uint32_t lane = threadIdx.x % 32;
  const bool is_v = index >= a.heads + a.kv_heads;
  const float* norm = index < a.heads ? a.q_norm : a.k_norm;
  if (is_v ? a.value_norm : norm != nullptr) norm_head(v, is_v ? nullptr : norm, a.width, a.norm_eps);
#pragma unroll
  for (std::uint32_t i = 0; i < Values; ++i) head[lane + 32 * i] = v[i];
  __syncwarp();
  if (is_v) return;
  rotate_head(a, cos_sin, head);
  __syncwarp();
}

/// The id of the page that holds a token's position.
__device__ inline std::int32_t page_id(const kv_pages& cache, const step_token& step) {
  return cache.page_table[static_cast<std::uint32_t>(step.slot) * cache.pages_per_slot +
                          static_cast<std::uint32_t>(step.position) / engine::kv_page_positions];
}

/// Stores a prepared key or value head at a token's position, which is in page `id`.
__device__ inline void store_head(const rope_store_args& a, std::int32_t id, const step_token& step,
                                  std::uint32_t index, const float* head) {
  const bool is_v = index >= a.heads + a.kv_heads;
  const auto position = static_cast<std::uint32_t>(step.position);
  const std::uint32_t kv_head = index - a.heads - (is_v ? a.kv_heads : 0);
  const engine::kv_type type = is_v ? a.cache.value_type : a.cache.key_type;
  auto* pages = static_cast<std::byte*>(is_v ? a.cache.values : a.cache.keys);
  store_kv_row(
      type, is_v,
      pages + (static_cast<std::uint64_t>(id) * a.kv_heads + kv_head) * head_page_bytes(type, a.padded_width),
      position % engine::kv_page_positions, a.padded_width, head);
}

}  // namespace orcd::kernels
