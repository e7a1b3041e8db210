// Instances of the throughput product: values of a table, and NVFP4.
#include "kernels/product/packed_matmul_kernel.cuh"

namespace orcd::kernels {

template struct packed_tiles<packed_format::iq4_nl>;
template struct packed_tiles<packed_format::iq4_xs>;
template struct packed_tiles<packed_format::nvfp4>;

}  // namespace orcd::kernels
