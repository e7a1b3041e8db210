// What products make of a gate and an up value (matmul_output), the same bits in all of them.
#pragma once

#include "kernels/device/device_math.cuh"
#include "kernels/product/packed_matmul_args.hpp"

namespace orcd::kernels {

/// Of the outputs that the decode program has.
__device__ __forceinline__ __half program_activated(matmul_output output, float gate, float up) {
  return to_half(output == matmul_output::swiglu ? silu(gate) * up : swiglu_clamped(gate, up));
}
__device__ __forceinline__ __half activated(matmul_output output, float gate, float up) {
  return output == matmul_output::geglu ? to_half(geglu(gate, up)) : program_activated(output, gate, up);
}

}  // namespace orcd::kernels
