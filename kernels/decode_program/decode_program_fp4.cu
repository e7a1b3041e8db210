// Kernels of decode programs: MXFP4 experts and Q8_0.
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<fp4_code>;
template struct sequences_kernels<fp4_code>;

}  // namespace orcd::kernels
