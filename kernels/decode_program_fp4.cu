// Kernels of decode programs: MXFP4 experts and Q8_0.
#include "kernels/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<fp4_code>;

}  // namespace orcd::kernels
