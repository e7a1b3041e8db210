// How a view's patches lie in a tower: in which order they are kept, which of them see each other in layers
// with windows, and at which rates their heads are turned. Allocates in the constructor alone.
//
// Without windows the order is line by line. With them the patches of a window are neighbours, windows line
// by line, and within one the squares that become a row (Qwen2.5-VL, arXiv 2502.13923, 2.1.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/media/tower.hpp"
#include "kernels/tower/view_place.hpp"

namespace orcd::gpu {

class view_places {
 public:
  /// `spec` outlives the object. Throws std::bad_alloc.
  explicit view_places(const engine::tower_spec& spec);
  /// What an object allocates.
  [[nodiscard]] static std::uint64_t bytes(const engine::tower_spec& spec) noexcept;

  /// Of a view with so many lines and columns of patches, spec.patches_max() at most.
  void set(std::uint32_t lines, std::uint32_t columns);

  [[nodiscard]] std::uint32_t lines() const noexcept { return lines_; }
  [[nodiscard]] std::uint32_t columns() const noexcept { return columns_; }
  /// Of each patch, in order.
  [[nodiscard]] std::span<const kernels::view_place> places() const noexcept { return places_; }
  /// Where each window ends, in the order of patches; empty: there are none.
  [[nodiscard]] std::span<const std::uint32_t> window_ends() const noexcept { return window_ends_; }

 private:
  const engine::tower_spec& spec_;
  std::uint32_t lines_ = 0, columns_ = 0;
  std::vector<kernels::view_place> places_;
  std::vector<std::uint32_t> window_ends_;
};

/// Angles per line or column, of a head's pairs: first of those that one of the two turns, then of the
/// others, a quarter of the head's values each. Empty: heads are not turned.
[[nodiscard]] std::vector<float> turn_rates(const engine::tower_spec& spec);

}  // namespace orcd::gpu
