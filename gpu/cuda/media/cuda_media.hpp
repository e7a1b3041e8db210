// Encoded media on the GPU: the tower, the rows that it has made, in blocks, and which of them stand in a
// pass. All of it lies in an arena of its own. GPU thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_weights.hpp"
#include "gpu/cuda/media/cuda_tower.hpp"
#include "gpu/cuda/media/given_media.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/media/media_layout.hpp"

namespace orcd::gpu {

class cuda_media {
 public:
  /// Uploads the tower's weights, and waits for them. `room.encoder` outlives the object. Throws
  /// accelerator_failure.
  cuda_media(const engine::model_spec& text, const engine::media_room& room, const cuda_extents& extents,
             int device, const upload_options& upload, cudaStream_t stream);
  /// Device bytes that the upload needs beside the arena, until it ends.
  [[nodiscard]] static std::uint64_t staging_bytes(const engine::media_room& room);
  [[nodiscard]] const vram_arena& arena() const noexcept { return arena_; }

  [[nodiscard]] std::uint32_t blocks() const noexcept { return blocks_; }

  /// As the accelerator's begin_medium() and continue_medium(). Throw accelerator_failure.
  void begin(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks);
  [[nodiscard]] bool go_on() { return tower_->go_on(); }

  /// What passes are told of media, valid as long as this.
  [[nodiscard]] const given_media& given() const noexcept { return given_; }
  /// Enqueues what is to be known of a chunk's positions whose first column is `column`: which rows stand in
  /// their places, behind `before` of the same pass; what they see of each other; what they are turned by.
  /// Returns how many rows there are. The tokens have been enqueued. Throws cuda_failure.
  [[nodiscard]] std::uint32_t place(const engine::sequence_step& chunk, std::uint32_t column,
                                    std::uint32_t before) const;

 private:
  [[nodiscard]] std::int32_t row_at(const engine::media_rows& part, std::uint32_t position) const noexcept;

  std::uint32_t blocks_;
  media_layout layout_;
  vram_arena arena_;
  cudaStream_t stream_;
  given_media given_;
  std::optional<cuda_tower> tower_;
};

}  // namespace orcd::gpu
