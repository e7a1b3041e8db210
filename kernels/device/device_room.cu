#include "kernels/device/device_room.hpp"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t block_threads = 512;

/// Stands for a block that takes a whole multiprocessor, for the occupancy query. Never launched.
__global__ void __launch_bounds__(block_threads, 1) one_of_cluster() {}

std::uint32_t cluster_room(std::uint32_t blocks) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(block_threads);
  config.dynamicSmemBytes = multiprocessor_shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int count = 0;
  if (cudaOccupancyMaxActiveClusters(&count, one_of_cluster, &config) == cudaSuccess)
    return static_cast<std::uint32_t>(count);
  cudaGetLastError();
  return 0;
}

}  // namespace

const device_room& room_of_device() {
  static const device_room known = [] {
    device_room room;
    room.status = multiprocessor_count(room.multiprocessors);
    if (room.status == cudaSuccess) {
      room.status = cudaFuncSetAttribute(one_of_cluster, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         multiprocessor_shared_bytes);
    }
    for (std::uint32_t blocks = 2; blocks <= cluster_blocks_max && room.status == cudaSuccess; ++blocks)
      room.clusters[blocks] = cluster_room(blocks);
    return room;
  }();
  return known;
}

}  // namespace orcd::kernels
