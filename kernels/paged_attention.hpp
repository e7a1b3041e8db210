// Attention over a paged KV cache of any kv_type: grouped heads, sliding window, sinks; decode and
// prefill. Causal, or in prefill without a mask.
//
// One numeric definition for both. Positions are cut at absolute multiples of 32 (blocks) and 256
// (pages, also called chunks). A block's scores come from mma.m16n8k16 (keys as operand A), its
// probabilities are rounded to f16 for the product with the values, its own maximum, sum and weighted
// values are kept in f32; blocks of a page, then pages, are folded left to right. Nothing depends on
// how many tokens a launch holds, on their order or on the launch shape.
// Determinism class: run-to-run, batch-invariant, chunk-invariant. Bound: KV bytes in decode.
// Source: Milakov and Gimelshein 1805.02867; design 5; sinks: gpt-oss.
#pragma once

#include <cstdint>

#include "engine/model/kv_type.hpp"
#include "kernels/packed_matrix.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

inline constexpr std::uint32_t page_positions = 256;
inline constexpr std::uint32_t head_width_step = 32;  ///< head widths are padded to a multiple of this
inline constexpr std::uint32_t head_width_max = 128;

[[nodiscard]] constexpr std::uint32_t padded_head_width(std::uint32_t width) noexcept {
  return (width + head_width_step - 1) / head_width_step * head_width_step;
}

/// Where one token of a step belongs. Device arrays of these steer every kernel, so that a captured
/// graph needs no new parameters as contexts grow.
struct step_column {
  std::int32_t token = 0;
  std::int32_t position = 0;
  std::int32_t slot = 0;
};

/// One layer's cache: [page][kv_head] matrices as kernels/kv_layout.hpp says; for f16 the keys are
/// [256][width] halfs, the values transposed. Pages of all layers have the same ids. 16-byte aligned.
struct kv_pages {
  void* keys = nullptr;
  void* values = nullptr;
  const std::int32_t* page_table = nullptr;  ///< [slots][pages_per_slot]
  std::uint32_t pages_per_slot = 0;
  engine::kv_type key_type = engine::kv_type::f16;
  engine::kv_type value_type = engine::kv_type::f16;
};

struct rope_store_args {
  const float* qkv = nullptr;  ///< [columns][stride]: heads * width, then kv_heads * width twice
  std::uint32_t stride = 0;
  const step_column* steps = nullptr;
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t width = 0;         ///< of a head, as in the file
  std::uint32_t padded_width = 0;  ///< in q and in the cache; the padding is written as zeros
  std::uint32_t rope_dims = 0;     ///< 0 = no rotation
  bool interleaved = false;
  const float* inv_freq = nullptr;  ///< [rope_dims / 2]
  float magnitude = 1.0F;
  const float* q_norm = nullptr;  ///< [width] per-head RMS weights, or null
  const float* k_norm = nullptr;
  float norm_eps = 0.0F;
  __half* q = nullptr;  ///< out, [columns][heads][padded_width]
  kv_pages cache;
};
[[nodiscard]] int launch_rope_store(const rope_store_args& args, CUstream_st* stream);
/// Whether the arguments, but for `q`, make sense.
[[nodiscard]] bool valid_rope(const rope_store_args& args);

struct attention_args_paged {
  const __half* q = nullptr;  ///< [columns][heads][padded_width]
  kv_pages cache;
  const step_column* steps = nullptr;
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t width = 0;
  std::uint32_t padded_width = 0;
  std::uint32_t window = 0;  ///< positions seen, the token's own included; 0 = all
  std::uint32_t end = 0;     ///< prefill without a mask: every token sees [0, end); 0 = causal
  float scale = 0.0F;
  const float* sinks = nullptr;  ///< [heads] or null
  __half* out = nullptr;         ///< [columns][out_stride]: heads * width halfs, head-major
  std::uint32_t out_stride = 0;
};

/// Decode does the work of rope_store too, for the one token of each column: `attend.q` and `rope.q` are
/// not used, and what both have in common must be equal.
struct decode_attention_args {
  rope_store_args rope;
  attention_args_paged attend;
  float* partial = nullptr;           ///< workspace, decode_partial_floats()
  std::uint32_t* arrivals = nullptr;  ///< workspace, [columns][heads]; zero between launches
};
/// Query heads that a block of decode works on at once, all of one kv head.
inline constexpr std::uint32_t decode_heads = 8;
/// Such tiles of a kv head.
[[nodiscard]] ORCD_HD constexpr std::uint32_t decode_head_tiles(const attention_args_paged& a) noexcept {
  return (a.heads / a.kv_heads + decode_heads - 1) / decode_heads;
}
/// Workers that share a tile's pages: enough to spread a long context over `blocks` blocks, no more than
/// pages.
[[nodiscard]] ORCD_HD constexpr std::uint32_t decode_page_workers(const attention_args_paged& a,
                                                                  std::uint32_t columns,
                                                                  std::uint32_t blocks) noexcept {
  const std::uint32_t window_pages = (a.window + page_positions - 2) / page_positions + 1;
  const std::uint32_t pages =
      a.window == 0 || window_pages > a.cache.pages_per_slot ? a.cache.pages_per_slot : window_pages;
  const std::uint32_t wanted = blocks / (columns * decode_head_tiles(a) * a.kv_heads);
  return wanted == 0 ? 1 : wanted < pages ? wanted : pages;
}
/// Columns of different sequences; a block has up to eight heads of a kv head and some of the pages. The last
/// block to finish folds. The cache is read before the kernel before this one has ended, which must not write
/// it.
[[nodiscard]] int launch_attention_decode(const decode_attention_args& args, CUstream_st* stream);
/// Floats of workspace for `columns` tokens of `pages` pages each.
[[nodiscard]] std::uint64_t decode_partial_floats(std::uint32_t columns, std::uint32_t heads,
                                                  std::uint32_t pages, std::uint32_t padded_width);

/// Prefill: columns are consecutive positions of ONE sequence; with `end`, which takes no window, all of
/// them.
[[nodiscard]] int launch_attention_prefill(const attention_args_paged& args, CUstream_st* stream);

}  // namespace orcd::kernels
