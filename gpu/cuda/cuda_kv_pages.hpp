// Where the keys and values of each layer lie in the cache's arena, the page tables of all slots, and what
// happens to pages between steps. Its calls enqueue; nothing waits. GPU thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"

namespace orcd::gpu {

class cuda_kv_pages {
 public:
  /// `cache` holds at least extents.memory_pages() pages. `page_table`: [slots][pages_per_slot], in VRAM.
  cuda_kv_pages(const engine::model_spec& spec, const cuda_extents& extents, const vram_arena& cache,
                std::int32_t* page_table, cudaStream_t stream);

  /// A layer's cache as its kernels take it: its own, or that of the layer whose cache it reads.
  [[nodiscard]] kernels::kv_pages of(std::uint32_t layer) const;
  /// The same of a layer with latents.
  [[nodiscard]] kernels::latent_cache latents_of(std::uint32_t layer) const;

  /// Enqueue what accelerator::begin(), extend() and clear() do: writing a slot's page table from its page
  /// `from` on, copying and clearing pages.
  void set(std::uint32_t slot, std::span<const engine::kv_page> pages, std::uint32_t from = 0);
  void copy(const engine::page_copy& what);
  void clear(std::span<const engine::kv_page> pages);
  /// The pages that a slot owns if begin() gives it none; its table has them at first. If the pool is smaller
  /// than all slots need, slots share pages.
  [[nodiscard]] std::vector<engine::kv_page> own(std::uint32_t slot, std::uint32_t positions) const;

 private:
  /// What a layer caches.
  struct part {
    std::uint64_t keys = 0, values = 0;  ///< offsets in the arena
    std::uint64_t key_page_bytes = 0, value_page_bytes = 0;
    std::uint32_t kv_heads = 0;  ///< 0: the layer has no cache of its own
    std::uint32_t padded_width = 0;
  };
  void copy_latents(const part& of, const engine::page_copy& what);
  void clear_latents(std::span<const engine::kv_page> pages);
  [[nodiscard]] kernels::kv_pages pages_of(const part& of) const;

  const engine::model_spec& spec_;
  const cuda_extents extents_;
  const vram_arena& cache_;
  std::int32_t* page_table_;
  cudaStream_t stream_;
  std::vector<part> parts_;  ///< by layer
};

}  // namespace orcd::gpu
