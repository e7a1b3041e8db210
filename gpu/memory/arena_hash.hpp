// What tells two arenas of weights apart: where everything lies, and the bytes. The same on both backends; on
// the GPU the tiles are hashed by kernels/device/tile_hash.cu. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/shared_weights.hpp"

namespace orcd::gpu {

/// Where a tensor, or a part of one, lies.
struct placed_tensor {
  std::string_view name;
  std::string_view form;  ///< what its bytes are: the file's type, or how they are packed
  std::array<std::uint64_t, 4> extents{1, 1, 1, 1};
  std::uint64_t offset = 0;  ///< from the start of the arena
  std::uint64_t bytes = 0;
};

/// SHA-256 of the plan, hexadecimal. `scheme` names what the forms mean and the version of that.
[[nodiscard]] std::string layout_hash(std::string_view scheme, std::span<const placed_tensor> tensors,
                                      std::uint64_t arena_bytes);

// Both throw accelerator_failure (stale_weights) with what was found and what should be.
/// That another process's weights lie as this one's model has them.
void require_layout(const engine::shared_weights& from, const std::string& own);
/// That they are what that process committed.
void require_content(const engine::shared_weights& from, const std::string& found);

/// Tiles are hashed apart, so that many threads share the work.
inline constexpr std::uint64_t hash_tile_bytes = std::uint64_t{4} << 20;

/// SHA-256 over the tiles' own, which are given as hexadecimal digits in order.
[[nodiscard]] std::string combine_tile_hashes(std::span<const std::string> tiles);

/// The content hash of bytes in host memory; `threads` as many as the system grants, 0 = one per processor.
/// `progress` gets the percent that are done, now and then, on the calling thread; what it throws ends it.
[[nodiscard]] std::string content_hash(std::span<const std::byte> arena, unsigned threads = 0,
                                       const std::function<void(unsigned percent)>& progress = {});

}  // namespace orcd::gpu
