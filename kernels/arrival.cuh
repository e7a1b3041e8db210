// The last of several blocks to finish does what needs the work of all: one launch less.
#pragma once

#include "kernels/device_math.cuh"

namespace orcd::kernels {

/// Whether this block is the last of `blocks`; then it sees what the others wrote (read past L1: __ldcg).
/// `arrivals` is zero before and after; `shared` is shared memory. For the first row_threads threads of
/// a block; begins and ends with them synchronized.
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
