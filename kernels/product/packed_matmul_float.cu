// Instances of the throughput product: unquantized weights.
#include "kernels/product/packed_matmul_kernel.cuh"

namespace orcd::kernels {

template struct packed_tiles<packed_format::f16>;
template struct packed_tiles<packed_format::bf16>;
template struct packed_tiles<packed_format::f32>;

}  // namespace orcd::kernels
