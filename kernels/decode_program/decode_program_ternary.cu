// Kernels of decode programs: models with ternary matrices and integer activations.
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<ternary_code>;

}  // namespace orcd::kernels
