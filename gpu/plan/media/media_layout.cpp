#include "gpu/plan/media/media_layout.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/media/tower_weights.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/device/step_token.hpp"
#include "kernels/images/column_image.hpp"
#include "kernels/tower/given_rows.hpp"
#include "kernels/tower/tower_attention.hpp"
#include "kernels/tower/view_place.hpp"

namespace orcd::gpu {
namespace {

constexpr std::uint64_t half_bytes = 2;

std::uint64_t padded(std::uint64_t cols) noexcept {
  return kernels::padded_cols(static_cast<std::uint32_t>(cols));
}

/// Values of a tower's buffers.
struct tower_values {
  explicit tower_values(const engine::tower_spec& spec)
      : patches(spec.patches_max()),
        rows(spec.view_rows_max()),
        width(spec.width),
        inner(std::max<std::uint64_t>(spec.inner_width, spec.joined_width())) {
    const std::uint64_t part = std::min<std::uint64_t>(patches, tower_part_columns);
    const std::uint64_t ffn = std::uint64_t{spec.ffn} * (engine::has_gate(spec.activation) ? 2 : 1);
    const std::uint64_t joined = merged_width(spec);
    floats = std::max({part * 3 * width, part * ffn,
                       rows * std::max<std::uint64_t>({joined, inner, spec.out_width, width})});
    halves = std::max(part * padded(spec.ffn), rows * std::max(padded(joined), padded(inner)));
    if (spec.clips) clipped = part * std::max(padded(width), padded(spec.ffn));
    widest = std::max({padded(width), padded(spec.ffn), padded(joined), padded(inner)});
    if (spec.sound) {
      const std::uint64_t frames = engine::chunk_frames;
      const std::uint64_t first = padded(3ULL * spec.sound->bins), second = padded(3 * width);
      content_bytes = frames * spec.sound->bins * sizeof(float);
      floats = std::max(floats, frames * width);
      halves = std::max({halves, frames * first, patches * second});
      widest = std::max({widest, first, second});
    } else {
      const std::uint64_t patch = 3ULL * spec.pictures.patch * spec.pictures.patch;
      content_bytes = patches * patch;
      halves = std::max(halves, patches * padded(patch));
      widest = std::max(widest, padded(patch));
    }
  }
  std::uint64_t patches, rows, width, inner;
  std::uint64_t floats = 0, halves = 0, clipped = 0, widest = 0, content_bytes = 0;
};

bool turns_by_axes(const engine::model_spec& text) noexcept {
  return std::any_of(text.layers.begin(), text.layers.end(), [](const engine::layer_spec& layer) {
    return layer.rope.axes != engine::rope_axes::one;
  });
}

}  // namespace

std::uint32_t media_rows_at_once(const engine::media_room& room) noexcept {
  if (room.encoder == nullptr || !room.encoder->spec.rows_see_each_other) return 0;
  return room.encoder->spec.view_rows_max();
}

std::uint64_t merged_width(const engine::tower_spec& spec) noexcept {
  const bool joins = spec.merge == engine::tower_merge::concatenate;
  return joins ? spec.joined_width() : spec.width;
}

engine::result<void> check_cuda_tower(const engine::tower_spec& spec) {
  if (spec.head_width() <= kernels::tower_head_max) return {};
  return engine::error(engine::errc::model_load_failed,
                       "a tower with heads of " + std::to_string(spec.head_width()) +
                           " values: the CUDA kernels take up to " + std::to_string(kernels::tower_head_max),
                       "mmproj");
}

engine::result<std::uint64_t> media_arena_bytes(const engine::model_spec& text,
                                                const engine::media_room& room, const cuda_extents& extents) {
  if (room.encoder == nullptr) return 0;
  if (const auto taken = check_cuda_tower(room.encoder->spec); !taken) return taken.error();
  if (const auto weights = lay_out_tower(*room.encoder, 0); !weights) return weights.error();
  return media_layout(text, room, extents).bytes;
}

media_layout::media_layout(const engine::model_spec& text, const engine::media_room& room,
                           const cuda_extents& extents) {
  if (room.encoder == nullptr) return;
  const engine::tower_spec& spec = room.encoder->spec;
  const tower_values of(spec);
  arena_plan plan;
  const auto layout = lay_out_tower(*room.encoder, 0);
  weights = plan.reserve(layout ? layout->bytes : 0);
  rows =
      plan.reserve(std::uint64_t{room.blocks} * engine::media_block_rows * spec.row_width() * sizeof(float));
  blocks = plan.reserve(room.blocks * sizeof(std::uint32_t));
  content = plan.reserve(of.content_bytes);
  places = plan.reserve(of.patches * sizeof(kernels::view_place));
  patch_at = plan.reserve(spec.sound ? 0 : of.patches * sizeof(std::uint32_t));
  ranges = plan.reserve(spec.window > 0 ? of.patches * sizeof(kernels::tower_range) : 0);
  const bool turns_heads = spec.rotation != engine::tower_rotation::none;
  constexpr std::uint64_t pair_bytes = 2 * sizeof(float);
  turns = plan.reserve(turns_heads ? of.patches * (spec.head_width() / 2) * pair_bytes : 0);
  stream = plan.reserve(of.patches * of.width * sizeof(float));
  normed = plan.reserve(of.patches * padded(of.width) * half_bytes);
  heads = plan.reserve(3 * std::uint64_t{spec.heads} * of.patches *
                       kernels::tower_head_width(spec.head_width()) * half_bytes);
  floats = plan.reserve(of.floats * sizeof(float));
  halves = plan.reserve(of.halves * half_bytes);
  clipped = plan.reserve(of.clipped * half_bytes);
  image_bytes = (tower_part_columns + kernels::image_align) * of.widest * half_bytes;
  image = plan.reserve(image_bytes);
  const std::uint64_t columns = extents.columns();
  const bool axes_turn = turns_by_axes(text);
  given = plan.reserve(columns * sizeof(kernels::given_row));
  seen = plan.reserve(columns * sizeof(kernels::seen_block));
  turned = plan.reserve(axes_turn ? columns * sizeof(kernels::step_turn) : 0);
  axes = plan.reserve(axes_turn ? text.layers.size() * kernels::rope_pairs_max : 0);
  bytes = plan.bytes();
}

}  // namespace orcd::gpu
