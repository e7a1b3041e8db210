#include "gpu/plan/kv_layout.hpp"

#include <algorithm>

#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "gpu/plan/step_results.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"

namespace orcd::gpu {

kv_groups kv_groups_of(const engine::model_spec& spec, const cuda_extents& extents) {
  return kv_groups::of(spec, {.slots = extents.slots,
                              .context = extents.context,
                              .types = extents.kv,
                              .pages = extents.pages(),
                              .ahead = {launch_depth, extents.chunk_tokens,
                                        std::min(engine::drafts_max, extents.draft_tokens)},
                              .window_groups = extents.window_groups,
                              .boundaries = extents.boundaries,
                              .page_bytes = kv_layer_page_bytes});
}

std::uint64_t page_tables_bytes(const engine::model_spec& spec, const cuda_extents& extents) {
  return kv_groups_of(spec, extents).tables() * std::uint64_t{extents.slots} * extents.pages_per_slot() *
         sizeof(engine::kv_page);
}

kv_layout::kv_layout(const engine::model_spec& spec, const cuda_extents& extents)
    : groups(kv_groups_of(spec, extents)) {
  arena_plan plan;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const engine::layer_spec& layer = spec.layers[i];
    cached_layer of;
    of.group = groups.of_layer[i];
    of.kv_heads = layer.cached_heads();
    of.padded_width = kernels::padded_head_width(layer.key_length);
    if (spec.latent) {
      of.key_page_bytes = kernels::latent_page_bytes(spec.latent.rank, spec.latent.rotated);
    } else if (of.kv_heads > 0) {
      of.key_page_bytes = kv_half_page_bytes(extents.kv.keys, of.kv_heads, layer.key_length);
      of.value_page_bytes = kv_half_page_bytes(extents.kv.values, of.kv_heads, layer.value_length);
    }
    const std::uint64_t pages = std::uint64_t{groups.pages(of.group)} + extents.spare_pages();
    of.keys = plan.reserve(pages * of.key_page_bytes);
    of.values = plan.reserve(pages * of.value_page_bytes);
    layers.push_back(of);
  }
  if (groups.geometry.has_states()) {
    const engine::kv_group& of = groups.geometry.further().back();
    states = plan.reserve((std::uint64_t{of.pages} + extents.spare_pages()) * of.page_bytes);
  }
  bytes = plan.bytes();
}

}  // namespace orcd::gpu
