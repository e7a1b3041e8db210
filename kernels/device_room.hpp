// What the current device runs at a time, for those who choose how a launch is divided.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// Dynamic shared memory that one block can have, all of a multiprocessor's.
inline constexpr std::uint32_t multiprocessor_shared_bytes = 227 * 1024;
/// Blocks of a cluster that every device runs.
inline constexpr std::uint32_t cluster_blocks_max = 8;

struct device_room {
  int status = 0;  ///< a cudaError_t; the rest is of no use unless it is cudaSuccess
  std::uint32_t multiprocessors = 0;
  /// [n]: clusters of n blocks, each with a multiprocessor of its own; none where the device has no such
  /// thing.
  std::uint32_t clusters[cluster_blocks_max + 1] = {};
};

/// Of the current device; asked once. Any thread.
[[nodiscard]] const device_room& room_of_device();

}  // namespace orcd::kernels
