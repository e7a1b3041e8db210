// Where the layers of a KV cache lie in its arena: each group's pages, by the sizes that the backend is
// loaded for. The backend allocates by it, and plans without a GPU count by it. Host arithmetic alone. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_spec.hpp"
#include "gpu/kv_groups.hpp"
#include "gpu/plan/cuda_extents.hpp"

namespace orcd::gpu {

/// The groups of a cache for these extents, with bytes as they are in VRAM.
[[nodiscard]] kv_groups kv_groups_of(const engine::model_spec& spec, const cuda_extents& extents);
/// A page table for each group and slot; a group of states has none.
[[nodiscard]] std::uint64_t page_tables_bytes(const engine::model_spec& spec, const cuda_extents& extents);

/// What a layer caches.
struct cached_layer {
  std::uint64_t keys = 0, values = 0;  ///< offsets in the arena, of page 0
  std::uint64_t key_page_bytes = 0, value_page_bytes = 0;
  std::uint32_t kv_heads = 0;  ///< 0: it has no cache of its own
  std::uint32_t padded_width = 0;
  std::uint32_t group = 0;
};

struct kv_layout {
  kv_layout(const engine::model_spec& spec, const cuda_extents& extents);

  kv_groups groups;
  std::vector<cached_layer> layers;
  std::uint64_t states = 0;  ///< offset of page 0 of the group of states, where there is one
  std::uint64_t bytes = 0;   ///< as groups.bytes() has them, spare pages included
};

}  // namespace orcd::gpu
