// Kernels of decode programs of one sequence with LoRA adapters (fp4_code).
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<adapted<fp4_code>>;

}  // namespace orcd::kernels
