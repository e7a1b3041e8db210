#include "kernels/device/launch.cuh"
#include "kernels/device/sha256_block.hpp"
#include "kernels/device/tile_hash.hpp"

namespace orcd::kernels {
namespace {

// Few threads a block: their number is the number of tiles, and each wants a scheduler of its own.
constexpr std::uint32_t block_threads = 32;

/// Little-endian words of memory as the words of the message.
__device__ void put_words(std::uint32_t (&words)[16], int first, uint4 from) {
  words[first] = __byte_perm(from.x, 0, 0x0123);
  words[first + 1] = __byte_perm(from.y, 0, 0x0123);
  words[first + 2] = __byte_perm(from.z, 0, 0x0123);
  words[first + 3] = __byte_perm(from.w, 0, 0x0123);
}

__global__ void __launch_bounds__(block_threads)
    tile_hash_kernel(const std::byte* data, std::uint64_t bytes, std::uint64_t tile_bytes,
                     std::uint32_t* hashes) {
  const std::uint64_t tile = std::uint64_t{blockIdx.x} * block_threads + threadIdx.x;
  const std::uint64_t begin = tile * tile_bytes;
  if (begin >= bytes) return;
  const std::uint64_t length = bytes - begin < tile_bytes ? bytes - begin : tile_bytes;
  const uint4* from = reinterpret_cast<const uint4*>(data + begin);
  sha256_blocks hash;
  for (std::uint64_t block = 0; block < length / sha256_block_bytes; ++block, from += 4) {
    std::uint32_t words[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) put_words(words, 4 * i, __ldcs(from + i));
    hash.add(words);
  }
  hash.finish(length);
  for (int i = 0; i < static_cast<int>(tile_hash_words); ++i) {
    hashes[tile * tile_hash_words + i] = hash.state(i);
  }
}

}  // namespace

int launch_tile_hash(const std::byte* data, std::uint64_t bytes, std::uint64_t tile_bytes,
                     std::uint32_t* hashes, CUstream_st* stream) {
  const bool whole = bytes % sha256_block_bytes == 0 && tile_bytes % sha256_block_bytes == 0;
  if (data == nullptr || hashes == nullptr || bytes == 0 || tile_bytes == 0 || !whole) {
    return cudaErrorInvalidValue;
  }
  const std::uint64_t tiles = (bytes + tile_bytes - 1) / tile_bytes;
  const auto blocks = static_cast<std::uint32_t>((tiles + block_threads - 1) / block_threads);
  tile_hash_kernel<<<blocks, block_threads, 0, stream>>>(data, bytes, tile_bytes, hashes);
  return cudaGetLastError();
}

}  // namespace orcd::kernels
