// Where the keys and values of each layer lie in the cache arena, and what happens to pages between steps.
#include <algorithm>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "kernels/attention/page_control.hpp"

namespace orcd::gpu {

kernels::kv_pages cuda_forward::pages_of(std::uint32_t layer) const {
  arena_plan plan;
  const std::uint64_t pages = extents_.memory_pages();
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

kernels::latent_cache cuda_forward::latent_pages_of(std::uint32_t layer) const {
  const kernels::kv_pages pages = pages_of(layer);
  return {static_cast<__half*>(pages.keys), pages.page_table, pages.pages_per_slot};
}

std::uint64_t cuda_forward::key_page_bytes(std::uint32_t layer) const noexcept {
  if (spec_.latent) return kernels::latent_page_bytes(spec_.latent.rank, spec_.latent.rotated);
  return kv_half_page_bytes(extents_.kv.keys, spec_.layers[layer].kv_heads, spec_.key_length);
}
std::uint64_t cuda_forward::value_page_bytes(std::uint32_t layer) const noexcept {
  if (spec_.latent) return 0;
  return kv_half_page_bytes(extents_.kv.values, spec_.layers[layer].kv_heads, spec_.value_length);
}

void cuda_forward::set_pages(std::uint32_t slot, std::span<const engine::kv_page> pages, std::uint32_t from) {
  ORCD_ENSURE(slot < extents_.slots && from + pages.size() <= extents_.pages_per_slot());
  kernels::write_words_args args;
  for (std::size_t first = 0; first < pages.size(); first += kernels::written_words_max) {
    const auto piece =
        pages.subspan(first, std::min<std::size_t>(kernels::written_words_max, pages.size() - first));
    args.to =
        at<std::int32_t>(layout_.page_table) + std::size_t{slot} * extents_.pages_per_slot() + from + first;
    args.count = static_cast<std::uint32_t>(piece.size());
    std::copy(piece.begin(), piece.end(), args.words);
    ORCD_CUDA(kernels::launch_write_words(args, stream_));
  }
}

std::vector<engine::kv_page> cuda_forward::own_pages(std::uint32_t slot, std::uint32_t positions) const {
  const std::uint32_t count = (positions + engine::kv_page_positions - 1) / engine::kv_page_positions;
  std::vector<engine::kv_page> out(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t page = std::uint64_t{slot} * extents_.pages_per_slot() + i;
    out[i] = static_cast<engine::kv_page>(page % extents_.pages());
  }
  return out;
}

void cuda_forward::copy(const engine::page_copy& what) {
  for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
    if (spec_.latent) {
      copy_latents(layer, what);
      continue;
    }
    ORCD_CUDA(kernels::launch_copy_positions(
        {pages_of(layer), spec_.layers[layer].kv_heads, padded_width_, what.from, what.to, what.positions},
        stream_));
  }
}

/// Positions of a page lie one after the other.
void cuda_forward::copy_latents(std::uint32_t layer, const engine::page_copy& what) {
  const std::uint64_t page = key_page_bytes(layer);
  auto* const pages = static_cast<std::byte*>(pages_of(layer).keys);
  const std::uint64_t bytes = page / engine::kv_page_positions * what.positions;
  ORCD_CUDA(cudaMemcpyAsync(pages + static_cast<std::uint64_t>(what.to) * page,
                            pages + static_cast<std::uint64_t>(what.from) * page, bytes,
                            cudaMemcpyDeviceToDevice, stream_));
}

/// Pages that follow each other, as most do, are cleared together.
void cuda_forward::clear_latents(std::span<const engine::kv_page> pages) {
  for (std::size_t first = 0, end = 0; first < pages.size(); first = end) {
    for (end = first + 1; end < pages.size() && pages[end] == pages[end - 1] + 1;) ++end;
    for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
      const std::uint64_t bytes = key_page_bytes(layer);
      auto* const all = static_cast<std::byte*>(pages_of(layer).keys);
      ORCD_CUDA(cudaMemsetAsync(all + static_cast<std::uint64_t>(pages[first]) * bytes, 0,
                                (end - first) * bytes, stream_));
    }
  }
}

void cuda_forward::clear(std::span<const engine::kv_page> pages) {
  if (spec_.latent) return clear_latents(pages);
  kernels::clear_pages_args args;
  args.padded_width = padded_width_;
  for (std::size_t first = 0; first < pages.size(); first += kernels::cleared_pages_max) {
    const auto piece =
        pages.subspan(first, std::min<std::size_t>(kernels::cleared_pages_max, pages.size() - first));
    args.count = static_cast<std::uint32_t>(piece.size());
    std::copy(piece.begin(), piece.end(), args.pages);
    for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
      args.cache = pages_of(layer);
      args.kv_heads = spec_.layers[layer].kv_heads;
      ORCD_CUDA(kernels::launch_clear_pages(args, stream_));
    }
  }
}

}  // namespace orcd::gpu
