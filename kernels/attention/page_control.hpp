// What happens to pages of the KV cache between steps: page tables are written, the beginning of a page is
// copied to another, pages are cleared. All of it is enqueued in the stream of the steps, so that a step
// under way meets its pages as they were. Ids travel as kernel parameters, so that no host buffer has to
// outlive the call.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

inline constexpr std::uint32_t written_words_max = 960;  ///< a launch; the parameters of a kernel are 4 KiB
inline constexpr std::uint32_t cleared_pages_max = 256;  ///< a launch, of so many layers at most
inline constexpr std::uint32_t cleared_layers_max = 128;

/// to[0 .. count) = words: a piece of a page table, of a slot's tokens or of its mask of allowed tokens.
struct write_words_args {
  std::int32_t* to = nullptr;
  std::uint32_t count = 0;
  std::int32_t words[written_words_max];
};
[[nodiscard]] int launch_write_words(const write_words_args& args, CUstream_st* stream);

/// Copies positions 0 .. positions of page `from` of one layer to page `to`; the rest of `to` is kept.
struct copy_positions_args {
  kv_pages cache;
  std::uint32_t kv_heads = 0;
  std::uint32_t padded_width = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint32_t positions = 0;  ///< at most engine::kv_page_positions
};
[[nodiscard]] int launch_copy_positions(const copy_positions_args& args, CUstream_st* stream);

/// Zeroes the same pages of layers of one shape.
struct clear_pages_args {
  void* keys[cleared_layers_max];  ///< page 0 of each layer, as kv_pages has them
  void* values[cleared_layers_max];
  std::uint32_t layers = 0;
  engine::kv_type key_type = engine::kv_type::f16;
  engine::kv_type value_type = engine::kv_type::f16;
  std::uint32_t kv_heads = 0;
  std::uint32_t padded_width = 0;
  std::uint32_t count = 0;
  std::int32_t pages[cleared_pages_max];
};
[[nodiscard]] int launch_clear_pages(const clear_pages_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
