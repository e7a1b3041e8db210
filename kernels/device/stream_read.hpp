// Reads memory once and does nothing with it: the ceiling that decoding is measured against. 4 blocks of 512
// threads a multiprocessor.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace orcd::kernels {

/// `bytes` is a multiple of 16. `sink` is on the device, at least 4 KiB; it keeps the compiler from dropping
/// the reads.
[[nodiscard]] int launch_stream_read(const std::byte* data, std::uint64_t bytes, float* sink,
                                     CUstream_st* stream);

}  // namespace orcd::kernels
