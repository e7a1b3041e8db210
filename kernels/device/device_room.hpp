// What the current device can run at a time; for the code that decides how a launch is divided.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// Dynamic shared memory that one block can have: all of a multiprocessor's.
inline constexpr std::uint32_t multiprocessor_shared_bytes = 227 * 1024;
/// Cluster size that every device supports.
inline constexpr std::uint32_t cluster_blocks_max = 8;

struct device_room {
  int status = 0;  ///< cudaError_t; the rest is valid only with cudaSuccess
  std::uint32_t multiprocessors = 0;
  /// [n]: how many clusters of n blocks run at a time if each block takes a multiprocessor; 0 where the
  /// device has no clusters.
  std::uint32_t clusters[cluster_blocks_max + 1] = {};
};

/// Of the current device, queried once. Any thread.
[[nodiscard]] const device_room& room_of_device();

}  // namespace orcd::kernels
