// Instances of the throughput product: blocks of two and three bits, of integers and of grids.
#include "kernels/product/packed_matmul_kernel.cuh"

namespace orcd::kernels {

template struct packed_tiles<packed_format::q2_k>;
template struct packed_tiles<packed_format::q3_k>;
template struct packed_tiles<packed_format::iq3_s>;
template struct packed_tiles<packed_format::iq3_xxs>;
template struct packed_tiles<packed_format::iq2_s>;
template struct packed_tiles<packed_format::iq2_xs>;
template struct packed_tiles<packed_format::iq2_xxs>;

}  // namespace orcd::kernels
