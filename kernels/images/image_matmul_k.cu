// Instances of the throughput product of prompts: blocks of 256, of four to six bits.
#include "kernels/images/image_matmul_kernel.cuh"

namespace orcd::kernels {

template struct image_products<packed_format::q4_k>;
template struct image_products<packed_format::q5_k>;
template struct image_products<packed_format::q6_k>;
template struct image_products<packed_format::iq4_nl>;
template struct image_products<packed_format::iq4_xs>;

}  // namespace orcd::kernels
