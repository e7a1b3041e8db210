// Instances of the throughput product: blocks of 256.
#include "kernels/product/packed_matmul_kernel.cuh"

namespace orcd::kernels {

template struct packed_tiles<packed_format::q4_k>;
template struct packed_tiles<packed_format::q5_k>;
template struct packed_tiles<packed_format::q6_k>;

}  // namespace orcd::kernels
