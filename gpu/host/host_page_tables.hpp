// Which pages hold which positions of each slot's sequence: a table for each group of layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "gpu/host/host_memory.hpp"

namespace orcd::gpu {

class host_page_tables {
 public:
  static constexpr engine::kv_page no_page = -1;

  /// Every slot has its own pages. `extents` outlives the object.
  explicit host_page_tables(const host_extents& extents);

  /// The slot has no pages but its own of group 0: for the n-th slot the n-th context's worth, as far as the
  /// pool has them.
  void set_own(std::uint32_t slot);
  /// The slot has no pages of the group but these, of positions from first * kv_page_positions on.
  void set(std::uint32_t slot, std::uint32_t group, std::uint32_t first,
           std::span<const engine::kv_page> pages);
  /// Pages of positions from have * kv_page_positions on, for which it has none.
  void add(std::uint32_t slot, std::uint32_t group, std::uint32_t have,
           std::span<const engine::kv_page> pages);
  /// By position; no_page where there is none. Behind a window the entries mean nothing.
  [[nodiscard]] std::span<const engine::kv_page> of(std::uint32_t slot, std::uint32_t group) const noexcept {
    return std::span(entries_).subspan(first_entry(slot, group), extents_.pages_per_slot());
  }
  /// Whether every group that keeps positions has a page for this one.
  [[nodiscard]] bool has(std::uint32_t slot, std::uint32_t position) const noexcept;

 private:
  [[nodiscard]] std::size_t first_entry(std::uint32_t slot, std::uint32_t group) const noexcept {
    return (std::size_t{group} * extents_.slots + slot) * extents_.pages_per_slot();
  }

  const host_extents& extents_;
  std::vector<engine::kv_page> entries_;  ///< [groups][slots][pages_per_slot]
};

}  // namespace orcd::gpu
