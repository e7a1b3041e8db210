// Kernels of decode programs: K mixtures, Q4_0 and Q8_0 without experts.
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<dense_code>;
template struct sequences_kernels<dense_code>;

}  // namespace orcd::kernels
