#include "gpu/host/view_layout.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/ensure.hpp"
#include "kernels/host/rope.hpp"

namespace orcd::gpu {

view_layout::view_layout(const engine::tower_spec& spec) : spec_(spec) {
  const std::size_t patches = spec.patches_max();
  places_.reserve(patches);
  if (spec.window > 0) window_ends_.reserve(patches);  // a window may be one patch
  if (spec.rotation == engine::tower_rotation::none) return;
  const std::uint32_t quarter = spec.head_width() / 4;
  numbers_.resize(2 * patches);
  cosines_.resize(patches * 2 * quarter);
  sines_.resize(patches * 2 * quarter);
  const double of_columns = adjacent() ? 0.5 : 0.0;
  for (std::uint32_t i = 0; i < pairs(); ++i) {
    const double rate = i % quarter + (i < quarter ? 0.0 : of_columns);
    inv_freq_.push_back(static_cast<float>(std::pow(spec.rotation_base, -rate / quarter)));
    axes_.push_back(i < quarter ? 0 : 1);
  }
}

std::uint32_t view_layout::turns() const noexcept {
  return spec_.rotation == engine::tower_rotation::none     ? 0
         : spec_.rotation == engine::tower_rotation::parted ? 2
                                                            : 1;
}

std::uint32_t view_layout::pairs() const noexcept {
  return turns() == 0 ? 0 : spec_.head_width() / 2 / turns();
}

std::uint64_t view_layout::bytes(const engine::tower_spec& spec) noexcept {
  const std::uint64_t patches = spec.patches_max();
  std::uint64_t out = patches * sizeof(patch_place);
  if (spec.window > 0) out += patches * sizeof(std::uint32_t);
  if (spec.rotation != engine::tower_rotation::none)
    out += patches * (2 * sizeof(std::uint32_t) + 2 * sizeof(float) * (spec.head_width() / 4 * 2));
  return out;
}

void view_layout::set(std::uint32_t lines, std::uint32_t columns, kernels::host::thread_pool& pool) {
  ORCD_ENSURE(lines > 0 && columns > 0 && std::uint64_t{lines} * columns <= spec_.patches_max());
  lines_ = lines;
  columns_ = columns;
  order_patches();
  if (turns() > 0) fill_angles(pool);
}

void view_layout::order_patches() {
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

/// In one turn by lines, then columns; parted by columns in the first turn, by lines in the second.
void view_layout::fill_angles(kernels::host::thread_pool& pool) {
  const std::size_t patches = places_.size();
  const bool parted = turns() == 2;
  for (std::size_t i = 0; i < patches; ++i) {
    numbers_[i] = parted ? places_[i].column : places_[i].line;
    numbers_[patches + i] = parted ? places_[i].line : places_[i].column;
  }
  for (std::uint32_t turn = 0; turn < turns(); ++turn) {
    kernels::host::rope_angles({.inv_freq = inv_freq_.data(),
                                .positions = numbers_.data() + turn * patches,
                                .axes = axes_.data(),
                                .axis_stride = patches,
                                .cosines = cosines_.data() + table(turn),
                                .sines = sines_.data() + table(turn),
                                .pairs = pairs(),
                                .columns = static_cast<std::uint32_t>(patches)},
                               pool);
  }
}

}  // namespace orcd::gpu
