// Kernels of decode programs: all that a model may have, for one sequence.
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<any_code>;

}  // namespace orcd::kernels
