// Kernels of decode programs: IQ4_NL and IQ4_XS with some others, without experts.
#include "kernels/decode_program/program_kernel.cuh"

namespace orcd::kernels {

template struct program_kernels<table_code>;
template struct sequences_kernels<table_code>;

}  // namespace orcd::kernels
