// Launches a kernel so that it may overlap the tail of the one before it (programmatic dependent launch).
//
// Each kernel calls wait_for_previous_kernel() before it uses anything that a step computes, and
// allow_next_kernel() only after that. So while a kernel is in its prologue, only the one right before it can
// still be running; everything older has ended, and what older kernels wrote may be read before the wait.
//
// Three kernels signal early, before their own wait, because their successor reads only constants before its
// wait: a norm (a product follows), the sum of experts' outputs (a norm follows), and the decode program
// (nothing finds room on a multiprocessor until the program has left it).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

namespace orcd::kernels {

/// Largest size of a kernel's parameters.
inline constexpr std::size_t parameter_bytes_max = 4096;

/// Launches in clusters of `cluster` blocks; without clusters if that is 1.
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

/// Of the current device, queried once.
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
