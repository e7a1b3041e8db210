// How many blocks a few-column product (balanced_matvec.cu) is launched with, and in clusters of
// which size. Host code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/device/device_room.hpp"

namespace orcd::kernels {

struct block_choice {
  std::uint32_t blocks;
  std::uint32_t cluster_blocks;  ///< of a cluster; 1: no clusters
};

/// The largest clusters that all run at the same time. Every block must have tiles: one without would have
/// ended when the others' multicast copies arrive in its memory. With long columns, no more blocks than are
/// needed to finish in as many rounds as all would: a larger cluster saves more traffic of activations than
/// the other blocks' share of the weights is worth. `tiles` > 0.
[[nodiscard]] constexpr block_choice choose_blocks(std::uint32_t tiles, std::uint32_t column_bytes,
                                                   const device_room& room) noexcept {
  constexpr std::uint32_t long_columns = 4 * 1024;
  const std::uint32_t most = std::min(tiles, room.multiprocessors);
  const std::uint32_t each = (tiles + most - 1) / most;
  const std::uint32_t least = column_bytes >= long_columns ? (tiles + each - 1) / each : most;
  for (std::uint32_t cluster_blocks = cluster_blocks_max; cluster_blocks > 1; cluster_blocks /= 2) {
    const std::uint32_t clusters = (least + cluster_blocks - 1) / cluster_blocks;
    if (clusters * cluster_blocks <= most && clusters <= room.clusters[cluster_blocks])
      return {clusters * cluster_blocks, cluster_blocks};
  }
  return {most, 1};
}

}  // namespace orcd::kernels
