// How many blocks a product of few columns has (dealt_matvec.cu), and how many of them share activations.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/device_room.hpp"

namespace orcd::kernels {

struct block_choice {
  std::uint32_t blocks;
  std::uint32_t share;  ///< of a cluster; 1: none
};

/// The largest clusters that all run at once, of blocks that all have tiles: a block without would be gone
/// before the others' copies come. Of long columns no more blocks than take as long as all: a larger cluster
/// brings more there than their part of the weights. `tiles` > 0.
[[nodiscard]] constexpr block_choice choose_blocks(std::uint32_t tiles, std::uint32_t column_bytes,
                                                   const device_room& room) noexcept {
  constexpr std::uint32_t long_columns = 4 * 1024;
  const std::uint32_t most = std::min(tiles, room.multiprocessors);
  const std::uint32_t each = (tiles + most - 1) / most;
  const std::uint32_t least = column_bytes >= long_columns ? (tiles + each - 1) / each : most;
  for (std::uint32_t share = cluster_blocks_max; share > 1; share /= 2) {
    const std::uint32_t clusters = (least + share - 1) / share;
    if (clusters * share <= most && clusters <= room.clusters[share]) return {clusters * share, share};
  }
  return {most, 1};
}

}  // namespace orcd::kernels
