// Which layers of a model have pages of the KV cache in common (engine::kv_geometry), and how many pages each
// group has. Layers whose windows reach back equally far are a group where that takes less memory than if
// they kept all positions; the others are in group 0. Layers without attention are in none: what they keep is
// a group of states. Both backends plan by it. Numbers alone.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/base/kv_window.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

/// Bytes of a page's part of one layer.
using layer_page_bytes = std::uint64_t (*)(const engine::model_spec& spec, const engine::layer_spec& layer,
                                           engine::kv_types types);
/// Of rows as long as the heads are.
[[nodiscard]] std::uint64_t unpadded_page_bytes(const engine::model_spec& spec,
                                                const engine::layer_spec& layer, engine::kv_types types);

/// What a cache is for.
struct kv_demand {
  std::uint32_t slots = 1;
  std::uint32_t context = 0;  ///< positions per slot
  engine::kv_types types{};
  std::uint32_t pages = 0;  ///< of group 0; 0 = as many as slots * context take
  engine::steps_ahead ahead{};
  bool window_groups = true;  ///< as the next, of engine::accelerator_config
  engine::boundary_budget boundaries{};
  layer_page_bytes page_bytes = unpadded_page_bytes;
};

struct kv_groups {
  engine::kv_geometry geometry;
  std::vector<std::uint32_t> of_layer;  ///< group of each layer that attends

  [[nodiscard]] std::uint32_t count() const noexcept { return 1 + geometry.group_count; }
  /// Those whose pages a sequence has by position, in page tables: all but one of states.
  [[nodiscard]] std::uint32_t tables() const noexcept { return count() - (geometry.has_states() ? 1 : 0); }
  [[nodiscard]] std::uint32_t pages(std::uint32_t group) const noexcept {
    return group == 0 ? geometry.pages : geometry.groups[group - 1].pages;
  }
  /// Of all groups, with `spare` pages more in each. Saturates.
  [[nodiscard]] std::uint64_t bytes(std::uint32_t spare = 0) const noexcept;

  /// Of a model that was checked.
  [[nodiscard]] static kv_groups of(const engine::model_spec& spec, const kv_demand& demand);
};

}  // namespace orcd::gpu
