// The KV cache in VRAM: each layer's pages as its kernels take them, the page tables of all groups and slots,
// and what happens to pages between steps. Its calls enqueue; nothing waits. GPU thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/kv_layout.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"

namespace orcd::gpu {

class cuda_kv_pages {
 public:
  /// `cache` holds at least kv_layout::bytes. `page_tables`: [table_count()][slots][pages_per_slot], in VRAM.
  cuda_kv_pages(const engine::model_spec& spec, const cuda_extents& extents, const vram_arena& cache,
                std::int32_t* page_tables, cudaStream_t stream);

  [[nodiscard]] const engine::kv_geometry& geometry() const noexcept { return layout_.groups.geometry; }

  /// Groups that have page tables: all but one of states.
  [[nodiscard]] std::uint32_t table_count() const noexcept { return layout_.groups.tables(); }

  /// A layer's cache as its kernels take it: its own, or that of the layer whose cache it reads.
  [[nodiscard]] kernels::kv_pages of(std::uint32_t layer) const;
  /// The same of a layer with latents.
  [[nodiscard]] kernels::latent_cache latents_of(std::uint32_t layer) const;

  /// Enqueue what accelerator::begin(), extend() and clear() do: copying and clearing pages of a group, and
  /// writing a slot's page table from its page `from` on. Entries that were not written mean nothing; their
  /// pages exist.
  void begin(const engine::sequence_start& start);
  void set(std::uint32_t slot, std::uint32_t group, std::span<const engine::kv_page> pages,
           std::uint32_t from = 0);
  void clear(std::uint32_t group, std::span<const engine::kv_page> pages);
  /// The slot has no pages but its own of group 0, as if begin() had given it none. If the pool is smaller
  /// than all slots need, slots share pages.
  void set_own(std::uint32_t slot);
  /// Those pages, as far as the first `positions` positions take them.
  [[nodiscard]] std::vector<engine::kv_page> own(std::uint32_t slot, std::uint32_t positions) const;
  /// For steps that run while an engine is loaded, of the first `slots` slots, at positions of a first page:
  /// they get pages that nobody else has, which end_trial() clears if others can get them later.
  void begin_trial(std::uint32_t slots);
  void end_trial(std::uint32_t slots);

 private:
  void copy(std::uint32_t group, const engine::page_copy& what);
  void copy_latents(const cached_layer& of, const engine::page_copy& what);
  void clear_latents(std::span<const engine::kv_page> pages);
  /// What a trial's step of the slot writes to.
  [[nodiscard]] engine::kv_page trial_page(std::uint32_t slot, std::uint32_t group) const noexcept;
  [[nodiscard]] std::int32_t* page_table(std::uint32_t group) const noexcept {
    return page_tables_ + std::size_t{group} * extents_.slots * extents_.pages_per_slot();
  }
  [[nodiscard]] kernels::kv_pages pages_of(const cached_layer& of) const;

  const engine::model_spec& spec_;
  const cuda_extents extents_;
  const vram_arena& cache_;
  std::int32_t* page_tables_;
  cudaStream_t stream_;
  kv_layout layout_;
};

}  // namespace orcd::gpu
