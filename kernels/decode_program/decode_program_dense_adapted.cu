// Kernels of decode programs of one sequence with LoRA adapters (dense_code).
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<adapted<dense_code>>;

}  // namespace orcd::kernels
