// Instances of the throughput product: five- and eight-bit blocks of 32.
#include "kernels/product/packed_matmul_kernel.cuh"

namespace orcd::kernels {

template struct packed_tiles<packed_format::q5_0>;
template struct packed_tiles<packed_format::q5_1>;
template struct packed_tiles<packed_format::q8_0>;

}  // namespace orcd::kernels
