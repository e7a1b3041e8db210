// Instances of the throughput product of prompts: blocks of four bits, in integers and in floating point.
#include "kernels/images/image_matmul_kernel.cuh"

namespace orcd::kernels {

template struct image_products<packed_format::q4_0>;
template struct image_products<packed_format::q4_1>;
template struct image_products<packed_format::mxfp4>;
template struct image_products<packed_format::nvfp4>;

}  // namespace orcd::kernels
