#include "gpu/host/view_layout.hpp"

#include "kernels/host/rope.hpp"

namespace orcd::gpu {

view_layout::view_layout(const engine::tower_spec& spec) : spec_(spec), view_(spec) {
  inv_freq_ = turn_rates(spec);
  if (inv_freq_.empty()) return;
  const std::size_t patches = spec.patches_max();
  numbers_.resize(2 * patches);
  cosines_.resize(patches * inv_freq_.size());
  sines_.resize(patches * inv_freq_.size());
  for (std::size_t i = 0; i < inv_freq_.size(); ++i) axes_.push_back(i < inv_freq_.size() / 2 ? 0 : 1);
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
  std::uint64_t out = view_places::bytes(spec);
  if (spec.rotation != engine::tower_rotation::none)
    out += patches * (2 * sizeof(std::uint32_t) + 2 * sizeof(float) * (spec.head_width() / 4 * 2));
  return out;
}

void view_layout::set(std::uint32_t lines, std::uint32_t columns, kernels::host::thread_pool& pool) {
  view_.set(lines, columns);
  if (turns() > 0) fill_angles(pool);
}

/// In one turn by lines, then columns; parted by columns in the first turn, by lines in the second.
void view_layout::fill_angles(kernels::host::thread_pool& pool) {
  const auto places = view_.places();
  const std::size_t patches = places.size();
  const bool parted = turns() == 2;
  for (std::size_t i = 0; i < patches; ++i) {
    numbers_[i] = parted ? places[i].column : places[i].line;
    numbers_[patches + i] = parted ? places[i].line : places[i].column;
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
