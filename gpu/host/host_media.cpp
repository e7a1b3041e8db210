#include "gpu/host/host_media.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"

namespace orcd::gpu {
namespace {

std::uint64_t values_of(engine::media_room room) noexcept {
  return std::uint64_t{room.blocks} * engine::media_block_rows * room.encoder->spec.row_width();
}

}  // namespace

host_media::host_media(const engine::model_spec& spec, engine::media_room room,
                       kernels::host::thread_pool& pool)
    : width_(room.encoder->spec.row_width()),
      blocks_count_(room.blocks),
      rows_(std::make_unique<float[]>(values_of(room))),
      tower_(*room.encoder, pool) {
  ORCD_ENSURE(room.encoder->spec.out_width == spec.embedding && room.blocks > 0);
  ORCD_ENSURE(room.encoder->spec.deepstack == spec.deepstack_layers);
}

std::uint64_t host_media::bytes(engine::media_room room) noexcept {
  if (room.encoder == nullptr) return 0;
  return values_of(room) * sizeof(float) + host_tower::bytes(room.encoder->spec);
}

void host_media::begin(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks) {
  blocks_.assign(blocks.begin(), blocks.end());
  tower_.begin(medium, [this](std::uint32_t index) { return row(blocks_, index); });
}

float* host_media::row(std::span<const std::uint32_t> blocks, std::uint32_t index) noexcept {
  const std::uint32_t block = index / engine::media_block_rows;
  ORCD_ENSURE(block < blocks.size() && blocks[block] < blocks_count_);
  const std::uint64_t at =
      std::uint64_t{blocks[block]} * engine::media_block_rows + index % engine::media_block_rows;
  return rows_.get() + at * width_;
}

given_row host_media::row_at(std::span<const engine::media_rows> parts, std::uint32_t position) noexcept {
  const auto part = std::find_if(parts.begin(), parts.end(), [&](const engine::media_rows& one) {
    return position >= one.position && position < one.position + one.count;
  });
  ORCD_ENSURE(part != parts.end());
  const float* const values = row(part->blocks, part->first + position - part->position);
  if (!part->see_each_other) return {values, 0, 0};
  return {values, part->position, part->position + part->count};
}

}  // namespace orcd::gpu
