#include "gpu/cuda/cuda_kv_pages.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "kernels/attention/page_control.hpp"

namespace orcd::gpu {

cuda_kv_pages::cuda_kv_pages(const engine::model_spec& spec, const cuda_extents& extents,
                             const vram_arena& cache, std::int32_t* page_table, cudaStream_t stream)
    : spec_(spec), extents_(extents), cache_(cache), page_table_(page_table), stream_(stream) {
  arena_plan plan;
  const std::uint64_t pages = extents.memory_pages();
  for (const engine::layer_spec& layer : spec.layers) {
    part of;
    of.kv_heads = layer.cached_heads();
    of.padded_width = kernels::padded_head_width(layer.key_length);
    if (spec.latent) {
      of.key_page_bytes = kernels::latent_page_bytes(spec.latent.rank, spec.latent.rotated);
    } else if (of.kv_heads > 0) {
      of.key_page_bytes = kv_half_page_bytes(extents.kv.keys, of.kv_heads, layer.key_length);
      of.value_page_bytes = kv_half_page_bytes(extents.kv.values, of.kv_heads, layer.value_length);
    }
    of.keys = plan.reserve(pages * of.key_page_bytes);
    of.values = plan.reserve(pages * of.value_page_bytes);
    parts_.push_back(of);
  }
}

kernels::kv_pages cuda_kv_pages::pages_of(const part& of) const {
  kernels::kv_pages cache;
  cache.keys = cache_.at<std::byte>(of.keys);
  cache.values = cache_.at<std::byte>(of.values);
  cache.page_table = page_table_;
  cache.pages_per_slot = extents_.pages_per_slot();
  cache.key_type = extents_.kv.keys;
  cache.value_type = extents_.kv.values;
  return cache;
}

kernels::kv_pages cuda_kv_pages::of(std::uint32_t layer) const {
  const engine::layer_spec& spec = spec_.layers[layer];
  return pages_of(parts_[spec.reads_other_cache ? spec.kv_source : layer]);
}

kernels::latent_cache cuda_kv_pages::latents_of(std::uint32_t layer) const {
  const kernels::kv_pages pages = pages_of(parts_[layer]);
  return {static_cast<__half*>(pages.keys), pages.page_table, pages.pages_per_slot};
}

void cuda_kv_pages::set(std::uint32_t slot, std::span<const engine::kv_page> pages, std::uint32_t from) {
  ORCD_ENSURE(slot < extents_.slots && from + pages.size() <= extents_.pages_per_slot());
  kernels::write_words_args args;
  for (std::size_t first = 0; first < pages.size(); first += kernels::written_words_max) {
    const auto piece =
        pages.subspan(first, std::min<std::size_t>(kernels::written_words_max, pages.size() - first));
    args.to = page_table_ + std::size_t{slot} * extents_.pages_per_slot() + from + first;
    args.count = static_cast<std::uint32_t>(piece.size());
    std::copy(piece.begin(), piece.end(), args.words);
    ORCD_CUDA(kernels::launch_write_words(args, stream_));
  }
}

std::vector<engine::kv_page> cuda_kv_pages::own(std::uint32_t slot, std::uint32_t positions) const {
  const std::uint32_t count = (positions + engine::kv_page_positions - 1) / engine::kv_page_positions;
  std::vector<engine::kv_page> out(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t page = std::uint64_t{slot} * extents_.pages_per_slot() + i;
    out[i] = static_cast<engine::kv_page>(page % extents_.pages());
  }
  return out;
}

void cuda_kv_pages::copy(const engine::page_copy& what) {
  for (const part& of : parts_) {
    if (of.kv_heads == 0) continue;
    if (spec_.latent) {
      copy_latents(of, what);
      continue;
    }
    ORCD_CUDA(kernels::launch_copy_positions(
        {pages_of(of), of.kv_heads, of.padded_width, what.from, what.to, what.positions}, stream_));
  }
}

/// Positions of a page lie one after the other.
void cuda_kv_pages::copy_latents(const part& of, const engine::page_copy& what) {
  const std::uint64_t page = of.key_page_bytes;
  auto* const pages = cache_.at<std::byte>(of.keys);
  const std::uint64_t bytes = page / engine::kv_page_positions * what.positions;
  ORCD_CUDA(cudaMemcpyAsync(pages + static_cast<std::uint64_t>(what.to) * page,
                            pages + static_cast<std::uint64_t>(what.from) * page, bytes,
                            cudaMemcpyDeviceToDevice, stream_));
}

/// Pages that follow each other, as most do, are cleared together.
void cuda_kv_pages::clear_latents(std::span<const engine::kv_page> pages) {
  for (std::size_t first = 0, end = 0; first < pages.size(); first = end) {
    for (end = first + 1; end < pages.size() && pages[end] == pages[end - 1] + 1;) ++end;
    for (const part& of : parts_) {
      auto* const all = cache_.at<std::byte>(of.keys);
      ORCD_CUDA(cudaMemsetAsync(all + static_cast<std::uint64_t>(pages[first]) * of.key_page_bytes, 0,
                                (end - first) * of.key_page_bytes, stream_));
    }
  }
}

void cuda_kv_pages::clear(std::span<const engine::kv_page> pages) {
  if (spec_.latent) return clear_latents(pages);
  kernels::clear_pages_args args;
  for (std::size_t first = 0; first < pages.size(); first += kernels::cleared_pages_max) {
    const auto piece =
        pages.subspan(first, std::min<std::size_t>(kernels::cleared_pages_max, pages.size() - first));
    args.count = static_cast<std::uint32_t>(piece.size());
    std::copy(piece.begin(), piece.end(), args.pages);
    for (const part& of : parts_) {
      if (of.kv_heads == 0) continue;
      args.cache = pages_of(of);
      args.kv_heads = of.kv_heads;
      args.padded_width = of.padded_width;
      ORCD_CUDA(kernels::launch_clear_pages(args, stream_));
    }
  }
}

}  // namespace orcd::gpu
