// Runs a decode program, as kernels/decode_program/decode_program.hpp describes it.
#pragma once

#include "kernels/decode_program/decode_program.hpp"

struct CUstream_st;

namespace orcd::kernels {

/// Blocks that a program runs on, at most: one a multiprocessor. 0 where the device has no cooperative
/// launches, or keeps another amount of shared memory for itself than Hopper does.
[[nodiscard]] std::uint32_t decode_program_blocks();
[[nodiscard]] int launch_decode_program(const decode_program& program, CUstream_st* stream);

}  // namespace orcd::kernels
