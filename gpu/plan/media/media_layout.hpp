// What media take of a GPU, and where each part lies in their arena: the tower's weights, the rows that it
// has made, what it computes in, and what a pass is told of the rows that stand in it. Planned from shapes
// alone, so that a plan without a GPU counts what the backend allocates. Pure.
#pragma once

#include <cstdint>

#include "engine/accelerator.hpp"
#include "engine/base/error.hpp"
#include "engine/media/tower.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/plan/cuda_extents.hpp"

namespace orcd::gpu {

/// Patches that products and what stands between them take at a time: a larger view goes through a layer in
/// parts, but for its attention. No bit depends on it.
inline constexpr std::uint32_t tower_part_columns = 4'096;

/// Pixels, frames and tables go to the device in pieces of so many bytes, two of which may be on their way.
inline constexpr std::uint64_t media_piece_bytes = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t media_pinned_bytes = 2 * media_piece_bytes;

/// Rows of a medium that must be in one step, because they see each other; 0: none must.
[[nodiscard]] std::uint32_t media_rows_at_once(const engine::media_room& room) noexcept;

/// Values of a row behind a tower's merge, before its projection.
[[nodiscard]] std::uint64_t merged_width(const engine::tower_spec& spec) noexcept;

/// model_load_failed, param "mmproj", saying what of a tower no kernel takes.
[[nodiscard]] engine::result<void> check_cuda_tower(const engine::tower_spec& spec);

/// Bytes of the arena; 0 without room. Errors (model_load_failed, param "mmproj"): what no kernel takes.
[[nodiscard]] engine::result<std::uint64_t> media_arena_bytes(const engine::model_spec& text,
                                                              const engine::media_room& room,
                                                              const cuda_extents& extents);

/// Offsets in bytes.
struct media_layout {
  media_layout() = default;  ///< without room: all 0
  /// Of a room with a tower that check_cuda_tower() and lay_out_tower() take.
  media_layout(const engine::model_spec& text, const engine::media_room& room, const cuda_extents& extents);

  std::uint64_t weights = 0;  ///< lay_out_tower()
  std::uint64_t rows = 0;     ///< f32, [room.blocks][media_block_rows][row_width]
  std::uint64_t blocks = 0;   ///< u32, [room.blocks]: those of the medium under way

  // Of a view, or a chunk of a sound.
  std::uint64_t content = 0;   ///< its pixels, or frames in f32
  std::uint64_t places = 0;    ///< kernels::view_place, [patches]
  std::uint64_t patch_at = 0;  ///< u32, [patches]: by place
  std::uint64_t ranges = 0;    ///< kernels::tower_range, [patches at most], of windows
  std::uint64_t turns = 0;     ///< float2, [patches][half a head], where heads are turned
  std::uint64_t stream = 0;    ///< f32, [patches][width]
  std::uint64_t normed = 0;    ///< f16, [patches][padded width]: what a half reads; what heads give
  std::uint64_t heads = 0;     ///< f16, [Q, K, V][heads][patches][padded head]
  std::uint64_t floats = 0;    ///< f32: what products give
  std::uint64_t halves = 0;    ///< f16: what they read, where it is not `normed`
  std::uint64_t clipped = 0;   ///< f16: the same within limits
  std::uint64_t image = 0, image_bytes = 0;  ///< of operand B

  // Of a pass.
  std::uint64_t given = 0;   ///< kernels::given_row, [columns]
  std::uint64_t seen = 0;    ///< kernels::seen_block, [columns]
  std::uint64_t turned = 0;  ///< kernels::step_turn, [columns], of models that turn by three positions
  std::uint64_t axes = 0;    ///< u8, [layers at most][rope_pairs_max], likewise
  std::uint64_t bytes = 0;
};

}  // namespace orcd::gpu
