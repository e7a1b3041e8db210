// Instances of the throughput product of prompts: blocks of two and three bits, of integers and of grids.
#include "kernels/images/image_matmul_kernel.cuh"

namespace orcd::kernels {

template struct image_products<packed_format::q2_k>;
template struct image_products<packed_format::q3_k>;
template struct image_products<packed_format::iq3_s>;
template struct image_products<packed_format::iq3_xxs>;
template struct image_products<packed_format::iq2_s>;
template struct image_products<packed_format::iq2_xs>;
template struct image_products<packed_format::iq2_xxs>;

}  // namespace orcd::kernels
