#include "gpu/plan/media/view_places.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/ensure.hpp"

namespace orcd::gpu {

view_places::view_places(const engine::tower_spec& spec) : spec_(spec) {
  const std::size_t patches = spec.patches_max();
  places_.reserve(patches);
  if (spec.window > 0) window_ends_.reserve(patches);  // a window may be one patch
}

std::uint64_t view_places::bytes(const engine::tower_spec& spec) noexcept {
  const std::uint64_t patches = spec.patches_max();
  return patches * (sizeof(kernels::view_place) + (spec.window > 0 ? sizeof(std::uint32_t) : 0));
}

void view_places::set(std::uint32_t lines, std::uint32_t columns) {
  ORCD_ENSURE(lines > 0 && columns > 0 && std::uint64_t{lines} * columns <= spec_.patches_max());
  lines_ = lines;
  columns_ = columns;
  places_.clear();
  window_ends_.clear();
  if (spec_.window == 0) {
    for (std::uint32_t y = 0; y < lines_; ++y)
      for (std::uint32_t x = 0; x < columns_; ++x) places_.push_back({y, x});
    return;
  }
  const std::uint32_t window = spec_.window, square = spec_.pictures.merge;
  for (std::uint32_t top = 0; top < lines_; top += window) {
    for (std::uint32_t left = 0; left < columns_; left += window) {
      const std::uint32_t bottom = std::min(lines_, top + window), right = std::min(columns_, left + window);
      for (std::uint32_t y = top; y < bottom; y += square)
        for (std::uint32_t x = left; x < right; x += square)
          for (std::uint32_t i = 0; i < square * square; ++i)
            places_.push_back({y + i / square, x + i % square});
      window_ends_.push_back(static_cast<std::uint32_t>(places_.size()));
    }
  }
}

std::vector<float> turn_rates(const engine::tower_spec& spec) {
  std::vector<float> out;
  if (spec.rotation == engine::tower_rotation::none) return out;
  const std::uint32_t quarter = spec.head_width() / 4;
  const double of_others = spec.rotation == engine::tower_rotation::adjacent ? 0.5 : 0.0;
  for (std::uint32_t i = 0; i < 2 * quarter; ++i) {
    const double rate = i % quarter + (i < quarter ? 0.0 : of_others);
    out.push_back(static_cast<float>(std::pow(spec.rotation_base, -rate / quarter)));
  }
  return out;
}

}  // namespace orcd::gpu
