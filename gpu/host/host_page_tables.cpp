#include "gpu/host/host_page_tables.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"

namespace orcd::gpu {

host_page_tables::host_page_tables(const host_extents& extents)
    : extents_(extents),
      entries_(std::size_t{extents.groups.count()} * extents.slots * extents.pages_per_slot(), no_page) {
  for (std::uint32_t slot = 0; slot < extents.slots; ++slot) set_own(slot);
}

void host_page_tables::set_own(std::uint32_t slot) {
  const std::uint32_t each = extents_.pages_per_slot();
  for (std::uint32_t group = 0; group < extents_.groups.count(); ++group) set(slot, group, 0, {});
  for (std::uint32_t i = 0; i < each && slot * each + i < extents_.groups.pages(0); ++i)
    entries_[first_entry(slot, 0) + i] = static_cast<engine::kv_page>(slot * each + i);
}

void host_page_tables::set(std::uint32_t slot, std::uint32_t group, std::uint32_t first,
                           std::span<const engine::kv_page> pages) {
  ORCD_ENSURE(slot < extents_.slots && group < extents_.groups.count());
  const auto table = std::span(entries_).subspan(first_entry(slot, group), extents_.pages_per_slot());
  std::fill(table.begin(), table.end(), no_page);
  add(slot, group, first, pages);
}

void host_page_tables::add(std::uint32_t slot, std::uint32_t group, std::uint32_t have,
                           std::span<const engine::kv_page> pages) {
  ORCD_ENSURE(slot < extents_.slots && group < extents_.groups.count());
  ORCD_ENSURE(have + pages.size() <= extents_.pages_per_slot());
  const auto table = std::span(entries_).subspan(first_entry(slot, group) + have, pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    ORCD_ENSURE(table[i] == no_page && pages[i] >= 0 &&
                static_cast<std::uint32_t>(pages[i]) < extents_.groups.pages(group));
    table[i] = pages[i];
  }
}

bool host_page_tables::has(std::uint32_t slot, std::uint32_t position) const noexcept {
  const std::uint32_t with_pages = extents_.groups.count() - (extents_.groups.geometry.has_states() ? 1 : 0);
  for (std::uint32_t group = 0; group < with_pages; ++group)
    if (of(slot, group)[position / engine::kv_page_positions] == no_page) return false;
  return true;
}

}  // namespace orcd::gpu
