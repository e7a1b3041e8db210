// Where the layers' keys and values lie in the cache arena.
#include "gpu/arena_plan.hpp"
#include "gpu/cuda_forward.hpp"
#include "gpu/device_memory_plan.hpp"

namespace orcd::gpu {

kernels::kv_pages cuda_forward::pages_of(std::uint32_t layer) const {
  arena_plan plan;
  const std::uint64_t pages = std::uint64_t{extents_.slots} * extents_.pages_per_slot();
  for (std::uint32_t i = 0; i < layer; ++i) {
    plan.reserve(pages * key_page_bytes(i));
    plan.reserve(pages * value_page_bytes(i));
  }
  kernels::kv_pages cache;
  cache.keys = cache_.at<std::byte>(plan.reserve(pages * key_page_bytes(layer)));
  cache.values = cache_.at<std::byte>(plan.bytes());
  cache.page_table = at<std::int32_t>(layout_.page_table);
  cache.pages_per_slot = extents_.pages_per_slot();
  cache.key_type = extents_.kv.keys;
  cache.value_type = extents_.kv.values;
  return cache;
}

std::uint64_t cuda_forward::key_page_bytes(std::uint32_t layer) const noexcept {
  return kv_half_page_bytes(extents_.kv.keys, spec_.layers[layer].kv_heads, spec_.key_length);
}
std::uint64_t cuda_forward::value_page_bytes(std::uint32_t layer) const noexcept {
  return kv_half_page_bytes(extents_.kv.values, spec_.layers[layer].kv_heads, spec_.value_length);
}

void cuda_forward::clear(std::uint32_t slot, std::uint32_t positions) {
  const std::uint64_t pages = (positions + kernels::page_positions - 1) / kernels::page_positions;
  if (pages == 0) return;
  const std::uint64_t first = std::uint64_t{slot} * extents_.pages_per_slot();
  for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
    const kernels::kv_pages cache = pages_of(layer);
    const std::uint64_t keys = key_page_bytes(layer);
    const std::uint64_t values = value_page_bytes(layer);
    ORCD_CUDA(cudaMemsetAsync(static_cast<std::byte*>(cache.keys) + first * keys, 0, pages * keys, stream_));
    ORCD_CUDA(
        cudaMemsetAsync(static_cast<std::byte*>(cache.values) + first * values, 0, pages * values, stream_));
  }
}

}  // namespace orcd::gpu
