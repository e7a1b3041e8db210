#include "test/support/fake_windows.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"

namespace orcd::test {

namespace {

constexpr std::uint64_t poison = 0x7FF8'DEAD'DEAD'DEADULL;

}  // namespace

fake_windows::fake_windows(const engine::kv_geometry& geometry, std::uint32_t slots)
    : geometry_(geometry), slots_(slots) {
  for (const engine::kv_group& group : geometry_.further()) {
    if (group.need == engine::kv_need::window)
      kv_.emplace_back(group.pages, page_values(geometry.page_positions, poison));
  }
  for (held_slot& slot : slots_) slot.groups.resize(kv_.size());
}

bool fake_windows::is_clear(std::size_t group, engine::kv_page page) const {
  const page_values& kept = kv_[group][static_cast<std::size_t>(page)];
  return std::all_of(kept.begin(), kept.end(), [](std::uint64_t value) { return value == poison; });
}

std::string fake_windows::begin(const engine::sequence_start& start, std::span<const std::uint64_t> hashes) {
  if (start.further.size() != geometry_.group_count) return "pages of another number of groups";
  held_slot& slot = slots_[static_cast<std::uint32_t>(start.slot)];
  for (std::size_t g = 0; g < kv_.size(); ++g) {
    const engine::group_pages& from = start.further[g];
    slot.groups[g].table.clear();
    for (std::size_t i = 0; i < from.pages.size(); ++i) {
      const engine::kv_page page = from.pages[i];
      if (page < 0 || static_cast<std::size_t>(page) >= kv_[g].size()) return "not a page of the group";
      slot.groups[g].table.emplace(from.first + i, page);
    }
    if (!from.copy) continue;
    if (from.copy->positions != hashes.size() % geometry_.page_positions) return "a copy of something else";
    if (!is_clear(g, from.copy->to)) return "a copy to a page that is not clear";
    const page_values& source = values(g, from.copy->from);
    std::copy(source.begin(), source.begin() + from.copy->positions, values(g, from.copy->to).begin());
  }
  slot.begun = true;
  slot.next = hashes.size();
  for (std::size_t g = 0; g < kv_.size(); ++g) {
    if (auto wrong = check_reads(slot, g, hashes.size(), hashes); !wrong.empty()) return "begin: " + wrong;
  }
  return broken_;
}

std::string fake_windows::extend(engine::slot_id id, std::uint32_t group, std::uint32_t have,
                                 std::span<const engine::kv_page> pages) {
  auto& table = slots_[static_cast<std::uint32_t>(id)].groups[group - 1].table;
  if (have != 0 && !table.contains(have - 1)) return "windowed pages that do not follow the others";
  for (const engine::kv_page page : pages) {
    if (!is_clear(group - 1, page)) return "a further windowed page that is not clear";
    if (!table.emplace(have++, page).second) return "a windowed page in place of another";
  }
  return broken_;
}

void fake_windows::clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept {
  const std::size_t size = geometry_.page_positions;
  const std::size_t window = geometry_.further()[group - 1].window;
  for (const engine::kv_page page : pages) {
    auto& kept = values(group - 1, page);
    std::fill(kept.begin(), kept.end(), poison);
    for (held_slot& slot : slots_) {
      std::erase_if(slot.groups[group - 1].table, [&](const auto& entry) {
        if (entry.second != page) return false;
        const bool is_read = (entry.first + 1) * size + window > slot.next + 1;
        if (slot.begun && is_read) broken_ = "a page was cleared that is still to be read";
        return true;
      });
    }
  }
}

std::string fake_windows::check_reads(const held_slot& slot, std::size_t group, std::size_t position,
                                      std::span<const std::uint64_t> hashes) {
  const std::size_t size = geometry_.page_positions;
  const std::size_t back = geometry_.further()[group].window - 1;
  for (std::size_t i = position - std::min(position, back); i < position; ++i) {
    const auto page = slot.groups[group].table.find(i / size);
    if (page == slot.groups[group].table.end()) return "position " + std::to_string(i) + " has no page";
    ++read_;
    if (values(group, page->second)[i % size] != hashes[i])
      return "position " + std::to_string(i) + " of window " + std::to_string(back + 1) + " read at " +
             std::to_string(position) + " holds something else";
  }
  return "";
}

std::string fake_windows::compute(engine::slot_id id, std::span<const std::uint64_t> hashes, std::size_t from,
                                  std::size_t next) {
  const std::size_t size = geometry_.page_positions;
  held_slot& slot = slots_[static_cast<std::uint32_t>(id)];
  for (std::size_t g = 0; g < kv_.size(); ++g) {
    for (std::size_t i = from; i < hashes.size(); ++i) {
      const auto page = slot.groups[g].table.find(i / size);
      if (page == slot.groups[g].table.end()) return "a position is written that has no windowed page";
      values(g, page->second)[i % size] = hashes[i];
      for (const held_slot& other : slots_) {
        if (&other == &slot || !other.begun) continue;
        for (const auto& [index, held] : other.groups[g].table)
          if (held == page->second) return "a windowed page is written that another sequence has";
      }
    }
    for (std::size_t i = from; i < hashes.size(); ++i) {
      if (auto wrong = check_reads(slot, g, i, hashes); !wrong.empty()) return wrong;
    }
  }
  slot.next = next;
  return broken_;
}

void fake_windows::release(engine::slot_id id) noexcept {
  held_slot& slot = slots_[static_cast<std::uint32_t>(id)];
  for (held_group& group : slot.groups) group.table.clear();
  slot.begun = false;
}

std::uint32_t fake_windows::written(std::uint32_t group) const {
  std::uint32_t out = 0;
  for (std::size_t page = 0; page < kv_[group - 1].size(); ++page)
    out += is_clear(group - 1, static_cast<engine::kv_page>(page)) ? 0 : 1;
  return out;
}

}  // namespace orcd::test
