// Work that needs the results of several blocks is done by the last of them to finish: one launch less.
#pragma once

#include "kernels/device/device_math.cuh"

namespace orcd::kernels {

/// Whether this block is the last of `blocks` to arrive. If so, it sees what the others wrote, by reads past
/// L1 (__ldcg). `arrivals` is zero before and after; `shared` is in shared memory. Called by the first
/// row_threads threads of a block, which it synchronizes at its beginning and end.
__device__ inline bool arrives_last(std::uint32_t* arrivals, std::uint32_t blocks, bool& shared) {
  sync_row_threads();
  if (threadIdx.x == 0) {
    __threadfence();
    shared = atomicAdd(arrivals, 1) == blocks - 1;
    if (shared) {
      *arrivals = 0;
      __threadfence();
    }
  }
  sync_row_threads();
  return shared;
}

}  // namespace orcd::kernels
