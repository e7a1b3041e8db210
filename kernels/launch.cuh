// One way to launch a kernel that may overlap the tail of the one before it (programmatic dependent
// launch). Kernels launched so call wait_for_previous_kernel() before they use what a step computes, and only
// then allow_next_kernel(): so when a kernel begins, all but the one before it have ended. There are
// exceptions, after which comes what reads nothing but constants before its own wait: a norm, the sum of
// experts (a norm follows, or a product with one inside), and a decode program, after which nothing finds
// room on a multiprocessor until it has left that.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

namespace orcd::kernels {

/// Of one kernel's parameters.
inline constexpr std::size_t parameter_bytes_max = 4096;

/// In clusters of `cluster` blocks, unless that is 1.
template <class... Parameters, class... Arguments>
cudaError_t launch_dependent_clusters(void (*kernel)(Parameters...), std::uint32_t cluster, dim3 grid,
                                      dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                                      Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = cluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

template <class... Parameters, class... Arguments>
cudaError_t launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                             cudaStream_t stream, Arguments&&... arguments) {
  return launch_dependent_clusters(kernel, 1, grid, block, shared_bytes, stream,
                                   std::forward<Arguments>(arguments)...);
}

/// Of the current device; asked once.
inline cudaError_t multiprocessor_count(std::uint32_t& count) {
  static int known = 0;
  static const cudaError_t status = [] {
    int device = 0;
    const cudaError_t found = cudaGetDevice(&device);
    return found != cudaSuccess ? found
                                : cudaDeviceGetAttribute(&known, cudaDevAttrMultiProcessorCount, device);
  }();
  count = static_cast<std::uint32_t>(known);
  return status;
}

}  // namespace orcd::kernels
