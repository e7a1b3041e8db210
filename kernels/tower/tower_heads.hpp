// Between a tower's products for queries, keys and values and its attention: norms of heads, and their
// rotation by a patch's line and column. And the cosines and sines of a view.
// Determinism class: run-to-run; a head's bits depend on its own values and place. Bound: memory.
#pragma once

#include <cstdint>

#include "kernels/tower/view_place.hpp"

struct CUstream_st;
struct __half;
struct float2;

namespace orcd::kernels {

/// Which values of a head are turned together, by entries of [pairs]. halves: pair i is (i, i + half a head).
/// quarters: those of each half of a head, (i, i + a quarter). neighbours: (2i, 2i + 1).
enum class turned_pairs : std::uint8_t { none, halves, quarters, neighbours };

/// Entry i of a patch: cosine and sine of rates[i] times its line, or its column. A half of the pairs, the
/// first or the second one, is turned by lines.
struct turn_table_args {
  const view_place* places = nullptr;  ///< device, [patches]
  const float* rates = nullptr;        ///< device, [pairs]
  std::uint32_t patches = 0;
  std::uint32_t pairs = 0;
  bool lines_first = true;
  float2* table = nullptr;  ///< [patches][pairs]
};
[[nodiscard]] int launch_turn_table(const turn_table_args& args, CUstream_st* stream);

/// Rows of Q | K | V in f32 become heads in f16, padded with zeros to tower_head_width(): RMS norms of each
/// head first, where the tower has them (of V without weights), then the rotation of Q and K.
struct tower_heads_args {
  const float* qkv = nullptr;  ///< [columns][3 * heads * width]
  std::uint32_t columns = 0;
  std::uint32_t first = 0;      ///< the first column's patch
  std::uint32_t positions = 0;  ///< patches of the view
  std::uint32_t heads = 0;
  std::uint32_t width = 0;  ///< of a head, at most tower_head_max
  bool norms = false;
  const float* q_norm = nullptr;  ///< [width], with norms
  const float* k_norm = nullptr;
  float eps = 0.0F;
  turned_pairs pairs = turned_pairs::none;  ///< else width is a multiple of 4, and there are width / 2 pairs
  const float2* table = nullptr;            ///< [positions][width / 2]
  __half* q = nullptr;                      ///< [heads][positions][padded width], as are k and v
  __half* k = nullptr;
  __half* v = nullptr;
};
[[nodiscard]] int launch_tower_heads(const tower_heads_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
