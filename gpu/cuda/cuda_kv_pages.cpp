#include "gpu/cuda/cuda_kv_pages.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "kernels/attention/page_control.hpp"

namespace orcd::gpu {

cuda_kv_pages::cuda_kv_pages(const engine::model_spec& spec, const cuda_extents& extents,
                             const vram_arena& cache, std::int32_t* page_tables, cudaStream_t stream)
    : spec_(spec),
      extents_(extents),
      cache_(cache),
      page_tables_(page_tables),
      stream_(stream),
      layout_(spec, extents) {
  ORCD_ENSURE(cache.bytes() >= layout_.bytes);
  for (std::uint32_t slot = 0; slot < extents.slots; ++slot) set_own(slot);
}

kernels::kv_pages cuda_kv_pages::pages_of(const cached_layer& of) const {
  kernels::kv_pages cache;
  cache.keys = cache_.at<std::byte>(of.keys);
  cache.values = cache_.at<std::byte>(of.values);
  cache.page_table = page_table(of.group);
  cache.pages_per_slot = extents_.pages_per_slot();
  cache.key_type = extents_.kv.keys;
  cache.value_type = extents_.kv.values;
  return cache;
}

kernels::kv_pages cuda_kv_pages::of(std::uint32_t layer) const {
  const engine::layer_spec& spec = spec_.layers[layer];
  return pages_of(layout_.layers[spec.reads_other_cache ? spec.kv_source : layer]);
}

kernels::latent_cache cuda_kv_pages::latents_of(std::uint32_t layer) const {
  const kernels::kv_pages pages = pages_of(layout_.layers[layer]);
  return {static_cast<__half*>(pages.keys), pages.page_table, pages.pages_per_slot};
}

void cuda_kv_pages::set(std::uint32_t slot, std::uint32_t group, std::span<const engine::kv_page> pages,
                        std::uint32_t from) {
  ORCD_ENSURE(slot < extents_.slots && group < layout_.groups.tables() &&
              from + pages.size() <= extents_.pages_per_slot());
  kernels::write_words_args args;
  for (std::size_t first = 0; first < pages.size(); first += kernels::written_words_max) {
    const auto piece =
        pages.subspan(first, std::min<std::size_t>(kernels::written_words_max, pages.size() - first));
    args.to = page_table(group) + std::size_t{slot} * extents_.pages_per_slot() + from + first;
    args.count = static_cast<std::uint32_t>(piece.size());
    std::copy(piece.begin(), piece.end(), args.words);
    ORCD_CUDA(kernels::launch_write_words(args, stream_));
  }
}

void cuda_kv_pages::begin(const engine::sequence_start& start) {
  const auto slot = static_cast<std::uint32_t>(start.slot);
  ORCD_ENSURE(!start.pages.empty() && start.further.size() + 1 == layout_.groups.count());
  if (start.copy) copy(0, *start.copy);
  set(slot, 0, start.pages);
  for (std::uint32_t group = 1; group < layout_.groups.tables(); ++group) {
    const engine::group_pages& pages = start.further[group - 1];
    if (pages.copy) copy(group, *pages.copy);
    set(slot, group, pages.pages, pages.first);
  }
}

void cuda_kv_pages::set_own(std::uint32_t slot) {
  set(slot, 0, own(slot, extents_.context));
}

engine::kv_page cuda_kv_pages::trial_page(std::uint32_t slot, std::uint32_t group) const noexcept {
  if (extents_.scratch_page) return static_cast<engine::kv_page>(layout_.groups.pages(group));
  if (group == 0) return own(slot, 1).front();
  return static_cast<engine::kv_page>(slot % layout_.groups.pages(group));
}

void cuda_kv_pages::begin_trial(std::uint32_t slots) {
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    for (std::uint32_t group = 0; group < layout_.groups.tables(); ++group) {
      const engine::kv_page page = trial_page(slot, group);
      set(slot, group, {&page, 1});
    }
  }
}

void cuda_kv_pages::end_trial(std::uint32_t slots) {
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    for (std::uint32_t group = 0; group < layout_.groups.tables(); ++group) {
      const engine::kv_page page = trial_page(slot, group);
      if (!extents_.scratch_page) clear(group, {&page, 1});
    }
    // A scratch page is in no table from then on.
    const engine::kv_page none = 0;
    for (std::uint32_t group = 1; group < layout_.groups.tables(); ++group) set(slot, group, {&none, 1});
    set_own(slot);
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

void cuda_kv_pages::copy(std::uint32_t group, const engine::page_copy& what) {
  for (const cached_layer& of : layout_.layers) {
    if (of.kv_heads == 0 || of.group != group) continue;
    if (spec_.latent) {
      copy_latents(of, what);
      continue;
    }
    ORCD_CUDA(kernels::launch_copy_positions(
        {pages_of(of), of.kv_heads, of.padded_width, what.from, what.to, what.positions}, stream_));
  }
}

/// Positions of a page lie one after the other.
void cuda_kv_pages::copy_latents(const cached_layer& of, const engine::page_copy& what) {
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
    for (const cached_layer& of : layout_.layers) {
      auto* const all = cache_.at<std::byte>(of.keys);
      ORCD_CUDA(cudaMemsetAsync(all + static_cast<std::uint64_t>(pages[first]) * of.key_page_bytes, 0,
                                (end - first) * of.key_page_bytes, stream_));
    }
  }
}

/// Layers of one shape are cleared together.
void cuda_kv_pages::clear(std::uint32_t group, std::span<const engine::kv_page> pages) {
  if (spec_.latent) return clear_latents(pages);
  for (std::size_t first = 0; first < pages.size(); first += kernels::cleared_pages_max) {
    const auto piece =
        pages.subspan(first, std::min<std::size_t>(kernels::cleared_pages_max, pages.size() - first));
    kernels::clear_pages_args args;
    args.key_type = extents_.kv.keys;
    args.value_type = extents_.kv.values;
    args.count = static_cast<std::uint32_t>(piece.size());
    std::copy(piece.begin(), piece.end(), args.pages);
    for (const cached_layer& of : layout_.layers) {
      if (of.kv_heads == 0 || of.group != group) continue;
      const bool other = of.kv_heads != args.kv_heads || of.padded_width != args.padded_width;
      if (args.layers > 0 && (other || args.layers == kernels::cleared_layers_max)) {
        ORCD_CUDA(kernels::launch_clear_pages(args, stream_));
        args.layers = 0;
      }
      args.kv_heads = of.kv_heads;
      args.padded_width = of.padded_width;
      args.keys[args.layers] = cache_.at<std::byte>(of.keys);
      args.values[args.layers++] = cache_.at<std::byte>(of.values);
    }
    if (args.layers > 0) ORCD_CUDA(kernels::launch_clear_pages(args, stream_));
  }
}

}  // namespace orcd::gpu
