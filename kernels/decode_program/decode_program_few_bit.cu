// Kernels of decode programs: Q2_K and Q3_K with other K formats, without experts.
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<few_bit_code>;
template struct sequences_kernels<few_bit_code>;

}  // namespace orcd::kernels
