#include "test/support/fake_states.hpp"

#include <algorithm>

namespace orcd::test {

namespace {

constexpr std::uint64_t poison = 0x7FF8'DEAD'DEAD'DEADULL;

}  // namespace

fake_states::fake_states(const engine::kv_geometry& geometry) : any_(geometry.has_states()) {
  if (any_) pages_.assign(geometry.further().back().pages, {poison, 0});
}

std::string fake_states::begin(const engine::sequence_start& start, std::span<const std::uint64_t> hashes) {
  if (!any_) return "";
  const std::span<const engine::kv_page> from = start.further.back().pages;
  if (hashes.empty()) return from.empty() ? "" : "a state for a sequence that holds nothing";
  if (from.size() != 1) return "a sequence holds tokens, and no state of them";
  if (hashes.size() % engine::state_positions != 0) return "a state between two boundaries";
  ++loaded_;
  if (pages_.at(static_cast<std::size_t>(from.front())).value == hashes.back()) return "";
  return "the state at " + std::to_string(hashes.size()) + " is of something else";
}

std::string fake_states::compute(const engine::sequence_step& part, std::span<const std::uint64_t> hashes,
                                 std::uint64_t step) {
  std::uint32_t before = part.position;
  for (const engine::state_copy& one : part.states) {
    if (!any_ || part.samples > 1) return "states of a step that has none";
    if (one.position <= before || one.position > part.position + part.count()) return "a state elsewhere";
    if (one.position % engine::state_positions != 0) return "a state between two boundaries";
    pages_.at(static_cast<std::size_t>(one.page)) = {hashes[one.position - 1], step};
    before = one.position;
  }
  return "";
}

void fake_states::lose(std::uint64_t step) {
  for (page& one : pages_)
    if (one.step >= step) one.value = poison;
}

void fake_states::save(const engine::state_copy& to, std::span<const std::uint64_t> hashes) {
  pages_.at(static_cast<std::size_t>(to.page)) = {hashes[to.position - 1], 0};
}

void fake_states::clear(std::span<const engine::kv_page> pages) noexcept {
  for (const engine::kv_page one : pages) pages_[static_cast<std::size_t>(one)] = {poison, 0};
}

std::uint32_t fake_states::written() const {
  return static_cast<std::uint32_t>(
      std::count_if(pages_.begin(), pages_.end(), [](const page& one) { return one.value != poison; }));
}

}  // namespace orcd::test
