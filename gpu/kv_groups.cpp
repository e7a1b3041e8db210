#include "gpu/kv_groups.hpp"

#include <algorithm>

#include "engine/base/saturating.hpp"

namespace orcd::gpu {

namespace {

using engine::saturating_product;
using engine::saturating_sum;

constexpr std::uint32_t size = engine::kv_page_positions;

/// Windows that a group may be made for, the shortest first. A job of a model that embeds is computed again
/// from its first token when a step was lost, and keeps everything until then.
std::vector<std::uint32_t> windows_of(const engine::model_spec& spec, const kv_demand& demand) {
  std::vector<std::uint32_t> out;
  if (!demand.window_groups || !spec.causal || spec.pooling || spec.latent) return out;
  bool has_full = false;
  for (const engine::layer_spec& layer : spec.layers) {
    if (layer.window < 2 || layer.window >= demand.context) {
      has_full = true;
    } else if (std::find(out.begin(), out.end(), layer.window) == out.end()) {
      out.push_back(layer.window);
    }
  }
  if (!has_full) return {};
  std::sort(out.begin(), out.end());
  // The pages that jobs need and those of one boundary have to be fewer than all.
  std::erase_if(out, [&](std::uint32_t window) {
    const std::uint64_t least = engine::windowed_pages_max(demand.slots, window, size, demand.ahead) +
                                engine::pages_before_max(window, size);
    return least >= demand.pages;
  });
  const std::size_t most = engine::further_groups_max - (spec.is_recurrent() ? 1 : 0);
  out.resize(std::min(out.size(), most));
  return out;
}

/// Pages for boundaries of a group whose jobs have `jobs`, where there is memory for `wanted` in each group.
std::uint32_t boundary_pages(const kv_demand& demand, const engine::kv_group& group, std::uint32_t jobs,
                             std::uint64_t wanted) {
  const std::uint32_t least = engine::pages_before_max(group.window, size);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, least, demand.pages - jobs));
}

/// What layers keep of a sequence at one boundary.
std::uint64_t state_bytes_of(const engine::model_spec& spec) {
  const engine::recurrent_spec& of = spec.recurrence;
  std::uint64_t values = 0;
  for (const engine::layer_spec& layer : spec.layers) {
    if (engine::is_recurrent(layer.mixer)) values += of.boundary_values(layer.mixer);
  }
  return values * sizeof(float);
}

static_assert(engine::state_positions == engine::chunk_positions);

/// Pages for states, where there is memory for `room` bytes of them: as many as fit, and if a share was asked
/// for, at least one for each slot and for the system prompts that are kept.
std::uint32_t state_pages(const kv_demand& demand, std::uint64_t room, std::uint64_t bytes) {
  constexpr std::uint32_t system_prompts = 4;
  const engine::boundary_budget& budget = demand.boundaries;
  if (!budget.bytes && budget.thousandths == 0) return 0;
  const std::uint64_t least = budget.bytes ? 0 : demand.slots + system_prompts;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(room / std::max<std::uint64_t>(1, bytes), least,
                                std::max<std::uint64_t>(least, demand.pages + system_prompts)));
}

}  // namespace

std::uint64_t unpadded_page_bytes(const engine::model_spec& spec, const engine::layer_spec& layer,
                                  engine::kv_types types) {
  return layer.cached_heads() * size *
         (engine::kv_row_bytes(types.keys, layer.key_length) +
          engine::kv_row_bytes(types.values, spec.cached_value_length(layer)));
}

kv_groups kv_groups::of(const engine::model_spec& spec, const kv_demand& given) {
  kv_demand demand = given;
  if (demand.pages == 0) demand.pages = demand.slots * engine::pages_over(demand.context, size);
  kv_groups out;
  engine::kv_geometry& geometry = out.geometry;
  geometry.page_positions = size;
  geometry.pages = demand.pages;
  const std::vector<std::uint32_t> windows = windows_of(spec, demand);
  geometry.group_count = static_cast<std::uint32_t>(windows.size());
  for (const engine::layer_spec& layer : spec.layers) {
    const auto found = std::find(windows.begin(), windows.end(), layer.window);
    const auto index = static_cast<std::uint32_t>(found - windows.begin());
    out.of_layer.push_back(found == windows.end() ? 0 : index + 1);
    std::uint64_t& bytes = found == windows.end() ? geometry.page_bytes : geometry.groups[index].page_bytes;
    bytes = saturating_sum(bytes, demand.page_bytes(spec, layer, demand.types));
  }
  std::uint64_t each = 0;  // of a page of every group
  std::uint64_t least = 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    each += geometry.groups.at(i).page_bytes;
    least += geometry.groups.at(i).page_bytes * engine::pages_before_max(windows[i], size);
  }
  const engine::boundary_budget& budget = demand.boundaries;
  const std::uint64_t all = saturating_product(geometry.pages, saturating_sum(geometry.page_bytes, each));
  const std::uint64_t share = all / 1'000 * budget.thousandths + all % 1'000 * budget.thousandths / 1'000;
  const std::uint64_t room = budget.bytes.value_or(share);
  const bool kept = budget.bytes ? room >= least : budget.thousandths > 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    engine::kv_group& group = geometry.groups[i];
    group.need = engine::kv_need::window;
    group.window = windows[i];
    const auto jobs = static_cast<std::uint32_t>(
        engine::windowed_pages_max(demand.slots, group.window, size, demand.ahead));
    group.boundary_pages = kept ? boundary_pages(demand, group, jobs, room / each) : 0;
    group.pages = jobs + group.boundary_pages;
  }
  if (spec.is_recurrent()) {
    engine::kv_group& states = geometry.groups.at(geometry.group_count++);
    states = {.need = engine::kv_need::state, .page_bytes = state_bytes_of(spec)};
    states.pages = states.boundary_pages = state_pages(demand, room, states.page_bytes);
  }
  return out;
}

std::uint64_t kv_groups::bytes(std::uint32_t spare) const noexcept {
  std::uint64_t out = saturating_product(std::uint64_t{geometry.pages} + spare, geometry.page_bytes);
  for (const engine::kv_group& group : geometry.further())
    out = saturating_sum(out, saturating_product(std::uint64_t{group.pages} + spare, group.page_bytes));
  return out;
}

}  // namespace orcd::gpu
