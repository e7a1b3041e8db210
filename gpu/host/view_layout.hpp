// How a view's patches lie in a tower on the host (gpu/plan/media/view_places.hpp), and how their heads are
// turned. Allocates in the constructor alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/media/tower.hpp"
#include "gpu/plan/media/view_places.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

class view_layout {
 public:
  /// Throws std::bad_alloc.
  explicit view_layout(const engine::tower_spec& spec);
  /// What an object allocates.
  [[nodiscard]] static std::uint64_t bytes(const engine::tower_spec& spec) noexcept;

  /// Of a view with so many lines and columns of patches, spec.patches_max() at most.
  void set(std::uint32_t lines, std::uint32_t columns, kernels::host::thread_pool& pool);

  [[nodiscard]] std::uint32_t lines() const noexcept { return view_.lines(); }
  [[nodiscard]] std::uint32_t columns() const noexcept { return view_.columns(); }
  [[nodiscard]] std::span<const kernels::view_place> places() const noexcept { return view_.places(); }
  [[nodiscard]] std::span<const std::uint32_t> window_ends() const noexcept { return view_.window_ends(); }
  /// How often heads are turned, each time another part of them: pairs() pairs from part() values on, by
  /// cosines and sines of [patches][pairs].
  [[nodiscard]] std::uint32_t turns() const noexcept;
  /// Pairs are (2i, 2i + 1); else (i, i + pairs()).
  [[nodiscard]] bool adjacent() const noexcept { return spec_.rotation == engine::tower_rotation::adjacent; }
  [[nodiscard]] std::uint32_t pairs() const noexcept;
  [[nodiscard]] std::uint32_t part(std::uint32_t turn) const noexcept { return turn * 2 * pairs(); }
  [[nodiscard]] const float* cosines(std::uint32_t turn) const noexcept {
    return cosines_.data() + table(turn);
  }
  [[nodiscard]] const float* sines(std::uint32_t turn) const noexcept { return sines_.data() + table(turn); }

 private:
  void fill_angles(kernels::host::thread_pool& pool);
  [[nodiscard]] std::size_t table(std::uint32_t turn) const noexcept {
    return std::size_t{turn} * view_.places().size() * pairs();
  }

  const engine::tower_spec& spec_;
  view_places view_;
  std::vector<std::uint32_t> numbers_;  ///< lines of all patches, then their columns
  std::vector<float> inv_freq_, cosines_, sines_;
  std::vector<std::uint8_t> axes_;  ///< of pairs
};

}  // namespace orcd::gpu
