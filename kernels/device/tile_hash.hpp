// SHA-256 of each tile of device memory, one thread a tile: some thousand tiles are work enough, and the hash
// of a tile is one that any tool can check.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace orcd::kernels {

inline constexpr std::uint32_t tile_hash_words = 8;

/// `data` is aligned to 16 bytes; `bytes` and `tile_bytes` are multiples of 64, and the last tile may be
/// shorter. `hashes` is on the device: eight words a tile, whose digits in order are the hash.
[[nodiscard]] int launch_tile_hash(const std::byte* data, std::uint64_t bytes, std::uint64_t tile_bytes,
                                   std::uint32_t* hashes, CUstream_st* stream);

}  // namespace orcd::kernels
