#include "gpu/kv_groups.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"

namespace orcd::gpu {

namespace {

constexpr std::uint32_t size = engine::kv_page_positions;

std::uint64_t page_bytes_of(const engine::model_spec& spec, const engine::layer_spec& layer,
                            engine::kv_types types) {
  return layer.cached_heads() * size *
         (engine::kv_row_bytes(types.keys, layer.key_length) +
          engine::kv_row_bytes(types.values, spec.cached_value_length(layer)));
}

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
  out.resize(std::min<std::size_t>(out.size(), engine::further_groups_max));
  return out;
}

/// Pages for boundaries, of a group whose jobs have `jobs`.
std::uint32_t boundary_pages(const kv_demand& demand, const engine::kv_group& group, std::uint32_t jobs,
                             std::uint64_t usual) {
  if (demand.boundary_pages == 0U) return 0;
  const std::uint64_t wanted = demand.boundary_pages ? std::uint64_t{*demand.boundary_pages} : usual;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(wanted, engine::pages_before_max(group.window, size), demand.pages - jobs));
}

}  // namespace

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
    bytes += page_bytes_of(spec, layer, demand.types);
  }
  std::uint64_t each = 0;
  for (const engine::kv_group& group : geometry.further()) each += group.page_bytes;
  const std::uint64_t usual = each == 0 ? 0 : geometry.page_bytes * geometry.pages / 8 / each;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    engine::kv_group& group = geometry.groups[i];
    group.need = engine::kv_need::window;
    group.window = windows[i];
    const auto jobs = static_cast<std::uint32_t>(
        engine::windowed_pages_max(demand.slots, group.window, size, demand.ahead));
    group.boundary_pages = boundary_pages(demand, group, jobs, usual);
    group.pages = jobs + group.boundary_pages;
  }
  return out;
}

std::uint64_t kv_groups::bytes() const noexcept {
  std::uint64_t out = geometry.page_bytes * geometry.pages;
  for (const engine::kv_group& group : geometry.further()) out += group.page_bytes * group.pages;
  return out;
}

}  // namespace orcd::gpu
