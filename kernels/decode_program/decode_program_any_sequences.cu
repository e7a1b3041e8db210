// Kernels of decode programs: all that a model may have, for several sequences. Apart from those for one
// sequence, so that two processors compile them.
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct sequences_kernels<any_code>;

}  // namespace orcd::kernels
