#include "gpu/host/host_adapters.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/ensure.hpp"

namespace orcd::gpu {

namespace {

/// Groups of one round: no two slots share one at worst.
std::uint32_t groups_max(const host_extents& extents) {
  return std::min(extents.slots, extents.columns);
}

}  // namespace

host_adapters::host_adapters(const engine::model& m, engine::adapter_room room, const host_extents& extents)
    : room_(room), layout_(m, room) {
  if (room.count == 0) return;
  constexpr std::uint32_t rounds = engine::active_adapters_max;
  values_ = std::make_unique<float[]>(room.count * layout_.floats());
  inner_ = std::make_unique<float[]>(std::uint64_t{extents.columns} * room.rank_max);
  pairs_.resize(room.count * layout_.places().size());
  present_.resize(room.count);
  slots_.resize(extents.slots);
  columns_.reserve(extents.columns);
  x_rows_.reserve(std::size_t{extents.columns} * rounds);
  y_rows_.reserve(std::size_t{extents.columns} * rounds);
  groups_.reserve(std::size_t{groups_max(extents)} * rounds);
  work_.reserve(groups_max(extents));
  products_.resize(groups_max(extents));
}

std::uint64_t host_adapters::bytes(const engine::model& m, engine::adapter_room room,
                                   const host_extents& extents) {
  if (room.count == 0) return 0;
  constexpr std::uint64_t rounds = engine::active_adapters_max;
  const adapter_layout layout(m, room);
  const std::uint64_t each = layout.floats() * sizeof(float) + layout.places().size() * sizeof(held_pair);
  const std::uint64_t column =
      room.rank_max * sizeof(float) + sizeof(host_adapters::column) + rounds * 2 * sizeof(std::uint32_t);
  const std::uint64_t grouped =
      rounds * sizeof(group) + sizeof(kernels::lora_group) + sizeof(kernels::matmul_args);
  return room.count * each + extents.columns * column + groups_max(extents) * grouped +
         extents.slots * sizeof(slot_adapters);
}

engine::result<void> host_adapters::put(std::uint32_t index, const engine::lora_adapter& adapter) {
  if (const auto fits = layout_.check(index, adapter); !fits) return fits;
  drop(index);
  for (const engine::lora_pair& pair : adapter.pairs) {
    const std::int32_t at = layout_.find(pair.target, pair.layer);
    const adapter_place& place = layout_.places()[static_cast<std::size_t>(at)];
    std::copy_n(adapter.a(pair), std::uint64_t{pair.rank} * pair.in, room_of(index) + place.a_at);
    std::copy_n(adapter.b(pair), std::uint64_t{pair.rank} * pair.out, room_of(index) + place.b_at);
    pair_of(index, at) = {pair.rank, pair.scale};
  }
  present_[index] = true;
  return {};
}

void host_adapters::drop(std::uint32_t index) noexcept {
  if (index >= room_.count) return;
  for (const slot_adapters& slot : slots_) {
    const auto used = std::span(slot.list).first(slot.count);
    ORCD_ENSURE(std::none_of(used.begin(), used.end(), [&](const auto& one) { return one.index == index; }));
  }
  present_[index] = false;
  for (std::size_t place = 0; place < layout_.places().size(); ++place) {
    pair_of(index, static_cast<std::int32_t>(place)) = {};
  }
}

void host_adapters::use(std::uint32_t slot, std::span<const engine::active_adapter> adapters) noexcept {
  ORCD_ENSURE(adapters.size() <= engine::active_adapters_max);
  for (const engine::active_adapter& one : adapters) {
    ORCD_ENSURE(one.index < room_.count && present_[one.index] && std::isfinite(one.strength));
    const auto same = [&](const auto& other) { return other.index == one.index; };
    ORCD_ENSURE(std::count_if(adapters.begin(), adapters.end(), same) == 1);
  }
  if (slots_.empty()) return;
  slot_adapters& now = slots_[slot];
  slots_with_some_ -= now.count > 0 ? 1 : 0;
  std::copy(adapters.begin(), adapters.end(), now.list.begin());
  now.count = static_cast<std::uint32_t>(adapters.size());
  slots_with_some_ += now.count > 0 ? 1 : 0;
}

void host_adapters::begin_columns() noexcept {
  columns_.clear();
  x_rows_.clear();
  y_rows_.clear();
  groups_.clear();
}

void host_adapters::add_column(std::uint32_t x_row, std::uint32_t y_row, std::uint32_t slot) noexcept {
  if (slots_with_some_ > 0 && slots_[slot].count > 0) columns_.push_back({x_row, y_row, slot});
}

void host_adapters::end_columns() noexcept {
  for (std::uint32_t round = 0; round < engine::active_adapters_max; ++round) {
    round_begin_[round] = static_cast<std::uint32_t>(groups_.size());
    group_round(round);
  }
  round_begin_.back() = static_cast<std::uint32_t>(groups_.size());
}

/// Columns are grouped with the first of them that has the same adapter and strength.
void host_adapters::group_round(std::uint32_t round) noexcept {
  const auto of = [&](const column& c) -> const engine::active_adapter* {
    const slot_adapters& slot = slots_[c.slot];
    return round < slot.count ? &slot.list[round] : nullptr;
  };
  for (const column& leader : columns_) {
    const engine::active_adapter* wanted = of(leader);
    if (wanted == nullptr || is_grouped(*wanted, round_begin_[round])) continue;
    group made{*wanted, static_cast<std::uint32_t>(x_rows_.size())};
    for (const column& c : columns_) {
      const engine::active_adapter* has = of(c);
      if (has == nullptr || has->index != wanted->index || has->strength != wanted->strength) continue;
      x_rows_.push_back(c.x_row);
      y_rows_.push_back(c.y_row);
      ++made.count;
    }
    groups_.push_back(made);
  }
}

bool host_adapters::is_grouped(const engine::active_adapter& adapter, std::uint32_t from) const noexcept {
  return std::any_of(groups_.begin() + from, groups_.end(), [&](const group& made) {
    return made.adapter.index == adapter.index && made.adapter.strength == adapter.strength;
  });
}

void host_adapters::run(const adapter_place& place, kernels::lora_args args,
                        kernels::host::thread_pool& pool) {
  const std::int32_t at = layout_.find(place.target, place.layer);
  args.in = place.in;
  args.out = place.out;
  args.inner = inner_.get();
  args.inner_stride = room_.rank_max;
  for (std::uint32_t round = 0; round < engine::active_adapters_max; ++round) {
    if (round_begin_[round] == round_begin_[round + 1]) return;
    const std::uint32_t first = groups_[round_begin_[round]].first;
    work_.clear();
    for (std::uint32_t g = round_begin_[round]; g < round_begin_[round + 1]; ++g) {
      const group& one = groups_[g];
      const held_pair pair = pair_of(one.adapter.index, at);
      if (pair.rank == 0) continue;
      const float* values = room_of(one.adapter.index);
      work_.push_back({values + place.a_at, values + place.b_at, pair.rank, one.adapter.strength * pair.scale,
                       one.first - first, one.count});
    }
    if (work_.empty()) continue;
    args.groups = work_;
    args.x_rows = x_rows_.data() + first;
    args.y_rows = y_rows_.data() + first;
    args.tokens == nullptr ? kernels::host::lora(args, products_, pool)
                           : kernels::host::lora_rows(args, products_, pool);
  }
}

void host_adapters::add(engine::lora_target target, std::uint32_t layer, const float* x, std::size_t x_stride,
                        float* y, std::size_t y_stride, kernels::host::thread_pool& pool) {
  if (groups_.empty()) return;
  const std::int32_t at = layout_.find(target, layer);
  if (at < 0) return;
  run(layout_.places()[static_cast<std::size_t>(at)],
      {.groups = {}, .x = x, .y = y, .x_stride = x_stride, .y_stride = y_stride}, pool);
}

void host_adapters::add_embeddings(const std::int32_t* tokens, float* y, std::size_t y_stride,
                                   kernels::host::thread_pool& pool) {
  if (groups_.empty()) return;
  const std::int32_t at = layout_.find(engine::lora_target::token_embd, 0);
  run(layout_.places()[static_cast<std::size_t>(at)],
      {.groups = {}, .tokens = tokens, .y = y, .y_stride = y_stride}, pool);
}

}  // namespace orcd::gpu
