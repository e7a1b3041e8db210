#include "gpu/memory/arena_hash.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "engine/accelerator.hpp"
#include "engine/base/sha256.hpp"

namespace orcd::gpu {
namespace {

constexpr unsigned threads_max = 64;

/// With its length before it, so that no two lists of texts read the same.
void put(engine::sha256& hash, std::string_view text) {
  hash.update(std::to_string(text.size()) + ":");
  hash.update(text);
}

void put(engine::sha256& hash, std::uint64_t number) {
  hash.update(std::to_string(number) + ";");
}

std::string tile_hash(std::span<const std::byte> arena, std::size_t tile) {
  const std::size_t begin = tile * hash_tile_bytes;
  return engine::sha256_of(
      arena.subspan(begin, std::min<std::size_t>(hash_tile_bytes, arena.size() - begin)));
}

[[noreturn]] void refuse(const std::string& why) {
  throw engine::accelerator_failure(engine::errc::stale_weights, "the shared weights are " + why);
}

}  // namespace

std::string layout_hash(std::string_view scheme, std::span<const placed_tensor> tensors,
                        std::uint64_t arena_bytes) {
  engine::sha256 hash;
  put(hash, scheme);
  put(hash, arena_bytes);
  put(hash, tensors.size());
  for (const placed_tensor& tensor : tensors) {
    put(hash, tensor.name);
    put(hash, tensor.form);
    for (const std::uint64_t extent : tensor.extents) put(hash, extent);
    put(hash, tensor.offset);
    put(hash, tensor.bytes);
  }
  return hash.finish();
}

void require_layout(const engine::shared_weights& from, const std::string& own) {
  if (own == from.layout_hash) return;
  refuse("of another model or version: layout " + from.layout_hash + ", this model's is " + own);
}

void require_content(const engine::shared_weights& from, const std::string& found) {
  if (found == from.content_hash) return;
  refuse("damaged: their hash is " + found + " and should be " + from.content_hash);
}

std::string combine_tile_hashes(std::span<const std::string> tiles) {
  engine::sha256 hash;
  for (const std::string& tile : tiles) hash.update(tile);
  return hash.finish();
}

std::string content_hash(std::span<const std::byte> arena, unsigned threads,
                         const std::function<void(unsigned percent)>& progress) {
  std::vector<std::string> tiles((arena.size() + hash_tile_bytes - 1) / hash_tile_bytes);
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  const auto work = [&](const std::function<void(unsigned percent)>& told) {
    for (std::size_t tile = next++; tile < tiles.size(); tile = next++) {
      tiles[tile] = tile_hash(arena, tile);
      const auto percent = static_cast<unsigned>(++done * 100 / tiles.size());
      if (told) told(percent);
    }
  };
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t helpers = std::min<std::size_t>({threads, threads_max, tiles.size()});
  {
    std::vector<std::jthread> pool;
    pool.reserve(helpers);
    try {
      while (pool.size() + 1 < helpers) pool.emplace_back([&work] { work({}); });
    } catch (const std::system_error&) {
      // Those that there are do all of it.
    }
    try {
      work(progress);
    } catch (...) {
      next = tiles.size();  // the others need not go on
      throw;
    }
  }
  return combine_tile_hashes(tiles);
}

}  // namespace orcd::gpu
