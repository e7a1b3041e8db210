// The throughput product of prompts: packed_matmul.hpp's, with the same bits, for many columns whose
// activations are images of operand B (column_image.hpp). It takes every format but F32, dense matrices and
// experts.
#pragma once

#include "kernels/images/image_matmul_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

[[nodiscard]] int launch_image_matmul(const image_matmul_args& args, CUstream_st* stream);
/// Cycles that a multiprocessor of the current device is estimated to take for a dense product; 2^64 - 1: it
/// cannot run it.
[[nodiscard]] std::uint64_t image_matmul_cycles(const packed_matmul_args& args);

}  // namespace orcd::kernels
