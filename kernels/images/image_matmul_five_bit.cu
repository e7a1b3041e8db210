// Instances of the throughput product of prompts: blocks of five and eight bits, and floating-point weights.
#include "kernels/images/image_matmul_kernel.cuh"

namespace orcd::kernels {

template struct image_products<packed_format::q5_0>;
template struct image_products<packed_format::q5_1>;
template struct image_products<packed_format::q8_0>;
template struct image_products<packed_format::f16>;
template struct image_products<packed_format::bf16>;

}  // namespace orcd::kernels
