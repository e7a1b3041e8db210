// Attention of new tokens over a KV cache of any kv_type: grouped heads, sliding window, sinks; causal, or of
// all tokens to all.
//
// A layer's cache is pages of engine::kv_page_positions positions; a sequence's table says which page holds
// which positions. The cache holds rows of kv_row_bytes: f16 and bf16 values, or blocks of an f16 scale and
// 32 signed quants (block_q8_0), of which a short row's last one is filled up with zeros. Scores and values
// are folded page by page, at absolute positions (running maximum, sum and weighted values), so that a
// token's result does not depend on how its prompt was cut into steps. Source: Milakov and Gimelshein, arXiv
// 1805.02867 (online softmax); sinks as in gpt-oss.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/kv_type.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t attention_head_width_max = 640;

/// One new token: the pages of its sequence, its position, and how many positions it attends to.
struct attention_column {
  const std::int32_t* pages = nullptr;  ///< [position / engine::kv_page_positions]
  std::uint32_t position = 0;
  std::uint32_t end = 0;  ///< attends to [0, end); 0 = position + 1
  /// With it, a window ends at position + 1 as without `end`, and what is from here on is seen all the same.
  std::uint32_t block = none;
  static constexpr std::uint32_t none = 0xFFFFFFFF;
};

/// One layer's keys and values: [page][kv_heads][engine::kv_page_positions] rows of key_width and of
/// value_width.
struct attention_cache {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
};

/// The first of a (page, head)'s rows, counted from the beginning of the cache.
[[nodiscard]] constexpr std::uint64_t attention_first_row(std::int32_t page, std::uint32_t kv_heads,
                                                          std::uint32_t head) noexcept {
  return (static_cast<std::uint64_t>(page) * kv_heads + head) * engine::kv_page_positions;
}

struct store_kv_args {
  const float* k = nullptr;  ///< [columns] rows of [kv_heads][key_width], rows stride apart
  const float* v = nullptr;  ///< [columns] rows of [kv_heads][value_width]
  std::size_t stride = 0;
  attention_cache cache;
  const attention_column* columns = nullptr;
  std::uint32_t column_count = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t key_width = 0;
  std::uint32_t value_width = 0;
  engine::kv_types types{};
};

struct attention_args {
  const float* q = nullptr;  ///< [columns] rows of [heads][key_width], rows q_stride apart
  float* out = nullptr;      ///< [columns][heads][value_width]
  std::size_t q_stride = 0;
  attention_cache cache;
  const attention_column* columns = nullptr;
  const float* sinks = nullptr;  ///< [heads] or null: a score without a value, not scaled
  std::uint32_t column_count = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;     ///< divides heads; head h reads kv head h / (heads / kv_heads)
  std::uint32_t key_width = 0;    ///< at most attention_head_width_max
  std::uint32_t value_width = 0;  ///< at most attention_head_width_max
  std::uint32_t window = 0;       ///< positions seen, the token's own included; 0 = all
  /// A value is the first value_width values of its position's key, in the key's type; cache.values is
  /// unused.
  bool values_in_keys = false;
  float softcap = 0.0F;  ///< scores become c * tanh(score / c); 0 = none
  float scale = 0.0F;    ///< multiplies q.k
  engine::kv_types types{};
};

namespace host {
class thread_pool;
/// Stores K and V at each column's position, in the cache's types. All columns are stored before any attends,
/// so that tokens of one chunk see each other.
void store_kv(const store_kv_args& args, thread_pool& pool);
void attention(const attention_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
