// How a view's patches lie in a tower on the host: in which order they are kept, which of them see each other
// in layers with windows, and how their heads are turned. Allocates in the constructor alone.
//
// Without windows the order is line by line. With them the patches of a window are neighbours, windows line
// by line, and within one the squares that become a row (Qwen2.5-VL, arXiv 2502.13923, 2.1.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/media/tower.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

struct patch_place {
  std::uint32_t line = 0, column = 0;
};

class view_layout {
 public:
  /// Throws std::bad_alloc.
  explicit view_layout(const engine::tower_spec& spec);
  /// What an object allocates.
  [[nodiscard]] static std::uint64_t bytes(const engine::tower_spec& spec) noexcept;

  /// Of a view with so many lines and columns of patches, spec.patches_max() at most.
  void set(std::uint32_t lines, std::uint32_t columns, kernels::host::thread_pool& pool);

  [[nodiscard]] std::uint32_t lines() const noexcept { return lines_; }
  [[nodiscard]] std::uint32_t columns() const noexcept { return columns_; }
  /// Of each patch, in order.
  [[nodiscard]] std::span<const patch_place> places() const noexcept { return places_; }
  /// Where each window ends, in the order of patches; empty: there are none.
  [[nodiscard]] std::span<const std::uint32_t> window_ends() const noexcept { return window_ends_; }
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
  void order_patches();
  void fill_angles(kernels::host::thread_pool& pool);
  [[nodiscard]] std::size_t table(std::uint32_t turn) const noexcept {
    return std::size_t{turn} * places_.size() * pairs();
  }

  const engine::tower_spec& spec_;
  std::uint32_t lines_ = 0, columns_ = 0;
  std::vector<patch_place> places_;
  std::vector<std::uint32_t> window_ends_;
  std::vector<std::uint32_t> numbers_;  ///< lines of all patches, then their columns
  std::vector<float> inv_freq_, cosines_, sines_;
  std::vector<std::uint8_t> axes_;  ///< of pairs
};

}  // namespace orcd::gpu
