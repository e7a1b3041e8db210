// What happens to pages of the KV cache between steps: tables are written, the beginning of a page is copied
// to another, pages are cleared. Ids travel as kernel parameters, so that no host buffer outlives the call.
// Source: issue 5 item 5.
#pragma once

#include <cstdint>

#include "kernels/paged_attention.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t written_words_max = 960;  ///< a launch; a kernel takes 4 KiB of parameters
inline constexpr std::uint32_t cleared_pages_max = 512;  ///< likewise

/// to[0 .. count) = words: a piece of a page table, of a slot's tokens or of what may be chosen in it.
struct write_words_args {
  std::int32_t* to = nullptr;
  std::uint32_t count = 0;
  std::int32_t words[written_words_max];
};
[[nodiscard]] int launch_write_words(const write_words_args& args, CUstream_st* stream);

/// Positions 0 .. positions of page `from` of one layer into page `to`; its other bytes stay.
struct copy_positions_args {
  kv_pages cache;
  std::uint32_t kv_heads = 0;
  std::uint32_t padded_width = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint32_t positions = 0;  ///< at most page_positions
};
[[nodiscard]] int launch_copy_positions(const copy_positions_args& args, CUstream_st* stream);

/// Zeroes pages of one layer.
struct clear_pages_args {
  kv_pages cache;
  std::uint32_t kv_heads = 0;
  std::uint32_t padded_width = 0;
  std::uint32_t count = 0;
  std::int32_t pages[cleared_pages_max];
};
[[nodiscard]] int launch_clear_pages(const clear_pages_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
