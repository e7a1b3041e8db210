// Instances of the throughput product: four-bit blocks of 32.
#include "kernels/product/packed_matmul_kernel.cuh"

namespace orcd::kernels {

template struct packed_tiles<packed_format::q4_0>;
template struct packed_tiles<packed_format::q4_1>;
template struct packed_tiles<packed_format::mxfp4>;

}  // namespace orcd::kernels
