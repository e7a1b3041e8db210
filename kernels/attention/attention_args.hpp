// What the kernels of attention are given: a layer's cache, heads to rotate and to store, queries to answer.
// kernels/attention/paged_attention.hpp says what is done with them. Shared by host and device code; no CUDA
// types.
#pragma once

#include <cstdint>

#include "engine/model/kv_type.hpp"
#include "kernels/device/host_device.hpp"
#include "kernels/device/step_token.hpp"

struct __half;

namespace orcd::kernels {

inline constexpr std::uint32_t head_width_step = 32;   ///< head widths are padded to a multiple of this,
inline constexpr std::uint32_t narrow_head_max = 128;  ///< up to here; wider ones, which the decode program
inline constexpr std::uint32_t wide_head_step = 256;   ///< does not have, to a multiple of this
inline constexpr std::uint32_t head_width_max = 512;
inline constexpr std::uint32_t rope_pairs_max = head_width_max / 2;

[[nodiscard]] constexpr std::uint32_t padded_head_width(std::uint32_t width) noexcept {
  if (width > narrow_head_max) return (width + wide_head_step - 1) / wide_head_step * wide_head_step;
  return (width + head_width_step - 1) / head_width_step * head_width_step;
}

/// Whether attention has heads of this padded width with these types of keys and values. Instances of the
/// widest heads take as long to compile as all others, so that they are few.
[[nodiscard]] constexpr bool attention_takes(std::uint32_t padded_width, engine::kv_type keys,
                                             engine::kv_type values) noexcept {
  return padded_width <= wide_head_step || (keys == values && keys != engine::kv_type::bf16);
}

/// One layer's cache: matrices of [page][kv_head] as kernels/attention/kv_layout.hpp says; for f16 the keys
/// are [256][width] halves, the values transposed. A page has the same id in all layers. 16-byte aligned.
struct kv_pages {
  void* keys = nullptr;
  void* values = nullptr;
  const std::int32_t* page_table = nullptr;  ///< [slots][pages_per_slot]
  std::uint32_t pages_per_slot = 0;
  engine::kv_type key_type = engine::kv_type::f16;
  engine::kv_type value_type = engine::kv_type::f16;
};

struct rope_store_args {
  /// [columns][stride]: heads * width, then kv_heads * width twice; see below what may be missing.
  const float* qkv = nullptr;
  std::uint32_t stride = 0;
  const step_token* steps = nullptr;
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t width = 0;         ///< of a head, as in the file
  std::uint32_t padded_width = 0;  ///< in q and in the cache; the padding is written as zeros
  std::uint32_t rope_dims = 0;     ///< 0 = no rotation
  bool interleaved = false;
  const float* inv_freq = nullptr;  ///< [rope_dims / 2]
  float magnitude = 1.0F;
  /// Of a model that turns heads by three positions: those of each column, and which of them a pair has.
  /// Null: all pairs have the token's position.
  const step_turn* turns = nullptr;    ///< [columns]
  const std::uint8_t* axes = nullptr;  ///< [rope_dims / 2], with `turns`
  const float* q_norm = nullptr;       ///< [width] per-head RMS weights, or null
  const float* k_norm = nullptr;
  float norm_eps = 0.0F;
  bool value_norm = false;        ///< values get an RMS norm without weights
  bool values_from_keys = false;  ///< values are the raw keys, and qkv has none
  bool queries_only = false;      ///< the cache is another layer's, and qkv has neither keys nor values
  __half* q = nullptr;            ///< out, [columns][heads][padded_width]
  kv_pages cache;
};

struct attention_args_paged {
  const __half* q = nullptr;  ///< [columns][heads][padded_width]
  kv_pages cache;
  const step_token* steps = nullptr;
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t width = 0;
  std::uint32_t padded_width = 0;
  std::uint32_t window = 0;            ///< positions seen, the token's own included; 0 = all
  std::uint32_t end = 0;               ///< prefill without a mask: every token sees [0, end); 0 = causal
  const seen_block* blocks = nullptr;  ///< prefill: of each column; null: there are none
  float scale = 0.0F;
  float softcap = 0.0F;          ///< scores become c * tanh(score / c); 0 = none. Not in the decode program
  const float* sinks = nullptr;  ///< [heads] or null
  __half* out = nullptr;         ///< [columns][out_stride]: heads * width halves, head-major
  std::uint32_t out_stride = 0;
};

/// Decode also does the work of rope_store, for the token of each column: `attend.q` and `rope.q` are not
/// used unless `stored`, and fields that both structs have must be equal.
struct decode_attention_args {
  rope_store_args rope;
  attention_args_paged attend;
  float* partials = nullptr;          ///< workspace, decode_partial_floats()
  std::uint32_t* arrivals = nullptr;  ///< workspace, [columns][heads]; zero between launches
  /// Columns may be consecutive tokens of one sequence, next to each other: rope_store has written the
  /// queries, keys and values of all of them, and nothing of the cache is read before the kernel before this
  /// one has ended.
  bool stored = false;
  std::uint32_t pages_asked = 0;  ///< how many pages a block asks for ahead of its reads; the launch says
};
/// Query heads that a block of decode works on at a time, all of one kv head: a tile.
inline constexpr std::uint32_t decode_heads = 8;
/// Tiles of a kv head.
[[nodiscard]] ORCD_HD constexpr std::uint32_t decode_head_tiles(const attention_args_paged& a) noexcept {
  return (a.heads / a.kv_heads + decode_heads - 1) / decode_heads;
}
/// Workers (blocks) that share the pages of a tile: enough to spread a long context over `blocks` blocks, but
/// no more than there are pages.
[[nodiscard]] ORCD_HD constexpr std::uint32_t decode_page_workers(const attention_args_paged& a,
                                                                  std::uint32_t columns,
                                                                  std::uint32_t blocks) noexcept {
  const std::uint32_t window_pages =
      (a.window + engine::kv_page_positions - 2) / engine::kv_page_positions + 1;
  const std::uint32_t pages =
      a.window == 0 || window_pages > a.cache.pages_per_slot ? a.cache.pages_per_slot : window_pages;
  const std::uint32_t wanted = blocks / (columns * decode_head_tiles(a) * a.kv_heads);
  return wanted == 0 ? 1 : wanted < pages ? wanted : pages;
}

}  // namespace orcd::kernels
