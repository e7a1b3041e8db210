// Reads memory once and does nothing with it: the ceiling that decode is measured against.
// Shape of the launch as in the measurements of docs/performance.md: 4 blocks of 512 a multiprocessor.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace orcd::kernels {

/// `bytes` a multiple of 16; `sink` device, at least 4 KiB, written only if the data hits one value.
[[nodiscard]] int launch_stream_read(const std::byte* data, std::uint64_t bytes, float* sink,
                                     CUstream_st* stream);

}  // namespace orcd::kernels
