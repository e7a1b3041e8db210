// Encoded media on the host: the tower, and the rows that it has made, in blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/host/host_forward.hpp"
#include "gpu/host/host_tower.hpp"

namespace orcd::gpu {

class host_media {
 public:
  /// `room.encoder` and `pool` outlive the object. Throws std::bad_alloc.
  host_media(const engine::model_spec& spec, engine::media_room room, kernels::host::thread_pool& pool);
  [[nodiscard]] static std::uint64_t bytes(engine::media_room room) noexcept;

  void begin(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks);
  [[nodiscard]] bool go_on() { return tower_.go_on(); }

  /// What stands at a position, of which `parts` say something.
  [[nodiscard]] given_row row_at(std::span<const engine::media_rows> parts, std::uint32_t position) noexcept;

 private:
  [[nodiscard]] float* row(std::span<const std::uint32_t> blocks, std::uint32_t index) noexcept;

  std::uint32_t width_;  ///< of a row, with its parts for layers
  std::uint32_t blocks_count_;
  std::unique_ptr<float[]> rows_;      ///< [blocks][media_block_rows][width]
  std::vector<std::uint32_t> blocks_;  ///< of the medium under way
  host_tower tower_;
};

}  // namespace orcd::gpu
